"""What is known of a tool: names, words and schemas that every provider takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.mcp.catalog import (
    MAX_DESCRIPTION,
    UnusableError,
    describe,
    digest_of,
    fit,
    name_of,
)


@dataclass
class Hints:
    """A tool's hints."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None


@dataclass
class Listed:
    """A tool as a server lists it."""

    name: str = "go"
    title: str | None = None
    description: str | None = "Go."
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    annotations: Hints | None = None
    execution: Any = None


def test_a_plain_name_stays_readable() -> None:
    """The model sees whose tool it is."""
    assert name_of("time", "get_current_time") == "time__get_current_time"


@given(server=st.text(min_size=1, max_size=80), tool=st.text(max_size=200))
def test_any_name_is_one_that_providers_take(server: str, tool: str) -> None:
    """Letters, digits, `_` and `-`, a letter first, 64 at most; never one of nbagent's own."""
    name = name_of(server, tool)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name)
    assert "__" in name
    assert not name.startswith("sandbox_")


@given(st.lists(st.tuples(st.text("ab_-. ", min_size=1, max_size=5), st.text("ab_-. ", max_size=5)), unique=True))
def test_different_tools_have_different_names(tools: list[tuple[str, str]]) -> None:
    """No server can take the name of another's tool, whatever it calls its own."""
    names = {name_of(server, tool) for server, tool in tools}
    assert len(names) == len(tools)


def test_names_that_divide_differently_are_kept_apart() -> None:
    """`a` with `b__c` is not `a__b` with `c`."""
    assert len({name_of("a", "b__c"), name_of("a__b", "c"), name_of("a_", "_c"), name_of("a", "__c")}) == 4


def test_words_are_cut() -> None:
    """A long description keeps its beginning."""
    tool = describe("h", Listed(description="x" * 5000))
    assert len(tool.description) == MAX_DESCRIPTION
    assert tool.description.endswith("[… cut]")


def test_what_a_person_is_shown_names_the_server() -> None:
    """Who decides on a call reads whose tool it is, what it says of itself, and that these are its own words."""
    listed = Listed("rm\x1b[2J", description="Removes.", annotations=Hints(destructive_hint=True, read_only_hint=False))
    shown = describe("disk", listed).shown
    assert "'rm[2J' of the MCP server 'disk', which runs outside of the sandbox." in shown
    assert "may destroy" in shown
    assert "The server describes it as: Removes." in shown


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({}, "not that of an object"),
        ({"type": "array"}, "not that of an object"),
        ({"type": "object", "properties": {"a b": {}}}, "its argument 'a b'"),
        ({"type": "object", "properties": {"x" * 65: {}}}, "its argument"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "another document"),
        ({"type": "object", "properties": {"a": {"type": "strong"}}}, "its schema is wrong"),
        ({"type": "object", "properties": {"a": {"enum": ["x" * 20_000]}}}, "longer than 16 KB"),
    ],
)
def test_a_schema_that_would_spoil_every_request_is_refused(schema: dict[str, Any], why: str) -> None:
    """Providers refuse the whole request for one wrong tool."""
    with pytest.raises(UnusableError, match=why):
        fit(schema)


def test_a_tool_that_runs_only_as_a_task_is_refused() -> None:
    """Tasks were part of one version of the protocol and are none of the next."""
    with pytest.raises(UnusableError, match="only be called as a task"):
        describe("h", Listed(execution=SimpleNamespace(task_support="required")))
    assert describe("h", Listed(execution=SimpleNamespace(task_support="optional"))).name == "h__go"


def test_a_schema_is_made_to_fit() -> None:
    """What providers refuse at the top goes, what they need comes, and long descriptions go before the tool does."""
    assert fit({"type": "object", "anyOf": [{}], "$schema": "x"}) == {"type": "object", "properties": {}}
    long = {"type": "object", "properties": {"description": {"type": "string", "description": "x" * 20_000}}}
    assert fit(long)["properties"] == {"description": {"type": "string"}}
    local = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    assert fit(local) == local


def test_the_digest_is_of_everything_that_matters() -> None:
    """A changed description, schema, title or hint changes the digest; what is invisible counts too."""
    same = digest_of(Listed())
    assert digest_of(Listed()) == same
    others = [
        Listed(description="Go.\u200b"),
        Listed(title="Go"),
        Listed(input_schema={"type": "object", "properties": {"bcc": {}}}),
        Listed(annotations=Hints(read_only_hint=True)),
    ]
    assert same not in {digest_of(other) for other in others}
