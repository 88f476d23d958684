"""Tools that are made in a session, and outlive it: asked for, tested, called, and in a notebook that runs again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from forge.shared import CODE, TESTS, made
from nbclient import NotebookClient

from nbagent.core.errors import ForgeError
from nbagent.core.events import Asked, CellStarted, InstallFailed, PackagesInstalled, ToolStageEntered
from nbagent.forge.library import Library
from nbagent.session.session import Session

SLUG = {
    "name": "slug_of",
    "description": "A title as a part of an address.",
    "code": "from slugify import slugify\n\n\ndef slug_of(title: str) -> str:\n    return slugify(title)\n",
    "tests": "from slug_of import slug_of\n\n\ndef test_slug():\n    assert slug_of('A b') == 'a-b'\n",
    "dependencies": ["python-slugify"],
}
COUNTER = {"name": "word_count", "description": "Counts the words of a text.", "code": CODE, "tests": TESTS}


def replay(path: Path, *said: str | tuple[str, dict[str, Any]]) -> str:
    """A model that says this."""
    lines = [
        {"content": each} if isinstance(each, str) else {"tool_calls": [{"name": each[0], "args": each[1]}]}
        for each in said
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"replay:{path}"


async def test_from_a_wish_to_a_notebook_that_runs_again(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """A version that fails is told with pytest's own words; the next one is active, called by its name and by a cell.

    Packages of its making are none of the session's until it is defined there. The notebook runs without nbagent's
    help, and another session has the tool without making it.
    """
    wrong = {**SLUG, "code": str(SLUG["code"]).replace("slugify(title)", "slugify(title).upper()")}
    model = replay(
        tmp_path / "one.jsonl",
        ("create_tool", wrong),
        ("create_tool", SLUG),
        ("slug_of", {"title": "One Two"}),
        ("python", {"code": "len(slug_of('A b c'))"}),
        "It is one-two.",
    )
    events: list[Any] = []
    async with Session(engine="bubblewrap", model=model, forge=True, state_dir=tmp_path) as session:
        session.follow(lambda record: events.append(record.event))
        answer = await session.ask("Make a tool that makes slugs of titles.")
        notebook = await session.export(tmp_path / "slugs.ipynb")
    told = [each for each in events if isinstance(each, ToolStageEntered)]
    assert [each.stage for each in told] == [
        *("creating", "installing", "testing", "cleanup", "dormant"),
        *("creating", "installing", "testing", "active"),
    ]
    assert "slug_of did not pass its tests: 1 of 1 tests failed: test_slug." in told[3].reason
    installed = [each for each in events if isinstance(each, PackagesInstalled)]
    assert len(installed) == 1
    assert events.index(installed[0]) > events.index(told[-1])
    define, called, cell = answer.cells
    assert define.code.startswith("# The tool slug_of, version 1, made and tested by nbagent's tool forge.\n")
    assert (called.code, called.text) == ("slug_of(title='One Two')", "'one-two'")
    assert cell.text == "5"
    assert [each.tool for each in events if isinstance(each, CellStarted)] == ["slug_of", "slug_of", "python"]
    assert answer.success

    again = nbformat.read(notebook, as_version=4)
    NotebookClient(again, kernel_name="nbagent-bubblewrap", timeout=60).execute()
    results = [
        each["data"]["text/plain"]
        for node in again.cells
        if node.cell_type == "code"
        for each in node.outputs
        if each.output_type == "execute_result"
    ]
    assert results == ["'one-two'", "5"]

    model = replay(tmp_path / "two.jsonl", ("slug_of", {"title": "Z z"}), "It is z-z.")
    async with Session(engine="bubblewrap", model=model, forge=True, state_dir=tmp_path) as session:
        answer = await session.ask("And here?")
    assert [each.text for each in answer.cells] == ["", "'z-z'"]
    assert [each.name for each in answer.installed] == ["python-slugify", "text-unidecode"]
    assert leftovers() == []


async def test_an_error_of_the_tools_own_is_told_once(tmp_path: Path) -> None:
    """Also one that looks as if the tool were gone: what it has done is not done again."""
    Library(tmp_path).add(made(code=CODE.replace("return", "least()\n    return")))
    model = replay(tmp_path / "r.jsonl", ("word_count", {"text": "a"}), "It fails.")
    async with Session(engine="bubblewrap", model=model, forge=True, state_dir=tmp_path) as session:
        answer = await session.ask("How many?")
    assert [each.status for each in answer.cells] == ["ok", "error"]
    assert answer.cells[1].outputs[0]["evalue"] == "'int' object is not callable"


async def test_nobody_who_approves(tmp_path: Path) -> None:
    """A tool is not made then, nor are its packages installed; the session goes on."""
    model = replay(tmp_path / "r.jsonl", ("create_tool", COUNTER), ("word_count", {"text": "a"}), "I can't.")
    events: list[Any] = []
    async with Session(
        engine="bubblewrap", model=model, forge=True, state_dir=tmp_path, approvals="auto-edit"
    ) as session:
        session.follow(lambda record: events.append(record.event))
        answer = await session.ask("Make a tool.")
    assert answer.cells == []
    assert not [each for each in events if isinstance(each, ToolStageEntered | PackagesInstalled | InstallFailed)]
    assert [each for each in events if isinstance(each, Asked)]


async def test_packages_of_a_tool_are_asked_about(tmp_path: Path) -> None:
    """Making it may be allowed and its packages not: each is asked about in its version."""
    model = replay(tmp_path / "r.jsonl", ("create_tool", COUNTER), "I can't.")
    events: list[Any] = []
    options: dict[str, Any] = {"approvals": "allow-list", "allow": ["tool", "cell"]}
    async with Session(engine="bubblewrap", model=model, forge=True, state_dir=tmp_path, **options) as session:
        session.follow(lambda record: events.append(record.event))
        await session.ask("Make a tool.")
    (cleanup,) = [each for each in events if isinstance(each, ToolStageEntered) and each.stage == "cleanup"]
    assert cleanup.reason.startswith("What word_count needs was not installed.")
    assert "pytest==" in cleanup.reason
    assert "is not approved" in cleanup.reason


async def test_without_isolation_there_is_no_forge(tmp_path: Path) -> None:
    """The session says so before it starts anything."""
    with pytest.raises(ForgeError, match="tools are never made on the host"):
        await Session(engine="local", forge=True, state_dir=tmp_path).start()


async def test_without_the_forge_there_are_no_tools(tmp_path: Path) -> None:
    """By default: what is in the library is nothing to a session that did not ask for it."""
    model = replay(tmp_path / "r.jsonl", ("create_tool", COUNTER), "I can't.")
    async with Session(engine="bubblewrap", model=model, state_dir=tmp_path) as session:
        answer = await session.ask("Make a tool.")
    assert answer.cells == []
    assert not (tmp_path / "tools").exists()
