"""The tools that a question needs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.core.errors import UsageError
from nbagent.mcp.select import GUESS, Constraints, DynamicToolSelector, select


@dataclass(frozen=True)
class Tool:
    """A tool."""

    tool: str
    description: str = ""
    server: str = "s"
    capabilities: frozenset[str] = field(default_factory=frozenset)
    read_only: bool | None = None
    latency_ms: float | None = None

    @property
    def name(self) -> str:
        """As the model calls it."""
        return f"{self.server}__{self.tool}"


READ = Tool("read_file", "Read a file.", server="disk", read_only=True)
WRITE = Tool("write_file", "Write a file.", server="disk", read_only=False)
SEARCH = Tool("search_web", "Search the web for pages.", server="net")
FETCH = Tool("fetch", "Fetches a URL from the internet.", server="net", read_only=True)
PENGUINS = Tool("colony_census", "Counts of penguins by colony and season.", server="birds")
TOOLS = [READ, WRITE, SEARCH, FETCH, PENGUINS]


def names(question: str, tools: list[Tool] | None = None, *given: Any, **more: Any) -> list[str]:
    """The chosen tools, as their servers call them."""
    chosen = select(question, TOOLS if tools is None else tools, *given, **more)
    return [tool.tool for tool in chosen.selected_tools]


def test_what_is_needed_is_chosen() -> None:
    """The seed's example: a question, an explicit capability, a bound on the latency."""
    chosen = select("Search for Python docs and summarize", TOOLS, ["web:search"], {"max_latency_ms": 5000})
    assert [tool.tool for tool in chosen.selected_tools] == ["search_web"]
    assert (chosen.confidence, chosen.missing_capabilities) == (0.9, ())
    assert chosen.reasons == ("net__search_web is offered: web:search (90%).",)


def test_what_nothing_has_is_missing() -> None:
    """It lowers the confidence, whether the words or the caller ask for it; what the agent has itself isn't missing."""
    chosen = select("Search the web and send an email", TOOLS, ["calendar:read"])
    assert chosen.missing_capabilities == ("calendar:read", "email:send")
    assert chosen.confidence == 0.3
    own = select("Execute Python", TOOLS, provided=frozenset({"code:python"}))
    assert (own.selected_tools, own.missing_capabilities, own.confidence) == ((), (), 1.0)


def test_each_need_gets_a_tool_before_any_gets_two() -> None:
    """With two places and two needs, the second tool for the first need waits."""
    readers = [Tool(f"read_file_{number}", read_only=True) for number in "abc"]
    assert set(names("Read the file and search the web", [*readers, SEARCH], (), {"max_tools": 2})) == {
        "read_file_a",
        "search_web",
    }


async def test_the_selector_of_the_seed() -> None:
    """Its names, over a catalogue that is asked anew each time."""

    async def catalog() -> list[Tool]:
        return TOOLS

    selection = await DynamicToolSelector(catalog).select_tools_for_task(
        task_description="Search for Python docs and summarize",
        explicit_capabilities=["web:search", "text:translate"],
        constraints={"max_latency_ms": 5000},
    )
    assert [tool.name for tool in selection.selected_tools] == ["net__search_web"]
    assert (selection.confidence, selection.missing_capabilities) == (0.45, ("text:translate",))


def test_one_that_is_surely_for_it_leaves_out_those_that_may_be() -> None:
    """A tool whose description mentions reading a file is not offered beside one that is called so."""
    tree = Tool("overview", "Reads the names of files.")
    assert names("Read the file", [READ, tree]) == ["read_file"]
    assert names("Read the file", [tree]) == ["overview"]


def test_verbs_make_no_tool_alike() -> None:
    """What searches something else is no help for searching the web."""
    other = Tool("zorp", "Search for zorps.")
    chosen = select("Search the web", [other])
    assert (chosen.selected_tools, chosen.missing_capabilities) == ((), ("web:search",))


def test_words_alone_are_enough_where_they_are_rare() -> None:
    """A tool whose purpose has no name here is found by the words of its own."""
    assert names("How many penguins were in the colony last season?") == ["colony_census"]


def test_who_is_named_is_chosen() -> None:
    """A server by its name, or a tool as it is written."""
    assert names("Ask birds about it") == ["colony_census"]
    assert set(names("Use write_file, then search the web")) == {"write_file", "search_web"}


def test_a_person_knows_better_than_names() -> None:
    """What mcp.json says of a tool replaces what could be guessed, and is certain."""
    wrong = Tool("read_file", capabilities=frozenset({"web:search"}))
    chosen = select("Search the web", [wrong, SEARCH])
    assert [tool.server for tool in chosen.selected_tools] == ["s", "net"]
    assert chosen.confidence == 1.0
    assert names("Read the file", [wrong, WRITE]) == []


