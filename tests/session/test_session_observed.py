"""A real session as those see it who watch: its audit log, its numbers, its log lines."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from program import TABLE, call, environment, replies

from nbagent import Limits, Session
from nbagent.core.errors import StoreError, UsageError
from nbagent.core.policy import MIB
from nbagent.observability.audit import verify

ENGINE = "bubblewrap"


def lines(session: Session) -> list[dict[str, Any]]:
    """The audit log of a session."""
    return [json.loads(line) for line in (session.folder / "audit.jsonl").read_text().splitlines()]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table in a CSV file."""
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


async def test_a_session_is_audited_counted_and_logged(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the model ran, what a person ran, what killed the kernel: each with its tool, approver, end and memory."""
    model = replies(tmp_path / "r.jsonl", call("open('/tmp/output/x.txt', 'w').write('x')"), "Done.")
    async with Session(model=model, data=[table], engine=ENGINE, log_level="info") as session:
        await session.ask("What is in it?")
        await session.run("x = b'x' * 150_000_000; len(x)")
        await session.run("import os; os._exit(7)")
        assert verify(session.folder / "audit.jsonl").whole, "while it runs"
        metrics = session.metrics
    found = lines(session)
    assert verify(session.folder / "audit.jsonl").notes == []
    start = next(each for each in found if each["type"] == "session_start")
    assert (start["engine"], start["trust"], start["sandbox"] != "") == (ENGINE, "isolated", True)
    assert (start["limits"]["memory_mb"], start["security"]["network_enabled"]) == (2048, False)
    assert start["seconds"] > 0.1
    cells = [each for each in found if each["type"] == "cell"]
    assert [(each["tool"], each["approver"]) for each in cells] == [
        ("python", "policy:never-ask"),
        ("person", "person"),
        ("person", "person"),
    ]
    assert [each["prompt"] for each in cells] == ["What is in it?", "", ""]
    assert [each["exit"]["status"] for each in cells] == ["ok", "ok", "died"]
    assert cells[2]["exit"]["code"] == 7
    assert cells[1]["memory_peak"] - cells[0]["memory_peak"] > 100 * MIB
    assert cells[1]["memory_limit"] == 2048 * MIB
    assert {each["environment"] for each in cells} == {start["environment"]}
    file = next(each for each in found if each["type"] == "file")
    assert (file["path"], file["cell"]) == (str(session.folder / "output" / "x.txt"), 1)
    assert (metrics.cells, metrics.active_sandboxes, metrics.kernels_lost) == ({"ok": 2, "died": 1}, 1, 1)
    assert metrics.creation.total == start["seconds"]
    assert session.metrics.active_sandboxes == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.split("] ")[1].split(" engine")[0] for line in told][:1] == ["Sandbox created"]
    assert any("[error] Execution complete exit_code=7" in line for line in told)


async def test_a_killed_cell_has_its_memory_and_signal(tmp_path: Path) -> None:
    """Out of memory: the peak stands at the limit. Too long: it was this side that killed it."""
    quick = Limits(memory_mb=256, grace=0.5)
    async with Session(engine=ENGINE, limits=quick, state_dir=tmp_path) as session:
        await session.run("x = b'x' * 400_000_000")
        deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        await session.run(deaf, timeout=0.5)
    full, late = [each for each in lines(session) if each["type"] == "cell"]
    assert (full["exit"]["status"], full["exit"]["signal"]) == ("died", "SIGKILL")
    assert full["memory_peak"] > 250 * MIB
    assert (late["exit"]["status"], late["exit"]["signal"]) == ("timeout", "SIGKILL")
    assert 0 < late["memory_peak"] < 250 * MIB


async def test_a_cell_that_can_not_be_audited_does_not_run(tmp_path: Path) -> None:
    """The log comes before the code."""
    async with Session(engine=ENGINE, state_dir=tmp_path) as session:
        assert session._started()._audit is not None
        kept, full = os.dup(session._started()._audit._descriptor), os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, session._started()._audit._descriptor)
        with pytest.raises(StoreError, match=r"audit\.jsonl can't be written"):
            await session.run("open('/tmp/ran', 'w').close()")
        os.dup2(kept, session._started()._audit._descriptor)
        os.close(kept)
        os.close(full)
        cell = await session.run("import os; os.path.exists('/tmp/ran')")
        assert cell.text == "False"
    assert verify(session.folder / "audit.jsonl").whole


async def test_a_key_of_the_settings_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hashes are HMACs then; a key that is none stops the session before it starts."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    monkeypatch.setenv("NBAGENT_AUDIT_KEY_FILE", str(key))
    async with Session(engine=ENGINE, state_dir=tmp_path) as session:
        await session.run("1")
    assert verify(session.folder / "audit.jsonl", key=b"k" * 32).notes == []
    assert verify(session.folder / "audit.jsonl").keyed
    key.write_bytes(b"")
    with pytest.raises(UsageError, match="too short"):
        Session(engine=ENGINE)


async def test_a_key_that_a_program_gave_is_given_again_to_the_resumed_session(tmp_path: Path) -> None:
    """No setting names it."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    async with Session(engine=ENGINE, state_dir=tmp_path, audit_key_file=key) as session:
        await session.run("1")
    async with Session.resumed(session.id, state_dir=tmp_path, audit_key_file=key) as again:
        await again.run("2")
    found = verify(session.folder / "audit.jsonl", key=b"k" * 32)
    assert (found.whole, found.keyed, found.notes) == (True, True, [])


KILLED = """
import asyncio, sys
from nbagent import Session
async def main():
    async with Session(engine="bubblewrap", session="killed", state_dir=sys.argv[1]) as session:
        await session.run("1")
        print("go", flush=True)
        await session.run("import time; time.sleep(3)")
asyncio.run(main())
"""


async def test_a_controller_that_was_killed_leaves_a_whole_log(tmp_path: Path) -> None:
    """The cell that was running has its line from before it ran, and its unknown end when the session goes on."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, env=environment()
    ) as controller:
        assert controller.stdout is not None
        assert await asyncio.to_thread(controller.stdout.readline) == b"go\n"
        path = tmp_path / "sessions/killed/audit.jsonl"
        end = time.monotonic() + 60
        while path.read_text().count('"cell_begun"') < 2 and time.monotonic() < end:
            await asyncio.sleep(0.02)
        controller.kill()
    first = verify(path)
    assert (first.whole, first.cells, first.notes) == (True, 1, [])
    session = await Session.connect("killed", state_dir=tmp_path)
    try:
        await session.run("2")
        assert session.metrics.active_sandboxes == 1
    finally:
        await session.stop()
    cells = [each for each in lines(session) if each["type"] == "cell"]
    assert [each["exit"]["status"] for each in cells] == ["ok", "interrupted", "ok"]
    assert cells[1]["code"] == "import time; time.sleep(3)"
    resumed = next(each for each in lines(session) if each["type"] == "session_resumed")
    assert (resumed["kept"], resumed["environment"]) == (True, cells[0]["environment"])
    assert verify(path).notes == []
    assert lines(session)[0]["pid"] == controller.pid
