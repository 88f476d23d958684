"""The controller is killed at random moments of a long run: nothing that was shown is lost, and nothing is left.

`NBAGENT_TEST_DEATHS=100` does it a hundred times on each engine; `make test` a few times.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import nbformat
import pytest

from nbagent.core.events import CellFinished, Record
from nbagent.core.session_log import SessionLog, read_log
from nbagent.notebook import export
from nbagent.notebook.record import record
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.leases import lease
from nbagent.sandbox.machine import reaper

DEATHS = int(os.environ.get("NBAGENT_TEST_DEATHS", "4"))
LONGEST = 6.0
"""Seconds after the start, of which a start takes about one and a half."""
RUN = """
import asyncio, os, sys
import msgspec
from nbagent.session.session import Session

CELLS = [
    "import time\\nfor n in range(20):\\n    print('line', n, flush=True)\\n    time.sleep(0.01)",
    "from IPython.display import display, update_display\\nh = display({'a': 1}, display_id=True)\\nh.update({'a': 2})",
    "1 / 0",
    "open('/tmp/output/x.csv', 'w').write('a,b\\\\n' + '1,2\\\\n' * 1000)",
    "import os; os._exit(3)",
    "print('x' * 300_000)",
    "import sys; print('err', file=sys.stderr); 'größe'",
]

def show(record):
    os.write(1, msgspec.json.encode(record) + b"\\n")

async def main(engine, state):
    session = Session(engine=engine, state_dir=state, session="dies", restore="replay")
    started = asyncio.create_task(session.start())
    while session._parts is None and not started.done():
        await asyncio.sleep(0)
    session.follow(show)
    await started
    while True:
        for code in CELLS:
            await session.run(code)

asyncio.run(main(*sys.argv[1:]))
"""


def shown_until_death(engine: str, state: Path, *, seconds: float) -> list[Record]:
    """What a controller has shown before it was killed, so many seconds after its start."""
    command = [sys.executable, "-W", "error", "-c", RUN, engine, str(state)]
    said = state / "shown"
    with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE) as process:
        time.sleep(seconds)
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        process.kill()
    lines = said.read_bytes().splitlines(keepends=True)
    return [msgspec.json.decode(line, type=Record) for line in lines if line.endswith(b"\n")]


@pytest.mark.parametrize("number", range(DEATHS))
async def test_a_death_loses_nothing_that_was_shown(
    engine: Engine,
    number: int,
    tmp_path: Path,
    leftovers: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every event that was shown stands in the log, the notebook made from that is valid, and no orphan is left."""
    seconds = random.uniform(LONGEST * number / DEATHS, LONGEST * (number + 1) / DEATHS)  # noqa: S311 - no secret
    before = leftovers()
    shown = await asyncio.to_thread(shown_until_death, engine.name, tmp_path, seconds=seconds)
    folder = tmp_path / "sessions" / "dies"
    if folder.exists():
        with_log = (folder / "log.jsonl").exists()
        kept = list(read_log(folder)) if with_log else []
        assert [each.seq for each in kept] == list(range(1, len(kept) + 1)), seconds
        assert kept[: len(shown)] == shown, seconds
        # ... at most what was being shown at that moment is more.
        assert len(kept) <= len(shown) + 1, seconds
        written = export.write(record(kept), tmp_path / "dies.ipynb")
        notebook = nbformat.read(written, as_version=4)
        nbformat.validate(notebook)
        assert sum(each.cell_type == "code" for each in notebook.cells) >= sum(
            isinstance(each.event, CellFinished) and each.event.status == "ok" for each in kept
        )
        # Who takes the session next goes on counting where it ended.
        log = SessionLog(tmp_path, "dies")
        assert log.last == len(kept)
        log.close()
    else:
        assert shown == []
    monkeypatch.setattr(lease, "STALE_NEW", 0.0)  # it may have been killed while it made its lease
    await asyncio.to_thread(lambda: reaper.sweep(waiting=True))
    end = time.monotonic() + 60
    while leftovers() != before and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert leftovers() == before, seconds
