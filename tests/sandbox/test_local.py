"""The engine that isolates nothing: there the attacks succeed, which shows that they are attacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sandbox.conftest import Attacked

from nbagent.core.errors import UsageError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.faces.selfcheck.check import PROBES
from nbagent.faces.selfcheck.probe import Probe, ProbeVerdict
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


NEED_ROOT = frozenset({
    "become_root", "change_settings_of_linux", "connect_to_engine_sockets", "gain_by_setuid_program", "make_a_device",
    "open_control_groups", "open_devices", "open_switches", "pin_memory", "ping", "read_memory_of_linux",
    "take_memory_by_pipes", "take_precedence", "type_into_a_terminal",
})  # fmt: skip
"""Attacks that Linux itself keeps an ordinary user from, without any sandbox."""
_ROOT = pytest.mark.needs("root")


@pytest.mark.parametrize(
    "probe", [pytest.param(each, id=each.name, marks=[_ROOT] * (each.name in NEED_ROOT)) for each in PROBES]
)
async def test_an_attack_succeeds(attacked: Attacked, probe: Probe) -> None:
    """Each attack that the isolating engines withstand works on a kernel without isolation, or says why it can't."""
    finding = await attacked.finding(engines()["local"], TrustLevel.ISOLATED, probe)
    if not probe.held_anyway:
        assert finding.verdict is ProbeVerdict.BROKEN, finding.seen
    elif finding.verdict is not ProbeVerdict.BROKEN:
        assert finding.verdict is ProbeVerdict.HELD
        assert finding.reason == probe.held_anyway


async def test_it_needs_the_level_trusted() -> None:
    """Nobody gets it without saying that the code is trusted."""
    with pytest.raises(UsageError, match="isolates nothing") as caught:
        await Kernel(engines()["local"], SandboxSpec()).start()
    assert "--trust trusted" in caught.value.mend


async def test_it_says_that_it_enforces_nothing() -> None:
    """Its report is there, and no control of it is enforced."""
    report = engines()["local"].check()
    assert report.available
    assert not engines()["local"].isolates
    assert {each.enforced for each in report.controls} == {False}


async def test_nothing_of_it_is_left(leftovers: Callable[[], list[str]]) -> None:
    """The kernel leads a group of its own, and ends with its process 1 all the same: after a restart, and busy."""
    before = leftovers()
    kernel = Kernel(engines()["local"], SandboxSpec(trust=trust_for(TrustLevel.TRUSTED, timeout=0.5)))
    await kernel.start()
    await kernel.restart()
    assert len(set(leftovers()) - set(before)) > 0
    assert (await kernel.run("import time; time.sleep(60)")).status == "timeout"
    await kernel.stop()
    assert leftovers() == before
