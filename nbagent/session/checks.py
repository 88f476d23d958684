"""Checks what a person gives a session: data, questions, MCP servers and the names of engines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from nbagent.core.errors import DataError, UsageError
from nbagent.core.options import Data
from nbagent.mcp import servers
from nbagent.mcp.servers import ServerEntry
from nbagent.sandbox.data.mounts import Mount, named
from nbagent.sandbox.paths import DATA
from nbagent.sandbox.registry import automatic, find
from nbagent.sandbox.results.folder import safe_name

MAX_QUESTION = 200_000
"""Characters."""


def resolve_data(data: Data) -> list[Mount]:
    """Where the sandbox will see each file and folder.

    Args:
        data: One path, several, or several by names of the person's own, which get the endings of their files:
            `{"sales 2024": "a.csv"}` is `sales_2024.csv`.
    """
    if isinstance(data, Mapping):
        sources = [(_existing(given), str(name)) for name, given in data.items()]
        pairs = [(source, _file_name(name, source)) for source, name in sources]
    else:
        found = [_existing(given) for given in ([data] if isinstance(data, str | Path) else data)]
        pairs = [(source, source.name) for source in found]
    mounts: dict[str, Mount] = {}
    for source, name in pairs:
        if name in mounts:
            other = mounts[name].source
            if other == source:
                continue
            raise DataError(
                f"{other} and {source} have the same name, and the sandbox sees both in one folder.",
                mend="Rename one, or give the folder that holds both.",
            )
        mounts[name] = Mount(source, f"{DATA}/{name}")
    return list(mounts.values())


def _file_name(name: str, source: Path) -> str:
    """The name in the sandbox of a file that a person has named: made safe, and with the file's ending."""
    cleaned = safe_name(name.replace("/", "_").replace(" ", "_"))
    return cleaned if cleaned.endswith(source.suffix) else f"{cleaned}{source.suffix}"


def _existing(given: str | Path) -> Path:
    if not str(given).strip():
        raise DataError("The name of the data is empty.", mend="Give a file or a folder.")
    shown = str(given) if len(str(given)) <= 120 else f"{str(given)[:120]}…"
    try:
        source = named(given)
        os.fsencode(source).decode()
    except UnicodeError:
        raise DataError(f"The name {shown!r} is not UTF-8 text.", mend="Give the file another name.") from None
    except FileNotFoundError:
        raise DataError(f"There is no file or folder {shown!r}.", mend="Check the name and where you are.") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"The data {shown!r} can't be used: {str(reason).rstrip('.')}.") from error
    if not source.is_file() and not source.is_dir():
        raise DataError(f"{shown!r} is neither a file nor a folder.", mend="Give a plain file or a folder.")
    if source == Path(source.anchor):
        raise DataError("The root of the file system can't be data.", mend="Give the folder that you mean.")
    try:
        with source.open("rb") if source.is_file() else contextlib.nullcontext():
            if source.is_dir():
                next(source.iterdir(), None)
    except OSError as error:
        raise DataError(f"{shown!r} can't be read: {error.strerror}.", mend="Check its permissions.") from error
    return source


def mcp_servers(given: str | bool) -> list[ServerEntry]:
    """The MCP servers of a session."""
    if given is False:
        return []
    return servers.load(None if given is True else Path(given).expanduser())


def known_engine(name: str | None, *, image: str | None = None) -> str | None:
    """The engine's name, or None to have one chosen.

    An image that a person wants is never passed over in silence, though only some engines take one.

    Raises:
        UsageError: There is no such engine, or it takes no images.
    """
    found = find(name) if name else None
    if not image or (found and found.takes_images):
        return found.name if found else None
    able = [each.name for each in automatic() if each.takes_images]
    if found or not able:
        others = f"Use --engine {' or '.join(able)}, or leave out --image." if able else "Leave out --image."
        raise UsageError(f"The {found.name if found else 'best'} engine takes no image.", mend=others)
    return able[0]


def clean_question(question: str) -> str:
    """The question as it can be sent and kept."""
    text = question.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if not text:
        raise UsageError("The question is empty.", mend="Ask something, for example: What is in this data?")
    if len(text) > MAX_QUESTION:
        raise UsageError(f"The question has {len(text):,} characters.", mend="Put long material into a file: --data.")
    return text
