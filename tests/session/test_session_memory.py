"""Conversations that outlive their process: what the model was told is there again, also after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.stub import Provider, Say, python

from nbagent.core.events import Answered
from nbagent.session.manager import SessionManager
from nbagent.session.session import Session
from nbagent.state import StateManager, ThreadMemory

pytestmark = pytest.mark.usefixtures("provider")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider on loopback."""
    stub = Provider()
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    yield stub
    stub.close()


MODEL = "openai:gpt-4.1"


async def test_a_conversation_goes_on_in_another_session(provider: Provider) -> None:
    """With its calls and their results, not only with questions and answers; and with what became of the kernel."""
    async with Session(engine="bubblewrap", model=MODEL) as first:
        provider.say(Say(calls=(python("secret = 4700 + 11; secret"),)), Say(text="It is 4711."))
        await first.ask("What is the secret?")
    async with Session.resumed(first.id, model=MODEL) as second:
        provider.say(Say(text="4711, as I said."))
        await second.ask("And again?")
    sent = provider.sent()
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[2]["content"] == "[result]\n4711"
    assert "lost" in sent[3]["content"], "what became of the kernel is told with the last answer"
    assert sent[4]["content"] == "And again?"


async def test_a_turn_that_was_stopped(provider: Provider) -> None:
    """Is there too, as far as it came, and says that it was stopped."""
    async with Session(engine="bubblewrap", model=MODEL) as first:
        provider.say(Say(text="One."))
        await first.ask("First")
        provider.say(Say(calls=(python("2"),)), Say(text="Two", pause=3))
        asking = asyncio.create_task(first.ask("Second"))
        while len(provider.requests) < 3:
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    async with Session.resumed(first.id, model=MODEL) as second:
        provider.say(Say(text="Three."))
        await second.ask("Third")
    roles = [message["role"] for message in provider.sent()]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert "stopped" in str(provider.sent()[5]["content"])


async def test_words_that_were_written_until_the_stop(provider: Provider, tmp_path: Path) -> None:
    """Stay in the answer and the notebook, marked, and the model knows them: in this process and in the next one."""
    async with Session(engine="bubblewrap", model=MODEL) as first:
        provider.say(Say(text="The mean is 4. The median is 5.", hang=60))
        asking = asyncio.create_task(first.ask("First"))
        heard: list[str] = []
        first.follow_words(lambda _, text: heard.append(text))
        while not heard:
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        stopped = next(each.event for each in first.since() if isinstance(each.event, Answered))
        assert stopped.text == f"Stopped. This much was written, and is not checked:\n\n{''.join(heard).strip()}"
        assert not stopped.success
        provider.say(Say(text="The mean is 4."))
        await first.ask("Second")
        assert "The mean" in str(provider.sent()[1]["content"])
        provider.say(Say(text="The median is 5.", hang=60))
        heard.clear()
        asking = asyncio.create_task(first.ask("Third"))
        while not heard:
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        path = await first.export(tmp_path / "words.ipynb")
    assert "".join(heard).strip() in path.read_text()
    async with Session.resumed(first.id, model=MODEL) as second:
        provider.say(Say(text="On."))
        await second.ask("Go on")
    assert "".join(heard).strip() in str(provider.sent()[5]["content"])


async def test_what_is_removed_is_forgotten(provider: Provider, tmp_path: Path) -> None:
    """An old session's folder goes, and with it what the model was told; one that runs or was used lately stays."""
    async with Session(engine="bubblewrap", model=MODEL, state_dir=tmp_path) as first:
        provider.say(Say(text="One."))
        await first.ask("First")
        manager = SessionManager(state_dir=tmp_path)
        assert await manager.delete_ended(unused=0) == []
    assert await manager.delete_ended(unused=60) == []
    assert [each.id for each in await manager.delete_ended(unused=0)] == [first.id]
    assert await manager.list() == []
    assert not (tmp_path / "sessions" / first.id).exists()
    async with Session(engine="bubblewrap", model=MODEL, session=first.id, state_dir=tmp_path) as second:
        provider.say(Say(text="Two."))
        await second.ask("Second")
    assert [message["content"] for message in provider.sent()] == ["Second"]
    async with StateManager(tmp_path / "shared", session_id=first.id) as state:
        assert await ThreadMemory(state.checkpointer, "never").newest() is None
        assert await ThreadMemory(state.checkpointer, first.id).newest() is not None
        await manager.delete_ended(unused=0)
        assert await ThreadMemory(state.checkpointer, first.id).newest() is None


async def test_two_sessions_do_not_mix(provider: Provider) -> None:
    """Each has its own conversation in the same file."""
    async with Session(engine="bubblewrap", model=MODEL) as one, Session(engine="bubblewrap", model=MODEL) as two:
        for session, text in ((one, "a"), (two, "b")):
            provider.say(Say(text=text))
            await session.ask(f"Question {text}")
    for session, text in ((one, "a"), (two, "b")):
        async with Session.resumed(session.id, model=MODEL) as again:
            provider.say(Say(text="ok"))
            await again.ask("More")
        assert provider.sent()[0]["content"] == f"Question {text}"


async def test_a_conversation_kept_elsewhere_is_found_and_removed_there(provider: Provider, tmp_path: Path) -> None:
    """Where a program named the place of its sessions' conversations itself, and no setting does."""
    url = f"sqlite://{tmp_path}/team.sqlite"
    async with Session(engine="bubblewrap", model=MODEL, state_dir=tmp_path, state_url=url) as first:
        provider.say(Say(text="One."))
        await first.ask("First")
    async with Session.resumed(first.id, model=MODEL, state_dir=tmp_path, state_url=url) as second:
        provider.say(Say(text="Two."))
        await second.ask("Second")
    assert provider.sent()[0]["content"] == "First"
    manager = SessionManager(state_dir=tmp_path, state_url=url)
    await manager.delete(first.id)
    async with StateManager(tmp_path / "shared", url=url, session_id=first.id) as state:
        assert await ThreadMemory(state.checkpointer, first.id).newest() is None
