"""Python that is read and never run."""

from __future__ import annotations

import pytest

from nbagent.forge import source


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", ""),
        ("def f(:", "invalid syntax (line 1)"),
        ("(" * 50_000, "too many nested parentheses (line 1)"),
        ("-" * 20_000 + "1", "it is nested too deeply"),
        ("-" * 50_000 + "1", "it is too long to be read"),
        (r"x = '\d'", ""),
    ],
)
def test_what_is_wrong_with_it(text: str, problem: str) -> None:
    """Said in a clause, for source too that would break a parser."""
    assert source.problem(text) == problem


def test_reading_runs_nothing(tmp_path: object) -> None:
    """Not even what stands at the top."""
    text = f"open({str(tmp_path)!r} + '/ran', 'w')\ndef tool(): pass\nraise SystemExit"
    assert source.defines(text, "tool")
    assert not source.defines(text, "other")
    assert list(__import__("pathlib").Path(str(tmp_path)).iterdir()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tool import tool", True),
        ("import tool", True),
        ("import os, tool as t", True),
        ("def test_it():\n    from tool import helper", True),
        ("from .tool import tool", False),
        ("from tools import tool", False),
        ("tool()", False),
    ],
)
def test_tests_that_import_the_tool(text: str, found: bool) -> None:
    """By any form of import, anywhere; but by its own name."""
    assert source.imports(text, "tool") is found


def test_the_tests_that_must_be_found() -> None:
    """Functions and methods by the names that pytest collects them by; not what stands elsewhere."""
    text = """
def test_a(): pass
async def test_b(): pass
def helper_test(): pass
class TestIt:
    def test_c(self): pass
    def helper(self): pass
class Helper:
    def test_d(self): pass
if False:
    def test_e(): pass
"""
    assert source.tests_in(text) == {"test_a", "test_b", "TestIt.test_c"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tool = 3", True),
        ("for tool in x: pass", True),
        ("def tool(): pass", True),
        ("class tool: pass", True),
        ("import tool.part", True),
        ("from x import y as tool", True),
        ("del tool", True),
        ("try: x\nexcept E as tool: pass", True),
        ("match x:\n    case [*tool]: pass", True),
        ("match x:\n    case {'a': 1, **tool}: pass", True),
        ("match x:\n    case tool: pass", True),
        ("!ls\ntool = 3", True),
        ("tool(1)", False),
        ("tools = tool(1)", False),
        ("'tool = 3'", False),
        ("!ls", False),
    ],
)
def test_code_that_takes_a_name(text: str, found: bool) -> None:
    """By any statement that gives it a meaning, or code that may; not by a use."""
    assert source.binds(text, "tool") is found


def test_the_summary() -> None:
    """The function's own words before the module's."""
    assert source.summary('"""Module."""\ndef f():\n    """One.\n\n    Two."""', "f") == "One."
    assert source.summary('"""Module."""\ndef f(): pass', "f") == "Module."
    assert source.summary("def f(): pass", "f") == ""
