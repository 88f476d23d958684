"""What an agent is to be, out of what was given and the settings."""

from __future__ import annotations

import pytest

from nbagent.agent.agent_options import AgentOptions
from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.options import Options
from nbagent.core.settings import override


def test_the_budget_of_the_settings_holds_for_what_is_not_named() -> None:
    """An option for one kind lifts no other; a `Budget` is taken as it is."""
    own = override(Options(), budget="2usd, 50steps")
    assert AgentOptions.of(own).budget == Budget(money=2, steps=50)
    assert AgentOptions.of(override(own, budget="10min, 0.5usd")).budget == Budget(money=0.5, minutes=10, steps=50)
    assert AgentOptions.of(override(own, budget=Budget(tokens=5))).budget == Budget(tokens=5)
    assert AgentOptions.of(Options()).budget == Budget(steps=30)


def test_what_is_redacted_is_chosen_before_the_settings() -> None:
    """Secrets, if nothing is said; a word that is none is an error."""
    key, mail = "AKIAIOSFODNN7EXAMPLE", "ann@example.org"
    shown = {None: mail, "pii": "[redacted: email address]", "none": f"{key} {mail}"}
    for what, text in shown.items():
        assert AgentOptions.of(override(Options(), redact=what)).redact(f"{key} {mail}").text.endswith(text)
    assert AgentOptions.of(Options(redact="none")).redact(key).text == key
    assert AgentOptions.of(override(Options(redact="none"), redact="secrets")).redact(key).text == "[redacted: aws key]"
    with pytest.raises(UsageError, match="redact can't be 'all'"):
        AgentOptions.of(override(Options(), redact="all"))


def test_structured_replies_make_no_tools() -> None:
    """Who asks for both is told; tools of the person's settings are just not there."""
    with pytest.raises(UsageError, match="calls no tools"):
        AgentOptions.of(override(Options(), replies="structured", forge=True))
    assert AgentOptions.of(override(Options(forge=True), replies="structured")).replies == "structured"
