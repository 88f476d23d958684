"""What changes in data is brought into its mirror, whether Linux tells of changes or not, until it is stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import machine
import pytest
import watchfiles

from nbagent.core.events import DataLeftOut
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import HiddenReason
from nbagent.sandbox.data.watcher import LiveMirror
from nbagent.sandbox.paths import DATA


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder of the person's."""
    folder = tmp_path / "given"
    (folder / "sub").mkdir(parents=True)
    (folder / "old").symlink_to("/")
    return folder


Watched = tuple[LiveMirror, Path, list[DataLeftOut]]


@pytest.fixture
def watched(given: Path, tmp_path: Path) -> Iterator[Watched]:
    """A mirror that is watched, its folder, and what was told."""
    (tmp_path / "scratch").mkdir()
    told: list[DataLeftOut] = []
    mirror, at = LiveMirror(told.append), tmp_path / "scratch" / "data"
    for begin in (mirror.fill, mirror.watch):
        begin(at, [Mount(given, DATA)], uid=os.getuid())
    yield mirror, at, told
    mirror.stop()
    mirror.join()


def until(holds: Callable[[], bool]) -> bool:
    """Whether something holds within a minute."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def test_changes_are_brought_in_and_news_told_once(watched: Watched, given: Path) -> None:
    """In folders that came later too; a link is told of when it comes, what was told before is not."""
    _, seen, told = watched
    (given / "sub" / "a.csv").write_text("a")
    assert until((seen / "sub" / "a.csv").exists)
    (given / "late").mkdir()
    assert until((seen / "late").exists)
    (given / "late" / "b.csv").write_text("b")
    (given / "late" / "link").symlink_to("/etc")
    (given / ".env").touch()
    assert until(lambda: (seen / "late" / "b.csv").exists() and bool(told))
    (given / "late" / "c.csv").write_text("c")
    assert until((seen / "late" / "c.csv").exists)
    assert [(each.reason, each.paths) for each in told] == [(HiddenReason.LINK.value, ["late/link"])]
    assert not (seen / ".env").exists()


def test_after_its_end_nothing_is_brought_in(watched: Watched, given: Path) -> None:
    """The sandbox may be going, or another process's."""
    mirror, seen, _ = watched
    (given / "a.csv").touch()
    assert until((seen / "a.csv").exists)
    mirror.stop()
    mirror.join()
    assert "nbagent-data" not in machine.own_threads()
    (given / "b.csv").touch()
    time.sleep(1)
    assert not (seen / "b.csv").exists()


class TestWithoutWatches:
    """Where Linux has no watch left."""

    @pytest.fixture(autouse=True)
    def _none_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise OSError("OS file watch limit reached")

        monkeypatch.setattr(watchfiles, "watch", refuse)

    def test_data_is_looked_at_in_turns(self, watched: Watched, given: Path) -> None:
        """It takes a little longer and is the same."""
        _, seen, _ = watched
        (given / "sub" / "a.csv").write_text("a")
        assert until((seen / "sub" / "a.csv").exists)
