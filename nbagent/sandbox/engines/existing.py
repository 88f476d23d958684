"""The engine `existing`: a kernel that somebody else started and runs already, by its connection file.

It may be anybody's ipykernel, which runs as the person and is not isolated, or the kernel of a sandbox that another
program started by one of nbagent's kernelspecs; the sandbox's lease says so. nbagent connects to it as one more client.
It interrupts its own cells, and neither ends nor restarts the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from nbagent.core.errors import SandboxError, UsageError
from nbagent.core.policy import TRUST_PRESETS, Trust, TrustLevel
from nbagent.packages.requirements import Target
from nbagent.sandbox import connection_file, environment
from nbagent.sandbox.channels.byte_stream import ByteStream
from nbagent.sandbox.channels.socket_channel import SocketChannel
from nbagent.sandbox.channels.zmtp import BreachError
from nbagent.sandbox.connection_file import KernelAddress
from nbagent.sandbox.contract import About, Engine, EngineReport, Hooks, Sandbox
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.leases import lease, scratch
from nbagent.sandbox.leases.lease import LeaseTerms
from nbagent.sandbox.paths import OUTPUT, RUN, WORKSPACE
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

BACK_SECONDS: Final = 10.0
"""Seconds in which a kernel that ended must be back, as one is that Jupyter restarts."""
STARTING_SECONDS: Final = 10.0
"""Seconds from the time of its connection file, which is written first, in which a kernel must have started."""
LOOK_SECONDS: Final = 0.1
NOT_ISOLATED: Final = "not isolated: this kernel runs as you"
STRICTNESS: Final = tuple(TrustLevel)
Version = Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-Za-z.+!_-]{1,60}\Z")]


class KernelFacts(msgspec.Struct):
    """What the kernel says of itself.

    Attributes:
        python: The version of its Python.
        platform: Its machine and C library.
        packages: The versions of its packages, by name.
    """

    python: Annotated[str, msgspec.Meta(pattern=r"\A3(\.[0-9]{1,4}){1,2}\Z")]
    platform: Version
    packages: Annotated[dict[str, str], msgspec.Meta(max_length=5000)] = {}


class Existing(Engine):
    """Kernels that run already."""

    name = "existing"
    title = "Python 3 (ipykernel)"
    isolates = False
    owns = False

    def check(self, *, image: str | None = None) -> EngineReport:
        """Always there; what a kernel enforces is found out from its connection file."""
        del image
        return EngineReport(available=True)

    def sandbox(self, hooks: Hooks) -> ExistingKernel:
        """A kernel that is not connected to yet. It asks whoever started it for packages, so there are no hooks."""
        del hooks
        return ExistingKernel()

    def adapted(self, spec: SandboxSpec, *, strict: bool) -> SandboxSpec:
        """The spec with the trust level that the kernel has."""
        if not spec.kernel:
            raise UsageError("The engine existing needs a kernel that runs.", mend="Name its file: --kernel FILE.")
        if spec.data:
            raise UsageError(
                "A kernel that runs already is shown no more data.",
                mend="Leave out --data, and name the files in the question by their paths in the kernel.",
            )
        terms = _lease_of(connection_file.read(Path(spec.kernel)))[1]
        trust = _trust(spec, terms)
        if strict and STRICTNESS.index(trust.level) < STRICTNESS.index(spec.trust.level):
            told = f"is {trust.level} only" if terms else "is not isolated: it runs as you"
            raise UsageError(
                f"You asked for the trust level {spec.trust.level}, and this kernel {told}.",
                mend=f"Say --trust {trust.level}, or leave out --kernel, so that a sandbox is started.",
            )
        return replace(spec, trust=trust, install=trust.narrow(spec.install), keep=0.0)

    @property
    def kernel_name(self) -> str:
        """The kernelspec of Jupyter's own Python kernel."""
        return "python3"


def _left_to_start(file: Path) -> float:
    """Seconds that a kernel with this connection file still has to begin to listen."""
    with contextlib.suppress(OSError):
        return min(STARTING_SECONDS, max(0.0, file.stat().st_mtime + STARTING_SECONDS - time.time()))
    return 0.0


ENGINE = Existing()


