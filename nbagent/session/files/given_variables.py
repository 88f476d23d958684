"""The variables that a notebook has given to a session, held so that cells that read them can run again."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import PurePosixPath

from nbagent.core.errors import StoreError, TransferError
from nbagent.core.events import DataHashed, Event, FileLeft
from nbagent.kernel.transfer import outside
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.contract import About
from nbagent.sandbox.paths import VARIABLES

HASH_SECONDS = 2.0
"""Seconds after which a variable is hashed: its question, which begins with it, waits for the model by then."""
MAX_HELD = 256
"""Variables that are held, each by a descriptor of this process."""
_READ = re.compile(rf"{re.escape(VARIABLES)}/[^\s\"']+")


class Given:
    """The variables that a notebook gave, each as sealed memory, by the path under which code reads it.

    Those of the same content are held once, as soon as both are hashed.

    Args:
        bound: Bytes of all together, beyond which the oldest are dropped when another one is hashed.
    """

    def __init__(self, bound: int, emit: Callable[[Event], object]) -> None:
        self._bound = bound
        self._emit = emit
        self._held: dict[str, tuple[SealedMemory, str]] = {}
        self._hashing: set[asyncio.Task[None]] = set()
        self._wanted = asyncio.Event()

    def __contains__(self, path: str) -> bool:
        return path in self._held

    def get(self, path: str) -> SealedMemory | None:
        """The memory that code reads at a path, if it is held; the caller doesn't close it."""
        return self._held[path][0] if path in self._held else None

    def hold(self, path: str, memory: SealedMemory, *, sha256: str) -> None:
        """Hold a copy of what was given, so that the caller may close it; without `sha256`, hash it after a while."""
        self._held[path] = memory.copy(), ""
        if sha256:
            self._note_hash(path, sha256)
        else:
            task = asyncio.create_task(self._hash(path, memory.copy()))
            self._hashing.add(task)
            task.add_done_callback(self._hashing.discard)

    async def _hash(self, path: str, memory: SealedMemory) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), HASH_SECONDS)
            digest = await asyncio.to_thread(memory.sha256)
        finally:
            memory.close()
        self._note_hash(path, digest)
        with contextlib.suppress(StoreError):  # nobody awaits this; the next cell's events say so
            self._emit(DataHashed(hashes={path: digest}))

    def _note_hash(self, path: str, sha256: str) -> None:
        if path in self._held:
            memory, _ = self._held[path]
            same = next((each for each, known in self._held.values() if known == sha256), memory)
            self._held[path] = same, sha256
            if same is not memory:
                memory.close()
        while (held := {each for each, _ in self._held.values()}) and (
            len(held) > MAX_HELD or sum(each.size for each in held) > self._bound
        ):
            self._let_go(next(iter(self._held)))

    def _let_go(self, path: str) -> None:
        memory, _ = self._held.pop(path)
        if all(each is not memory for each, _ in self._held.values()):
            memory.close()

    async def hashed(self) -> None:
        """Have all hashed now, and wait until the log has the hashes."""
        if self._hashing:
            self._wanted.set()
            await asyncio.wait(self._hashing)
            self._wanted.clear()

    def missing(self, cells: Mapping[int, str], given: Iterable[str]) -> list[int]:
        """The cells, of these by their numbers, that read a variable which was given and is no longer held."""
        gone = {*given} - self._held.keys()
        return [number for number, code in cells.items() if gone & {*_READ.findall(code)}]

    async def put_back(self, cells: Mapping[int, str], transfer: Transfer, about: About) -> list[FileLeft]:
        """Put what these cells read into a new sandbox, in which they run again; returns what it does not take."""
        left = []
        read = {path for code in cells.values() for path in _READ.findall(code)}
        for path in [each for each in self._held if each in read]:
            place, (memory, _) = file_at(path, about), self._held[path]
            try:
                if await transfer.hold(memory, place) is None:
                    with outside.open_source(memory.path) as (pieces, size, _):
                        await transfer.upload(pieces, place, size=size)
            except TransferError as error:
                left.append(FileLeft(path, f"could not be put back ({error.message})"))
        return left

    def close(self) -> None:
        """Let go of all."""
        for path in [*self._held]:
            self._let_go(path)


def free_name(path: str, taken: Container[str]) -> str:
    """A path for a variable's file that no earlier one has: that of `frame.arrow`, then of `frame-2.arrow`."""
    wanted, found, number = PurePosixPath(path), path, 1
    while found in taken:
        number += 1
        found = f"{wanted.with_name(f'{wanted.stem}-{number}{wanted.suffix}')}"
    return found
