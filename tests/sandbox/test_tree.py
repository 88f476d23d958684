"""What of a person's data is shown, by its names: links are followed in thought only, hidden names are left out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import machine
import pytest

from nbagent.sandbox.data import tree
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import DataTree, HiddenReason, facts, read
from nbagent.sandbox.paths import DATA


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder as a person gives it."""
    folder = tmp_path / "given"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "a.csv").write_text("a")
    (folder / "sub" / "b.csv").write_text("b")
    (folder / "sub" / "deep" / "c.csv").write_text("c")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("key")
    return folder


def shown(folder: Path, target: str = DATA) -> DataTree:
    """The tree of one folder."""
    return read([Mount(folder, target)], opening=False)


def links(found: DataTree) -> dict[str, str]:
    """Links that are shown, with where they lead."""
    return {path: entry.target for path, entry in found.entries.items() if entry.kind == "link"}


def test_each_folder_comes_before_what_is_in_it(given: Path) -> None:
    """So it can be made in that order."""
    assert list(shown(given).entries) == ["a.csv", "sub", "sub/b.csv", "sub/deep", "sub/deep/c.csv"]
    assert list(shown(given, f"{DATA}/x").entries)[:3] == ["x", "x/a.csv", "x/sub"]


@pytest.mark.parametrize("target", [DATA, f"{DATA}/given"])
@pytest.mark.parametrize(
    ("at", "to"),
    [
        ("figures", "../.ssh"),
        ("data.csv", "../.ssh/id"),
        ("rootfs", "/"),
        ("sub/deep/link", "../../../.ssh"),
        ("sub/back", "../../given/a.csv"),
        ("sub/etc", "/etc/passwd"),
        ("out", ".."),
        ("nowhere", "gone.csv"),
        ("itself", "itself"),
        ("through", "a.csv/x"),
        ("as-folder", "a.csv/"),
        ("hidden", ".env"),
        ("in-hidden", ".git/config"),
        ("sibling", "/../given/a.csv"),
        ("proc", "/proc/self/root/etc/passwd"),
    ],
)
def test_links_that_lead_out_or_to_nothing_are_left_out(given: Path, target: str, at: str, to: str) -> None:
    """Wherever they are, absolute or not, to what is outside, hidden, gone or themselves; what leads by them too."""
    (given / ".env").write_text("e")
    (given / ".git").mkdir()
    (given / ".git" / "config").write_text("c")
    (given / at).symlink_to(to)
    (given / "by").symlink_to(at)
    (given / "by-file").symlink_to(f"{at}/id")
    found = shown(given, target)
    assert links(found) == {}
    below = target.removeprefix(DATA).lstrip("/")
    assert found.left_out[HiddenReason.LINK] == sorted(f"{below}/{each}".lstrip("/") for each in (at, "by", "by-file"))


@pytest.mark.parametrize("target", [DATA, f"{DATA}/given"])
def test_links_within_the_folder_are_shown_relative(given: Path, target: str) -> None:
    """To files and folders, up and down, absolute, by other links; they lead straight to the end."""
    made = {
        "one.csv": ("sub/b.csv", "sub/b.csv"),
        "folder": ("sub/deep/", "sub/deep"),
        "sub/up.csv": ("../a.csv", "../a.csv"),
        "sub/deep/far.csv": ("../.././sub//b.csv", "../b.csv"),
        "absolute": (str(given / "sub"), "sub"),
        "sub/deep/absolute.csv": (str(given / "a.csv"), "../../a.csv"),
        "chain": ("absolute/deep/far.csv", "sub/b.csv"),
        "through.csv": ("folder/../b.csv", "sub/b.csv"),
        "top": (".", "."),
        "sub/top": ("..", ".."),
    }
    for at, (to, _) in made.items():
        (given / at).symlink_to(to)
    found = shown(given, target)
    below = target.removeprefix(DATA).lstrip("/")
    assert links(found) == {f"{below}/{at}".lstrip("/"): target for at, (_, target) in made.items()}
    assert found.left_out == {}


def test_a_bomb_of_links_ends(given: Path) -> None:
    """Each leads through the one before it twice: given up as Linux does, at once."""
    (given / "l0").symlink_to("sub")
    for number in range(60):
        (given / f"l{number + 1}").symlink_to(f"l{number}/../l{number}/..")
    found = shown(given)
    assert "l60" in found.left_out[HiddenReason.LINK]
    assert "l0" in links(found)


