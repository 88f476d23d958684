"""The warm kernels of a pool: started one at a time in the background, checked now and then, and replaced.

The imports of a kernel are done before it counts as warm, and none is started where this machine has no room for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nbagent.core.errors import NbagentError, SandboxError
from nbagent.core.policy import MIB
from nbagent.kernel.inside_calls import source_of
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

log = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""Seconds in which a warm kernel must answer an empty request."""
SETTLE_SECONDS = 0.5
"""Seconds, after a start that somebody waited for, in which no kernel is warmed, since a first cell runs now."""
FIRST_WAIT_SECONDS = 1.0
"""Seconds to wait after a start that failed; the time doubles with each further failure in a row."""
MAX_WAIT_SECONDS = 300.0

ShelfKey = tuple[str, SandboxSpec]
"""An engine's name and a spec: warm kernels with the same key can stand in for one another."""
ESTIMATED_KERNEL_BYTES = 160 * MIB
"""Bytes that a warm kernel is estimated at where they can't be measured; with Polars and Matplotlib, it has 100 MB."""
FILES_PER_KERNEL = 25
"""Files, sockets and pipes that this process has open for each kernel that waits."""
MAX_OPEN_FILES_SHARE = 0.8
"""The part of this process's limit of open files beyond which no kernel is warmed."""
MIN_IMPORT_MB = 512
"""MiB: in a sandbox with less memory nothing is imported ahead, since that would take most of it."""
IMPORT_SECONDS = 60.0
"""Seconds for all imports."""


def key_for(engine: Engine, spec: SandboxSpec) -> ShelfKey:
    """The key of a sandbox. Its owner and its data don't count, since they are set when it is handed over."""
    return engine.name, replace(spec, data=(), owner="", keep=0.0, late_data=True)


@dataclass(eq=False)
class Shelf:
    """The warm kernels of one kind, none of which has run a cell.

    Attributes:
        spec: What their sandboxes are.
        size: How many there are to be.
        kernels: When each became ready, on the monotonic clock; the oldest first.
        failures: Starts that failed since the last one that succeeded.
        not_before: When the next may be started, on the monotonic clock.
    """

    spec: SandboxSpec
    size: int
    kernels: dict[Kernel, float] = field(default_factory=dict)
    failures: int = 0
    not_before: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there are to be."""
        return len(self.kernels) >= self.size

    def add(self, kernel: Kernel) -> None:
        """Add a kernel that is ready."""
        self.kernels[kernel] = time.monotonic()
        self.failures = 0

    def take(self, *, ttl: float) -> Kernel | None:
        """Take away the oldest that isn't too old."""
        expired = self.expired(ttl=ttl)
        kernel = next((each for each in self.kernels if each not in expired), None)
        if kernel is not None:
            del self.kernels[kernel]
        return kernel

    def has_fresh(self, *, ttl: float) -> bool:
        """Whether a kernel that isn't too old is ready."""
        return len(self.kernels) > len(self.expired(ttl=ttl))

    def expired(self, *, ttl: float) -> list[Kernel]:
        """Those that have waited longer than `ttl` seconds."""
        oldest = time.monotonic() - ttl
        return [kernel for kernel, ready in self.kernels.items() if ready <= oldest]

    def postpone(self) -> float:
        """Count a start that failed; returns the seconds until the next."""
        wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**self.failures)
        self.failures += 1
        self.not_before = time.monotonic() + wait
        return wait


