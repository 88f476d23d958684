"""The sessions of one IPython process: found by name, begun when first needed, each owned by a host process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from nbagent.core import fileio, settings
from nbagent.core.errors import UsageError
from nbagent.core.options import declared
from nbagent.session.catalog import lookup
from nbagent.session.host_process import host
from nbagent.session.protocol import settled
from nbagent.session.sharing.attach import Attached

NAMES = "names"
"""The folder, beside that of the sessions, that says which session a name means after a reset."""
KEPT = frozenset(["model", "approvals", "trust"])
"""Options that hold on after a reset."""
ENDED = "Ended by %agent reset."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")


class Sessions:
    """Sessions by the names that a person gives them; questions that name none go to `own`, this process's own session.

    All calls belong to one event loop.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._attached: dict[str, Attached] = {}
        self._given: dict[str, dict[str, Any]] = {}

    def current(self, name: str = "") -> Attached | None:
        """The session of that name, if this process is attached to it and it runs."""
        found = self._attached.get(name or self._own)
        return found if found is not None and found.is_running else None

    async def find(self, name: str = "") -> Attached | None:
        """The session of that name if it runs, attached to: after a restart of the kernel it may be running still."""
        name = _checked(name or self._own)
        if (found := self.current(name)) is not None:
            return found
        folder = _folder(name)
        if not lookup.is_running(folder):
            return None
        found = self._attached[name] = await host(folder.name)
        return found

    async def get(self, name: str, options: dict[str, Any], defaults: dict[str, Any] | None = None) -> Attached:
        """The session of that name, or this process's own if it is empty: attached to, resumed, or begun.

        In a session that is there, options can change the model and the approvals; the defaults are for one that isn't
        running.
        """
        name = _checked(name or self._own)
        if (found := await self.find(name)) is not None:
            await self._change(name, found, options)
            return found
        if (file := options.get("kernel")) and _is_own(file):
            raise UsageError(
                "This kernel waits for the answer meanwhile, so it can't run the assistant's cells.",
                mend=f"Ask in a terminal: nbagent chat --kernel {file}",
            )
        folder, given = _folder(name), (defaults or {}) | self._given.get(name, {}) | options
        if folder.is_dir():
            given = {each: value for each, value in given.items() if each in options or declared(each).resumed}
            found = await host(folder.name, **given)
        else:
            found = await host(new=folder.name, **given)
        self._attached[name], self._given[name] = found, given
        return found

    def prefer(self, name: str, **options: Any) -> None:
        """Remember options for the session of that name, should it have to be begun or resumed."""
        self._given.setdefault(_checked(name or self._own), {}).update(options)

    async def _change(self, name: str, session: Attached, options: dict[str, Any]) -> None:
        """Change what can be changed of a session that runs."""
        given = self._given.setdefault(name, {}) | {"engine": session.engine, "trust": session.trust}
        changed = {each: value for each, value in options.items() if given.get(each) != value}
        if fixed := sorted(changed.keys() - {"model", "approvals"}):
            raise UsageError(
                f"The session {session.id} runs already, and takes no other {', '.join(fixed)}.",
                mend="End it by %agent reset, or name another one: --session NAME.",
            )
        if "model" in changed:
            await session.use_model(changed["model"])
        if "approvals" in changed:
            await settled(session.set_approvals(changed["approvals"]))
        self._given[name] |= changed

    async def end(self, name: str = "") -> bool:
        """End the session of that name, so that the next question begins another; returns whether there was one."""
        name = _checked(name or self._own)
        folder, session = _folder(name), await self.find(name)
        if session is not None:
            await session.stop(ENDED)
            await session.detach()
        self._attached.pop(name, None)
        self._given[name] = {each: value for each, value in self._given.get(name, {}).items() if each in KEPT}
        if not folder.is_dir():
            return False
        stem, _, number = folder.name.rpartition("--")
        following = f"{stem}--{int(number) + 1}" if stem == name and number.isdigit() else f"{name}--2"
        names = _root() / NAMES
        names.mkdir(mode=0o700, exist_ok=True)
        fileio.write(names / name, following.encode())
        return True

    async def leave(self) -> None:
        """Detach from all sessions, which go on."""
        while self._attached:
            _, each = self._attached.popitem()
            await each.detach()


def own_name() -> str:
    """A name for this process's own session, which a restarted kernel has again."""
    if file := _own_file():
        return f"notebook-{hashlib.sha256(file.encode()).hexdigest()[:10]}"
    return f"ipython-{os.getpid()}"


def _own_file() -> str:
    """The connection file of this process, if this process is a kernel; else empty."""
    if "ipykernel.kernelapp" in sys.modules:
        with contextlib.suppress(RuntimeError):  # no kernel runs here
            from ipykernel.connect import get_connection_file

            return str(get_connection_file())
    return ""


def _is_own(file: str) -> bool:
    """Whether a connection file that a person names is this kernel's own."""
    from nbagent.sandbox.connection_file import find

    own = _own_file()
    return bool(own) and find(file).resolve() == Path(own).resolve()


def _root() -> Path:
    return settings.state_root().absolute()


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} can't be a session's name.", mend="Use letters, digits, _ and -.")
    return name


def _folder(name: str) -> Path:
    """The folder of the session that a name means: of that name itself, until a reset makes it another."""
    root = _root()
    with contextlib.suppress(OSError):
        name = (root / NAMES / name).read_text(encoding="utf-8").strip() or name
    return root / "sessions" / name
