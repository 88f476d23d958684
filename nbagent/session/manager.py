"""Lists, finds, creates, renames, searches and deletes the sessions of this person.

    manager = SessionManager()
    for each in await manager.list():
        print(each.id, each.title, each.state)

It imports neither kernels nor models, so that a server can show sessions that other processes own.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import NbagentError, UsageError
from nbagent.core.events import Answered, Asked, Record, Renamed
from nbagent.core.folders import LOG_FILE
from nbagent.core.session_log import LOCK_SECONDS, SessionLog
from nbagent.session.catalog import lookup, session_list, summary
from nbagent.session.catalog.lookup import lock_held
from nbagent.session.catalog.session_list import SessionInfo
from nbagent.session.sharing.attach import Attached

if TYPE_CHECKING:
    from nbagent.core.options import Keywords

MAX_HITS = 50
MAX_READ_BYTES = 256 * 1024 * 1024
"""Bytes of logs that a search reads."""
EXCERPT_CHARACTERS = 160
"""Characters of a hit that are shown."""
LET_GO_SECONDS = 60.0
"""Seconds for an owner to let go of a session that is to be deleted."""


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A session in which something was found.

    Attributes:
        session: The session.
        turn: The question's number; 0 for the title.
        where: `title`, `question` or `answer`.
        text: The text around it, in one line.
    """

    session: SessionInfo
    turn: int
    where: str
    text: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search.

    Attributes:
        hits: The latest session first, at most one of each kind for a session.
        is_whole: Whether all sessions were searched; if not, older ones may have more.
    """

    hits: list[SearchHit]
    is_whole: bool


class SessionManager:
    """The sessions below one state folder.

    Args:
        state_dir: Where sessions are kept; where the settings say by default.
        state_url: Where their conversations are kept; where the settings say by default.
    """

    def __init__(self, *, state_dir: str | Path | None = None, state_url: str | None = None) -> None:
        from nbagent.core import settings

        self._root = settings.state_root(state_dir)
        self._state_url = state_url

    async def list(self) -> list[SessionInfo]:
        """All sessions, the latest first."""
        return await asyncio.to_thread(session_list.listed, self._root)

    async def find(self, session: str) -> SessionInfo:
        """What is known of one session, given by its id or enough of its beginning.

        Raises:
            UsageError: There is none, or several begin so.
        """
        return await asyncio.to_thread(session_list.info_of, self._root, session)

    async def create(self, *, session: str | None = None, **keywords: Unpack[Keywords]) -> Attached:
        """Start a session in a process of its own, which outlives this one, and attach to it; see `nbagent.host`.

        Raises:
            UsageError: An option is wrong.
            NbagentError: It can't be started.
        """
        from nbagent.session.host_process import host

        keywords["state_dir"] = self._root
        keywords.setdefault("state_url", self._state_url)
        return await host(new=session, **keywords)

    async def attach(self, session: str) -> Attached:
        """Attach to a running session.

        Raises:
            UsageError: There is no such session, or no process owns it.
        """
        attached = Attached(session, state_dir=self._root)
        await attached.start()
        return attached

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title; an empty one stands for its first question.

        Raises:
            UsageError: There is no such session.
            StoreError: Its log can't be written.
        """
        folder = lookup.find(self._root, session)
        if lookup.is_running(folder):
            async with Attached(folder.name, state_dir=self._root) as attached:
                await attached.rename(title)
            return
        await asyncio.to_thread(self._rename, folder, title)

    def _rename(self, folder: Path, title: str) -> None:
        log = SessionLog(self._root, folder.name)
        try:
            keeper = summary.SummaryKeeper(folder, summary.of_log(folder) or summary.Summary())
            keeper.on_event(log.emit(Renamed(title=summary.line_of(title))))
        finally:
            log.close()

    async def search(self, text: str, *, most: int = MAX_HITS) -> SearchResult:
        """Find the sessions whose title, questions or answers have a text, in any case of letters; the latest first."""
        return await asyncio.to_thread(self._search, text, most)

    def _search(self, text: str, most: int) -> SearchResult:
        wanted, left = text.casefold(), MAX_READ_BYTES
        hits: builtins.list[SearchHit] = []
        for each in session_list.listed(self._root):
            if len(hits) >= most or left <= 0:
                return SearchResult(hits=hits[:most], is_whole=False)
            if wanted in each.title.casefold():
                hits.append(SearchHit(session=each, turn=0, where="title", text=each.title))
            with contextlib.suppress(OSError):
                left -= (each.folder / LOG_FILE).stat().st_size
                hits += _matches(each, wanted)
        return SearchResult(hits=hits[:most], is_whole=len(hits) <= most)

    async def delete(self, session: str, *, force: bool = False) -> None:
        """Remove a session: its whole folder, its kernel if that waits, and its conversation with models.

        What was exported stays, and so does the head of its audit log, which proves that there was one.

        Args:
            session: Its whole id.
            force: Stop it first if a process owns it.

        Raises:
            UsageError: There is no such session, or a process owns it.
            StoreError: Something of it can't be removed.
        """
        base = self._root / "sessions" / session
        if session in (".", "..") or base.name != session or not (base.is_dir() or base.is_symlink()):
            raise UsageError(f"There is no session {session[:80]!r}.", mend="See them all with: nbagent sessions")
        if base.is_symlink():
            raise UsageError(f"The session {session} is a link, which is not followed.", mend=f"Remove {base}.")
        if lookup.is_running(base):
            if not force:
                raise UsageError(f"The session {session} is running.", mend="End it first, or use force.")
            await self._end(session)
        if not await self._remove([base]) and base.is_dir():
            raise UsageError(f"The session {session} did not end.", mend=f"Try again in a moment, or remove {base}.")

    async def _end(self, session: str) -> None:
        end = time.monotonic() + LET_GO_SECONDS
        while lookup.is_running(self._root / "sessions" / session) and time.monotonic() < end:
            with contextlib.suppress(NbagentError):  # one that still starts can't be attached to yet
                async with Attached(session, state_dir=self._root) as attached:
                    await attached.stop("It was deleted.")
            await asyncio.sleep(0.05)

    async def delete_ended(self, *, unused: float) -> builtins.list[SessionInfo]:
        """Remove the sessions that have ended and were not used for so long; see `delete` for what goes and stays.

        Args:
            unused: Seconds since anything was written into its log.

        Returns:
            The sessions that were removed.

        Raises:
            StoreError: A folder or a conversation can't be removed.
        """
        before = time.time() - unused
        old = [each for each in await self.list() if each.state == "ended" and _last_used(each) <= before]
        removed = await self._remove([each.folder for each in old])
        return [each for each in old if each.folder in removed]

    async def _remove(self, folders: builtins.list[Path]) -> builtins.list[Path]:
        """Remove sessions that nobody owns; returns the folders that are gone."""
        if not folders:
            return []
        from nbagent.core import settings
        from nbagent.state import StateManager, ThreadMemory

        removed = []
        url = settings.load(state_url=self._state_url).state_url
        async with StateManager(url=url, session_id=folders[0].name, root=self._root) as state:
            for folder in folders:
                with contextlib.ExitStack() as stack:
                    try:
                        is_held = stack.enter_context(lock_held(folder, patience=LOCK_SECONDS))
                    except OSError:
                        continue  # it was deleted meanwhile, or what is called lock is no file
                    if is_held:
                        await asyncio.to_thread(_end_sandbox, folder.name)
                        # First: a folder that is left is found again, a conversation without one is not.
                        await ThreadMemory(state.checkpointer, folder.name).forget()
                        await asyncio.to_thread(_remove_folder, folder)
                        removed.append(folder)
        return removed


