"""The engine `existing` and what a hostile kernel sends over its heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.sandbox.channels.zmtp import hello
from nbagent.sandbox.engines.existing import ExistingKernel
from nbagent.sandbox.spec import SandboxSpec

FLOOD = """
import socket, sys
sender = socket.socket(fileno=int(sys.argv[1]))
while True:
    sender.sendall(bytes.fromhex(sys.argv[2]) * 100_000)
"""
"""Sends the same bytes for ever, from a process of its own: a thread would share its turns with the reader."""


@contextlib.contextmanager
def heart(folder: Path, flood: bytes) -> Iterator[Path]:
    """The connection file of a kernel whose heart greets, and sends `flood` over and over if there is any."""
    senders: list[subprocess.Popen[bytes]] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            caller, _ = listening.accept()
            kept.append(caller)
            caller.sendall(hello("DEALER"))
            if flood:
                command = [sys.executable, "-c", FLOOD, str(caller.fileno()), flood.hex()]
                senders.append(subprocess.Popen(command, pass_fds=[caller.fileno()], stderr=subprocess.DEVNULL))

    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        ports = dict.fromkeys(("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"), port)
        path = folder / "kernel-1.json"
        path.write_text(json.dumps({"ip": "127.0.0.1", "key": "secret", **ports}))
        path.chmod(0o600)
        serving = threading.Thread(target=serve)
        serving.start()
        yield path
    serving.join()
    for each in senders:
        each.kill()
        each.wait()
    for caller in kept:
        caller.close()


@pytest.mark.parametrize("flood", [b"\0\0", b"\1\0", b"\xff" * 8], ids=["messages", "parts", "nonsense"])
async def test_a_heart_that_talks_is_no_heart(tmp_path: Path, flood: bytes) -> None:
    """The kernel counts as ended, instead of being read for ever or into memory without bound."""
    with heart(tmp_path, flood) as path:
        kernel = ExistingKernel()
        await kernel.start(SandboxSpec(kernel=str(path)))
        try:
            async with asyncio.timeout(30):
                # On an event loop of its own, since the loop here must notice if it is never let go.
                while await asyncio.to_thread(lambda: asyncio.run(kernel.poll())) is None:
                    await asyncio.sleep(0.01)
        finally:
            await kernel.close()


async def test_a_heart_that_is_silent_lives(tmp_path: Path) -> None:
    """As each kernel's is, until it ends."""
    with heart(tmp_path, b"") as path:
        kernel = ExistingKernel()
        await kernel.start(SandboxSpec(kernel=str(path)))
        for _ in range(20):
            assert await kernel.poll() is None
            await asyncio.sleep(0.01)
        await kernel.close()
