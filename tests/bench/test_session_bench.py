"""What people and agents call: `Session.run`, with its log, its audit log and its watch on files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.conftest import at, beside_bare

from nbagent import Session

ENGINES = ("bubblewrap", "docker")
CELLS = 10_000
WINDOW = 500
MANY = "for i in range(1000): open(f'/workspace/{i}', 'w').close()"
Say = Callable[..., None]


@pytest.mark.parametrize("files", [0, 1000])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_trivial_cell(
    engine: str, files: int, benchmark: Any, loop: asyncio.AbstractEventLoop, compare: Say, tmp_path: Path
) -> None:
    """It costs what it costs in a bare ipykernel, also beside a thousand files that earlier cells have saved."""
    session = Session(engine=engine, state_dir=str(tmp_path))
    loop.run_until_complete(session.start())
    if files:
        loop.run_until_complete(session.run(MANY))
        # Some are collected after each cell, until all are.
        while loop.run_until_complete(session.run("1+1")).files:
            pass
    pair = beside_bare(benchmark, loop, session, rounds=500, warmup_rounds=20)
    beside = f" beside {files:,} files" if files else ""
    compare(f"trivial cell of Session.run{beside}, {engine}", pair, floor="a bare ipykernel", limit=1.05)


def test_many_cells(benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, tmp_path: Path) -> None:
    """Cell 10,000 costs what cell 1 costs, each beside one of a bare ipykernel."""
    session = Session(engine="bubblewrap", state_dir=str(tmp_path))
    loop.run_until_complete(session.start())
    pair = beside_bare(benchmark, loop, session, rounds=CELLS)
    windows = slice(WINDOW), slice(-WINDOW, None)
    first, last = (at(pair.ours[each], 0.5) / at(pair.floor[each], 0.5) for each in windows)
    say(f"Session.run, cells up to {CELLS:,} to the first {WINDOW}, each to a bare one's", last / first, limit=1.02)