def _last_used(session: SessionInfo) -> float:
    """When its log was written last, in seconds since the epoch; never, as infinity, if it was deleted meanwhile."""
    try:
        return (session.folder / LOG_FILE).stat().st_mtime
    except FileNotFoundError:
        return math.inf


def _end_sandbox(session: str) -> None:
    """End the sandbox in which a session's kernel waits, if there is one."""
    from nbagent.sandbox.leases import lease
    from nbagent.sandbox.machine import reaper

    while (folder := lease.find(session)) is not None and reaper.end(folder):
        pass


def _remove_folder(folder: Path) -> None:
    """Remove a session's folder, last its log, without which it would not be found again, and the lock that is held.

    Whoever opens the session after that has a lock, and a folder, of their own.
    """
    try:
        for each in folder.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name not in (LOG_FILE, "lock"):
                each.unlink()
        for name in (LOG_FILE, "lock"):
            (folder / name).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError:
            if not (folder / "lock").exists():
                raise
    except OSError as error:
        raise fileio.cannot_write(folder, error, mend="Check its permissions.") from error


def _matches(session: SessionInfo, wanted: str) -> Iterator[SearchHit]:
    """The first question and the first answer of a session that have a text in them."""
    missing = {"question", "answer"}
    decoder = msgspec.json.Decoder(Record)
    with fileio.opened(session.folder / LOG_FILE) as log:
        for line in fileio.lines(log):
            # Most of a log is what cells showed, which is not decoded.
            if b'"type":"Asked"' not in line and b'"type":"Answered"' not in line:
                continue
            with contextlib.suppress(msgspec.DecodeError):
                event = decoder.decode(line).event
                if not isinstance(event, Asked | Answered):
                    continue  # a cell has printed such a line
                where, text = ("question", event.question) if isinstance(event, Asked) else ("answer", event.text)
                at = text.casefold().find(wanted)
                if at >= 0 and where in missing:
                    missing.discard(where)
                    yield SearchHit(session=session, turn=event.turn, where=where, text=_around(text, at))


def _around(text: str, at: int) -> str:
    """An excerpt of a text around a place, in one line."""
    start = max(0, at - EXCERPT_CHARACTERS // 3)
    found = " ".join(text[start : start + EXCERPT_CHARACTERS].split())
    return f"{'…' if start else ''}{found}{'…' if start + EXCERPT_CHARACTERS < len(text) else ''}"
