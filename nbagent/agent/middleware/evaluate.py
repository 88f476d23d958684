"""Middleware that looks at an answer before the person sees it.

An answer some of whose numbers stand in no output is sent back to the model. One that stands may be checked: the model
computes its numbers a second time, from the data, and where an output shows all of them again, the answer is the
person's without another request. A recorded model is asked again only where the recording was.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from langchain.agents import AgentState
from langchain.agents.middleware import ModelRequest, ModelResponse, hook_config
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from nbagent.agent.claims import REST, UNCHECKED, claims
from nbagent.agent.main_results import numbers_to_check
from nbagent.agent.messages.answer_text import clean_answer
from nbagent.agent.messages.asides import aside, is_aside, is_question
from nbagent.agent.messages.reply import REQUESTS, text_of
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.names import reused
from nbagent.agent.numerals import numerals
from nbagent.agent.ports import SessionPort
from nbagent.agent.providers.models import Model
from nbagent.agent.providers.replay import ReplayModel
from nbagent.agent.turn import Turn
from nbagent.core.concurrency import in_thread
from nbagent.core.errors import contained
from nbagent.core.events import Cell, Claim

ROUNDS: Final = 2
"""How often one answer is sent back by default."""
ASKED: Final = 2
"""How often a cell is asked for by which an answer is checked."""
NAMED: Final = 12
"""Missing numbers that the model is told."""
ASK = (
    "[nbagent, before the person sees your answer] {numbers} What code merely prints, and what the description of the "
    "data says, doesn't count. Run a cell that computes and prints them in the unit and rounding of your answer, and "
    "answer again; or, if they are wrong or can't be found out, answer without them. What is general knowledge, such "
    "as a definition, may stay. Reply with the whole answer, and don't mention this message."
)
SHOWN_NOWHERE = "These numbers stand in no output of a cell: {}."
WRITTEN = (
    "These seem to stand in an output only because your code contains them: {}. Compute them from the files in a new "
    "cell that neither contains them nor uses a variable made from them."
)
CHECK = (
    "[nbagent, before the person sees your answer] Check it: compute {numbers} a second time, with the names and "
    "dates that belong to them, in one new cell, from the files of the data. Go another way than before, use no "
    "variable of earlier cells, and print the results in the unit and rounding of your answer. If all comes out the "
    "same, reply `The same.`: your answer stands as it is. If something else comes out, find out which is right, and "
    "reply with the whole answer. Don't mention this message."
)
UNCHECKED_SAME = (
    "[nbagent, before the person sees your answer] No cell has run since you were asked to check your answer. Compute "
    "{numbers} a second time, in one new cell, from the files of the data; then reply."
)
_SAME = re.compile(r"\W*(?:all )?the same\W*", re.IGNORECASE)
"""The reply that leaves an answer as it is."""
_LISTS = re.compile(
    r"glob|iterdir|listdir|scandir|\bwalk\(|\*\.[A-Za-z]|/\*|\bf[\"'][^\"'\n{]*+\{[^\"'\n]*\.\w{2,7}[\"']"
)
"""Code that reads whichever files there are, or makes their names."""
_READS = re.compile(r"(?m)\b(?:read|scan|open|load|genfrom|connect|execute|query|sql)|File\b|^[^\S\n]*+(?:!|%%)")
"""Code that may read a file."""
_MISTAKES = frozenset(
    "NameError SyntaxError IndentationError ImportError ModuleNotFoundError AttributeError KeyError TypeError "
    "FileNotFoundError ColumnNotFoundError".split()
)
"""Errors of code that has compared nothing yet."""


class Numbers:
    """Looks for the numbers of an answer in the outputs of the session.

    Args:
        session: The session.
        facts: What is counted of its data beforehand, such as `37 columns`, and no claim of an answer.
    """

    def __init__(self, session: SessionPort, facts: Collection[str] = ()) -> None:
        self._session = session
        self._facts = facts
        self._last: tuple[tuple[object, ...], list[Claim]] = ((), [])  # of one question

    async def claims(self, text: str, turn: Turn) -> list[Claim]:
        """The claims of an answer, without the numbers of the questions and the code's parameters.

        What the cells of a check show again is linked to the cell that showed it first, and the turn gets the names of
        earlier cells that they use. Hostile outputs can make this take seconds, so it is done in a thread.
        """
        seen = self._session.evidence()
        checking = {cell.cell: cell.success for cell in turn.check_cells}
        key = turn, text, len(seen.outputs), len(checking)
        if self._last[0] == key:
            return self._last[1]  # `Evaluation` has asked for it a moment ago

        def find(cells: Collection[int]) -> list[Claim]:
            return claims(
                text,
                seen.outputs,
                given=seen.given,
                notes=seen.notes,
                code=seen.code,
                data=seen.has_data,
                names=seen.names,
                facts=self._facts,
                within=cells,
            )

        def find_all() -> list[Claim]:
            found = find(seen.outputs)
            if not checking:
                return found
            before = find(seen.outputs.keys() - checking.keys())
            first = {each.text: each for each in before if each.cell or each.derived}
            again = {each.text: each.cell for each in find([cell for cell, success in checking.items() if success])}
            earlier = [code for cell, code in seen.code.items() if cell not in checking]
            turn.reused = reused([cell.code for cell in turn.check_cells], earlier)
            return [
                # What was derived is found by a cell, if the check computes it.
                msgspec.structs.replace(kept if kept.cell else each, again=again.get(each.text, 0))
                if (kept := first.get(each.text))
                else each
                for each in found
            ]

        found = [UNCHECKED]
        with contained("The numbers of an answer were not looked for in the outputs"):
            found = await in_thread(find_all)
        self._last = key, found
        return found

    async def checkable(self, text: str, turn: Turn) -> list[Claim]:
        """The claims that the model can mend: all but those that nbagent did not check."""
        return [claim for claim in await self.claims(text, turn) if claim not in (UNCHECKED, REST)]


async def reads_several(turn: Turn, paths: Sequence[str], ran: Mapping[int, str]) -> bool:
    """Whether a question was answered from several files: by cells that read, and don't name just one of them.

    Hostile code can make this take seconds, so it is done in a thread.

    Args:
        turn: The question.
        paths: The files.
        ran: The code of all cells by their number; of those before, what they read counts if it is used again.
    """
    own = {cell.cell: cell.code for cell in turn.cells}
    earlier = [ran[cell] for cell in sorted(ran.keys() - own.keys())]

    def look() -> bool:
        code = "\n".join([*own.values(), *(earlier if reused([*own.values()], earlier) else ())])
        names = (name for path in paths if (name := path.rpartition("/")[2]) in code)
        named = sum(re.search(rf"(?<![\w.-]){re.escape(name)}(?!\.?\w)", code) is not None for name in names)
        return named > 1 or bool(_LISTS.search(code)) or (not named and bool(_READS.search(code)))

    several = False
    with contained("Whether an answer is from several files was not found out, so it is not checked"):
        several = len(paths) > 1 and await in_thread(look)
    return several


class Evaluation(Middleware):
    """Sends an answer back if some of its numbers stand in no output, and has one that stands checked once.

    Args:
        model: The model of the agent.
        claims: Finds the numbers of an answer, each with its place.
        rounds: How often one answer is sent back at most.
        checks: Whether the answer of a question is checked; without it, none is.
        labels: What in the data has numbers that are no results, such as names of files.
    """

    def __init__(
        self,
        model: Model,
        claims: Callable[[str, Turn], Awaitable[Sequence[Claim]]],
        *,
        rounds: int = ROUNDS,
        checks: Callable[[Turn], Awaitable[bool]] | None = None,
        labels: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._model = model
        self._claims = claims
        self._most = rounds
        self._checks = checks
        self._labels = labels

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model, but for an answer whose check has found all of its numbers again: that is the reply.

        So it is where the model says of its check that the same has come out.
        """
        turn = request.runtime.context
        if turn.draft is None:
            return await handler(request)
        if isinstance(request.messages[-1], ToolMessage) and await self._is_found_again(turn):
            return ModelResponse(result=[AIMessage(turn.draft.text, response_metadata={REQUESTS: 0})])
        response = await handler(request)
        last = response.result[-1]
        is_same = isinstance(last, AIMessage) and not last.tool_calls and _SAME.fullmatch(text_of(last))
        if is_same and not self._is_unchecked(request.messages):
            response.result[-1] = last.model_copy(update={"content": turn.draft.text})
        return response

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Turn]) -> dict[str, Any] | None:
        """Look at a reply without calls, which is an answer."""
        messages: Sequence[AnyMessage] = state["messages"]
        last, turn = messages[-1], runtime.context
        if not isinstance(last, AIMessage) or last.tool_calls or last.invalid_tool_calls:
            return None
        if turn.draft and _SAME.fullmatch(text_of(last)) and self._is_unchecked(messages):
            again = UNCHECKED_SAME.format(numbers="; ".join(turn.draft.numbers))
            return {"messages": [aside("check", again)], "jump_to": "model"}
        found = await self._claims(text_of(last), turn)
        missing = [claim for claim in found if not claim.supported]
        # Once no more code runs, the model can't do what it would be asked for.
        is_over = any(is_aside(each, "over") for each in this_turn(messages))
        can_be_asked = not is_over and self._can_be_asked()
        ask = ASK.format(numbers=_told(missing))
        sent = [each.content for each in this_turn(messages) if is_aside(each, "evaluation")]
        asked = None
        # A model that has not done what would help does so no more when it reads the same again.
        if missing and can_be_asked and len(sent) < self._most and ask not in sent:
            asked = aside("evaluation", ask)
        elif can_be_asked and turn.draft is None:
            answer = clean_answer(text_of(last))
            question = next((str(each.text) for each in reversed(messages) if is_question(each)), "")
            labels = [each for each in self._labels if each in answer]
            if numbers := await self._to_check(found, turn, answer, question, labels):
                turn.begin_check(answer, question, numbers, labels)
                asked = aside("check", CHECK.format(numbers="; ".join(numbers)))
        turn.phases.evaluate(found, sent_back=asked is not None)
        return {"messages": [asked], "jump_to": "model"} if asked else None

    async def _to_check(
        self, found: Sequence[Claim], turn: Turn, answer: str, question: str, labels: Sequence[str]
    ) -> list[str]:
        """The numbers of an answer that are to be computed again; none if it is not checked."""
        ran = {cell.cell for cell in turn.cells}
        numbers = [claim.text for claim in numbers_to_check(found, answer, question, labels)]
        if not numbers or self._checks is None or not any(claim.cell in ran for claim in found):
            return []
        return numbers if await self._checks(turn) else []

    async def _is_found_again(self, turn: Turn) -> bool:
        """Whether the last cell shows all numbers, perhaps after some that it corrects, or that showed nothing.

        Of others, the model says which holds, as of an assertion that failed.
        """
        ran = turn.check_cells
        if turn.draft is None or not ran or not ran[-1].success:
            return False
        if not all(map(_has_nothing, ran[:-1])) and not _corrects(ran, turn.draft.numbers):
            return False
        # Its outputs may show more of the answer's numbers than it was asked for, such as a parameter of the code.
        found = {each.text for each in await self._claims(turn.draft.text, turn) if each.again == ran[-1].cell}
        return found.issuperset(turn.draft.numbers)

    def _is_unchecked(self, messages: Sequence[AnyMessage]) -> bool:
        """Whether nothing has run since a check was asked for, for the first time."""
        turn = this_turn(messages)
        since = itertools.takewhile(lambda each: not is_aside(each, "check"), turn)
        asked = sum(is_aside(each, "check") for each in turn)
        is_done = any(isinstance(each, ToolMessage) for each in since) or any(is_aside(each, "over") for each in turn)
        return asked < ASKED and self._can_be_asked() and not is_done

    def _can_be_asked(self) -> bool:
        """Whether the model can answer again; a recorded one can if its next reply was recorded after such a return."""
        return not isinstance(self._model.chat, ReplayModel) or self._model.chat.next_was_sent_back


