"""Tools that the tests of this floor share: drafts that pass, and a tool as it is in a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nbagent.core.events import Event, IndexAsked
from nbagent.forge import Draft, Tool

CODE = '''\
def word_count(text: str, least: int = 1) -> int:
    """Count the words of a text.

    Words are what stands between spaces.
    """
    return len([word for word in text.split() if len(word) >= least])
'''
TESTS = """\
from word_count import word_count


def test_words():
    assert word_count("a bb ccc") == 3


class TestLeast:
    def test_two(self):
        assert word_count("a bb ccc", least=2) == 2
"""


def draft(**changes: Any) -> Draft:
    """A tool that counts words."""
    made = Draft(name="word_count", description="Counts the words of a text.", code=CODE, tests=TESTS)
    return msgspec.structs.replace(made, **changes)


def made(**changes: Any) -> Tool:
    """The same as it is in a library."""
    given = draft()
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "least": {"type": "integer", "default": 1}},
        "required": ["text"],
        "additionalProperties": False,
    }
    tool = Tool(
        name=given.name,
        version=1,
        description=given.description,
        code=given.code,
        tests=given.tests,
        schema=schema,
        doc="Count the words of a text.",
        python="3.11",
        tested=("TestLeast.test_two", "test_words"),
        made=1.0,
    )
    return msgspec.structs.replace(tool, **changes)


def keep(told: list[Any]) -> Callable[[Event], None]:
    """What keeps the events, but for those of names that the package index was asked for."""

    def notify(event: Event) -> None:
        if not isinstance(event, IndexAsked):
            told.append(event)

    return notify