def test_what_is_forbidden_is_left_out() -> None:
    """Even a tool whose words are alike; unless the caller demands it."""
    chosen = select("Read the file but don't search the web", TOOLS)
    assert [tool.tool for tool in chosen.selected_tools] == ["read_file"]
    assert "net__search_web is left out: the question doesn't want web:search." in chosen.reasons
    assert "search_web" in names("Don't search the web", TOOLS, ["web:search"])


@pytest.mark.parametrize(
    ("constraints", "left"),
    [
        ({"read_only": True}, {"read_file", "fetch"}),
        ({"allow_servers": ["disk"]}, {"read_file", "write_file"}),
        ({"allow_servers": []}, set()),
        ({"deny": ["disk"]}, {"search_web", "fetch", "colony_census"}),
        ({"deny": ["disk__read_file", "fetch"]}, {"write_file", "search_web", "colony_census"}),
        ({"deny": ["file:write"]}, {"read_file", "search_web", "fetch", "colony_census"}),
        ({"max_tools": 0}, set()),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else None,  # the order of a set is another in each process
)
def test_constraints_hold_whatever_the_words_say(constraints: dict[str, Any], left: set[str]) -> None:
    """A question in words that tell nothing is offered what the constraints leave."""
    assert set(names("xyzzy", TOOLS, (), constraints)) == left


def test_slow_tools_are_left_out_by_what_was_measured() -> None:
    """A tool that was never called passes; between equals the quicker one comes first."""
    slow, quick = Tool("search_web", server="a", latency_ms=9000), Tool("search_web", server="b", latency_ms=20)
    fresh = Tool("search_web", server="c")
    chosen = select("Search the web", [slow, quick, fresh], (), {"max_latency_ms": 5000})
    assert [tool.server for tool in chosen.selected_tools] == ["c", "b"]
    assert "a__search_web is left out: its calls take 9000 ms." in chosen.reasons
    assert [tool.server for tool in select("Search the web", [slow, quick, fresh]).selected_tools] == ["c", "b", "a"]


def test_readers_come_first_where_nothing_is_to_be_changed() -> None:
    """Of two tools that are alike, the one that says it only reads."""
    one, two = Tool("read_file", server="a"), Tool("read_file", server="b", read_only=True)
    assert [tool.server for tool in select("Read the file", [one, two]).selected_tools] == ["b", "a"]


def test_unknown_words_are_a_guess() -> None:
    """A question in another language is offered tools all the same, and the confidence says what that is worth."""
    chosen = select("Lies die Datei", TOOLS)
    assert len(chosen.selected_tools) == len(TOOLS)
    assert chosen.confidence == GUESS
    assert "tell no capability" in chosen.reasons[0]
    assert select("Lies die Datei", []).selected_tools == ()
    many = [Tool(f"go_{number}") for number in range(100)]
    assert len(select("Lies die Datei", many).selected_tools) == 40
    assert len(select("Read the file", [Tool(f"read_file_{number}") for number in range(100)]).selected_tools) == 12


def test_a_question_for_the_kernel_is_offered_nothing() -> None:
    """Where the words tell what is needed, nothing else is offered."""
    assert names("What is the mean of the column?", provided=frozenset({"data:analyse"})) == []


@pytest.mark.parametrize(
    "wrong", [{"max_latency": 1}, {"deny": "net"}, {"max_latency_ms": 0}, {"max_tools": -1}, {"max_latency_ms": "fast"}]
)
def test_a_wrong_constraint_is_told(wrong: dict[str, Any]) -> None:
    """It is not passed over: it may be one that was to keep something out."""
    with pytest.raises(UsageError, match="onstraint"):
        Constraints.of(wrong)


@given(st.randoms(), st.sampled_from(["Read the file", "xyzzy", "Search the web and read the file", ""]))
def test_the_order_of_the_tools_decides_nothing(shuffle: random.Random, question: str) -> None:
    """The same question and tools give the same selection."""
    mixed = list(TOOLS)
    shuffle.shuffle(mixed)
    assert select(question, mixed).selected_tools == select(question, TOOLS).selected_tools


@given(st.text(), st.lists(st.builds(Tool, st.text(), st.text()), max_size=20, unique_by=lambda tool: tool.name))
def test_no_words_are_an_error(question: str, tools: list[Tool]) -> None:
    """Whatever is asked and offered, the selection is of what was offered, within its bounds."""
    chosen = select(question, tools)
    assert set(chosen.selected_tools) <= set(tools)
    assert len(chosen.selected_tools) <= 40
    assert 0 <= chosen.confidence <= 1
