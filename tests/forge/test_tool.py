"""Drafts that can't become a tool, told before anything is started; tools as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from forge.shared import TESTS, draft, made

from nbagent.core.errors import ForgeError
from nbagent.forge import tool


def test_a_draft_that_is_right() -> None:
    """Nothing is said of it."""
    tool.check(draft())
    tool.check(draft(dependencies=("humanize>=4", "pandas[excel]")))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"description": " "}, "A tool's description is a text of 1 to 1,000 characters."),
        ({"description": "\ud800"}, "A tool's description is a text of 1 to 1,000 characters."),
        ({"adapts": "x; import os"}, "names no function"),
        ({"description": "x" * 1001}, "A tool's description is a text of 1 to 1,000 characters."),
        ({"code": "def other(): pass"}, "The code has no function word_count."),
        ({"code": "word_count = lambda: 1"}, "The code has no function word_count."),
        ({"code": "def word_count(:"}, r"The code can't be read: invalid syntax \(line 1\)."),
        ({"code": "x = '\0'"}, "Line 1 of the code has a character that no Python source can hold."),
        ({"code": "#\n'\ud800'"}, "Line 2 of the code has a character that no Python source can hold."),
        ({"code": f"#{'ü' * 60_000}"}, "The code of a tool may have 100,000 bytes, not 120,001."),
        ({"tests": "def test_a(): pass"}, "The tests don't import the tool."),
        ({"tests": "from word_count import word_count"}, "There are no tests."),
        ({"tests": f"{TESTS}("}, "The tests can't be read"),
        ({"dependencies": ("humanize --index-url=evil",)}, "is not a plain package name"),
        ({"dependencies": ("git+https://example.org/x",)}, "is not a plain package name"),
        ({"dependencies": tuple("abcdefghijklmnopqrstu")}, "A tool has at most 20 dependencies, not 21."),
    ],
)
def test_what_is_wrong_is_one_sentence(changes: dict[str, Any], told: str) -> None:
    """Each with its own."""
    with pytest.raises(ForgeError, match=told):
        tool.check(draft(**changes))


@pytest.mark.parametrize(
    "name",
    ["", "a", "Word", "word count", "../word", "word_", "two__parts", "wörd", "1st", "x" * 49, "word\n", "."],
)
def test_no_plain_name(name: str) -> None:
    """It is to be a path, a module, a function, and what a provider takes for a tool's name."""
    with pytest.raises(ForgeError, match="A tool can't be called"):
        tool.check_name(name)


@pytest.mark.parametrize(
    "name", ["class", "match", "print", "json", "python", "install", "sandbox_exec", "create_tool", "ipykernel", "zmq"]
)
def test_names_that_mean_something_else(name: str) -> None:
    """Keywords, builtins, modules of Python's and of the kernel's, and nbagent's own tools."""
    with pytest.raises(ForgeError, match=f"The name {name} is taken"):
        tool.check_name(name)


def test_a_tool_as_json() -> None:
    """It comes back as it was, with its parameters in their order; the same tool has the same bytes."""
    one = made()
    data = tool.encode(one)
    assert tool.decode(data) == one
    assert list(tool.decode(data).schema["properties"]) == ["text", "least"]
    assert tool.digest(data) == tool.digest(tool.encode(made()))
    assert tool.digest(data) != tool.digest(tool.encode(made(code="def word_count(): pass")))
    with pytest.raises(msgspec.DecodeError):
        tool.decode(b"{}")
