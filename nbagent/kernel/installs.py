"""Installs packages for a kernel: those that a person asks for, that a cell misses, or that `%pip install` names.

The installer on the host does the work (`packages/installer.py`). Here each request becomes an event, and the running
kernel is told to look for new modules.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import wait
from typing import Any

from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.events import IndexAsked, InstallFailed, Package, PackagesInstalled
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import QueryClient
from nbagent.kernel.router import Notify
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed, Installer
from nbagent.packages.requirements import read_pins
from nbagent.safety.wait_timer import WaitTimer
from nbagent.sandbox.contract import InstallHook

REQUEST_SECONDS = 5.0
"""Seconds for a request to the kernel."""
SERVE_SECONDS = 120.0
"""Seconds for an install that code inside waits for; the time that a person takes to approve it doesn't count."""
LOOK_SECONDS = 0.25
"""Seconds between two looks at that time."""

MOST_STATEMENTS = 1_000_000
"""Statements of a cell."""

_INVALIDATE = "__import__('importlib').invalidate_caches()"
_AGAIN = """
def main():
    from IPython import get_ipython
    return get_ipython().nbagent_again()
"""


class KernelInstaller:
    """Installs for one kernel."""

    def __init__(
        self,
        process: KernelProcess,
        queries: QueryClient,
        notify: Notify,
        *,
        busy: asyncio.Lock,
        wait_timer: WaitTimer,
        cell: Callable[[], int],
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._process = process
        self._queries = queries
        self._notify = notify
        self._busy = busy
        self._wait_timer = wait_timer
        self._cell = cell
        self._confirm = confirm
        self._exceed = exceed
        self._allowance = allowance
        self._installer: Installer | None = None

    @property
    def installer(self) -> Installer:
        """The installer of the sandbox's site folder, made when it is first needed."""
        if self._installer is None:
            if (site := self._process.sandbox.site) is None:
                if not self._process.is_owned:
                    raise InstallRefused(
                        "nbagent installs nothing into a kernel that is not in its sandbox.",
                        mend="Install it where the kernel was started.",
                    )
                engine = self._process.engine.name
                raise InstallRefused(f"Nothing can be installed into a sandbox of the {engine} engine.")
            self._installer = Installer(
                site,
                target=self._process.sandbox.target(),
                policy=self._process.spec.install,
                allowance=self._allowance,
            )
            self._installer.tell = self._emit_index_asked
            if (confirm := self._confirm) is not None:
                self._installer.confirm = lambda packages: self._wait_for_person(confirm(packages))
            if (exceed := self._exceed) is not None:
                self._installer.exceed = lambda names, reason: self._wait_for_person(exceed(names, reason))
        return self._installer

    @property
    def pins(self) -> dict[str, str]:
        """The versions of the packages that the sandbox has from the start, by normalised name."""
        return read_pins(self._process.sandbox.target())

    def _emit_index_asked(self, names: list[str], unknown: list[str]) -> None:
        self._notify(IndexAsked(cell=self._cell(), names=names, unknown=unknown))

    async def _wait_for_person(self, asking: Awaitable[None]) -> None:
        """Await a person's answer, and count the time."""
        with self._wait_timer.waiting():
            await asking

    async def install(self, requirements: list[str], *, reason: str, by_person: bool = False) -> list[Package]:
        """See `Kernel.install`."""
        work = self.installer.install(requirements, by_person=by_person)
        return await self._importable(self._add(0, requirements, work, reason=reason))

    async def install_module(self, module: str) -> list[Package]:
        """See `Kernel.install_module`."""
        return await self._importable(self._add_module(module))

    async def install_locked(self, packages: Sequence[Package]) -> None:
        """See `Kernel.install_locked`."""
        await self.installer.install_locked(packages)
        async with self._busy:
            await self._find_modules()

    async def install_missing(self, cell: int, module: str) -> tuple[list[Package], int, str]:
        """Install the module that a running cell missed, so that its code can go on or be run again.

        Returns:
            The packages that were added, how many of the code's statements need not run again as the kernel says
            (`magics_inside.go_on`), and a sentence on why there are no packages.
        """
        try:
            added = await self._add_module(module, cell=cell)
        except InstallError as error:
            return [], 0, f"Not installed: {error}"
        await self._find_modules()
        done = await self._queries.call(_AGAIN, [], seconds=REQUEST_SECONDS)
        return added, done if type(done) is int and 0 < done < MOST_STATEMENTS else 0, ""

    async def _importable(self, work: Awaitable[list[Package]]) -> list[Package]:
        """Await an install between two cells, and have the kernel find its modules."""
        added = await work
        async with self._busy:
            if self._process.is_connected:
                await self._find_modules()
        return added

    async def _find_modules(self) -> None:
        """Have the running kernel look for new modules."""
        await self._queries.ask({"seen": _INVALIDATE}, seconds=REQUEST_SECONDS)

    def serve(self, loop: asyncio.AbstractEventLoop) -> InstallHook:
        """A function that serves `%pip install`: it is called on a thread of the sandbox's, and works on this loop."""

        def install(wanted: list[str]) -> list[dict[str, Any]]:
            work = self._add(self._cell(), wanted, self.installer.install(wanted), reason="%pip install")
            installing, started = asyncio.run_coroutine_threadsafe(work, loop), time.monotonic()
            while not wait([installing], timeout=LOOK_SECONDS).done:
                if time.monotonic() - started - self._wait_timer.seconds(started) > SERVE_SECONDS:
                    installing.cancel()
            added = installing.result()
            return [{"name": each.name, "version": each.version} for each in added]

        return install

    async def _add_module(self, module: str, *, cell: int = 0) -> list[Package]:
        work = self.installer.install_module(module)
        return await self._add(cell, [module], work, reason=f"No module named {module!r}")

    async def _add(self, cell: int, asked: list[str], work: Awaitable[list[Package]], *, reason: str) -> list[Package]:
        """Await an install, and emit how it ended."""
        started = time.monotonic()
        try:
            added = await work
        except InstallError as error:
            refused = isinstance(error, InstallRefused)
            seconds = time.monotonic() - started
            self._notify(
                InstallFailed(cell=cell, requirements=asked, reason=str(error), refused=refused, seconds=seconds)
            )
            raise
        if added:
            seconds = time.monotonic() - started
            self._notify(PackagesInstalled(cell=cell, packages=added, reason=reason, seconds=seconds))
        return added
