"""Approvals of the model's calls, against a provider that speaks the real protocol."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from agent.stub import Kernel, Provider, Say, answer, python

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.approve import ApprovalMiddleware, action_of, typed_words
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.providers.models import open_model
from nbagent.agent.turn import approver
from nbagent.core.budget import Budget
from nbagent.core.events import ApprovalAsked
from nbagent.safety.approvals import Consent, Mode

Decide = Callable[[Consent, ApprovalAsked], object]


class Watched(Kernel):
    """A kernel that notes who approved each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.approvers: list[str] = []

    async def run_cell(self, code: str, *, timeout: float | None = None, tool: str = "python") -> Any:  # noqa: ASYNC109
        """Run a cell."""
        self.approvers.append(approver())
        return await super().run_cell(code, timeout=timeout, tool=tool)


@pytest.fixture
def kernel() -> Watched:
    """A kernel of this process."""
    return Watched()


def agent_of(kernel: Kernel, decide: Decide, mode: Mode = Mode.ASK) -> tuple[Agent, list[Any]]:
    """An agent whose questions are answered as they come, and what was told."""
    told: list[Any] = []

    def emit(event: Any) -> None:
        told.append(event)
        if isinstance(event, ApprovalAsked):
            asyncio.get_running_loop().call_soon(decide, consent, event)

    consent = Consent(mode, emit, attended=True)
    approvals = ApprovalMiddleware(consent)
    model = open_model("openai:gpt-4.1")
    return build_agent(
        model, kernel, system_prompt="You test.", spending=Spending(Budget(steps=8)), approvals=approvals
    ), told


async def ask(agent: Agent) -> str:
    """Ask, for the answer's text."""
    return (await answer(agent, "Go", turn=1)).text


def yes(consent: Consent, event: ApprovalAsked) -> None:
    """Approve everything."""
    consent.answer(event.id, "approve")


async def test_approved(provider: Provider, kernel: Watched) -> None:
    """The cell runs as it was written, under the person's name."""
    provider.say(Say(calls=(python("6 * 7"),)), Say(text="42"))
    agent, told = agent_of(kernel, yes)
    assert await ask(agent) == "42"
    assert (kernel.codes, kernel.approvers) == (["6 * 7"], ["person"])
    assert (told[0].kind, told[0].tool, told[0].code) == ("cell", "python", "6 * 7")


async def test_rejected_with_a_reason(provider: Provider, kernel: Watched) -> None:
    """Nothing runs, and the model reads why."""
    provider.say(Say(calls=(python("rm()"),)), Say(text="Then not."))
    agent, _ = agent_of(kernel, lambda consent, event: consent.answer(event.id, "reject", reason="Too risky."))
    assert await ask(agent) == "Then not."
    assert kernel.codes == []
    assert "Too risky." in provider.sent()[-1]["content"]


async def test_edited(provider: Provider, kernel: Watched) -> None:
    """What the person wrote runs, and the model is told that it isn't what it sent."""
    provider.say(Say(calls=(python("1"),)), Say(text="ok"))
    agent, _ = agent_of(kernel, lambda consent, event: consent.answer(event.id, "edit", code="2 + 3"))
    await ask(agent)
    assert kernel.codes == ["2 + 3"]
    assert "5" in provider.sent()[-1]["content"]
    assert "reviewer" in provider.sent()[-1]["content"]


async def test_each_call_of_a_reply_has_its_own_answer(provider: Provider, kernel: Watched) -> None:
    """They are asked about one after the other, before the first one runs."""
    provider.say(Say(calls=(python("1"), python("2"), python("3"))), Say(text="ok"))
    seen: list[str] = []

    def decide(consent: Consent, event: ApprovalAsked) -> None:
        seen.append(f"{event.code}, {len(kernel.codes)} ran")
        consent.answer(event.id, "reject" if event.code == "2" else "approve")

    agent, _ = agent_of(kernel, decide)
    await ask(agent)
    assert seen == ["1, 0 ran", "2, 0 ran", "3, 0 ran"]
    assert kernel.codes == ["1", "3"]


async def test_always_in_the_middle_of_a_reply(provider: Provider, kernel: Watched) -> None:
    """From then on nobody is asked, about the calls of the same reply neither."""
    provider.say(Say(calls=(python("1"), python("2"))), Say(calls=(python("3"),)), Say(text="ok"))
    agent, told = agent_of(kernel, lambda consent, event: consent.answer(event.id, "approve", always=True))
    await ask(agent)
    assert kernel.codes == ["1", "2", "3"]
    assert kernel.approvers == ["person", "policy:allow-list", "policy:allow-list"]
    assert [each.code for each in told if isinstance(each, ApprovalAsked)] == ["1"]


async def test_only_some_calls_are_asked_about(provider: Provider, kernel: Watched) -> None:
    """In auto-edit cells of Python run, and programs are asked about."""
    provider.say(Say(calls=(python("1"), python("!ls"))), Say(text="ok"))
    agent, told = agent_of(kernel, yes, Mode.AUTO_EDIT)
    await ask(agent)
    assert kernel.approvers == ["policy:auto-edit", "person"]
    assert [each.kind for each in told if isinstance(each, ApprovalAsked)] == ["shell"]


