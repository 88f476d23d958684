"""The variables that a notebook has given to a session, held so that cells that read them can run again."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nbagent.core.errors import StoreError
from nbagent.core.events import DataHashed, Event
from nbagent.kernel.transfer import outside
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.contract import About
from nbagent.sandbox.paths import VARIABLES

HASH_SECONDS = 2.0
"""Seconds after which a variable is hashed: its question, which begins with it, waits for the model by then."""
_READ = re.compile(rf"{re.escape(VARIABLES)}/[^\s\"']+")


class Given:
    """The sealed memory of variables, by the path under which code reads each, as long as this process lives.

    Args:
        bound: Bytes of all together, beyond which the oldest are let go.
        emit: Gets the events.
    """

    def __init__(self, bound: int, emit: Callable[[Event], object]) -> None:
        self._bound = bound
        self._emit = emit
        self._held: dict[str, SealedMemory] = {}
        self._hashing: set[asyncio.Task[None]] = set()
        self._wanted = asyncio.Event()

    def hold(self, path: str, memory: SealedMemory, *, hashed: bool) -> None:
        """Hold what was given, which may be closed then; unless it is hashed, have it hashed after a while."""
        self._held[path] = memory.copy()
        if not hashed:
            task = asyncio.create_task(self._hash(path, memory.copy()))
            self._hashing.add(task)
            task.add_done_callback(self._hashing.discard)
        while sum(each.size for each in self._held.values()) > self._bound:
            self._held.pop(next(iter(self._held))).close()

    async def _hash(self, path: str, memory: SealedMemory) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), HASH_SECONDS)
            digest = await asyncio.to_thread(memory.sha256)
        finally:
            memory.close()
        with contextlib.suppress(StoreError):  # nobody awaits this; the next cell's events say so
            self._emit(DataHashed(hashes={path: digest}))

    async def hashed(self) -> None:
        """Have all hashed now, and wait until the log has the hashes."""
        if self._hashing:
            self._wanted.set()
            await asyncio.wait(self._hashing)
            self._wanted.clear()

    def missing(self, cells: Mapping[int, str], given: Iterable[str]) -> list[int]:
        """The cells that read a variable that is no longer held.

        Args:
            cells: The code of each by its number.
            given: The paths of all that was ever given.
        """
        gone = {*given} - self._held.keys()
        return [number for number, code in cells.items() if gone & {*_READ.findall(code)}]

    async def put_back(self, cells: Mapping[int, str], transfer: Transfer, about: About) -> None:
        """Put what these cells read into a new sandbox, in which they run again.

        Raises:
            TransferError: It can't be written there.
        """
        read = {path for code in cells.values() for path in _READ.findall(code)}
        for path in [each for each in self._held if each in read]:
            place, memory = file_at(path, about), self._held[path]
            if await transfer.hold(memory, place) is None:
                with outside.open_source(memory.path) as (pieces, size, _):
                    await transfer.upload(pieces, place, size=size)

    def close(self) -> None:
        """Let go of all."""
        while self._held:
            self._held.popitem()[1].close()


def version(name: str, given: Iterable[str]) -> str:
    """A name for a variable's file that no earlier one has: `frame.arrow`, then `frame-2.arrow`."""
    stem, suffix = Path(name).stem, Path(name).suffix
    taken, number, found = {*given}, 1, name
    while f"{VARIABLES}/{found}" in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    return found
