"""The engine `local`: a kernel as a plain process of this Python, without any isolation, for people who ask for that.

It must be named, and needs the trust level `trusted`. Nothing is mounted: code sees data at its place on the host.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from nbagent.core.errors import SandboxError
from nbagent.packages.requirements import Target
from nbagent.sandbox import environment
from nbagent.sandbox.contract import Control, Engine, EngineReport, Hooks
from nbagent.sandbox.machine.handoff import open_output
from nbagent.sandbox.machine.instance import Instance, InstancePlan, ProcessEnd
from nbagent.sandbox.machine.sandbox import MachineSandbox
from nbagent.sandbox.machine.userland import HASH_SEED, changed
from nbagent.sandbox.spec import SandboxSpec

CONTROLS = (
    *("network", "egress", "files", "processes", "user", "system calls", "commands"),
    *("memory", "cpu", "pids", "tmp"),
)
_CONTROLS = tuple(Control(name=each, enforced=False, how="") for each in CONTROLS)


class Local(Engine):
    """A process like any other."""

    name = "local"
    title = "Python (not sandboxed)"
    isolates = False

    def sandbox(self, hooks: Hooks) -> MachineSandbox:
        return MachineSandbox(self.name, Process(), hooks)

    def check(self, *, image: str | None = None) -> EngineReport:  # noqa: ARG002 - an engine without images
        """Always there, and enforces nothing."""
        return EngineReport(available=True, controls=_CONTROLS)


ENGINE = Local()


class Process(Instance):
    """A kernel without isolation."""

    mirrors: ClassVar[bool] = False
    _process: subprocess.Popen[bytes] | None = None

    def users(self) -> None:
        """None: the kernel runs as whoever starts it, even as root."""

    def inside(self, plan: InstancePlan) -> dict[str, Any]:
        """Folders of the host, and no filter."""
        output, workspace = self.folders(plan.scratch)
        return {
            "uid": None,
            "folders": [workspace, output],
            "cwd": workspace,
            "fonts": "",
            "path": [str(plan.site)],
            "filter": "",
            "proxy": None,
        }

    def controls(self, spec: SandboxSpec) -> tuple[Control, ...]:  # noqa: ARG002 - the interface's
        """The restrictions on commands and egress, neither enforced; the others are not for trusted code."""
        return tuple(each for each in _CONTROLS if each.name in ("commands", "egress"))

    async def start(self, plan: InstancePlan) -> None:
        try:
            output = open_output(plan.lease.folder)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, str(plan.shared / "inside.py"), str(plan.shared / "controller.sock")],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env=changed({**os.environ, "PYTHONHASHSEED": HASH_SEED}, plan.spec.variables),
                )
            finally:
                os.close(output)
        except OSError as error:
            raise SandboxError(f"A local kernel can't be started: {error}.") from error

    async def take_over(self, plan: InstancePlan) -> None:  # noqa: ARG002 - the interface's
        """Refuse: the process ends with its controller."""
        raise SandboxError("A local kernel can't be taken over.")

    def poll(self) -> ProcessEnd | None:
        code = self._process.poll() if self._process else 0
        return None if code is None else ProcessEnd(code)

    async def signal(self, signum: int) -> None:
        """Send it to process 1, which passes it on; SIGKILL to the kernel too."""
        if self._process is None or self._process.poll() is not None:
            return
        # Process 1 can't pass this one on, and the kernel leads a process group of its own.
        for group in _children(self._process.pid) if signum == signal.SIGKILL else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signum)
        os.killpg(self._process.pid, signum)

    async def clean(self) -> None:
        await self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    @property
    def environment(self) -> str:
        """Empty: this Python's packages are not nbagent's, and may change at any time."""
        return ""

    def folders(self, scratch: Path) -> tuple[str, str]:
        return str(scratch / "output"), str(scratch / "workspace")

    def target(self) -> Target:
        """This Python. Its own packages come first on the path, so nothing of them is replaced."""
        where = environment.host_platform()
        return Target(python=platform.python_version(), platform=where, pins=environment.requirements())


def _children(pid: int) -> list[int]:
    """The children of a process."""
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
