"""Wakes whoever waits for a file to change, which another process may do. Nobody polls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import inotify_simple

POLL_SECONDS = 0.05


class Bell:
    """A file that tells by inotify when it was touched or written to.

    Where the machine has no inotify instance left, the file is looked at every `POLL_SECONDS`.

    Args:
        path: The file.
        look: Returns something that changes with the file; asked only where there is no inotify.
    """

    def __init__(self, path: Path, *, look: Callable[[], Awaitable[object]]) -> None:
        self._path = path
        self._look = look
        self._watch: inotify_simple.INotify | None = None
        self._rung = asyncio.Event()
        self._seen: object = None

    def ring(self) -> None:
        """Wake who waits in this process."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the file may have changed, at most so many seconds. Used by one task at a time."""
        if self._watch is None:
            if not self._listen():
                await self._poll(seconds)
            return  # what was told before it listened
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            pass
        self._rung.clear()

    def _listen(self) -> bool:
        try:
            self._watch = inotify_simple.INotify(nonblocking=True)
            self._watch.add_watch(self._path, inotify_simple.flags.ATTRIB | inotify_simple.flags.MODIFY)
        except OSError:  # each user has a bounded number of them
            self.close()
            return False
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._hear)
        return True

    def _hear(self) -> None:
        assert self._watch is not None  # noqa: S101 - for the type checker
        list(self._watch.read(timeout=0))
        self._rung.set()

    async def _poll(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen = await self._look()
            # A database counts the commits of other connections; those of this one have rung already.
            if seen != self._seen or self._rung.is_set():
                self._seen = seen
                self._rung.clear()
                return
            await asyncio.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Stop listening."""
        if self._watch is not None:
            if not self._watch.closed:
                asyncio.get_running_loop().remove_reader(self._watch.fileno())
                self._watch.close()
            self._watch = None
