"""A controller in a process of its own, that can be killed without a word."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nbagent.sandbox.leases import lease

SCRIPT = """
import asyncio, json, sys
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

async def main(engine, keep, code):
    kernel = Kernel(engines()[engine], SandboxSpec(keep=keep, owner="of-the-dead"))
    await kernel.start()
    cell = await kernel.run(code)
    assert cell.success, cell.outputs
    print(json.dumps(str(kernel.about.folder)), flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
"""


@contextlib.contextmanager
def controller(engine: str, *, keep: float, code: str = "x = 42") -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a sandbox in which code ran, and the folder of its lease; killed at the end at the latest."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, engine, str(keep), code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(json.loads(process.stdout.readline()))
        finally:
            process.kill()


def abandoned_sandbox(engine: str, *, keep: float, code: str = "x = 42") -> Path:
    """The folder of a sandbox whose controller was killed."""
    with controller(engine, keep=keep, code=code) as (_, folder):
        pass
    assert lease.abandoned(folder)
    return folder
