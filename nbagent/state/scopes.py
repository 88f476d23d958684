"""How long a state lives, who shares it, and in which form it is kept: pure.

| scope     | who shares it                           | lives, unless said otherwise |
|-----------|-----------------------------------------|------------------------------|
| `TASK`    | one agent at one task                   | a day                        |
| `SESSION` | every agent of one session              | a week                       |
| `AGENT`   | one agent, whatever its task or session | until it is deleted          |
| `GLOBAL`  | everybody                               | until it is deleted          |

A scope is a namespace of a LangGraph store, so that tools and middleware find it there too. The data is kept as JSON
text within the item: databases have ideas of their own on JSON (Postgres takes no NUL, and rewrites numbers), while
text stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from nbagent.core.errors import StoreError

ROOT = "nbagent"
"""The first label of every namespace that this package writes."""
STATE_LIMIT = 1_000_000
"""Bytes of one state as JSON; what is larger belongs into an artifact."""
_NAME_LIMIT = 200


class StateScope(StrEnum):
    """Who shares a state."""

    TASK = "task"
    SESSION = "session"
    AGENT = "agent"
    GLOBAL = "global"


DEFAULT_TTL: Mapping[StateScope, float | None] = {
    StateScope.TASK: 24 * 3600.0,
    StateScope.SESSION: 7 * 24 * 3600.0,
    StateScope.AGENT: None,
    StateScope.GLOBAL: None,
}
"""Seconds that a state lives after it was set; None is until it is deleted."""


@dataclass(frozen=True, kw_only=True)
class StateEntry:
    """A state, and what it is of.

    Attributes:
        scope: Who shares it.
        agent_id: Who set it.
        task_id: At which task it was set; may be empty.
        key: Its name within the scope; empty for the scope's one state.
        data: As it was set.
        updated: When it was set, seconds since the epoch.
        expires: When it ends, seconds since the epoch; None is never.
    """

    scope: StateScope
    agent_id: str
    task_id: str
    key: str
    data: dict[str, Any]
    updated: float
    expires: float | None


def namespace(scope: StateScope, *, agent_id: str, task_id: str, session_id: str) -> tuple[str, ...]:
    """Where the states of a scope are in the store.

    Raises:
        StoreError: A name that the scope needs is empty or too long.
    """
    base = (ROOT, "state", scope.value)
    match scope:
        case StateScope.TASK:
            return (*base, label(agent_id, "agent_id"), label(task_id, "task_id"))
        case StateScope.SESSION:
            return (*base, label(session_id, "session_id"))
        case StateScope.AGENT:
            return (*base, label(agent_id, "agent_id"))
        case StateScope.GLOBAL:
            return base


def label(name: str, what: str) -> str:
    """A name as LangGraph takes it in a namespace: without a dot, and never empty.

    Raises:
        StoreError: It is empty, too long, or no text.
    """
    check_name(name, what)
    return quote(name, safe=" ").replace(".", "%2E")


def check_name(name: str, what: str) -> str:
    """The name, if it is one.

    Raises:
        StoreError: It is empty, too long, or no text that every database takes.
    """
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT:
        raise StoreError(f"{what} must be text of 1 to {_NAME_LIMIT} characters, not {str(name)[:40]!r}.")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise StoreError(f"{what} must be text that UTF-8 can hold, not {name[:40]!r}.") from None
    if "\0" in name:
        raise StoreError(f"{what} must not hold a NUL character, as {name[:40]!r} does.")
    return name


def to_json(data: Any, *, what: str, limit: int = STATE_LIMIT) -> str:
    """A dictionary as JSON text. Tuples become lists, as JSON has no other.

    Args:
        data: What to write.
        what: How a message names it, such as "The state".
        limit: Bytes that it may take.

    Raises:
        StoreError: It is no dictionary, not JSON, or larger than the limit.
    """
    if not isinstance(data, dict):
        raise StoreError(f"{what} must be a dictionary, not a {type(data).__name__}.")
    try:
        _check_keys(data)
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StoreError(f"{what} is not JSON: {reason}.", mend="Save other things as an artifact.") from None
    if len(text) > limit:
        raise StoreError(
            f"{what} takes {len(text):,} bytes as JSON, more than {limit:,}.", mend="Save it as an artifact."
        )
    return text


def _check_keys(data: Any) -> None:
    """Python's `json` writes the key 1 as "1", and it would come back as that."""
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {str(key)[:40]!r} is a {type(key).__name__}, not text")
            _check_keys(value)
    elif isinstance(data, list | tuple):
        for value in data:
            _check_keys(value)


def from_json(text: Any, *, what: str) -> dict[str, Any]:
    """The dictionary that `to_json` wrote.

    Raises:
        StoreError: Something else wrote it.
    """
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise StoreError(f"{what} can't be read: something other than nbagent wrote it.")
    return data