def _has_nothing(cell: Cell) -> bool:
    """Whether a cell failed before it showed anything, and has refuted nothing."""
    return not cell.success and all(
        each.get("output_type") == "error" and each.get("ename") in _MISTAKES for each in cell.outputs
    )


def _corrects(ran: Sequence[Cell], numbers: Sequence[str]) -> bool:
    """Whether the last of several cells computes numbers anew: it reads files, and has none of them in its code."""
    code = ran[-1].code
    written = {each.value for each in numerals(code)}
    asked = {each.value for text in numbers for each in numerals(text)}
    is_anew = _READS.search(code) is not None and asked.isdisjoint(written)
    return is_anew and all(each.success or _has_nothing(each) for each in ran)


def _told(missing: Sequence[Claim]) -> str:
    """Which numbers are missing, and where an output shows one that code has."""
    told = _listed(SHOWN_NOWHERE, [each.text for each in missing if not each.written])
    written = (
        f"{each.text} (cell {each.sources[0]}" + (f"; code has {each.shown!r})" if each.shown else ")")
        for each in missing
        if each.written and each.sources
    )
    return " ".join([*told, *_listed(WRITTEN, [*written])])


def _listed(sentence: str, numbers: Sequence[str]) -> list[str]:
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return [sentence.format(", ".join(numbers[:NAMED]) + more)] if numbers else []


def this_turn(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages behind the last question, the latest first."""
    return list(itertools.takewhile(lambda each: not is_question(each), reversed(messages)))