def test_links_of_long_ways_are_given_up_together(given: Path) -> None:
    """Each goes back and forth as often as a link can, and then on to the next: that would take minutes for many."""
    (given / "ok").symlink_to("sub")
    for number in range(1000):
        to = f"z{number + 1}" if number % 39 else "sub"
        (given / f"z{number}").symlink_to("sub/../" * (4000 // 7) + to)
    found = machine.within(50, lambda: shown(given))
    assert "ok" in links(found)
    assert "z999" in found.left_out[HiddenReason.MANY]


def test_hidden_names_sockets_and_pipes_are_left_out_at_every_depth(given: Path) -> None:
    """Nothing below a hidden folder is even looked at."""
    (given / "sub" / ".git" / "hooks").mkdir(parents=True)
    (given / "sub" / "deep" / ".env").write_text("e")
    os.mkfifo(given / "sub" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(given / "socket"))
    found = shown(given)
    assert found.left_out == {
        HiddenReason.SPECIAL: ["socket", "sub/pipe"],
        HiddenReason.HIDDEN: ["sub/.git", "sub/deep/.env"],
    }
    assert given / "sub" / ".git" not in found.folders


def test_what_was_named_is_shown_whatever_its_name(given: Path, tmp_path: Path) -> None:
    """A person who names a hidden file or folder means it; in the folder the rules hold."""
    hidden = tmp_path / ".ssh"
    (hidden / ".more").touch()
    found = read([Mount(hidden, f"{DATA}/.ssh"), Mount(given / "a.csv", f"{DATA}/.a")], opening=False)
    assert sorted(found.entries) == [".a", ".ssh", ".ssh/id"]


def test_the_longer_path_stands_in_place_of_what_was_there(given: Path, tmp_path: Path) -> None:
    """Data of a notebook is seen where the notebook wants it, whatever the folder has there, be it a link."""
    (given / "linked").symlink_to("../.ssh")
    mine = tmp_path / "mine.csv"
    mine.touch()
    found = read(
        [Mount(mine, f"{DATA}/linked/x.csv"), Mount(mine, f"{DATA}/sub"), Mount(given, DATA)],
        opening=False,
    )
    assert {path: entry.source for path, entry in found.entries.items()} == {
        "a.csv": given / "a.csv",
        "linked": None,
        "linked/x.csv": mine,
        "sub": mine,
    }


@pytest.mark.parametrize("what", ["file", "folder", "above"])
def test_what_became_a_link_since_it_was_given_is_missing(given: Path, tmp_path: Path, what: str) -> None:
    """No component of what was given is followed: it had none that was a link when it was given."""
    source = given / "sub" / "b.csv" if what != "folder" else given / "sub"
    moved = {"file": given / "sub" / "b.csv", "folder": given / "sub", "above": given}[what]
    away = tmp_path / "away"
    moved.rename(away)
    moved.symlink_to(away)
    found = read([Mount(source, f"{DATA}/x")], opening=False)
    assert (found.missing, found.entries) == ([source], {})


def test_much_is_bounded_and_said(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than can be shown it is what is next to the top, in the order of names, and the rest is told."""
    monkeypatch.setattr(tree, "MAX_ENTRIES", 3)
    found = shown(given)
    assert list(found.entries) == ["a.csv", "sub", "sub/b.csv"]
    assert found.left_out == {HiddenReason.MANY: ["sub"]}
    monkeypatch.setattr(tree, "MAX_ENTRIES", 100)
    monkeypatch.setattr(tree, "MAX_DEPTH", 2)
    found = shown(given)
    assert "sub/deep/c.csv" not in found.entries
    assert found.left_out == {HiddenReason.MANY: ["sub/deep"]}


def test_what_is_told_can_be_read(given: Path) -> None:
    """Names that would steer a terminal are made safe, and many are few words."""
    for number in range(30):
        (given / f"link{number:02}\x1b[2J").symlink_to("/")
    (event,) = facts(shown(given).left_out)
    assert event.total == 30
    assert len(event.paths) == 10
    assert event.text.startswith(f"Not shown in {DATA}: links that lead out of the data")
    assert event.text.endswith(" and 20 more).")
    assert "\x1b" not in event.text