async def test_files_and_programs(provider: Provider, kernel: Watched) -> None:
    """Each has what a person must see; a command is edited as the list that it is."""
    calls = (
        ("sandbox_write_file", json.dumps({"file_path": "/tmp/a.py", "content": "print(1)\n"})),
        ("sandbox_exec", json.dumps({"command": ["python", "/tmp/a.py"]})),
    )
    provider.say(Say(calls=calls), Say(text="ok"))
    asked: list[ApprovalAsked] = []

    def decide(consent: Consent, event: ApprovalAsked) -> None:
        asked.append(event)
        code = "echo 'b c'" if event.tool == "sandbox_exec" else "x = 2\n"
        consent.answer(event.id, "edit", code=code)

    agent, _ = agent_of(kernel, decide)
    await ask(agent)
    assert [(each.kind, each.what) for each in asked] == [("edit", "/tmp/a.py"), ("shell", "python /tmp/a.py")]
    assert kernel.codes[0].endswith("x = 2\n")
    assert "['echo', 'b c']" in kernel.codes[1]


async def test_an_edit_of_a_file_is_seen_whole(provider: Provider, kernel: Watched) -> None:
    """What stood there, and what is to stand there, however long."""
    old, new = "a" * 300, "b" * 300
    arguments = {"file_path": "/tmp/a.py", "old_string": old, "new_string": new}
    provider.say(Say(calls=(("sandbox_edit_file", json.dumps(arguments)),)), Say(text="ok"))
    agent, told = agent_of(kernel, lambda consent, event: consent.answer(event.id, "reject"))
    await ask(agent)
    assert (told[0].what, told[0].code) == (f"/tmp/a.py, in place of '{old}'", new)


async def test_ids_that_come_again(provider: Provider, kernel: Watched) -> None:
    """Some servers count the calls of each reply anew: a program isn't let through under the id of a cell."""
    for code in ("1", "!ls"):
        provider.say(Say(calls=(python(code),), ids=("call_1",)))
    provider.say(Say(text="ok"), Say(calls=(python("!ls"),), ids=("call_1",)), Say(text="ok"))
    agent, told = agent_of(kernel, yes, Mode.AUTO_EDIT)
    await ask(agent)
    await ask(agent)
    assert kernel.approvers == ["policy:auto-edit", "person", "person"]
    assert [each.what for each in told if isinstance(each, ApprovalAsked)] == ["ls", "ls"]


async def test_ids_that_come_twice_in_a_reply(provider: Provider, kernel: Watched) -> None:
    """Neither, and each call gets the answer that was given to it."""
    calls = (python("1"), python("!ls"), python("3"))
    provider.say(Say(calls=calls, ids=("call_1", "call_1", "call_1")), Say(text="ok"))

    def decide(consent: Consent, event: ApprovalAsked) -> None:
        consent.answer(event.id, "edit", code="2")

    agent, told = agent_of(kernel, decide, Mode.AUTO_EDIT)
    await ask(agent)
    assert [each.what for each in told if isinstance(each, ApprovalAsked)] == ["ls"]
    assert kernel.codes == ["1", "2", "3"]


async def test_a_mode_that_changes_during_a_question(provider: Provider, kernel: Watched) -> None:
    """The answer holds all the same: what was rejected doesn't run."""
    provider.say(Say(calls=(python("1"),)), Say(text="ok"))

    def decide(consent: Consent, event: ApprovalAsked) -> None:
        consent.mode = Mode.NEVER_ASK
        consent.answer(event.id, "reject")

    agent, _ = agent_of(kernel, decide)
    await ask(agent)
    assert kernel.codes == []


async def test_what_never_runs_is_not_asked_about(provider: Provider, kernel: Watched) -> None:
    """The tool refuses empty code by itself."""
    provider.say(Say(calls=(python(" "),)), Say(text="ok"))
    agent, told = agent_of(kernel, yes)
    await ask(agent)
    assert (kernel.codes, told) == ([], [])


async def test_a_question_that_is_stopped(provider: Provider, kernel: Watched) -> None:
    """The turn ends, nothing runs, and the next question goes on."""
    provider.say(Say(calls=(python("1"),)), Say(text="Next"))
    waiting = asyncio.Event()
    agent, told = agent_of(kernel, lambda _consent, _event: waiting.set())
    asking = asyncio.create_task(ask(agent))
    await waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert told[-1].by == "policy:stopped"
    assert await ask(agent) == "Next"
    assert kernel.codes == []


async def test_never_ask_costs_nothing(provider: Provider, kernel: Watched) -> None:
    """No question, no event, and the log says which policy it was."""
    provider.say(Say(calls=(python("1"),)), Say(text="ok"))
    agent, told = agent_of(kernel, yes, Mode.NEVER_ASK)
    await ask(agent)
    assert (kernel.approvers, told) == (["policy:never-ask"], [])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git commit -m 'two words'", ["git", "commit", "-m", "two words"]),
        (shlex.join(["grep", "a|b", "*.csv", "$x"]), ["grep", "a|b", "*.csv", "$x"]),
        ("ls | wc -l", ["sh", "-c", "ls | wc -l"]),
        ("cat *.csv", ["sh", "-c", "cat *.csv"]),
        ('echo "$HOME"', ["sh", "-c", 'echo "$HOME"']),
        ("echo 'open", ["sh", "-c", "echo 'open"]),
    ],
)
def test_a_program_is_edited_as_a_person_types_it(line: str, words: list[str]) -> None:
    """Its words are told apart as by a shell, and a shell runs what only a shell understands."""
    assert typed_words(line) == words
    assert action_of("sandbox_exec", {"command": words}, turn=1).code == shlex.join(words)  # type: ignore[union-attr]
