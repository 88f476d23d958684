"""What is installed for a kernel: asked for by a person, missing in a cell, or by `%pip install` from inside.

The packages are the host's business (`packages/installer.py`). Here each request becomes an event, and what was added
importable in the kernel that runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any

from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.events import IndexAsked, InstallFailed, Package, PackagesInstalled
from nbagent.kernel.process import KernelProcess
from nbagent.kernel.queries import Queries
from nbagent.kernel.router import Notify
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed, Installer
from nbagent.packages.requirements import read_pins
from nbagent.sandbox.contract import InstallHook

SECONDS = 5.0
"""For a request to the kernel."""
SERVE_SECONDS = 120.0
"""For an install that code inside waits for, beside what a person takes to approve it."""
TICK = 0.25

_INVALIDATE = "__import__('importlib').invalidate_caches()"
_SHELL = "__import__('IPython').get_ipython()"
_UNCOUNT = f"setattr({_SHELL}, 'execution_count', {_SHELL}.execution_count - 1)"


class Installs:
    """Installs for one kernel.

    Args:
        process: Its sandbox gets the packages.
        queries: Tell the kernel of them.
        notify: Gets the events.
        cell: Tells the number of the latest cell.
        confirm: Called with what is about to be installed; it raises `InstallRefused` to keep it out.
        exceed: Called with what is beyond the allowance; it raises `InstallRefused` unless a person allows it.
        allowance: What the code may ask the index for; by default one of this sandbox's own.
    """

    def __init__(
        self,
        process: KernelProcess,
        queries: Queries,
        notify: Notify,
        *,
        cell: Callable[[], int],
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._process = process
        self._queries = queries
        self._notify = notify
        self._cell = cell
        self._confirm = confirm
        self._exceed = exceed
        self._allowance = allowance
        self._installer: Installer | None = None
        self._waits: list[tuple[float, float]] = []
        self._waiting_since: float | None = None

    @property
    def installer(self) -> Installer:
        """What fills the sandbox's site folder.

        Raises:
            UsageError: The kernel was not started.
            InstallRefused: This engine's sandboxes take no packages.
        """
        if self._installer is None:
            if (site := self._process.site) is None:
                engine = self._process.engine.name
                raise InstallRefused(f"Nothing can be installed into a sandbox of the {engine} engine.")
            self._installer = Installer(
                site,
                target=self._process.target(),
                policy=self._process.spec.install,
                allowance=self._allowance,
            )
            self._installer.tell = self._tell
            if (confirm := self._confirm) is not None:
                self._installer.confirm = lambda packages: self._asking(confirm(packages))
            if (exceed := self._exceed) is not None:
                self._installer.exceed = lambda names, reason: self._asking(exceed(names, reason))
        return self._installer

    @property
    def pins(self) -> dict[str, str]:
        """The versions of what the sandbox has from the start, by normalised name."""
        return read_pins(self._process.target())

    def _tell(self, names: list[str], unknown: list[str]) -> None:
        self._notify(IndexAsked(cell=self._cell(), names=names, unknown=unknown))

    async def _asking(self, asking: Awaitable[None]) -> None:
        """Await a person's answer, and remember for how long."""
        # One at a time: the installer's own lock is held.
        since = self._waiting_since = time.monotonic()
        try:
            await asking
        finally:
            self._waits.append((since, time.monotonic()))
            self._waiting_since = None

    def waited(self, since: float) -> float:
        """Seconds since a moment of the monotonic clock in which an install waited for consent; from any thread."""
        begun = self._waiting_since
        waits = [*self._waits, *([(begun, time.monotonic())] if begun is not None else [])]
        return sum(end - max(start, since) for start, end in waits if end > since)

    async def install(self, requirements: list[str], *, reason: str, by_person: bool = False) -> list[Package]:
        """Install distributions; they are importable after `make_importable`. Those of a person use up no allowance.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """
        work = self.installer.install(requirements, by_person=by_person)
        return await self._add(0, requirements, work, reason=reason)

    async def provide(self, module: str, *, cell: int = 0) -> list[Package]:
        """Install what has a module; importable after `make_importable`.

        Raises:
            InstallRefused: Policy forbids it, or nothing is known to have it.
            InstallError: It failed; the environment is as it was.
        """
        work = self.installer.install_module(module)
        return await self._add(cell, [module], work, reason=f"No module named {module!r}")

    async def install_module(self, cell: int, module: str) -> tuple[list[Package], str]:
        """Install what has the module that a cell lacked; returns what was added, or why nothing was.

        The cell can run again then, under the same count.
        """
        try:
            added = await self.provide(module, cell=cell)
        except InstallError as error:
            return [], f"Not installed: {error}"
        await self.make_importable()
        # The same count: as it will be when the notebook runs again with the package there.
        await self._queries.ask({"count": _UNCOUNT}, seconds=SECONDS)
        return added, ""

    async def make_importable(self) -> None:
        """Have the kernel look again at what there is to import."""
        await self._queries.ask({"seen": _INVALIDATE}, seconds=SECONDS)

    def serve(self, loop: asyncio.AbstractEventLoop) -> InstallHook:
        """What answers `%pip install` in a cell: called on the sandbox's own thread, it works on this loop."""

        def install(wanted: list[str]) -> list[dict[str, Any]]:
            work = self._add(self._cell(), wanted, self.installer.install(wanted), reason="%pip install")
            installing, started = asyncio.run_coroutine_threadsafe(work, loop), time.monotonic()
            while not wait([installing], timeout=TICK).done:
                # A person may take their time.
                if time.monotonic() - started - self.waited(started) > SERVE_SECONDS:
                    installing.cancel()
            added = installing.result()
            return [{"name": each.name, "version": each.version} for each in added]

        return install

    async def _add(self, cell: int, asked: list[str], work: Awaitable[list[Package]], *, reason: str) -> list[Package]:
        """Await an install, and tell how it went."""
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
