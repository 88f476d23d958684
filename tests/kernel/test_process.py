"""How a kernel's process begins, or does not; how it goes to another kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from kernel.shared import short

from nbagent.core.errors import NbagentError, SandboxError, UsageError
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_start_that_hangs_is_an_error(engine: Engine) -> None:
    """A kernel that doesn't answer in time is an error of the sandbox's, and nothing of it is left."""
    with pytest.raises(NbagentError, match=r"did not answer within 0\.01 s\..*NBAGENT_START_TIMEOUT"):
        await Kernel(engine, short(start_timeout=0.01)).start()


async def test_a_start_that_dies_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that ends while it starts is an error with the end of what it said."""
    monkeypatch.setattr("nbagent.sandbox.limits.seccomp.inner_program", lambda **_: b"\xff" * 8)
    with pytest.raises(NbagentError, match="the system call filter was refused"):
        await Kernel(engine).start()


async def test_a_kernel_that_was_not_started_has_no_sandbox_and_can_be_stopped(engine: Engine) -> None:
    """Asking one for its sandbox is an error with the mend; stopping it does nothing."""
    kernel = Kernel(engine)
    with pytest.raises(UsageError, match="not running"):
        _ = kernel.about
    await kernel.stop()


@pytest.mark.parametrize("cancellations", [1, 2, 5])
async def test_a_stop_that_is_cancelled_leaves_nothing(
    engine: Engine, leftovers: Callable[[], list[str]], cancellations: int
) -> None:
    before, kernel = leftovers(), Kernel(engine, short())
    await kernel.start()
    stopping = asyncio.create_task(kernel.stop())
    for _ in range(cancellations):
        await asyncio.sleep(0)
        stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert [each for each in leftovers() if each not in before] == []


async def test_a_process_goes_to_another_kernel(engine: Engine) -> None:
    """Who takes it over has its state and its name, over restarts too; who gave it away can be started once more."""
    spec = replace(short(), late_data=True)
    giver, taker = Kernel(engine, spec), Kernel(engine, replace(spec, owner="somebody"))
    try:
        await giver.start()
        name = giver.id
        assert await giver.evaluate("seen = []\ndef main(): seen.append(1); return seen", []) == [1]
        await taker.start_from(giver, patience=5)
        assert (giver.is_alive, giver.spec.owner, taker.id, taker.spec.owner) == (False, "", name, "somebody")
        assert await taker.evaluate("seen = []\ndef main(): seen.append(1); return seen", []) == [1, 1]
        await giver.stop()
        await taker.restart()
        assert (taker.id, taker.spec.owner) == (name, "somebody")
        await giver.start()
        assert giver.id != name
        assert (await giver.run("1")).text == (await taker.run("1")).text == "1"
    finally:
        await giver.stop()
        await taker.stop()


async def test_a_process_that_is_gone_is_not_handed_over(engine: Engine) -> None:
    """Then both kernels are as they were."""
    spec = replace(short(), late_data=True)
    giver, taker = Kernel(engine, spec), Kernel(engine, spec)
    with pytest.raises(UsageError, match="not running"):
        await taker.start_from(giver, patience=1)
    try:
        await giver.start()
        await giver._process.sandbox.end()
        with pytest.raises(SandboxError):
            await taker.start_from(giver, patience=1)
        assert not taker.is_alive
        assert giver.spec.owner == ""
    finally:
        await giver.stop()
