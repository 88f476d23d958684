"""Tools as files, written for others and read from them."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path

import machine
import msgspec
import pytest
from forge.shared import CODE, TESTS, draft, made

from nbagent.core.errors import ForgeError, StoreError
from nbagent.forge.adapter import drafts_of
from nbagent.forge.porting import draft_of, export


@pytest.mark.parametrize("name", ["shared", "shared.zip"])
def test_there_and_back(tmp_path: Path, name: str) -> None:
    """A folder or an archive gives the draft that the tool was made of; what is there is not overwritten."""
    to = export(made(dependencies=("humanize",)), tmp_path / name)
    assert to == tmp_path / name
    assert draft_of(to) == draft(dependencies=("humanize",))
    with pytest.raises(StoreError, match="is there already"):
        export(made(), to)


@pytest.mark.parametrize("file", ["tool.json", "word_count.py", "test_word_count.py"])
def test_a_link_out_of_the_folder_is_not_read(tmp_path: Path, file: str) -> None:
    """Of a folder that somebody else made it may lead to any file, which would be run and kept as a tool's."""
    folder, secret = export(made(), tmp_path / "cloned"), tmp_path / "secret"
    (folder / file).rename(secret)
    (folder / file).symlink_to(secret)
    for path in (folder, folder / "word_count.py") if file != "tool.json" else (folder,):
        with pytest.raises(ForgeError, match="is a link to"):
            draft_of(path)


def test_a_place_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a sentence, and nothing is left of an archive that could not be written whole."""
    for name in ("x" * 300, f"{'x' * 300}.zip"):
        with pytest.raises(StoreError, match="can't be written"):
            export(made(), tmp_path / name)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="can't be written"):
        export(made(), tmp_path / "shared.zip")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_is_known_by_its_code(tmp_path: Path) -> None:
    """What a file says of itself is not enough: its tests would not have to call it."""
    (wrapped,) = drafts_of("humanize>=4", ["humanize.naturalsize"])
    about = {"name": wrapped.name, "code": wrapped.code, "tests": wrapped.tests, "adapts": wrapped.adapts}
    to = export(made(**about, description=wrapped.description, dependencies=("humanize>=4", "more")), tmp_path / "one")
    assert draft_of(to) == msgspec.structs.replace(wrapped, dependencies=("humanize>=4", "more"))
    for number, changes in enumerate(({"code": f"{wrapped.code}\nprint()\n"}, {"dependencies": ()})):
        to = export(made(**{**about, **changes}), tmp_path / f"other{number}")
        assert draft_of(to).adapts == ""


def test_the_files_of_an_export(tmp_path: Path) -> None:
    """Plain modules that pytest runs, and what is known of the tool."""
    folder = export(made(), tmp_path / "out")
    assert {each.name for each in folder.iterdir()} == {"word_count.py", "test_word_count.py", "tool.json"}
    assert (folder / "word_count.py").read_text() == CODE
    about = json.loads((folder / "tool.json").read_text())
    assert (about["version"], about["schema"]["required"]) == (1, ["text"])


def test_a_module_with_tests_beside_it(tmp_path: Path) -> None:
    """Its dependencies stand in a block of PEP 723, its description in its docstring."""
    block = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#     "humanize>=4",\n# ]\n# ///\n'
    (tmp_path / "word_count.py").write_text(block + CODE)
    (tmp_path / "test_word_count.py").write_text(TESTS)
    found = draft_of(tmp_path / "word_count.py")
    assert (found.name, found.dependencies) == ("word_count", ("humanize>=4",))
    assert found.description == "Count the words of a text."


def test_many_blocks_that_do_not_end(tmp_path: Path) -> None:
    """Are read in no time, and are none."""
    (tmp_path / "word_count.py").write_text(CODE + "# /// script\n# \n" * 6_000)
    (tmp_path / "test_word_count.py").write_text(TESTS)
    assert machine.within(20, lambda: draft_of(tmp_path / "word_count.py")).dependencies == ()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_are_damaged_or_locked(tmp_path: Path, method: int) -> None:
    """Each is one sentence, by whatever method it is packed, and with a password too."""
    archive = tmp_path / "t.zip"
    with zipfile.ZipFile(archive, "w", method) as packed:
        packed.writestr("t/tool.json", json.dumps({"name": "word_count"}))
    good, start = archive.read_bytes(), 30 + len("t/tool.json")
    damaged = good[:start] + b"\xff" * 12 + good[start + 12 :]
    directory = good.index(b"PK\1\2")
    locked = bytearray(good)
    locked[6] |= 1
    locked[directory + 8] |= 1
    for data in (damaged, bytes(locked)):
        archive.write_bytes(data)
        with pytest.raises(ForgeError, match="is no tool"):
            draft_of(archive)


def test_what_is_no_tool(tmp_path: Path) -> None:
    """Each is one sentence: nothing, a text, a broken archive, one without the tests, a bomb, a pipe, odd JSON."""
    folder = export(made(), tmp_path / "out")
    wrong = [tmp_path / "none", tmp_path / "text.txt", tmp_path / "broken.zip", tmp_path / "lone.py"]
    (tmp_path / "text.txt").write_text("no archive")
    (tmp_path / "broken.zip").write_bytes(b"PK\3\4" + b"x" * 100)
    (tmp_path / "lone.py").write_text(CODE)
    for name, change in {
        "climbing": {"name": "../../etc/passwd"},
        "other": {"dependencies": "humanize"},
        "nameless": {"name": 3},
    }.items():
        about = json.loads((folder / "tool.json").read_text()) | change
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool.json").write_text(json.dumps(about))
        wrong.append(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t/tool.json", (folder / "tool.json").read_text())
        archive.writestr("t/word_count.py", "#" * 50_000_000)
    os.mkfifo(tmp_path / "word_count.py")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "tool.json").write_text("[" * 100_000)
    for path in (*wrong, tmp_path / "bomb.zip", tmp_path / "word_count.py", tmp_path / "deep"):
        with pytest.raises(ForgeError):
            draft_of(path)
