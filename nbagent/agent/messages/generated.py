"""A model's reply as one structured object, for models that can't call tools well. Pure: no kernel, no LangChain.

The model replies with JSON in plain text: a `GeneratedCode` to have code run, a `FinalAnswer` when it is done. Words
and Markdown fences around the JSON are skipped, and line breaks in its strings are accepted, since small models write
them. An error says in a few words what doesn't fit, so that the model can mend it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from nbagent.core.text import SURROGATES
from nbagent.packages.import_names import DISTRIBUTIONS

MOST_DEPENDENCIES: Final = 20
"""Distributions of one reply."""
MOST_TEXT: Final = 2_000_000
"""Characters of a reply that is read."""
TRIES: Final = 50
"""Opening braces of a reply at which an object is looked for."""
WHY: Final = 300
"""Characters of the error for a reply that doesn't fit."""

"""Half of a surrogate pair, which neither a message nor the log can hold."""
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""What local models think before they reply, which may hold drafts."""


class GeneratedCode(BaseModel):
    """Code that a model wants to run.

    Attributes:
        code: Python, one cell.
        dependencies: Distributions that it needs, by their names on the index, with versions if need be.
        reasoning: Why this code, in a few words.
        confidence: How sure the model is that it does what was asked, from 0 to 1.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    dependencies: list[str] = Field(max_length=MOST_DEPENDENCIES)
    reasoning: str
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)

    @field_validator("code")
    @classmethod
    def _clean_code(cls, code: str) -> str:
        if SURROGATES.search(code):
            raise ValueError("it has half of a surrogate pair, which no Python source can hold")
        return _not_blank(code)

    @field_validator("reasoning")
    @classmethod
    def _clean_reasoning(cls, reasoning: str) -> str:
        return SURROGATES.sub("?", reasoning)

    @field_validator("dependencies")
    @classmethod
    def _clean_dependencies(cls, dependencies: list[str]) -> list[str]:
        return [SURROGATES.sub("?", each) for each in dependencies]

    @property
    def requirements(self) -> list[str]:
        """The distributions to install: each once, by its name on the index, without the standard library."""
        named = (each.strip() for each in self.dependencies)
        return list(dict.fromkeys(DISTRIBUTIONS.get(each, each) for each in named if each not in _STANDARD))


class FinalAnswer(BaseModel):
    """A model's answer to a question.

    Attributes:
        answer: What the person reads.
    """

    model_config = ConfigDict(frozen=True)

    answer: str

    @field_validator("answer")
    @classmethod
    def _clean_answer(cls, answer: str) -> str:
        return _not_blank(SURROGATES.sub("?", answer))


_STANDARD: Final = sys.stdlib_module_names | {""}
SCHEMA: Final[dict[str, Any]] = TypeAdapter(GeneratedCode | FinalAnswer).json_schema()
"""The JSON Schema of a reply, for servers that can hold a model to one."""
_KEYS: Final = GeneratedCode.model_fields.keys() | FinalAnswer.model_fields.keys()


class UnreadableReplyError(ValueError):
    """A reply that is neither code nor an answer; the message says why in a few words."""


def parse(text: str) -> GeneratedCode | FinalAnswer:
    """The first object in a model's reply that fits.

    Raises:
        UnreadableReplyError: There is none.
    """
    if not text.strip():
        raise UnreadableReplyError("it was empty")
    if len(text) > MOST_TEXT:
        raise UnreadableReplyError(f"it has {len(text):,} characters, at most {MOST_TEXT:,} are read")
    complaints: list[str] = []
    for found in _objects(_THOUGHTS.sub("", text)):
        if isinstance(found, str):
            complaints.append(found)
        elif found.keys() & _KEYS:
            try:
                return _validate(found)
            except ValidationError as error:
                # The model meant this object; other text in braces doesn't matter.
                raise UnreadableReplyError(_complaint(error)) from None
    raise UnreadableReplyError(complaints[0] if complaints else "there is no JSON object with `code` or `answer` in it")


def _objects(text: str) -> Iterator[dict[str, Any] | str]:
    """The JSON objects in a text, in order; for a brace that opens no object, the reason."""
    # Not strict: line breaks in strings are no JSON, but their meaning is clear.
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    for _ in range(TRIES):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield "it is no valid JSON (" + (str(error)[:100] or "nested too deeply") + ")"
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _validate(found: dict[str, Any]) -> GeneratedCode | FinalAnswer:
    """An object as code or as an answer; as code if it has both, for such an answer doesn't know the code's result."""
    if "code" in found and found["code"] not in ("", None):
        return GeneratedCode.model_validate(found)
    return (FinalAnswer if found.get("answer") is not None else GeneratedCode).model_validate(found)


def _complaint(error: ValidationError) -> str:
    """What is wrong with each field."""
    wrong = [f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in error.errors(include_url=False)]
    return "; ".join(wrong)[:WHY]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text