class Stock:
    """The warm kernels of one engine, on one event loop.

    Attributes:
        loop: The event loop that the kernels belong to.
        dropped: Kernels that were ended unused: too old, dead, or without an answer.
        failures: Starts that failed.
    """

    def __init__(
        self, engine: Engine, sizes: Mapping[ShelfKey, int], *, ttl: float, imports: Sequence[str], check: float
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.dropped = self.failures = 0
        self._engine = engine
        self._shelves = {key: Shelf(key[1], size) for key, size in sizes.items()}
        self._ttl, self._imports, self._check = ttl, imports, check
        self._each = ESTIMATED_KERNEL_BYTES
        self._is_short = False
        self._callers = 0
        self._served = self._checked = -float("inf")
        self._ending: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._tried = asyncio.Event()
        self._tender = asyncio.create_task(self._tend(), name="nbagent-pool")

    @property
    def waiting(self) -> int:
        """How many kernels wait."""
        return sum(len(shelf.kernels) for shelf in self._shelves.values())

    @property
    def wanted(self) -> int:
        """How many kernels there are to be."""
        return sum(shelf.size for shelf in self._shelves.values())

    def has(self, kernel: Kernel) -> bool:
        """Whether kernels of this one's kind are kept warm."""
        return key_for(kernel.engine, kernel.spec) in self._shelves

    def waits(self, spec: SandboxSpec) -> bool:
        """Whether a warm kernel waits for such a sandbox."""
        shelf = self._shelves.get(key_for(self._engine, spec))
        return shelf is not None and shelf.has_fresh(ttl=self._ttl)

    async def give(self, kernel: Kernel) -> bool:
        """Hand a warm sandbox over to a kernel that was not started; returns False if there is none."""
        shelf = self._shelves[key_for(kernel.engine, kernel.spec)]
        while (found := shelf.take(ttl=self._ttl)) is not None:
            try:
                await kernel.start_from(found, patience=ANSWER_SECONDS)
                return True
            except SandboxError as error:
                log.warning("A warm kernel is dropped: %s", error)
                self.dropped += 1
            finally:
                # After a hand-over it has nothing left to end.
                self._end(found)
        return False

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Start no kernel ahead while somebody waits for one."""
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1
            self._served = time.monotonic()
            self._wake.set()

    def _end(self, kernel: Kernel) -> None:
        """End a kernel in the background."""
        task = asyncio.create_task(kernel.stop())
        self._ending.add(task)
        task.add_done_callback(self._after_end)

    def _after_end(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("A warm kernel could not be ended: %s", error)

    async def wait_until_full(self) -> bool:
        """Wait until every kernel waits, or can't be had for now; returns whether all wait."""
        while not self._tender.done():
            missing = [shelf for shelf in self._shelves.values() if not shelf.is_full]
            if not missing or all(shelf.not_before > time.monotonic() for shelf in missing):
                return not missing
            self._tried.clear()
            await self._tried.wait()
        return False

    async def close(self) -> None:
        """End all kernels, and wait for those that are ending already."""
        self._tender.cancel()
        await asyncio.wait([self._tender])
        self._tried.set()
        for shelf in self._shelves.values():
            for kernel in shelf.kernels:
                self._end(kernel)
            shelf.kernels.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    # -- in the background --------------------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Drop kernels that are too old or don't answer, and start others, one at a time."""
        while True:
            self._wake.clear()
            await self._drop_bad()
            if (shelf := self._emptiest()) is not None:
                await self._fill(shelf)
                self._tried.set()
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._wake.wait()

    async def _drop_bad(self) -> None:
        """Drop kernels that are too old and, every `check` seconds, those that don't answer."""
        due = time.monotonic() >= self._checked + self._check
        for shelf in self._shelves.values():
            bad = dict.fromkeys(shelf.expired(ttl=self._ttl), "it is too old")
            for each in list(shelf.kernels) if due else ():
                if each not in bad and not await each.answers(seconds=ANSWER_SECONDS):
                    bad[each] = "it does not answer"
            for each, why in bad.items():
                # It may have been taken meanwhile.
                if shelf.kernels.pop(each, None) is not None:
                    log.info("A warm kernel is replaced: %s.", why)
                    self.dropped += 1
                    self._end(each)
        if due:
            self._checked = time.monotonic()

    def _emptiest(self) -> Shelf | None:
        """The emptiest shelf among those that may get a kernel now."""
        now = time.monotonic()
        if self._callers or now < self._served + SETTLE_SECONDS:
            return None
        ready = [shelf for shelf in self._shelves.values() if not shelf.is_full and now >= shelf.not_before]
        return min(ready, key=lambda shelf: len(shelf.kernels) / shelf.size, default=None)

    def _pause(self) -> float:
        """Seconds until the next check, start or expiry."""
        moments = [self._checked + self._check]
        for shelf in self._shelves.values():
            if not shelf.is_full and not self._callers:
                moments.append(max(shelf.not_before, self._served + SETTLE_SECONDS))
            if shelf.kernels:
                moments.append(next(iter(shelf.kernels.values())) + self._ttl)
        return max(0.01, min(moments) - time.monotonic())

    async def _fill(self, shelf: Shelf) -> None:
        """Start one kernel; a failure is logged and postpones the next."""
        if not self._has_room():
            shelf.not_before = time.monotonic() + self._check
            return
        kernel = Kernel(self._engine, shelf.spec)
        try:
            await kernel.start()
            await warm(kernel, self._imports)
            self._each = kernel.memory_peak() or ESTIMATED_KERNEL_BYTES
            shelf.add(kernel)
        except Exception as error:
            self._end(kernel)
            self.failures += 1
            known = isinstance(error, NbagentError)
            message = "No kernel at the level %s could be warmed; the next try is in %g s. %s"
            log.warning(message, shelf.spec.trust.level, shelf.postpone(), error if known else "", exc_info=not known)
        except BaseException:
            await kernel.stop()
            raise

    def _has_room(self) -> bool:
        why = shortage(self.waiting, each=self._each)
        if why and not self._is_short:
            log.warning("The pool stays at %d of %d kernels: %s.", self.waiting, self.wanted, why)
        self._is_short = bool(why)
        return not why


async def warm(kernel: Kernel, imports: Sequence[str]) -> None:
    """Import modules in a new kernel, and use them once, without a trace that a cell could see.

    One that can't be imported is logged. Cells come too late to set variables that a library reads when it is imported,
    such as `POLARS_MAX_THREADS`.

    Raises:
        SandboxError: The kernel did not survive it.
    """
    if not imports or kernel.spec.trust.limits.memory_mb < MIN_IMPORT_MB:
        return
    wrong = await kernel.evaluate(source_of("warm_inside.py"), [list(imports)], seconds=IMPORT_SECONDS)
    if not isinstance(wrong, list):
        raise SandboxError(f"The imports of a warm kernel did not end: {', '.join(imports)}.")
    for each in wrong:
        log.warning("%s", each)


def shortage(kernels: int, *, each: int) -> str:
    """Why there is no room for one more kernel of `each` bytes, as a clause; empty if there is."""
    free = free_memory() + kernels * each
    if (kernels + 1) * each > free / 2:
        return f"with one more, at {each // MIB:,} MB each, it would hold half of the free memory"
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sum(1 for _ in Path("/proc/self/fd").iterdir()) + FILES_PER_KERNEL > MAX_OPEN_FILES_SHARE * files:
        return f"each takes {FILES_PER_KERNEL} open files, of which this process may have {files:,} (ulimit -n)"
    return ""


def free_memory() -> int:
    """Bytes of memory that this machine can give without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
