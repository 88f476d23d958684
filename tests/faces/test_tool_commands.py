"""`nbagent tools`: the library on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forge.shared import CODE, TESTS, made
from program import nbagent

from nbagent.core.errors import ForgeError, UsageError
from nbagent.core.events import Package
from nbagent.faces.cli import tools
from nbagent.forge.library import Library


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """This person's, with two tools."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path))
    one = Library(tmp_path)
    needs = Package(name="humanize", version="4.1", sha256="0" * 64)
    one.add(made(packages=(needs,)))
    one.add(made(name="other_tool", description="Says\n\x1b]0;owned\x07 nothing."))
    return one


async def test_list(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a tool, whatever it says of itself, the last that was used first; as JSON with its versions."""
    library.touch("word_count")
    assert await tools.show_all(as_json=False) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == "word_count 1 used just now Counts the words of a text.".split()
    assert second.startswith("other_tool")
    assert "\x1b" not in second
    await tools.show_all(as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["version"]) for each in found] == [("word_count", 1), ("other_tool", 1)]


async def test_an_empty_list(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """Says how there would be one."""
    for each in library.listed():
        library.remove(each.name)
    await tools.show_all(as_json=False)
    assert "There are no tools yet" in capsys.readouterr().out


async def test_show(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """What is known of it, its code and its tests; one that was changed is an error."""
    await tools.show("word_count", version=None, as_json=False)
    text = capsys.readouterr().out
    assert "word_count, version 1, made" in text
    assert "packages  humanize 4.1" in text
    assert CODE.rstrip() in text
    assert TESTS.rstrip() in text
    await tools.show("word_count", version=1, as_json=True)
    assert json.loads(capsys.readouterr().out)["code"] == CODE
    (library.folder / "word_count" / "1.json").write_text("{}")
    with pytest.raises(ForgeError, match="is not what was put into the library"):
        await tools.show("word_count", version=None, as_json=False)


async def test_export_remove_clean(library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each says what it did."""
    await tools.export("word_count", tmp_path / "out", version=None)
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    await tools.remove("word_count")
    assert capsys.readouterr().out == "removed word_count\n"
    await tools.clean(max_age="90d")
    assert capsys.readouterr().out == "Every tool was used since.\n"
    await tools.clean(max_age="0")
    assert capsys.readouterr().out == "removed other_tool\n"
    assert library.listed() == []
    with pytest.raises(UsageError, match="is no time"):
        await tools.clean(max_age="old")


async def test_add(library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is made and tested here; where it fails, what pytest printed is shown, and the library is as it was."""
    (tmp_path / "word_count.py").write_text(CODE)
    (tmp_path / "test_word_count.py").write_text(TESTS.replace("== 3", "== 4"))
    with pytest.raises(ForgeError, match="word_count did not pass its tests"):
        await tools.add(tmp_path / "word_count.py", engine="bubblewrap")
    assert "assert 3 == 4" in capsys.readouterr().err
    (tmp_path / "test_word_count.py").write_text(TESTS)
    assert await tools.add(tmp_path / "word_count.py", engine="bubblewrap") == 0
    shown = capsys.readouterr()
    assert shown.out == "The tool word_count, version 2, is active: 2 tests passed.\n"
    assert shown.err == "creating …\ninstalling …\ntesting …\n"
    assert library.load("word_count").version == 2


def test_the_program(library: Library, tmp_path: Path) -> None:
    """A question with `--forge` has the tools; one that was changed is told; what is wrong is a sentence and a code."""
    file = library.folder / "other_tool" / "1.json"
    file.write_bytes(file.read_bytes() + b" ")
    library.add(made(version=2))
    said = [{"tool_calls": [{"name": "word_count", "args": {"text": "a b"}}]}, {"content": "It has 2."}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(each) + "\n" for each in said))
    state = {"NBAGENT_STATE_DIR": str(tmp_path)}
    done = nbagent("run", "How many?", "--forge", "-m", "replay:r.jsonl", "-e", "bubblewrap", cwd=tmp_path, **state)
    assert (done.code, done.out) == (0, "It has 2.\n")
    assert "# The tool word_count, version 2," in done.err
    assert "The tool other_tool 1 is not what was put into the library, and is not used." in done.err
    done = nbagent("tools", "show", "no_such", cwd=tmp_path, **state)
    assert (done.code, done.out) == (1, "")
    assert "There is no tool 'no_such' in the library." in done.err
