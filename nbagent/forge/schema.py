"""Checks a tool's schema that comes from the sandbox: it must be one that `load_inside` could have written. Pure."""

from __future__ import annotations

import json
import keyword
from typing import Any

from nbagent.core.errors import ForgeError
from nbagent.core.text import one_line

MAX_PARAMETERS = 30
MAX_BYTES = 20_000
MAX_DEPTH = 8
MAX_TEXT = 500
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})


def checked(found: Any) -> dict[str, Any]:
    """Check a schema; returned as a new value."""
    try:
        if len(json.dumps(found)) > MAX_BYTES:
            raise ForgeError(f"The tool's schema has more than {MAX_BYTES:,} bytes.", mend="Give it fewer parameters.")
        properties, required = found["properties"], found["required"]
        if len(properties) > MAX_PARAMETERS:
            raise ForgeError(f"A tool has at most {MAX_PARAMETERS} parameters, not {len(properties)}.")
        return {
            "type": "object",
            "properties": {_name(name): _part(part, 0) for name, part in properties.items()},
            "required": [_name(name) for name in required if name in properties],
            "additionalProperties": False,
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ForgeError("The sandbox told no schema of the tool.") from None


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or len(name) > 64:
        raise ForgeError(f"A tool's parameter can't be called {str(name)[:60]!r}.")
    return name


def _part(part: Any, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise ForgeError("The type hints are nested too deeply.", mend="Use simpler ones.")
    made: dict[str, Any] = {}
    for key, value in part.items():
        match key:
            case "type" if value in _TYPES:
                made[key] = value
            case "enum" if isinstance(value, list) and value:
                made[key] = value
            case "anyOf" if value:
                made[key] = [_part(each, depth + 1) for each in value]
            case "items" | "additionalProperties":
                made[key] = _part(value, depth + 1)
            case "description":
                made[key] = one_line(str(value), MAX_TEXT)
            case "default":
                made[key] = value
            case _:
                raise ValueError(key)
    if made.get("type") == "array":
        made.setdefault("items", {})  # OpenAI refuses a request with an array that has none
    return made
