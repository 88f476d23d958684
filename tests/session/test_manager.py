"""The sessions of a person: listed, searched, named and removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbagent import Session, SessionManager, host
from nbagent.core.errors import UsageError
from nbagent.core.events import Answered, Asked, OutputAdded, SessionEnded
from nbagent.core.session_log import SessionLog
from nbagent.observability.audit.verification import verify
from nbagent.sandbox.leases import lease as leases
from nbagent.session import manager as managers
from nbagent.session.catalog import lookup, summary
from nbagent.session.catalog.session_list import SessionInfo


def write_log(root: Path, name: str, *events: Any) -> None:
    """A session's log with these events."""
    log = SessionLog(root, name)
    for each in events:
        log.emit(each)
    log.close()


def asked(question: str, answer: str) -> tuple[Asked, Answered]:
    """The events of a turn."""
    return Asked(turn=1, question=question), Answered(turn=1, text=answer, success=True, attempts=1)


async def test_words_are_found_in_titles_questions_and_answers(tmp_path: Path) -> None:
    """In any case of letters, the latest session first; what cells have shown is not looked through."""
    data = {"application/json": {"type": "Asked", "question": "Größe"}}
    shown = OutputAdded(cell=1, output={"output_type": "display_data", "data": data, "metadata": {}})
    write_log(tmp_path, "one", *asked("Which GRÖSSE is it?", "The " + "x" * 300 + " größte of all."))
    write_log(tmp_path, "two", shown, *asked("Nothing", "at all"))
    manager = SessionManager(state_dir=tmp_path)
    await manager.rename("two", "The größte")
    found = await manager.search("größt")
    assert [(each.session.id, each.where, each.turn) for each in found.hits] == [
        ("two", "title", 0), ("one", "answer", 1),
    ]  # fmt: skip
    assert found.hits[1].text.startswith("…")
    assert "größte of all." in found.hits[1].text
    assert found.is_whole
    assert [each.where for each in (await manager.search("grösse")).hits] == ["title", "question"]


async def test_a_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hits and by bytes that are read; who gets less is told."""
    for number in range(5):
        write_log(tmp_path, f"s{number}", *asked(f"What of it {number}?", "Nothing."))
    manager = SessionManager(state_dir=tmp_path)
    found = await manager.search("nothing", most=3)
    assert (len(found.hits), found.is_whole) == (3, False)
    monkeypatch.setattr(managers, "MAX_READ_BYTES", 1)
    found = await manager.search("nothing")
    assert (len(found.hits), found.is_whole) == (1, False)


async def test_a_session_that_ended_is_renamed(tmp_path: Path) -> None:
    """The log says so, the audit log still proves the rest, and an empty title gives the question's back."""
    async with Session(engine="bubblewrap", state_dir=tmp_path) as session:
        await session.run("1")
    manager = SessionManager(state_dir=tmp_path)
    await manager.rename(session.id, "  Mine\nand yours")
    assert [(each.title, each.state) for each in await manager.list()] == [("Mine", "ended")]
    await manager.rename(session.id, "")
    assert [each.title for each in await manager.list()] == ["1"]
    assert verify(tmp_path / "sessions" / session.id / "audit.jsonl").whole


async def test_what_runs_is_deleted_only_by_force(tmp_path: Path) -> None:
    """Then it is ended first, also while it starts; one whose kernel waits is ended too."""
    manager = SessionManager(state_dir=tmp_path)
    async with Session(engine="bubblewrap", state_dir=tmp_path) as session:
        with pytest.raises(UsageError, match="is running"):
            await manager.delete(session.id)
        assert (await session.run("1")).text == "1"
        await manager.delete(session.id, force=True)
        assert session.status == "stopped"
    assert list((tmp_path / "sessions").iterdir()) == []
    starting = asyncio.create_task(host(new="starts", engine="bubblewrap", state_dir=tmp_path, keep_minutes=5))
    while not lookup.is_running(tmp_path / "sessions" / "starts"):
        await asyncio.sleep(0.01)
    await manager.delete("starts", force=True)
    for each in await asyncio.gather(starting, return_exceptions=True):
        if not isinstance(each, BaseException):
            await each.detach()
    assert await manager.list() == []
    waiting = Session(engine="bubblewrap", state_dir=tmp_path)
    await waiting.start()
    await waiting.detach()
    assert leases.find(waiting.id) is not None
    await manager.delete(waiting.id)
    assert leases.find(waiting.id) is None
    assert await manager.list() == []


