"""The phases of a question: told as they are entered, and at no further cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbagent.agent.phases import Phases
from nbagent.core.events import Claim, DataSeen, McpToolsSelected, ModelReplied, PhaseEntered
from nbagent.session.session import Session

DATA = [DataSeen("/tmp/data/sales.csv", "/x/sales.csv", 10), DataSeen("/tmp/data/regions.csv", "/x/regions.csv", 10)]


def entered(told: list[Any]) -> list[str]:
    """The phases in order."""
    return [each.phase for each in told if isinstance(each, PhaseEntered)]


def test_what_is_comprehended() -> None:
    """The data that the question names, or all of it, and what its words need."""
    told: list[Any] = []
    Phases(1, told.append).comprehend("Read the file with the sales", DATA)
    assert told == [PhaseEntered(turn=1, phase="comprehension", text="data: /tmp/data/sales.csv; needs: file:read")]
    Phases(1, told.append).comprehend("Hello", DATA)
    assert told[-1].text == "data: /tmp/data/sales.csv, /tmp/data/regions.csv"
    Phases(1, told.append).comprehend("Hello", [])
    assert told[-1].text == ""


def test_a_question_that_is_sent_back_reasons_again() -> None:
    """Each phase is entered once for each time that it is needed."""
    told: list[Any] = []
    phases = Phases(1, told.append)
    phases.comprehend("?", [])
    phases.on_event(McpToolsSelected(tools=["a__b"], confidence=1.0, missing=[], reasons=[]))
    phases.on_event(ModelReplied(turn=1, text="", tools=["python"]))
    phases.reason("python")
    phases.reason("python")
    phases.evaluate([Claim("42"), Claim("7", cell=1, output=0, shown="7")], sent_back=True)
    phases.on_event(ModelReplied(turn=1, text="", tools=["python"]))
    phases.reason("python")
    phases.evaluate([Claim("42", cell=2, output=0, shown="42")], sent_back=False)
    phases.converse()
    assert entered(told) == [
        *("comprehension", "orchestration", "reasoning", "evaluation"),
        *("orchestration", "reasoning", "evaluation", "conversation"),
    ]
    assert told[3].text == "2 numbers, unsupported: 42; sent back"


@pytest.mark.parametrize(
    ("replies", "phases"),
    [
        ([{"content": "Hello."}], ["comprehension", "evaluation", "conversation"]),
        (
            [{"tool_calls": [{"name": "python", "args": {"code": "6 * 7"}}]}, {"content": "42"}],
            ["comprehension", "orchestration", "reasoning", "evaluation", "conversation"],
        ),
    ],
)
async def test_in_a_session(tmp_path: Path, replies: list[dict[str, Any]], phases: list[str]) -> None:
    """A simple question pays for nothing that it doesn't need: there is one call of the model for each reply."""
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(each) + "\n" for each in replies))
    told: list[Any] = []
    async with Session(engine="bubblewrap", model=f"replay:{tmp_path}/r.jsonl") as session:
        session.follow(lambda record: told.append(record.event))
        answer = await session.ask("What is it?")
    assert entered(told) == phases
    assert answer.usage.calls == len(replies)
