"""The mirror of data: hard links where there can be some, copies and mounts where not, and what changes later."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import machine
import pytest

from nbagent.core.errors import DataError
from nbagent.core.policy import MIB
from nbagent.sandbox.data import mirror
from nbagent.sandbox.data.mirror import SMALL, Mirror, obstacle
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import HiddenReason
from nbagent.sandbox.paths import DATA

NOBODY = 64420


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder of the sandbox's."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder of the person's."""
    folder = tmp_path / "given"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.csv").write_text("a")
    (folder / "sub" / "b.csv").write_text("b")
    (folder / "sub" / "link").symlink_to("../a.csv")
    return folder


def mirrored(scratch: Path, *mounts: Mount, uid: int | None = None) -> Mirror:
    """A mirror in the sandbox's folder."""
    return Mirror(scratch / "data", mounts, uid=os.getuid() if uid is None else uid)


def contents(folder: Path) -> dict[str, str]:
    """Each name below a folder, with what a file holds or where a link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        said = f"-> {path.readlink()}" if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = said
    return found


def test_files_are_the_persons_own(scratch: Path, given: Path) -> None:
    """A hard link each: no byte is copied, what is written to it is seen; and it goes without a trace."""
    made = mirrored(scratch, Mount(given, DATA))
    assert made.fill() == [Mount(scratch / "data", DATA)]
    assert contents(scratch / "data") == {"a.csv": "a", "sub": "", "sub/b.csv": "b", "sub/link": "-> ../a.csv"}
    assert (scratch / "data" / "a.csv").samefile(given / "a.csv")
    (given / "a.csv").write_text("more")
    assert (scratch / "data" / "sub" / "link").read_text() == "more"


def test_a_large_file_costs_nothing(scratch: Path, given: Path) -> None:
    """10 GB are a link like any other."""
    with (given / "large").open("wb") as file:
        file.truncate(10 * 1024 * MIB)
    filled = machine.within(20, lambda: mirrored(scratch, Mount(given / "large", f"{DATA}/large")).fill())
    assert filled == [Mount(scratch / "data", DATA)]
    assert (scratch / "data" / "large").samefile(given / "large")


def test_what_changes_later_is_brought_in(scratch: Path, given: Path) -> None:
    """Files that are added, replaced, removed, renamed; folders that become links or files, and the other way round."""
    made = mirrored(scratch, Mount(given, DATA))
    made.fill()
    (given / "new").write_text("a2")
    (given / "new").replace(given / "a.csv")
    (given / "sub" / "b.csv").rename(given / "b.csv")
    (given / "late" / "deep").mkdir(parents=True)
    (given / "late" / "deep" / "c.csv").write_text("c")
    (given / ".env").write_text("secret")
    (given / "late" / ".git").mkdir()
    (given / "late" / "key").symlink_to("/etc/passwd")
    made.update()
    assert contents(scratch / "data") == {
        "a.csv": "a2",
        "b.csv": "b",
        "late": "",
        "late/deep": "",
        "late/deep/c.csv": "c",
        "sub": "",
        "sub/link": "-> ../a.csv",
    }
    assert made.left_out == {HiddenReason.HIDDEN: [".env", "late/.git"], HiddenReason.LINK: ["late/key"]}
    (given / "sub" / "link").unlink()
    (given / "sub").rmdir()
    (given / "sub").symlink_to("late")
    (given / "late" / "deep").rename(given / "gone")
    (given / "gone" / "c.csv").unlink()
    (given / "late" / "deep").write_text("a file now")
    (given / "b.csv").unlink()
    (given / "b.csv").mkdir()
    made.update()
    assert contents(scratch / "data") == {
        "a.csv": "a2",
        "b.csv": "",
        "gone": "",
        "late": "",
        "late/deep": "a file now",
        "sub": "-> late",
    }
    (given / "sub").unlink()
    (given / "sub").mkdir()
    (given / "a.csv").unlink()
    (given / "a.csv").symlink_to("../outside.csv")
    (given.parent / "outside.csv").write_text("secret")
    made.update()
    assert contents(scratch / "data") == {"b.csv": "", "gone": "", "late": "", "late/deep": "a file now", "sub": ""}


def test_another_process_goes_on_with_it(scratch: Path, given: Path) -> None:
    """All that it is can be seen from it."""
    mirrored(scratch, Mount(given, DATA)).fill()
    (given / "later.csv").write_text("l")
    before = (scratch / "data" / "a.csv").stat()
    mirrored(scratch, Mount(given, DATA)).update()
    assert (scratch / "data" / "later.csv").read_text() == "l"
    assert (scratch / "data" / "a.csv").stat().st_ctime_ns == before.st_ctime_ns


def test_given_data_that_is_gone(scratch: Path, given: Path) -> None:
    """An error at a start; later what is seen of it goes, and comes again."""
    made = mirrored(scratch, Mount(given / "a.csv", f"{DATA}/a.csv"))
    made.fill()
    (given / "a.csv").rename(given / "away")
    made.update()
    assert contents(scratch / "data") == {}
    with pytest.raises(DataError, match=r"a\.csv isn't there any more"):
        made.fill()
    (given / "away").rename(given / "a.csv")
    made.update()
    assert contents(scratch / "data") == {"a.csv": "a"}


def test_what_is_private_in_an_open_folder_stays_so(tmp_path: Path, scratch: Path) -> None:
    """For another user a file that a person named, or all of a closed folder, is opened; a secret beside data isn't."""
    opened, closed, named = tmp_path / "opened", tmp_path / "closed", tmp_path / "named.csv"
    for folder in (opened, closed, closed / "inner"):
        folder.mkdir()
        (folder / "secret").write_text("s")
        (folder / "secret").chmod(0o600)
    (closed / "run.sh").touch(mode=0o700)
    (closed / "open").touch(mode=0o644)
    opened.chmod(0o755)
    closed.chmod(0o700)
    (closed / "inner").chmod(0o700)
    named.write_text("n")
    named.chmod(0o600)
    mounts = [Mount(each, f"{DATA}/{each.name}") for each in (opened, closed, named)]
    mirrored(scratch, *mounts, uid=NOBODY).fill()
    top = scratch / "data"
    modes = {str(each.relative_to(top)): oct(stat.S_IMODE(each.stat().st_mode)) for each in sorted(top.rglob("*"))}
    assert modes == {
        "closed": "0o755",
        "closed/inner": "0o755",
        "closed/inner/secret": "0o644",
        "closed/open": "0o644",
        "closed/run.sh": "0o755",
        "closed/secret": "0o644",
        "named.csv": "0o644",
        "opened": "0o755",
        "opened/secret": "0o600",
    }
    assert named.stat().st_mode & 0o777 == 0o600
    assert (top / "closed" / "open").samefile(closed / "open")
    assert not (top / "closed" / "secret").samefile(closed / "secret")


