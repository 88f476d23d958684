"""The engine that isolates nothing: there the attacks succeed, which shows that they are attacks."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox import probes
from sandbox.contract import value

from nbagent.errors import UsageError
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("probe", probes.UNPROTECTED, ids=lambda probe: probe.__name__)
async def test_an_attack_succeeds(unprotected: Kernel, outside: dict[str, Any], probe: probes.Probe) -> None:
    """Each attack that the isolating engines withstand works on a kernel without isolation."""
    found = await value(unprotected, probes.source(probe, outside))
    assert found.get("got"), found


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
