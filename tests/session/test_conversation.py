"""What the model is told of a session; what it does with that is shown by the session's own tests."""

from __future__ import annotations

import pytest

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.session.conversation import reachable_hosts


@pytest.mark.parametrize(
    ("level", "hosts", "ask", "told"),
    [
        ("isolated", None, True, ()),
        ("trusted", None, False, None),
        ("sandboxed", ["example.org"], False, ("example.org",)),
        ("sandboxed", ["example.org"], True, ("example.org", "what a person allows when the code asks for it")),
        ("sandboxed", [], False, ()),
    ],
)
def test_the_model_is_told_which_hosts_there_are(
    level: str, hosts: list[str] | None, ask: bool, told: tuple[str, ...] | None
) -> None:
    """None of them, those of the list, whom a person lets in besides, or all."""
    trust = trust_for(TrustLevel.parse(level), security={} if hosts is None else {"allowed_hosts": hosts})
    assert reachable_hosts(trust, ask_hosts=ask) == told
