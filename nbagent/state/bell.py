"""Wakes tasks that wait for a file to change, also if another process changes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import inotify_simple

POLL_SECONDS = 0.05


class Bell:
    """Wakes a task by inotify when a file is touched or written.

    If the machine has no inotify instance left, `look` is called every `POLL_SECONDS` instead: what it returns changes
    with the file.
    """

    def __init__(self, path: Path, *, look: Callable[[], Awaitable[object]]) -> None:
        self._path = path
        self._look = look
        self._watch: inotify_simple.INotify | None = None
        self._rung = asyncio.Event()
        self._seen: object = None

    def ring(self) -> None:
        """Wake the task of this process that waits."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the file may have changed, or for so many seconds. One task at a time may call this."""
        if self._watch is None:
            if not self._listen():
                await self._poll(seconds)
            return  # the file may have changed before this listened
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
        except OSError:  # each user has a bounded number of inotify instances
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
            # `look` may see changes by others only; for its own, this process has called `ring`.
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
