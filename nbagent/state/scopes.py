"""Who shares a state, how long it lives, and how it is kept in a LangGraph store.

| scope     | who shares it                           | lives, unless said otherwise |
|-----------|-----------------------------------------|------------------------------|
| `TASK`    | one agent at one task                   | a day                        |
| `SESSION` | every agent of one session              | a week                       |
| `AGENT`   | one agent, whatever its task or session | until it is deleted          |
| `GLOBAL`  | everybody                               | until it is deleted          |

A scope is a namespace of the store, so that tools and middleware find it there too. The data is kept as JSON text
within the item: databases change JSON (Postgres takes no NUL, and rewrites numbers), but not text.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nbagent.core.errors import StoreError

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, SearchItem

ROOT = "nbagent"
"""The first label of every namespace that this package writes."""
STATE_LIMIT = 1_000_000
"""Bytes of one state as JSON; larger data belongs into an artifact."""
_NAME_LIMIT = 200
_PAGE = 500
"""Items that are asked of a store at once."""


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
"""Seconds that a state lives after it was set; None means until it is deleted."""


@dataclass(frozen=True, kw_only=True)
class StateEntry:
    """A state and its place.

    Attributes:
        scope: Who shares it.
        agent_id: The agent that set it.
        task_id: The task at which it was set; may be empty.
        key: Its name within the scope; empty for the scope's unnamed state.
        data: The data that was set.
        updated: When it was set, in seconds since the epoch.
        expires: When it ends, in seconds since the epoch; None for never.
    """

    scope: StateScope
    agent_id: str
    task_id: str
    key: str
    data: dict[str, Any]
    updated: float
    expires: float | None


def namespace(scope: StateScope, *, agent_id: str, task_id: str, session_id: str) -> tuple[str, ...]:
    """The namespace in which the states of a scope are kept."""
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
    """A name in the form that LangGraph takes as a label of a namespace: quoted, without a dot."""
    check_name(name, what)
    return quote(name, safe=" ").replace(".", "%2E")


def check_name(name: str, what: str) -> str:
    """Check a name, and return it.

    Args:
        name: The name.
        what: What an error message calls it, such as `agent_id`.

    Raises:
        StoreError: It is empty, too long, or not text that every database takes.
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


def encode(data: Any, *, what: str, limit: int = STATE_LIMIT) -> str:
    """A dictionary as JSON text; tuples become lists."""
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
    """Raise a TypeError for a key that is no text, such as 1, which Python's `json` would write as "1"."""
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {str(key)[:40]!r} is a {type(key).__name__}, not text")
            _check_keys(value)
    elif isinstance(data, list | tuple):
        for value in data:
            _check_keys(value)


def decode(text: Any, *, what: str) -> dict[str, Any]:
    """Read a dictionary that `encode` wrote."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise StoreError(f"{what} can't be read: something other than nbagent wrote it.")
    return data


def has_expired(expires: float | None) -> bool:
    """Whether a time, in seconds since the epoch, has passed; None never does."""
    return expires is not None and expires <= time.time()


async def items(
    store: BaseStore, below: tuple[str, ...], *, wanted: Mapping[str, Any] | None = None
) -> AsyncIterator[SearchItem]:
    """All items of a store in a namespace and in those below it."""
    offset = 0
    while page := await store.asearch(below, filter=dict(wanted) if wanted else None, limit=_PAGE, offset=offset):
        offset += len(page)
        for item in page:
            # Postgres compares the beginnings of texts, and `tasks` begins with `task`.
            if item.namespace[: len(below)] == below:
                yield item
