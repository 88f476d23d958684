"""No isolation at all: a kernel as a plain process of this Python, for people who ask for just that.

It is never chosen by itself, and needs the trust level `trusted`. Nothing is mounted: data is where it lies.
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

from nbagent.errors import SandboxError, UsageError
from nbagent.packages import installer
from nbagent.policy import TrustLevel
from nbagent.sandbox.base import SandboxProvisioner
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.engine import Control, Engine, Report
from nbagent.sandbox.environment import environment
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.handoff import Handoff, open_output
from nbagent.sandbox.leases.lease import Lease

CONTROLS = (
    *("network", "egress", "files", "processes", "user", "system calls", "commands"),
    *("memory", "cpu", "pids", "tmp"),
)
_CONTROLS = tuple(Control(name=each, enforced=False, how="") for each in CONTROLS)


class Local(Engine):
    """A process like any other."""

    name = "local"
    isolates = False

    def check(self, *, image: str | None = None) -> Report:  # noqa: ARG002 - an engine without images
        """Always there, and enforces nothing."""
        return Report(available=True, controls=_CONTROLS)


ENGINE = Local()


class LocalProvisioner(SandboxProvisioner):
    """A kernel without isolation."""

    engine: ClassVar[str] = "local"
    mirrors: ClassVar[bool] = False
    _process: subprocess.Popen[bytes] | None = None

    def _name_user(self) -> None:
        """It runs as whoever starts it, root included."""

    def _inside(self) -> dict[str, Any]:
        folders = [self.workspace_folder, self.output_folder]
        return {
            **super()._inside(),
            "uid": None,
            "folders": folders,
            "cwd": folders[0],
            "fonts": "",
            "path": [str(self.site)],
            "filter": "",
            "proxy": None,
        }

    def _sees_commands(self) -> bool:
        return False

    def controls(self) -> tuple[Control, ...]:
        """Of what a person may demand of code that they trust, nothing."""
        if self.spec.trust.level is not TrustLevel.TRUSTED:
            raise UsageError("The local engine isolates nothing.", mend="Say so with --trust trusted.")
        return tuple(each for each in _CONTROLS if each.name in ("commands", "egress"))

    async def _start(self, handoff: Handoff) -> None:
        try:
            output = open_output(handoff.folder)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, str(handoff.shared / "inside.py"), str(handoff.shared / "host.sock")],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            finally:
                os.close(output)
        except OSError as error:
            raise SandboxError(f"A local kernel can't be started: {error}.") from error

    async def _take_over(self, lease: Lease) -> None:  # noqa: ARG002 - the interface's
        raise SandboxError("A local kernel can't be taken over.")

    def _poll(self) -> Exit | None:
        code = self._process.poll() if self._process else 0
        return None if code is None else Exit(code)

    async def _stop(self, signum: int) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        # Any other signal is passed on; of this one process 1 hears nothing, and the kernel leads a group of its own.
        for group in _children(self._process.pid) if signum == signal.SIGKILL else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signum)
        os.killpg(self._process.pid, signum)

    async def _clean(self) -> None:
        await self._stop(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    @property
    def environment_digest(self) -> str:
        """Nothing is known of it."""
        return ""

    @property
    def output_folder(self) -> str:
        """In the session's own scratch folder."""
        return str(self.scratch / "output")

    @property
    def workspace_folder(self) -> str:
        """Likewise."""
        return str(self.scratch / "workspace")

    def data_path(self, mount: Mount) -> str:
        """Where it lies."""
        return str(mount.source)

    def target(self) -> installer.Target:
        """This Python. Its own packages come first on the path, so nothing of them is replaced."""
        where = environment.host_platform()
        return installer.Target(python=platform.python_version(), platform=where, pins=environment.requirements())


def _children(pid: int) -> list[int]:
    """The processes that a process has started, and that are there."""
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
