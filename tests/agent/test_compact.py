"""Long conversations: what is old gets shorter, what is new stays, and the whole stays about the same size."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from nbagent.agent.messages.asides import aside, is_aside
from nbagent.agent.messages.history import LISTED, SHORT, TEXT, WHOLE, compact


def turn(number: int, *, text: str = "") -> list[AnyMessage]:
    """A question, a cell with much output, and its answer."""
    return [
        HumanMessage(f"Question {number} {text}", id=f"q{number}"),
        AIMessage("", tool_calls=[tool_call(name="python", args={"code": "x"}, id=f"c{number}")], id=f"r{number}"),
        ToolMessage("output " * 100, tool_call_id=f"c{number}"),
        AIMessage(f"Answer {number}", id=f"a{number}"),
    ]


def conversation(turns: int) -> list[AnyMessage]:
    """Turn by turn, as an agent compacts it."""
    history: list[AnyMessage] = []
    for number in range(turns):
        history = [*compact(history), *turn(number)]
    return history


def test_a_short_conversation_is_as_it_was() -> None:
    """Up to as many turns as stay whole."""
    history = [message for number in range(WHOLE) for message in turn(number)]
    assert compact(history) == history
    assert compact([]) == []


def test_older_turns_lose_their_calls() -> None:
    """Their question and their answer stay, and each call that is left has its result."""
    history = [message for number in range(WHOLE + 3) for message in turn(number)]
    short = compact(history)
    assert [str(message.text) for message in short[:6]] == [
        part for number in range(3) for part in (f"Question {number} ", f"Answer {number}")
    ]
    assert short[6:] == history[12:]


def test_still_older_turns_are_a_list_of_questions() -> None:
    """One message, before all others, which grows until it is full; the oldest go first."""
    history = compact(conversation(WHOLE + SHORT + 5))
    assert is_aside(history[0], "earlier")
    assert str(history[0].text).splitlines()[1:] == [f"- Question {number}" for number in range(5)]
    history = compact(conversation(1000))
    lines = str(history[0].text).splitlines()[1:]
    assert len("\n".join(lines).encode()) <= LISTED
    assert lines[-1] == f"- Question {1000 - WHOLE - SHORT - 1}"
    assert sum(is_aside(message, "earlier") for message in history) == 1


def test_the_size_stays_the_same() -> None:
    """After 400 turns as after 1,000."""
    size = [sum(len(str(message.text)) for message in compact(conversation(turns))) for turns in (400, 1000)]
    assert size[1] < 1.1 * size[0]
    assert len(compact(conversation(100))) == len(compact(conversation(1000)))


def test_long_words_are_cut() -> None:
    """An old question of a hundred thousand characters is no longer that long."""
    history = [*turn(0, text="x" * 100_000), *(message for number in range(1, WHOLE + 1) for message in turn(number))]
    short = compact(history)
    assert len(str(short[0].text)) < TEXT + 200
    assert "left out" in str(short[0].text)


def test_what_is_nbagents_own_belongs_to_its_turn() -> None:
    """A message that sent an answer back begins no turn."""
    sent_back = [*turn(0)[:3], AIMessage("42"), aside("evaluation", "These numbers …"), AIMessage("Answer 0")]
    history = [*sent_back, *(message for number in range(1, WHOLE + 1) for message in turn(number))]
    assert [str(message.text) for message in compact(history)[:2]] == ["Question 0 ", "Answer 0"]


def test_a_turn_without_an_answer() -> None:
    """A question alone stays a question."""
    history: list[AnyMessage] = [HumanMessage("Only this")]
    history += [message for number in range(1, WHOLE + 1) for message in turn(number)]
    assert [str(message.text) for message in compact(history)[:2]] == ["Only this", "Question 1 "]
