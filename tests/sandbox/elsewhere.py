"""An engine in one file whose kernels are reached over TCP, as those on another machine would be; it isolates nothing.

Nothing but this file knows of it: `test_contract.py` registers it as an installed package would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.connect import write_connection_file

from nbagent.core.errors import SandboxError
from nbagent.packages.requirements import Target
from nbagent.sandbox.channels.endpoint import KINDS, ChannelName
from nbagent.sandbox.channels.socket_channel import SocketChannel
from nbagent.sandbox.contract import About, Control, Engine, EngineReport, Hooks, Sandbox
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.spec import SandboxSpec


class TcpEndpoint:
    """A kernel's ports."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.key = info["key"].encode()
        self.connection_info = info | {"key": self.key}

    def open(self, name: ChannelName, *, limit: int) -> SocketChannel:
        """Open a channel."""
        address = self.connection_info["ip"], self.connection_info[f"{name}_port"]
        return SocketChannel(address, kind=KINDS[name], limit=limit, family=socket.AF_INET)


class Elsewhere(Sandbox):
    """A kernel of this Python, as anybody would start it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="elsewhere-"))
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, spec: SandboxSpec) -> None:
        """Start it, and wait until it listens."""
        del spec
        path, info = write_connection_file(
            str(self._folder / "connection.json"), ip="127.0.0.1", key=secrets.token_hex(16).encode()
        )
        self._endpoint = TcpEndpoint(json.loads(Path(path).read_text()))
        for name in ("output", "workspace"):
            (self._folder / name).mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", path]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=self._folder / "workspace", start_new_session=True, **quiet)
        self.last_exit = None
        for port in (info["shell_port"], info["iopub_port"], info["control_port"]):
            while not _listens(port):
                if self._process.poll() is not None:
                    raise SandboxError("It has ended.")
                await asyncio.sleep(0.02)

    @property
    def endpoint(self) -> TcpEndpoint:
        """The ports of the process that runs."""
        return self._endpoint

    @property
    def about(self) -> About:
        """Its folders are this machine's."""
        output, workspace = str(self._folder / "output"), str(self._folder / "workspace")
        return About(name=self._folder.name, output_folder=output, workspace_folder=workspace, mirrors=False)

    def target(self) -> Target:
        """This Python; what it has from the start is nobody's business here."""
        pins = self._folder / "pins.txt"
        pins.touch()
        return Target(python=platform.python_version(), platform=platform.machine(), pins=pins)

    async def poll(self) -> Exit | None:
        """As Python tells."""
        if self._process is not None and self.last_exit is None and (code := self._process.poll()) is not None:
            self.last_exit = Exit.of_status(code)
        return self.last_exit

    async def signal(self, signum: int) -> None:
        """Send it to the kernel, and to what it has started."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signum)

    async def wait(self) -> Exit:
        """Look until it has ended."""
        while (ended := await self.poll()) is None:
            await asyncio.sleep(0.01)
        return ended

    async def close(self) -> None:
        """Nothing is left."""
        await self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class ElsewhereEngine(Engine):
    """What would be a gateway's address and token."""

    name = "elsewhere"
    title = "Python (elsewhere)"
    isolates = False

    def check(self, *, image: str | None = None) -> EngineReport:
        """Always there."""
        del image
        return EngineReport(available=True, controls=(Control(name="memory", enforced=False, how="nobody's business"),))

    def sandbox(self, hooks: Hooks) -> Elsewhere:
        """Of what a kernel may ask for, this one has nothing."""
        del hooks
        return Elsewhere()


ENGINE = ElsewhereEngine()


def _listens(port: int) -> bool:
    with socket.socket() as probing:
        return probing.connect_ex(("127.0.0.1", port)) == 0