class ExistingKernel(Sandbox):
    """The connection to one kernel, over the restarts that its owner makes."""

    def __init__(self) -> None:
        self._spec = SandboxSpec()
        self._address: KernelAddress | None = None
        self._folder: Path | None = None
        self._terms: LeaseTerms | None = None
        self._own: Path | None = None
        self._beat: SocketChannel | None = None
        self._said: KernelFacts | None = None

    # -- its life -----------------------------------------------------------------------------------------------

    async def start(self, spec: SandboxSpec) -> None:
        """Connect to its heartbeat; again, once its owner has restarted it."""
        if (again := self._address is not None) and not Path(spec.kernel).exists():
            # Who restarts a kernel leaves its file there; who shuts it down removes it.
            raise SandboxError(
                "The kernel in which this session ran was shut down.",
                mend="Begin a new session; its answers can still be read here.",
            )
        self._spec, self.last_exit = spec, None
        end = time.monotonic() + (BACK_SECONDS if again else _left_to_start(Path(spec.kernel)))
        while True:
            with contextlib.suppress(UsageError) if again and time.monotonic() < end else contextlib.nullcontext():
                self._address = connection_file.read(Path(spec.kernel))
                self._folder, self._terms = _lease_of(self._address)
                self._beat = await asyncio.to_thread(self.endpoint.beat)
                if self._beat.is_open:
                    break
            if time.monotonic() >= end:
                raise SandboxError(
                    f"The kernel of {spec.kernel} doesn't run.",
                    mend="Start it again where it was started; a notebook shows its connection file by %connect_info.",
                )
            await asyncio.sleep(LOOK_SECONDS)
        if self._terms is None and self._own is None:
            self._own = Path(tempfile.mkdtemp(prefix="nbagent-kernel-"))
            for name in ("output", "workspace"):
                (self._own / name).mkdir()

    async def poll(self) -> Exit | None:
        """None while it keeps the connection to its heartbeat open."""
        if self._beat is None:
            return Exit(None)
        try:
            while self._beat.fill():
                # It is asked nothing, so it says nothing: one that does would be read for ever.
                if next(self._beat.messages(), None) is not None:
                    self._beat.close()
        except BreachError:
            self._beat.close()
        if not self._beat.is_open:
            self.last_exit = Exit(None)
        return self.last_exit

    async def signal(self, signum: int) -> None:
        """Nothing: interrupts travel as messages, and it is not nbagent's to end."""

    async def wait(self) -> Exit:
        """Let go of it."""
        if self._beat is not None:
            self._beat.close()
            self._beat = None
        return Exit(None)

    async def close(self) -> None:
        """Let go of it, and remove the folders that nbagent made for it."""
        await self.wait()
        if self._own is not None:
            await asyncio.to_thread(shutil.rmtree, self._own, ignore_errors=True)
            self._own = None

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> KernelAddress:
        """The address in its connection file."""
        assert self._address is not None  # noqa: S101 - `start` has read it
        return self._address

    @property
    def about(self) -> About:
        """In a sandbox of nbagent's, that sandbox's folders; else temporary ones."""
        if self._folder is not None and self._terms is not None:
            return About(
                name=self._folder.name,
                environment=self._terms.environment,
                isolation=f"in a sandbox of the {self._terms.engine} engine, {self._terms.spec.trust.level}, which "
                "another program started",
                kernel_name=engines()[self._terms.engine].kernel_name,
            )
        return About(
            name=Path(self._spec.kernel).stem,
            output_folder=str(self._own / "output") if self._own else OUTPUT,
            workspace_folder=str(self._own / "workspace") if self._own else WORKSPACE,
            mirrors=False,
            isolation=NOT_ISOLATED,
        )

    def learn(self, said: object) -> None:
        """Take in its Python and its packages."""
        try:
            self._said = msgspec.convert(said, KernelFacts)
        except msgspec.ValidationError:
            raise SandboxError(
                f"The kernel of {self._spec.kernel} doesn't say which Python it is.",
                mend="Name a kernel of ipykernel's.",
            ) from None
        if self._own is not None:
            (self._own / "pins.txt").write_text("\n".join(_pins(self._said.packages)) + "\n")

    def target(self) -> Target:
        """The Python that its sandbox's lease names, else the one that the kernel names."""
        if self._terms is not None and self._terms.python:
            terms = self._terms
            return Target(python=terms.python, platform=terms.platform, pins=environment.requirements())
        if self._said is None or self._own is None:
            raise SandboxError(f"It isn't known which Python the kernel of {self._spec.kernel} has.")
        return Target(python=self._said.python, platform=self._said.platform, pins=self._own / "pins.txt")

    @property
    def site(self) -> Path | None:
        """The folder of packages of its sandbox."""
        return scratch.site(Path(self._terms.scratch)) if self._terms is not None else None

    def byte_stream(self) -> ByteStream | None:
        """A socket in the folder that its sandbox sees."""
        return ByteStream(self._folder / "in", RUN) if self._folder is not None else None


def _lease_of(address: KernelAddress) -> tuple[Path, LeaseTerms] | tuple[None, None]:
    """The lease of the sandbox that a kernel is in, and its folder; nothing for a kernel without isolation."""
    folder = Path(address.ip).parent
    if address.transport == "ipc" and folder.parent == lease.runtime_root():
        terms = lease.read_terms(folder)
        if terms is not None and terms.key == address.secret:
            engine = engines().get(terms.engine)
            if engine is not None and engine.isolates:
                return folder, terms
    return None, None


def _trust(spec: SandboxSpec, terms: LeaseTerms | None) -> Trust:
    """The trust level of a kernel, with its sandbox's limits on resources and the session's own on time and disk."""
    own = spec.trust.limits
    if terms is None:
        return replace(TRUST_PRESETS[TrustLevel.TRUSTED], limits=own)
    has = terms.spec.trust
    limits = replace(
        own, memory_mb=has.limits.memory_mb, cpus=has.limits.cpus, pids=has.limits.pids, tmp_mb=has.limits.tmp_mb
    )
    return replace(has, limits=limits)


def _pins(packages: dict[str, Any]) -> Iterator[str]:
    """The lines of a requirements file; what can't be one is left out."""
    for name, version in sorted(packages.items()):
        line = f"{name}=={version}"
        if re.fullmatch(r"[A-Za-z0-9._-]{1,100}==[A-Za-z0-9.+!_-]{1,60}", line):
            yield line
