"""How soon the truth is told after trouble, on both engines."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.conftest import at
from sandbox.inner import sandbox_of

from nbagent.core.events import Event, OutputAdded
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

Say = Callable[..., None]
ROUNDS = 9
IGNORE = {
    "swallows it": "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt: pass",
    "C holds the lock": "sum(range(10**15))",
}


@pytest.fixture(params=("bubblewrap", "docker"))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that isolates."""
    return engines()[request.param]


class Told:
    """When it was told that the kernel died."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, OutputAdded) and event.output.get("ename") == "KernelDied":
            self.at = time.monotonic()


def kernel_process(process: int) -> int:
    """The kernel's own process on the host, below one of the sandbox's."""
    found = process
    while children := Path(f"/proc/{found}/task/{found}/children").read_text().split():
        found = int(children[0])
    return found


def first_process(kernel: Kernel) -> int:
    """A process of the sandbox's, on the host."""
    instance: Any = sandbox_of(kernel).instance
    if kernel.engine.name == "bubblewrap":
        return int(instance._process.pid)
    from nbagent.sandbox.engines import daemon

    return int(daemon.shared().inspect_container(instance.id)["State"]["Pid"])


def test_a_killed_kernel_is_named(engine: Engine, say: Say, benchmark: Any) -> None:
    """From SIGKILL of the kernel to the cell's own error, the new kernel not counted."""

    async def measure() -> list[float]:
        told, found = Told(), []
        async with Kernel(engine, notify=told) as kernel:
            for _ in range(ROUNDS):
                await kernel.run("1")
                running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
                await asyncio.sleep(0.3)
                killed = time.monotonic()
                os.kill(kernel_process(first_process(kernel)), signal.SIGKILL)
                assert "SIGKILL" in (await running).note
                found.append(told.at - killed)
        return found

    found = benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say(f"SIGKILL of the kernel named, {engine.name}, median", at(found, 0.5), limit=1, unit="s")
    say(f"SIGKILL of the kernel named, {engine.name}, worst of {ROUNDS}", max(found), limit=5, unit="s")


@pytest.mark.parametrize("how", IGNORE)
def test_an_ignored_timeout_ends(engine: Engine, how: str, say: Say, benchmark: Any) -> None:
    """From the end of grace to the cell's own error, for code that ignores the interrupt."""
    timeout, grace = 0.5, 0.5

    async def measure() -> list[float]:
        told, found = Told(), []
        trust = trust_for(TrustLevel.ISOLATED, timeout=timeout, grace=grace)
        async with Kernel(engine, SandboxSpec(trust=trust), notify=told) as kernel:
            for _ in range(3):
                await kernel.run("1")
                started = time.monotonic()
                assert (await kernel.run(IGNORE[how])).status == "timeout"
                found.append(told.at - started - timeout - grace)
        return found

    found = benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say(f"ignored timeout, {engine.name}, {how}, after grace", at(found, 0.5), limit=1, unit="s")
