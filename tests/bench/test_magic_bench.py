"""What `%agent` costs a person's kernel: to load it, and to send a table over and back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from bench.conftest import Pair

from nbagent.faces.magic.asking import give, take
from nbagent.faces.magic.variables import pack
from nbagent.session.host_process import host

Say = Callable[..., None]
LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.perf_counter()
shell.extension_manager.load_extension("nbagent")
print(time.perf_counter() - began)
"""


def test_loading_the_extension(benchmark: Any, say: Say) -> None:
    """It imports nothing heavy until the first question."""
    took: list[float] = []

    def load() -> None:
        ran = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
        took.append(float(ran.stdout))

    benchmark.pedantic(load, rounds=5, warmup_rounds=1)
    say("%load_ext nbagent, in a new process", min(took), limit=0.5, unit="s")


def test_a_table_in_and_back(benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, tmp_path: Path) -> None:
    """A table of 100 MB goes over and comes back in three times the time of writing and reading it here."""
    frame = pl.DataFrame({f"c{column}": pl.Series(range(column, 2_500_000 + column)) for column in range(5)})
    pair = Pair()

    def floor() -> None:
        began = time.perf_counter()
        frame.write_ipc(tmp_path / "floor.arrow")
        found = pl.read_ipc(tmp_path / "floor.arrow")
        pair.floor.append(time.perf_counter() - began)
        assert found.height == frame.height

    async def ours() -> None:
        began = time.perf_counter()
        await give(session, await asyncio.to_thread(pack, "frame", frame))
        found = await take(session, "frame")
        pair.ours.append(time.perf_counter() - began)
        assert found.equals(frame)

    session = loop.run_until_complete(host(engine="bubblewrap", state_dir=str(tmp_path / "state")))
    try:
        benchmark.pedantic(lambda: loop.run_until_complete(ours()), setup=floor, rounds=7, warmup_rounds=1)
    finally:
        loop.run_until_complete(session.stop())
    say("a table of 100 MB to the sandbox and back, to writing and reading it as Arrow IPC", pair.ratio(), limit=3)
