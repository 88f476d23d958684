"""Opens the back end that a URL names, as LangGraph's checkpointer and store and an event log.

(none)                                DIR/state.sqlite
sqlite:///home/me/team.sqlite         another file
postgresql://user:password@host/db    needs the extra `postgres`
redis://:password@host:6379/0         needs the extra `redis`; also rediss, valkey, and unix for a socket
"""

from __future__ import annotations

import importlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from nbagent.core.errors import StoreError
from nbagent.state.bus import EventLog

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

SQLITE_FILE = "state.sqlite"
_POSTGRES = {"postgresql", "postgres"}
_REDIS = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}


@dataclass(kw_only=True)
class Backend:
    """An open back end.

    Attributes:
        checkpointer: LangGraph's, for `create_agent(checkpointer=…)`; reads plain data only (see `guarded`).
        store: LangGraph's, for `create_agent(store=…)`.
        log: The events of the bus.
        place: The file or address without a password, to be shown.
    """

    checkpointer: BaseCheckpointSaver[Any]
    store: BaseStore
    log: EventLog
    place: str
    _stack: AsyncExitStack = field(repr=False)

    async def close(self) -> None:
        """Close files and connections."""
        await self._stack.aclose()


async def open(url: str = "", *, folder: Path) -> Backend:
    """Open the back end that a URL names.

    Args:
        url: See above; if empty, SQLite in the folder.
        folder: The folder of the SQLite file, if the URL is empty.

    Raises:
        StoreError: The URL is unknown, an extra is missing, the file is damaged or can't be written, or the server
            can't be reached or refuses. No message holds a password.
    """
    parts = _split(url)
    place = shown(parts) if url else str(folder / SQLITE_FILE)
    stack = AsyncExitStack()
    opened: tuple[Any, Any, Any]
    try:
        if not url or parts.scheme == "sqlite":
            from nbagent.state import sqlite

            opened = await sqlite.open_parts(stack, _path(parts) if url else folder / SQLITE_FILE)
        elif parts.scheme in _POSTGRES:
            opened = await _module("postgres", "psycopg").open_parts(stack, url, place=place)
        elif parts.scheme in _REDIS:
            address = _REDIS[parts.scheme] + url[len(parts.scheme) :]
            opened = await _module("redis", "redis").open_parts(stack, address, place=place)
        else:
            raise StoreError(
                f"The state can't be kept at {parts.scheme or 'such a URL'}: the scheme is not one of sqlite, "
                "postgresql, redis."
            )
    except BaseException:
        await stack.aclose()
        raise
    saver, store, log = opened
    return Backend(checkpointer=saver, store=store, log=log, place=place, _stack=stack)


def shown(parts: SplitResult) -> str:
    """A URL without the user, the password and the options, which may be secret."""
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises an error if it is no number
    except ValueError:
        raise StoreError("The URL of the state can't be read: its host or its port is malformed.") from None
    return parts


def _path(parts: SplitResult) -> Path:
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or path == "/":
        raise StoreError(
            "A SQLite URL names a file by its whole path, with three slashes.",
            mend="For example sqlite:///tmp/team.sqlite",
        )
    return Path(path)


def _module(extra: str, needs: str) -> Any:
    """Import a back end's module, whose libraries are an extra."""
    try:
        return importlib.import_module(f"nbagent.state.{extra}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "nbagent":
            raise
        raise StoreError(
            f"This state needs {missing or needs}, which is not installed.", mend=f"pip install 'nbagent[{extra}]'"
        ) from None
    except ImportError as error:  # psycopg without libpq
        raise StoreError(
            f"This state needs {needs}, which doesn't work here: {str(error).splitlines()[0]}.",
            mend=f"pip install 'nbagent[{extra}]'",
        ) from None