async def test_only_a_session_is_deleted(tmp_path: Path) -> None:
    """By its whole name; a link is not followed, neither in its place nor in it."""
    manager = SessionManager(state_dir=tmp_path / "state")
    write_log(tmp_path / "state", "one", SessionEnded())
    write_log(tmp_path / "other", "linked", SessionEnded())
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    sessions = tmp_path / "state" / "sessions"
    (sessions / "linked").symlink_to(tmp_path / "other" / "sessions" / "linked")
    (sessions / "one" / "link").symlink_to(tmp_path / "precious")
    for name in ("", ".", "..", "on", "../sessions/one", "one/", "/etc"):
        with pytest.raises(UsageError, match="no session"):
            await manager.delete(name)
    with pytest.raises(UsageError, match="is a link"):
        await manager.delete("linked", force=True)
    await manager.delete("one")
    assert [each.name for each in sessions.iterdir()] == ["linked"]
    assert (tmp_path / "precious" / "file").exists()
    assert (tmp_path / "other" / "sessions" / "linked" / "log.jsonl").exists()


async def test_what_was_deleted_meanwhile_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    """Two clean up at once: what one has removed already is none of what the other one removes."""
    manager = SessionManager(state_dir=tmp_path)
    for name in ("gone", "one", "two"):
        write_log(tmp_path, name, Asked(turn=1, question=name), SessionEnded())
    listed = await manager.list()
    shutil.rmtree(tmp_path / "sessions" / "gone")

    async def known() -> list[SessionInfo]:
        return listed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager, "list", known)
        assert {each.id for each in await manager.delete_ended(unused=0)} == {"one", "two"}
    write_log(tmp_path, "three", SessionEnded())
    sessions = tmp_path / "sessions"
    assert await manager._remove([sessions / "gone", sessions / "three"]) == [sessions / "three"]
    assert list(sessions.iterdir()) == []


async def test_a_session_whose_lock_is_no_file_stays_and_the_others_are_removed(tmp_path: Path) -> None:
    """A link would be written to elsewhere, and a pipe be waited for."""
    manager = SessionManager(state_dir=tmp_path)
    for name in ("link", "pipe", "one"):
        write_log(tmp_path, name, SessionEnded())
    for name in ("link", "pipe"):
        (tmp_path / "sessions" / name / "lock").unlink(missing_ok=True)
    (tmp_path / "sessions" / "link" / "lock").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "sessions" / "pipe" / "lock")
    assert [each.id for each in await manager.delete_ended(unused=0)] == ["one"]
    for name in ("link", "pipe"):
        with pytest.raises(UsageError, match="did not end"):
            await manager.delete(name)
    assert not (tmp_path / "elsewhere").exists()


def test_managing_imports_nothing_heavy() -> None:
    """No more than attaching does: a server lists sessions that others own."""
    code = "import sys, nbagent; nbagent.{}; print(*sorted(sys.modules))"
    attached, managed = (
        subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True).stdout
        for name in ("attach", "SessionManager")
    )
    more = {each.partition(".")[0] for each in set(managed.split()) - set(attached.split())}
    assert more <= {"nbagent"}


@pytest.mark.parametrize("plant", [os.mkfifo, lambda at: at.symlink_to("/dev/zero")])
async def test_a_search_waits_for_no_log_that_is_none(plant: Callable[[Path], None], tmp_path: Path) -> None:
    """A pipe, or a link to a device, in place of a log keeps nobody waiting, and no others from being found."""
    for name in ("s", "t"):
        write_log(tmp_path, name, *asked("What of it?", "Nothing."))
        summary.write(tmp_path / "sessions" / name, summary.Summary(about="What of it?", started=1.0))
    (tmp_path / "sessions" / "s" / "log.jsonl").unlink()
    plant(tmp_path / "sessions" / "s" / "log.jsonl")
    searching = asyncio.create_task(SessionManager(state_dir=tmp_path).search("nothing"))
    assert [each.session.id for each in (await asyncio.wait_for(searching, 60)).hits] == ["t"]
