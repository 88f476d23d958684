"""Cells in which a tool is defined and called: plain Python that any notebook runs."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from forge.shared import made
from hypothesis import given
from hypothesis import strategies as st

from nbagent.agent.tools.tool_cells import call, define
from nbagent.core.errors import ForgeError
from nbagent.forge import Tool

TAKES_ALL = "def word_count(text, least=1):\n    return text\n"
ANYTHING: dict[str, Any] = {"type": "object", "properties": {"text": {}, "least": {}}, "additionalProperties": False}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


def run(tool: Tool, *cells: str) -> dict[str, Any]:
    """The names that are there after cells, the last of which was an expression, whose value is `_`."""
    names: dict[str, Any] = {}
    try:
        exec(define(tool), names)  # noqa: S102 - the test's own code
        for cell in cells:
            names["_"] = eval(cell, names)  # noqa: S307
    finally:
        sys.modules.pop(f"tool_{tool.name}", None)
    return names


def test_defined_and_called() -> None:
    """The tool's function is a name of the notebook, and nothing else of its module is."""
    tool = made(code="import math\nSIZE = 3\n\n\ndef word_count(text: str) -> int:\n    return SIZE * len(text)\n")
    names = run(tool, call(tool, {"text": "ab"}))
    assert names["_"] == 6
    assert not {"math", "SIZE"} & names.keys()
    assert define(tool).startswith("# The tool word_count, version 1, made and tested by nbagent's tool forge.\n")


@pytest.mark.parametrize(
    "odd",
    ["'''", '"""', "\\", "!ls", "%pip install x", "?", "\t", "\u202e", "{x}", ">>> 1", "\r", "\x0c", "In [1]: 1"],
)
def test_code_arrives_as_it_is(odd: str) -> None:
    """Whatever stands in it: quotes, escapes, what IPython takes for its own."""
    code = f"{TAKES_ALL}ODD = {odd!r}\nTEXT = (\n    {odd + chr(10) + odd!r}\n)\n# {odd if odd.isprintable() else ''}\n"
    tool = made(code=code)
    namespace: dict[str, Any] = {}
    try:
        exec(define(tool), namespace)  # noqa: S102
        assert odd == sys.modules["tool_word_count"].ODD  # type: ignore[attr-defined]
    finally:
        sys.modules.pop("tool_word_count", None)


def test_another_cells_future_is_none_of_a_tools() -> None:
    """IPython has a `from __future__` hold for all later cells, as this file's own does for `exec` here."""
    names = run(made(code="def word_count(text: str) -> int:\n    return 1\n"))
    assert names["word_count"].__annotations__ == {"text": str, "return": int}


def test_a_new_version_takes_the_place_of_the_old_one() -> None:
    """At once, and whole."""
    old, new = (made(code=f"def word_count(text):\n    return {each}\n", version=each) for each in (1, 2))
    names: dict[str, Any] = {}
    try:
        for tool in (old, new):
            exec(define(tool), names)  # noqa: S102
            assert eval(call(tool, {"text": ""}), names) == tool.version  # noqa: S307
    finally:
        sys.modules.pop("tool_word_count", None)


@given(JSON)
def test_any_argument_arrives(value: Any) -> None:
    """What JSON can hold is what the function gets, on one line that is ASCII."""
    tool = made(code=TAKES_ALL, schema=ANYTHING)
    cell = call(tool, {"text": value})
    assert cell.isascii()
    assert "\n" not in cell
    assert run(tool, cell)["_"] == value


def test_numbers_that_json_lacks() -> None:
    """As Python's own parser of JSON gives them."""
    tool = made(code=TAKES_ALL, schema=ANYTHING)
    assert call(tool, {"text": [float("inf")]}) == "word_count(text=[float('inf')])"
    assert str(run(tool, call(tool, {"text": float("nan")}))["_"]) == "nan"


def test_awaited() -> None:
    """A tool that is a coroutine."""
    assert call(made(is_async=True), {"text": ""}) == "await word_count(text='')"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"words": 1}, "has no parameter 'words'. It has: text, least."),
        ({"text=1) or (x": 1}, "has no parameter"),
        ({"text": "x" * 200_000}, "The arguments have 200,007 characters"),
        ({"text": "", "least": msgspec.json.decode("[" * 30 + "]" * 30)}, "nested too deeply"),
        ({}, "The arguments of word_count don't fit. 'text' is a required property."),
        ({"text": "a", "least": "2"}, "don't fit. least: '2' is not of type 'integer'."),
    ],
)
def test_what_is_no_call(arguments: dict[str, Any], told: str) -> None:
    """It is told before anything runs."""
    with pytest.raises(ForgeError, match=told.replace("(", r"\(").replace(")", r"\)")):
        call(made(schema=ANYTHING) if "nested" in told else made(), arguments)
