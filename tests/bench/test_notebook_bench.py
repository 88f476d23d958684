"""Notebooks: their export, the environment of their lock, and what verifying costs beyond running the cells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import nbclient
import nbformat
from bench.conftest import Pair, at

from nbagent import Session
from nbagent.core import settings
from nbagent.core.events import Asked, CellFinished, CellStarted, Record, SessionStarted
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import document
from nbagent.notebook.export import write
from nbagent.notebook.record import record
from nbagent.notebook.verify import Verification
from nbagent.sandbox.spec import SandboxSpec

Say = Callable[..., None]
CELLS = 2000
FRAME = '<table class="dataframe">' + "<tr><td>1.5</td><td>north</td></tr>" * 30 + "</table>"
WORK = (
    "import numpy as np, polars as pl\nimport matplotlib.pyplot as plt\nrng = np.random.default_rng(0)",
    "a = rng.normal(size=(1500, 1500))\nfor _ in range(8):\n    a = np.tanh(a @ a.T / 1500)\nfloat(a.sum())",
    "df = pl.DataFrame({'g': rng.integers(0, 50, 2_000_000), 'x': rng.normal(size=2_000_000)})\ndf.shape",
    "df.group_by('g').agg(pl.col('x').mean()).sort('g')",
    "plt.hist(df['x'].to_numpy(), bins=100)\nplt.show()",
    "from sklearn.ensemble import RandomForestRegressor\n"
    "RandomForestRegressor(60, random_state=0).fit(a[:, :20], a[:, 20]).predict(a[:3, :20])",
)
PACKAGES = ("humanize", "tabulate", "more-itertools")


def test_the_export_of_a_long_session(benchmark: Any, say: Say, note: Callable[[str], None], tmp_path: Path) -> None:
    """A notebook of 2,000 cells with tables, beside the reading and writing of the same by nbformat."""
    pair, path, events = Pair(), tmp_path / "n.ipynb", [*_long_session()]
    recording = record(Record(number, 0.0, event) for number, event in enumerate(events, start=1))
    write(recording, path)

    def floor() -> None:
        started = time.perf_counter()
        nbformat.write(nbformat.read(path, as_version=4), tmp_path / "floor.ipynb")
        pair.floor.append(time.perf_counter() - started)

    def ours() -> None:
        started = time.perf_counter()
        write(recording, path)
        pair.ours.append(time.perf_counter() - started)

    benchmark.pedantic(ours, setup=floor, rounds=5)
    say(f"export of a notebook of {CELLS:,} cells, to nbformat's reading and writing of it", pair.ratio(), limit=4)
    note(f"export of a notebook of {CELLS:,} cells: {at(pair.ours, 0.5):.2f} s")


def _long_session() -> Any:
    yield SessionStarted(
        session="s", engine="bubblewrap", trust="isolated", environment="", python="3.11.2", nbagent="1"
    )
    yield Asked(turn=1, question="How do they compare?")
    for number in range(1, CELLS + 1):
        table = {"text/html": FRAME, "text/plain": "1.5 north\n" * 30}
        output = {"output_type": "execute_result", "data": table, "metadata": {}, "execution_count": number}
        yield CellStarted(cell=number, turn=1, code=f"df.filter(pl.col('x') > {number}).head(30)")
        yield CellFinished(cell=number, status="ok", execution_count=number, duration=0.1, outputs=[output])


def test_the_environment_of_a_lock(benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, tmp_path: Path) -> None:
    """What a lock has beside the kernel's own packages is there again within 2 s, if their wheels are cached."""
    took: list[float] = []

    async def made() -> list[Any]:
        async with Session(engine="bubblewrap", state_dir=str(tmp_path / "state")) as session:
            return await session.install(list(PACKAGES))

    packages = loop.run_until_complete(made())

    async def rebuild() -> None:
        async with Kernel(machine.works("bubblewrap"), SandboxSpec()) as kernel:
            started = time.perf_counter()
            await kernel.install_locked(packages)
            took.append(time.perf_counter() - started)

    benchmark.pedantic(lambda: loop.run_until_complete(rebuild()), rounds=5)
    say("a lock's packages in a fresh kernel, from a warm cache", at(took, 0.5), limit=2, unit="s")


def test_verifying(benchmark: Any, loop: asyncio.AbstractEventLoop, say: Say, tmp_path: Path) -> None:
    """It costs a tenth more than what nbclient takes for the same cells in a kernel of the same environment."""
    pair, path = Pair(), tmp_path / "n.ipynb"

    async def made() -> None:
        async with Session(engine="bubblewrap", state_dir=str(tmp_path / "state")) as session:
            for code in WORK:
                assert (await session.run(code)).status == "ok"
            await session.export(path)

    loop.run_until_complete(made())

    async def floor() -> None:
        started = time.perf_counter()
        notebook = nbformat.read(path, as_version=4)
        await nbclient.NotebookClient(notebook, timeout=600, kernel_name="nbagent-bubblewrap").async_execute()
        pair.floor.append(time.perf_counter() - started)

    async def ours() -> None:
        started = time.perf_counter()
        found = document.parse(path.read_text(), name="n.ipynb")
        spec = SandboxSpec.of(settings.load())
        proof = await Verification(found, engine=machine.works("bubblewrap"), spec=spec).run()
        pair.ours.append(time.perf_counter() - started)
        assert (proof.result, proof.runs) == ("same", 1), proof

    benchmark.pedantic(
        lambda: loop.run_until_complete(ours()), setup=lambda: loop.run_until_complete(floor()), rounds=5
    )
    say("verifying a notebook, to nbclient's running of it in the same kernel", pair.ratio(), limit=1.1)
