"""The sessions of one IPython process: found by name, begun when first needed, each owned by a host process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from nbagent.core import fileio, folders, settings
from nbagent.core.errors import UsageError
from nbagent.session import index
from nbagent.session.attach import Attached

NAMES = "names"
"""The folder, beside that of the sessions, that says which session a name means after a reset."""
ENDED = "Ended by %agent reset."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")


class Sessions:
    """Sessions by the names that a person gives them. All calls belong to one event loop.

    Args:
        own: The name of this process's own session, for questions that name none.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._attached: dict[str, Attached] = {}

    def current(self, name: str = "") -> Attached | None:
        """The session of that name, if this process is attached to it and it runs."""
        found = self._attached.get(name or self._own)
        return found if found is not None and found.is_running else None

    async def get(self, name: str, options: dict[str, Any]) -> Attached:
        """The session of that name: attached to, resumed, or begun.

        Args:
            name: The person's name for it; empty for this process's own.
            options: Options by their keywords, for a session that is begun.

        Raises:
            UsageError: The name can't be one, an option is wrong, or options are given for a session that runs.
            NbagentError: The session can't be started.
        """
        from nbagent.session.host import host

        name = _checked(name or self._own)
        if (found := self.current(name)) is not None:
            return _as_it_is(found, options)
        root = _root()
        session = _meant(root, name)
        folder = root / "sessions" / session
        if not folder.is_dir():
            found = await host(new=session, **options)
        elif index.is_running(folder):
            found = _as_it_is(await host(session), options)
        else:
            found = await host(session, **options)
        self._attached[name] = found
        return found

    async def end(self, name: str = "") -> bool:
        """End the session of that name, so that the next question begins another; returns whether there was one."""
        name = _checked(name or self._own)
        root = _root()
        session = _meant(root, name)
        if not (root / "sessions" / session).is_dir():
            return False
        found = self._attached.pop(name, None) or Attached(session, state_dir=root)
        if index.is_running(found.folder):
            if not found.is_running:
                await found.start()
            await found.stop(ENDED)
        await found.detach()
        stem, _, number = session.rpartition("--")
        following = f"{stem}--{int(number) + 1}" if stem == name and number.isdigit() else f"{name}--2"
        (root / NAMES).mkdir(mode=0o700, exist_ok=True)
        fileio.write(root / NAMES / name, following.encode())
        return True

    async def leave(self) -> None:
        """Detach from all sessions, which go on."""
        while self._attached:
            _, each = self._attached.popitem()
            await each.detach()


def own_name() -> str:
    """A name for this process's own session, which a restarted kernel has again."""
    with contextlib.suppress(Exception):  # no kernel runs here
        from ipykernel.connect import get_connection_file

        return f"notebook-{hashlib.sha256(str(get_connection_file()).encode()).hexdigest()[:10]}"
    return f"ipython-{os.getpid()}"


def _root() -> Path:
    return folders.state_root(settings.load().state_dir).absolute()


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} can't be a session's name.", mend="Use letters, digits, _ and -.")
    return name


def _meant(root: Path, name: str) -> str:
    """The id of the session that a name means: the name itself, until a reset makes it another."""
    try:
        return (root / NAMES / name).read_text(encoding="utf-8").strip() or name
    except OSError:
        return name


def _as_it_is(found: Attached, options: dict[str, Any]) -> Attached:
    if options:
        raise UsageError(
            f"The session {found.id} runs already, and takes no other {', '.join(sorted(options))}.",
            mend="End it by %agent reset, or name another one: --session NAME.",
        )
    return found
