"""What all engines' provisioners share, as far as no engine's own tests show it."""

from __future__ import annotations

import pytest

from nbagent.core.errors import LimitUnenforceable
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec


async def test_a_limit_that_can_t_be_enforced_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without control groups bubblewrap refuses, and each acceptance is for one limit."""
    monkeypatch.setattr(cgroup, "find", lambda: None)
    bubblewrap = engines()["bubblewrap"]
    report = bubblewrap.check()
    assert {each.name for each in report.controls if not each.enforced} == {"memory", "cpu"}
    with pytest.raises(LimitUnenforceable, match="memory") as caught:
        await Kernel(bubblewrap).start()
    assert "--accept memory" in caught.value.mend
    trust = trust_for(TrustLevel.ISOLATED, cpus=0.5)
    with pytest.raises(LimitUnenforceable, match="cpu"):
        await Kernel(bubblewrap, SandboxSpec(trust=trust, accept=frozenset({"memory"}))).start()