def test_private_data_follows_its_changes(tmp_path: Path, scratch: Path) -> None:
    """A copy is made again when the file was written to, and only then."""
    named = tmp_path / "named.csv"
    named.write_text("n")
    named.chmod(0o600)
    made = mirrored(scratch, Mount(named, f"{DATA}/named.csv"), uid=NOBODY)
    made.fill()
    at = scratch / "data" / "named.csv"
    first = at.stat().st_ino
    made.update()
    assert at.stat().st_ino == first
    named.write_text("n2")
    made.update()
    assert at.read_text() == "n2"
    named.chmod(0o644)
    made.update()
    assert at.samefile(named)


@pytest.mark.needs("root")
def test_of_another_file_system_small_files_are_copied_and_large_ones_mounted(scratch: Path, elsewhere: Path) -> None:
    """So that of most it is seen when they are replaced; and nothing large is copied before a start."""
    (elsewhere / "small.csv").write_text("s")
    (elsewhere / "large.csv").write_bytes(b"l" * (SMALL + 1))
    made = mirrored(scratch, Mount(elsewhere, DATA))
    assert made.fill() == [Mount(scratch / "data", DATA), Mount(elsewhere / "large.csv", f"{DATA}/large.csv")]
    assert contents(scratch / "data") == {"large.csv": "", "small.csv": "s"}
    made.update()
    assert contents(scratch / "data") == {"large.csv": "", "small.csv": "s"}
    (elsewhere / "small.csv").write_text("s2")
    (elsewhere / "new").write_bytes(b"m" * (SMALL + 1))
    (elsewhere / "new").replace(elsewhere / "large.csv")
    made.update()
    assert (scratch / "data" / "small.csv").read_text() == "s2"
    assert (scratch / "data" / "large.csv").read_bytes() == b"m" * (SMALL + 1)
    assert made.fill()[1:] == []


