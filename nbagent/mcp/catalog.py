"""Makes an MCP server's tool fit for a model: a valid name, cleaned text, a schema that providers take. Pure.

All of it comes from the server and is untrusted. A tool that a provider would refuse is left out, with the reason: it
would make every request of the conversation fail, and not only its own calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.core.text import cut, legible

if TYPE_CHECKING:
    from mcp_types import Tool

MAX_NAME = 64
"""Characters of a tool's name; OpenAI's and Gemini's limit."""
MAX_OWN_NAME = 256
"""Characters of the server's own name for a tool, which a person is shown."""
MAX_DESCRIPTION = 1024
"""Characters of a description; OpenAI's limit."""
MAX_SCHEMA = 16 * 1024
"""Characters of a schema as JSON, which is sent with every request."""
MAX_DEPTH = 16
DIVIDER = "__"

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # Anthropic's
_COMBINERS = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else")


@dataclass(frozen=True, kw_only=True)
class McpTool:
    """A tool, fit for a model.

    Attributes:
        name: What the model calls it, `server__tool`; unique, at most 64 characters.
        server: The person's name for its server.
        tool: What the server calls it.
        description: The server's words, cleaned and cut.
        schema: The schema of its arguments, cleaned.
        read_only: The server's hint; None if there is none.
        destructive: The server's hint; None if there is none.
        capabilities: The capabilities that the person gave it.
        digest: SHA-256, in hexadecimal, of everything that the server says of it.
        changed: Whether the digest differs from that when the tool was first seen or last accepted.
        latency_ms: The running mean of its calls' times; None before the first.
    """

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, Any] = field(repr=False)
    read_only: bool | None = None
    destructive: bool | None = None
    capabilities: frozenset[str] = frozenset()
    digest: str = ""
    changed: bool = False
    latency_ms: float | None = None

    @property
    def shown(self) -> str:
        """The tool as a person is asked about it: its server, its effects and its description."""
        effect = {True: "It says that it only reads.", False: "It says that it changes things.", None: ""}
        parts = [
            f"{legible(self.tool)!r} of the MCP server {self.server!r}, which runs outside of the sandbox.",
            effect[self.read_only],
            "It says that it may destroy something." if self.destructive and not self.read_only else "",
            "Its description or schema CHANGED since it was accepted." if self.changed else "",
            f"The server describes it as: {self.description}" if self.description else "",
        ]
        return "\n".join(part for part in parts if part)


class UnusableError(Exception):
    """A tool that can't be offered to a model; the message says why."""


def describe(server: str, listed: Tool, *, capabilities: frozenset[str] = frozenset()) -> McpTool:
    """Make a tool fit for a model.

    Raises:
        UnusableError: A provider would refuse its name or schema, or it can only be called as a task.
    """
    if len(listed.name) > MAX_OWN_NAME:
        raise UnusableError(f"its name is longer than {MAX_OWN_NAME} characters")
    if listed.execution is not None and listed.execution.task_support == "required":
        raise UnusableError("it can only be called as a task")
    hints = listed.annotations
    words = listed.description or listed.title or ""
    return McpTool(
        name=name_of(server, listed.name),
        server=server,
        tool=listed.name,
        description=cut(legible(words).strip(), MAX_DESCRIPTION, mark=" [… cut]"),
        schema=fit(listed.input_schema),
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        capabilities=capabilities,
        digest=digest_of(listed),
    )


def name_of(server: str, tool: str) -> str:
    """The name `server__tool`, with characters and a length that every provider takes.

    An altered name ends with a digest of the original, so that names stay distinct. The server's part never contains
    `__`, so no server can take another's name; and since every name contains it, none is `python` or `install`.
    """
    first = _FOREIGN.sub("_", server)
    first = re.sub(r"_{2,}", "_", first).strip("_-")[:24] or "server"
    first = first if first[0].isalpha() else f"s{first}"
    if first != server:
        first = f"{first[:19].rstrip('_-')}-{_short(server)}"
    second = _FOREIGN.sub("_", tool) or "tool"
    room = MAX_NAME - len(first) - len(DIVIDER)
    if second != tool or len(second) > room:
        second = f"{second[: room - 9]}-{_short(tool)}"
    return f"{first}{DIVIDER}{second}"


def digest_of(listed: Tool) -> str:
    """A digest of everything by which a model chooses a tool and a person judges it."""
    hints = listed.annotations
    said = {
        "name": listed.name,
        "title": listed.title,
        "description": listed.description,
        "schema": listed.input_schema,
        "read_only": hints.read_only_hint if hints else None,
        "destructive": hints.destructive_hint if hints else None,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def fit(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make a schema of arguments that providers take.

    Raises:
        UnusableError: Providers would refuse it, however it is changed.
    """
    if schema.get("type") != "object":
        raise UnusableError("its schema is not that of an object")
    # Providers refuse these keywords at the top level; the server checks arguments itself.
    whole = {key: value for key, value in schema.items() if key not in _COMBINERS}
    fitted: dict[str, Any] = _tidy(whole, depth=0)
    if not isinstance(fitted.get("properties"), dict):
        fitted["properties"] = {}
    if odd := next((name for name in fitted["properties"] if not _PROPERTY.fullmatch(name)), None):
        raise UnusableError(f"no model can be told its argument {legible(odd)[:80]!r}")
    if _length(fitted) > MAX_SCHEMA:
        fitted = _without_descriptions(fitted)
    if _length(fitted) > MAX_SCHEMA:
        raise UnusableError(f"its schema is longer than {MAX_SCHEMA // 1024} KB")
    _check(fitted)
    return fitted


def _tidy(value: Any, *, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise UnusableError("its schema is nested too deeply")
    if isinstance(value, str):
        return legible(value)
    if isinstance(value, list):
        return [_tidy(each, depth=depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise UnusableError("its schema refers to another document")
    return {legible(key): _tidy(each, depth=depth + 1) for key, each in value.items() if key not in ("$schema", "$id")}


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_descriptions(each) for each in value]
    if not isinstance(value, dict):
        return value
    # An argument may be called `description`; then the value is a table.
    return {
        key: _without_descriptions(each)
        for key, each in value.items()
        if not (key == "description" and isinstance(each, str))
    }


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise UnusableError(f"its schema is wrong: {legible(error.message)[:200]}") from error


def _length(value: Any) -> int:
    return len(json.dumps(value))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
