"""Keeps kernels warm: started ahead, with their imports done, each to be used once.

    async with KernelPool({"isolated": 2}) as pool:
        kernel = await pool.get(KernelConfig(name="agent-task"))
        cell = await pool.execute(kernel.id, "1 + 1")
        await pool.release(kernel.id)

A kernel of the wanted kind that waits is handed out in milliseconds; otherwise one is started while the caller waits.
No kernel is used twice, so that no task finds what another one left. Sandboxes that wait end with this process,
however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nbagent.core import options, settings
from nbagent.core.concurrency import in_thread
from nbagent.core.errors import DataError, UsageError
from nbagent.core.events import Cell
from nbagent.core.policy import Trust, TrustLevel
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.pool.stock import Stock, key_for
from nbagent.kernel.router import Notify
from nbagent.sandbox import registry
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data import mirror
from nbagent.sandbox.leases import scratch
from nbagent.sandbox.spec import SandboxSpec

log = logging.getLogger(__name__)

Sizes = int | Mapping[str, int] | Mapping[TrustLevel, int] | Mapping[SandboxSpec, int] | Mapping[str | SandboxSpec, int]
CHECK_SECONDS = 60.0
"""Seconds between two looks at the kernels that wait."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """What a kernel is wanted for.

    Attributes:
        name: The task's name, for whoever reads `KernelPool.lent`.
        security: What is permitted: a trust level, or a `Trust`.
        capabilities: What the task says it needs, for whoever reads `KernelPool.lent`; it permits nothing.
    """

    name: str = ""
    security: Trust | TrustLevel | str = TrustLevel.ISOLATED
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PoolFigures:
    """How many kernels a pool has, and has had.

    Attributes:
        wanted: Kernels that it is to keep warm.
        waiting: Warm kernels that wait.
        lent: Kernels from `get` that were not released.
        warm_starts: Starts that a warm kernel served.
        cold_starts: Starts that none could serve.
        dropped: Warm kernels that were ended unused: too old, dead, or without an answer.
        failures: Warm kernels that could not be started.
    """

    wanted: int = 0
    waiting: int = 0
    lent: int = 0
    warm_starts: int = 0
    cold_starts: int = 0
    dropped: int = 0
    failures: int = 0


class KernelPool:
    """Warm kernels of one engine, by trust level.

    Use it as an asynchronous context manager, or call `initialize` and `shutdown`. It belongs to the event loop it was
    initialized on. Arguments that are None are taken from the person's settings.

    Args:
        sizes: How many kernels to keep warm, by trust level or by spec; a number is for the level in the settings.
        engine: The name of an engine that isolates; the best that works here by default.
        ttl: Seconds after which an unused kernel is replaced.
        imports: Modules that a kernel has imported when it is handed out.
        check: Seconds between two checks of the kernels that wait.

    Raises:
        UsageError: A level is unknown, or a size below zero.
    """

    def __init__(
        self,
        sizes: Sizes | None = None,
        *,
        engine: str | None = None,
        ttl: float | None = None,
        imports: Sequence[str] | None = None,
        check: float = CHECK_SECONDS,
    ) -> None:
        self._chosen = settings.load()
        self.ttl = 60 * self._chosen.pool_minutes if ttl is None else ttl
        self.imports = tuple(self._chosen.pool_imports if imports is None else imports)
        self.check = check
        self._engine_name = engine or self._chosen.engine
        self._engine: Engine | None = None
        self._sizes = _sizes(self._chosen.pool_size if sizes is None else sizes, self._chosen)
        self._stock: Stock | None = None
        self._lent: dict[str, tuple[Kernel, KernelConfig | SandboxSpec]] = {}
        self._warm_starts = self._cold_starts = 0

    async def __aenter__(self) -> KernelPool:
        await self.initialize()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.shutdown()

    # -- its life -----------------------------------------------------------------------------------------------

    async def initialize(self) -> None:
        """Choose the engine, and begin to start kernels in the background.

        Raises:
            UsageError: It was initialized before, or the engine doesn't isolate.
            EngineUnavailable: The engine doesn't work here, or none does.
        """
        if self._engine is not None:
            raise UsageError("This pool was initialized before.", mend="Make a new one.")
        engine = await registry.choose(self._engine_name, image=self._chosen.image, specs=self._sizes)
        if not engine.isolates:
            raise UsageError(
                f"The {engine.name} engine keeps no kernels warm.",
                mend="Use an engine that isolates, see `nbagent doctor`.",
            )
        self._engine = engine
        sizes = {key_for(engine, spec): size for spec, size in self._sizes.items()}
        self._stock = Stock(engine, sizes, ttl=self.ttl, imports=self.imports, check=self.check)

    async def wait_until_full(self) -> bool:
        """Wait until every kernel waits, or can't be had for now; returns whether all wait."""
        return self._stock is not None and await self._stock.wait_until_full()

    async def shutdown(self) -> None:
        """End every kernel, also those that are lent. It may be called at any time."""
        stock, self._stock = self._stock, None
        if stock is not None:
            lent = [self.release(each) for each in list(self._lent)]
            await asyncio.gather(stock.close(), *lent, return_exceptions=True)

    @property
    def figures(self) -> PoolFigures:
        """The pool's counts at this moment."""
        stock = self._stock
        return PoolFigures(
            wanted=stock.wanted if stock else 0,
            waiting=stock.waiting if stock else 0,
            lent=len(self._lent),
            warm_starts=self._warm_starts,
            cold_starts=self._cold_starts,
            dropped=stock.dropped if stock else 0,
            failures=stock.failures if stock else 0,
        )

    @property
    def lent(self) -> dict[str, KernelConfig | SandboxSpec]:
        """The config of each kernel from `get` that was not released, by the kernel's id."""
        return {name: config for name, (_, config) in self._lent.items()}

    # -- kernels that are lent ----------------------------------------------------------------------------------

    async def get(self, config: KernelConfig | SandboxSpec, *, notify: Notify = lambda _: None) -> Kernel:
        """Get a running kernel, to be released by its `id`: a warm one if one waits, else a new one.

        Raises:
            UsageError: The pool isn't running.
            SandboxError: It can't be started.
        """
        self._running_stock()
        assert self._engine is not None  # noqa: S101 - a pool that runs has chosen one
        spec = config if isinstance(config, SandboxSpec) else _spec(config.security, self._chosen)
        kernel = Kernel(self._engine, spec, notify=notify)
        await self.start(kernel)
        if self._stock is None:
            await kernel.stop()
            self._running_stock()
        self._lent[kernel.id] = (kernel, config)
        return kernel

    async def execute(self, kernel_id: str, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109
        """Run a cell in a kernel from `get`.

        Raises:
            UsageError: No kernel of that id is lent, or the code can't be run at all.
            SandboxError: The kernel died and could not be replaced.
        """
        if kernel_id not in self._lent:
            raise UsageError(f"No kernel {kernel_id[:80]!r} is lent.", mend="Get one; a released one is gone.")
        return await self._lent[kernel_id][0].run(code, timeout=timeout)

    async def release(self, kernel_id: str) -> None:
        """End a kernel from `get`; it is never used again. A second call does nothing."""
        kernel, _ = self._lent.pop(kernel_id, (None, None))
        if kernel is not None:
            await kernel.stop()

    def engine_for(self, name: str | None, spec: SandboxSpec) -> Engine | None:
        """The pool's engine, if a warm kernel waits for such a session: it need not be checked again then."""
        asked = name == self._engine_name or (self._engine is not None and name == self._engine.name)
        return self._engine if asked and self._stock is not None and self._stock.waits(spec) else None

    # -- starting kernels ---------------------------------------------------------------------------------------

    async def start(self, kernel: Kernel) -> bool:
        """Start a kernel that the caller made and will stop, in place of its own `start`.

        Returns:
            Whether a warm kernel served it: one of the same kind, into whose sandbox the data can be brought.

        Raises:
            SandboxError: It can't be started.
        """
        stock = self._stock
        # What waits in a stock can be used on the stock's own event loop only.
        if stock is not None and stock.loop is not asyncio.get_running_loop():
            stock = None
        with stock.serving() if stock else contextlib.nullcontext():
            if stock is not None and await self._start_warm(stock, kernel):
                self._warm_starts += 1
                return True
            await kernel.start()
            self._cold_starts += 1
            return False

    @staticmethod
    async def _start_warm(stock: Stock, kernel: Kernel) -> bool:
        if not stock.has(kernel):
            return False
        data = kernel.spec.data
        look = partial(mirror.obstacle, scratch=scratch.root())
        if data and (why := await in_thread(look, data)):
            log.info("A cold start: the data can't be shown to a warm kernel, since %s.", why)
            return False
        try:
            return await stock.give(kernel)
        except DataError as error:
            log.warning("A cold start: %s", error)
            return False

    def _running_stock(self) -> Stock:
        if self._stock is None:
            state = "was not initialized" if self._engine is None else "was shut down"
            raise UsageError(f"This pool {state}.", mend="Use it in `async with`, or call initialize() first.")
        return self._stock


def _spec(security: Trust | TrustLevel | str, chosen: options.Options) -> SandboxSpec:
    """The sandbox of a session without options of its own at that level."""
    if not isinstance(security, Trust):
        return SandboxSpec.of(settings.override(chosen, trust=str(security)))
    return replace(SandboxSpec.of(chosen), trust=security, install=security.narrow(chosen.install_policy))


def _sizes(sizes: Sizes, chosen: options.Options) -> dict[SandboxSpec, int]:
    """How many kernels of which sandbox are to be kept."""
    found = {}
    for what, size in (sizes if isinstance(sizes, Mapping) else {chosen.trust: sizes}).items():
        if size < 0:
            raise UsageError(f"A pool can't have {size} kernels.")
        if size:
            found[what if isinstance(what, SandboxSpec) else _spec(what, chosen)] = size
    return found
