"""When a session's model is opened, and what is said of it before."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent.stub import Provider

from nbagent.agent.providers.opener import ModelOpener
from nbagent.core.errors import ModelError


async def test_a_model_is_opened_once(tmp_path: Path) -> None:
    """Whoever asks gets the same one, until it is let go of, which may be done twice."""
    (tmp_path / "r.jsonl").write_text('{"content": "hi"}\n')
    opener = ModelOpener(f" replay:{tmp_path}/r.jsonl")
    assert opener.is_replay
    opener.check()
    model = await opener.open()
    assert model.name == "replay:r.jsonl"
    assert await opener.open() is model
    await opener.aclose()
    await opener.aclose()
    assert await opener.open() is not model
    await opener.aclose()


async def test_a_model_that_was_not_named_is_looked_for_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to complain of before; then it is found where it is served, and has a name."""
    opener = ModelOpener(None)
    opener.check()
    assert not opener.is_replay
    with pytest.raises(ModelError):
        await opener.open()
    with Provider() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        stub.models = ["acme-8b"]
        model = await opener.open()
    assert opener.name == model.name == "openai:acme-8b"
    await opener.aclose()


def test_a_wrong_name_is_told_at_once() -> None:
    """`check` opens nothing, so that it can come before a sandbox is started."""
    with pytest.raises(ModelError, match="nobody"):
        ModelOpener("nobody:x").check()


async def test_a_budget_in_money_needs_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the model, its fallbacks and the critic, before anything is asked; without such a budget nobody cares."""
    with Provider() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        for known, others in (("gpt-4.1", {"fallback": ["openai:acme-8b"]}), ("gpt-4.1", {"critic": "openai:acme-8b"})):
            opener = ModelOpener(f"openai:{known}", priced=True, **others)  # type: ignore[arg-type]  # either of them
            with pytest.raises(ModelError, match="no price for openai:acme-8b"):
                await opener.open()
        opener = ModelOpener("openai:acme-8b")
        assert (await opener.open()).name == "openai:acme-8b"
        await opener.aclose()
        assert stub.requests == []
