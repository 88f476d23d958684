"""Runs the command `nbagent` for all that imports engines, kernels or providers, which this process must not do.

Each is a process of its own, with a bound on its time and on what it prints.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

import msgspec

from nbagent.core.errors import NbagentError

MAX_BYTES = 64 * 1024 * 1024
"""Bytes that a command may print."""
T = TypeVar("T")


class Done(NamedTuple):
    """A command that has ended: its exit code, and what it printed."""

    code: int
    out: bytes
    err: str

    def read(self, kind: type[T]) -> T:
        """What it printed, as a value."""
        try:
            return msgspec.json.decode(self.out, type=kind)
        except msgspec.DecodeError as error:
            raise self.error() from error

    def error(self) -> NbagentError:
        """What it told a person when it failed: a sentence, and on the next line the mend."""
        message, _, mend = self.err.strip().partition("\n")
        return NbagentError(message or f"nbagent ended with the exit code {self.code}.", mend=" ".join(mend.split()))


async def run(*words: str | Path, root: Path, seconds: float) -> Done:
    """Run a command to its end, with this folder of sessions; it is stopped after some seconds.

    If this is cancelled, the command is interrupted, and ends its sandbox.
    """
    variables = {**os.environ, "NBAGENT_STATE_DIR": str(root), "NO_COLOR": "1"}
    command = [sys.executable, "-P", "-m", "nbagent", *map(str, words)]
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        raise NbagentError(f"nbagent can't be started: {error}.") from error
    assert process.stdout is not None  # noqa: S101 - they are pipes
    assert process.stderr is not None  # noqa: S101
    try:
        async with asyncio.timeout(seconds):
            out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise NbagentError(f"It took more than {seconds:g} seconds.") from None
    finally:
        if process.returncode is None:
            await _end(process)
    return Done(code, out, err.decode(errors="replace"))


async def _read(stream: asyncio.StreamReader) -> bytes:
    data = bytearray()
    while chunk := await stream.read(1 << 16):
        data += chunk
        if len(data) > MAX_BYTES:
            raise NbagentError(f"nbagent printed more than {MAX_BYTES:,} bytes.")
    return bytes(data)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupt a command, so that it ends what it started, and kill it if it doesn't."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), 10)
        except (TimeoutError, asyncio.CancelledError):
            process.kill()


class Cached(Generic[T]):
    """What takes seconds to find out by `ask`: at most once at a time, and kept for a while."""

    def __init__(self, ask: Callable[[], Awaitable[T]], *, seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._asking: asyncio.Task[T] | None = None
        self._at = 0.0

    async def get(self, *, again: bool = False) -> T:
        """What was found out, be it now or `again`; an error is not kept."""
        asking = self._asking
        if asking is None or (asking.done() and (again or self._is_old(asking))):
            asking = self._asking = asyncio.ensure_future(self._ask())
            self._at = monotonic()
        return await asyncio.shield(asking)

    def _is_old(self, asked: asyncio.Task[T]) -> bool:
        return asked.cancelled() or asked.exception() is not None or monotonic() - self._at > self._seconds