@pytest.mark.needs("root")
def test_too_much_to_copy_is_left_out_and_said(scratch: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be neither linked nor mounted is copied up to a bound; nothing old stays in place of what isn't."""
    monkeypatch.setattr(mirror, "MAX_COPIED", 10)
    monkeypatch.setattr(mirror, "COPIED_FIRST", 10)
    (elsewhere / "a.csv").write_text("a" * 8)
    made = mirrored(scratch, Mount(elsewhere, DATA))
    made.fill()
    (elsewhere / "b.csv").write_text("b" * 8)
    made.update()
    assert contents(scratch / "data") == {"a.csv": "a" * 8}
    assert made.left_out == {HiddenReason.LARGE: ["b.csv"]}
    (elsewhere / "a.csv").write_text("a" * 11)
    (elsewhere / "b.csv").write_text("b" * 9)
    made.update()
    assert contents(scratch / "data") == {"b.csv": "b" * 9}
    assert made.left_out == {HiddenReason.LARGE: ["a.csv"]}
    assert obstacle([Mount(elsewhere, DATA)], scratch=scratch) == mirror.TOO_MUCH
    with pytest.raises(DataError, match="would have to be copied"):
        mirrored(scratch, Mount(elsewhere, DATA)).fill(mounting=False)
    monkeypatch.setattr(mirror, "MAX_COPIED", 100)
    assert obstacle([Mount(elsewhere, DATA)], scratch=scratch) == ""
    assert "gone isn't there" in obstacle([Mount(elsewhere / "gone", f"{DATA}/gone")], scratch=scratch)


@pytest.mark.needs("root")
def test_no_more_is_mounted_than_engines_take(scratch: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that files are copied, as far as these may be."""
    monkeypatch.setattr(mirror, "COPIED_FIRST", 0)
    monkeypatch.setattr(mirror, "MAX_MOUNTS", 2)
    for number in range(4):
        (elsewhere / f"{number}.csv").write_text(f"{number}")
    found = mirrored(scratch, Mount(elsewhere, DATA)).fill()
    assert [each.target for each in found] == [DATA, f"{DATA}/0.csv", f"{DATA}/1.csv"]
    assert contents(scratch / "data") == {"0.csv": "", "1.csv": "", "2.csv": "2", "3.csv": "3"}


def test_odd_names_and_an_unreadable_folder(scratch: Path, given: Path) -> None:
    """Any name is a name; what this process may not read is left out and said."""
    names = ["line\nbreak.csv", "übung 📈.csv", "-rf", "back\\slash", os.fsdecode(b"caf\xe9.csv"), "x" * 255]
    for name in names:
        (given / name).write_text("n")
    closed = given / "closed"
    closed.mkdir(mode=0)
    made = mirrored(scratch, Mount(given, DATA))
    made.fill()
    assert set(names) <= {each.name for each in (scratch / "data").iterdir()}
    assert stat.S_IMODE((scratch / "data" / "closed").stat().st_mode) == 0o700


def test_a_link_that_comes_between_is_not_followed(scratch: Path, given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the making, somebody may put links in place of the file and of its folder."""
    outside = given.parent / "outside"
    outside.mkdir()
    (outside / "b.csv").write_text("secret")
    (given.parent / "secret").write_text("secret")
    honest = Mirror._read

    def swapping(self: Mirror) -> object:
        found = honest(self)
        (given / "a.csv").unlink()
        (given / "a.csv").symlink_to("../secret")
        (given / "sub").rename(given / "sub-was")
        (given / "sub").symlink_to("../outside")
        return found

    monkeypatch.setattr(Mirror, "_read", swapping)
    made = mirrored(scratch, Mount(given, DATA))
    made.fill()
    assert {"a.csv", "sub/b.csv"}.isdisjoint(contents(scratch / "data"))
