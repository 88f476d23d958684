"""The phases of a question; each that begins is an event. Pure.

They are Comprehension, Orchestration, Reasoning and Evaluation (CORE), and then conversation, which is the answer:

    comprehension ─▶ orchestration ─▶ reasoning ─▶ evaluation ─▶ conversation
                                          ▲             │ numbers that stand nowhere
                                          └─────────────┘

None of them costs a request, since they follow from what happens anyway: comprehension reads the question's words,
orchestration begins with the first reply that calls tools, reasoning with the first cell, and evaluation when an
answer is checked. A question that needs no tools goes from comprehension to evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nbagent.core.events import Claim, DataSeen, Event, McpToolsSelected, ModelReplied, Phase, PhaseEntered
from nbagent.mcp.capabilities import needs_of

NAMED = 8
"""Files, tools or numbers that an event names."""


class Phases:
    """The phases of one question."""

    def __init__(self, turn: int, emit: Callable[[Event], object]) -> None:
        self._turn = turn
        self._emit = emit
        self._now: Phase | None = None

    def comprehend(self, question: str, data: Sequence[DataSeen]) -> None:
        """Enter comprehension: find the data that the question names, and the capabilities that its words need."""
        words = question.casefold()
        named = [each.path for each in data if _stem(each.path) in words]
        needs = needs_of(question).wanted
        facts = [f"data: {_some(named or [each.path for each in data])}"] if data else []
        facts += [f"needs: {_some(needs)}"] if needs else []
        self._enter("comprehension", "; ".join(facts))

    def on_event(self, event: Event) -> None:
        """Enter orchestration if an event shows that tools are chosen or called."""
        match event:
            case McpToolsSelected(tools=tools) if tools and self._now == "comprehension":
                self._enter("orchestration", f"tools of other programs: {_some(tools)}")
            case ModelReplied(tools=tools) if tools and self._now == "comprehension":
                self._enter("orchestration", f"tools: {_some(tools)}")

    def reason(self, tool: str) -> None:
        """Enter reasoning, when code is about to run."""
        if self._now != "reasoning":
            self._enter("reasoning", f"by {tool}")

    def evaluate(self, claims: Sequence[Claim], *, sent_back: bool) -> None:
        """Enter evaluation, when an answer was checked."""
        missing = [each.text for each in claims if not each.supported]
        facts = f"{len(claims)} numbers, unsupported: {_some(missing)}" if missing else f"{len(claims)} numbers"
        self._enter("evaluation", f"{facts}; sent back" if sent_back else facts, sent_back=sent_back)
        if sent_back:
            self._now = "comprehension"

    def converse(self) -> None:
        """Enter conversation, when the answer is given."""
        self._enter("conversation", "")

    def _enter(self, phase: Phase, facts: str, *, sent_back: bool = False) -> None:
        self._now = phase
        self._emit(PhaseEntered(turn=self._turn, phase=phase, text=facts, sent_back=sent_back))


def _stem(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2].casefold()
    return name.rpartition(".")[0] or name


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
