"""A function's parameters as a schema, from its type hints."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from nbagent.forge.load_inside import UnfitError, described
from nbagent.forge.schema import checked


def test_every_hint_that_there_is() -> None:
    """In the words of JSON Schema, each with its default; the host takes what comes of it."""

    async def tool(
        text: Annotated[str, "What is counted."],
        rows: list[list[float]],
        how: Literal["words", "lines"] = "words",
        limit: int | None = None,
        ratio: float = 0.5,
        strict: bool = False,
        names: Sequence[str] = (),
        units: Mapping[str, int] | None = None,
        more: dict[str, Any] = {},  # noqa: B006 - as tools are written
        anything: Any = ...,
    ) -> None:
        """Count something.

        In many ways.
        """

    found = described(tool, False)
    assert (found["doc"], found["is_async"]) == ("Count something.", True)
    schema = checked(found["schema"])
    assert schema["required"] == ["text", "rows"]
    assert schema["properties"] == {
        "text": {"type": "string", "description": "What is counted."},
        "rows": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "how": {"enum": ["words", "lines"], "default": "words"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "ratio": {"type": "number", "default": 0.5},
        "strict": {"type": "boolean", "default": False},
        "names": {"type": "array", "items": {"type": "string"}},
        "units": {
            "anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}],
            "default": None,
        },
        "more": {"type": "object", "additionalProperties": {}, "default": {}},
        "anything": {},
    }


def no_hint(text):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return text


def a_date(day: datetime.date) -> None:
    pass


def a_callable(work: Callable[[], int]) -> None:
    pass


def by_number(keys: dict[int, str]) -> None:
    pass


def any_number(*texts: str) -> None:
    pass


def any_names(**texts: str) -> None:
    pass


def no_name(text: str, /) -> None:
    pass


def unknown(text: NoSuchName) -> None:  # type: ignore[name-defined]  # noqa: F821
    pass


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (no_hint, "The parameter text has no type hint."),
        (a_date, "The parameter day has a type that JSON can't hold, date: use str"),
        (a_callable, "The parameter work has a type that JSON can't hold"),
        (by_number, "The parameter keys has a type that JSON can't hold"),
        (any_number, "The parameter texts takes any number of values"),
        (any_names, "The parameter texts takes any number of values"),
        (no_name, "The parameter text can't be given by its name"),
        (unknown, "Its type hints can't be read: NameError"),
    ],
)
def test_what_no_call_in_json_could_give(function: Callable[..., Any], told: str) -> None:
    """Refused with a sentence that says what to write instead."""
    with pytest.raises(UnfitError, match=told):
        described(function, False)


def test_functions_of_others_are_taken_as_they_are() -> None:
    """What has no hint, or another one, takes anything; what can't be named is left out."""
    for function in (no_hint, a_date, a_callable, by_number, unknown):
        (parameter,) = described(function, True)["schema"]["properties"].values()
        assert parameter == {}
    assert described(any_names, True)["schema"] == {"properties": {}, "required": []}
