"""What a sandbox says of a tool's parameters is checked."""

from __future__ import annotations

from typing import Any

import pytest

from nbagent.core.errors import ForgeError
from nbagent.forge.schema import checked


def test_what_is_kept() -> None:
    """Parameters in their order, with what nbagent itself writes of them; nothing else may be given."""
    found = {
        "properties": {
            "text": {"type": "string", "description": "x" * 600},
            "how": {"enum": ["a", 1, None], "default": "a"},
            "rows": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        },
        "required": ["text", "no_such"],
    }
    schema = checked(found)
    assert list(schema["properties"]) == ["text", "how", "rows"]
    assert len(schema["properties"]["text"]["description"]) == 500
    assert schema["properties"]["rows"] == found["properties"]["rows"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["text"], False)


def test_what_providers_refuse() -> None:
    """A list says what it holds, be it anything: one tool without would spoil every request that offers it."""
    found = {"properties": {"rows": {"type": "array"}, "cells": {"type": "array", "items": {"type": "array"}}}}
    schema = checked({**found, "required": []})
    assert schema["properties"]["rows"] == {"type": "array", "items": {}}
    assert schema["properties"]["cells"]["items"] == {"type": "array", "items": {}}


DEEP: dict[str, Any] = {"type": "array"}
for _ in range(9):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "told no schema"),
        ([], "told no schema"),
        ({"properties": {}}, "told no schema"),
        ({"properties": [], "required": []}, "told no schema"),
        ({"properties": {"a": {"$ref": "http://example.org"}}, "required": []}, "told no schema"),
        ({"properties": {"a": {"pattern": "(a+)+$"}}, "required": []}, "told no schema"),
        ({"properties": {"a": {"type": "string; rm"}}, "required": []}, "told no schema"),
        ({"properties": {"a": {"type": ["string"]}}, "required": []}, "told no schema"),
        ({"properties": {"a": {"enum": []}}, "required": []}, "told no schema"),
        ({"properties": {"a": {"anyOf": []}}, "required": []}, "told no schema"),
        ({"properties": {"a=1, __import__('os')": {}}, "required": []}, "can't be called"),
        ({"properties": {"class": {}}, "required": []}, "can't be called"),
        ({"properties": {"a": DEEP}, "required": []}, "nested too deeply"),
        ({"properties": {f"p{number}": {} for number in range(31)}, "required": []}, "at most 30 parameters, not 31"),
        ({"properties": {"a": {"default": "x" * 20_000}}, "required": []}, "more than 20,000 bytes"),
    ],
)
def test_what_is_refused(found: Any, told: str) -> None:
    """What could become code, a pattern that never ends, or too much for a request."""
    with pytest.raises(ForgeError, match=told):
        checked(found)
