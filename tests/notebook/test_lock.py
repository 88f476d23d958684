"""The lock of a notebook: what it names, and that an edit of it shows."""

from __future__ import annotations

import copy
import time
from pathlib import Path

import msgspec
import nbformat
import pytest
from program import TABLE

from nbagent import Session
from nbagent.core.events import Cell
from nbagent.notebook.lock import Lock, Seed, imports, seeds


def test_seeds_are_found_where_code_sets_them() -> None:
    """As arguments and as calls, each once; a seed of None is none."""
    code = """
import numpy as np, random
rng = np.random.default_rng(7)
random.seed(1); random.seed(1)
KMeans(n_clusters=3, random_state=42).fit(x)
KMeans(random_state=None); seed(n)
"""
    assert [each.code for each in seeds(Cell(cell=2, code=code, status="ok"))] == [
        "np.random.default_rng(7)",
        "random.seed(1)",
        "random_state=42",
    ]
    assert seeds(Cell(cell=2, code="%time f(", status="ok")) == []


def test_seeds_in_seeds_are_not_each_written_out() -> None:
    """44 KB of such calls took each export 5 s."""
    code = "seed(1, " * 90 + f"[{'0, ' * 22_000}]" + ")" * 90
    started = time.process_time()
    assert seeds(Cell(cell=1, code=f"{code}\nseed(2)", status="ok")) == [Seed(1, "seed(2)")]
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "code",
    [
        "%matplotlib inline\n{}",
        "%%time\n{}",
        "!ls\nfiles = !ls *.csv\n{}\nhelp?",
        "{}\nif x:\n    %timeit f()",
        "n = %time f()\n{}",
    ],
)
def test_imports_and_seeds_are_found_beside_magics(code: str) -> None:
    """As in most notebooks' first cell."""
    code = code.format("import seaborn as sns\nfrom scipy import stats\nrng = np.random.default_rng(7)")
    assert imports(code) == {"seaborn", "scipy"}
    assert [each.code for each in seeds(Cell(cell=2, code=code, status="ok"))] == ["np.random.default_rng(7)"]


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
async def test_an_export_names_all_that_its_results_may_depend_on(tmp_path: Path, engine: str) -> None:
    """Every package with version and hash, the machine, the limits; each cell with who, by what, when; no address."""
    (tmp_path / "table.csv").write_text(TABLE)
    async with Session(data=[tmp_path / "table.csv"], engine=engine) as session:
        await session.run("import humanize, numpy\nnumpy.random.seed(3)\nhumanize.intcomma(1000)")
        path = await session.export(tmp_path / "n.ipynb")
        pins = session._running().kernel.pins
    notebook = nbformat.read(path, as_version=4)
    facts = notebook.metadata.nbagent
    lock = msgspec.convert(copy.deepcopy(facts.lock), Lock)
    assert lock.is_intact
    assert lock.versions == {**pins, "humanize": lock.packages[0].version}
    assert all(len(each.sha256) == 64 for each in (*lock.kernel, *lock.packages))
    assert lock.environment.startswith("sha256:")
    assert lock.limits["timeout"] == 60
    assert lock.machine["platform"].startswith(("x86_64-", "aarch64-"))
    assert lock.machine["cpu_features"]
    assert (lock.machine["locale"], lock.machine["hash_seed"]) == ("C.UTF-8", "0")
    assert [each.code for each in lock.seeds] == ["numpy.random.seed(3)"]
    assert len(facts.data[0].sha256) == 64
    _, requirements, _, cell = notebook.cells
    assert f'# exclude-newer = "{lock.exclude_newer}"' in requirements.source
    assert (cell.metadata.nbagent.tool, cell.metadata.nbagent.approver) == ("person", "person")
    assert cell.metadata.nbagent.time.endswith("Z")
    assert len(cell.metadata.nbagent.sha256) == 64
    assert "://" not in path.read_text()
    # As a browser writes numbers: JupyterLab saves 60.0 as 60.
    saved = {name: int(value) if value and value % 1 == 0 else value for name, value in lock.limits.items()}
    facts.lock.limits = saved
    assert isinstance(facts.lock.limits.timeout, int)
    assert msgspec.convert(copy.deepcopy(facts.lock), Lock).is_intact
    facts.lock.packages[0].version = "4.0.0"
    assert not msgspec.convert(facts.lock, Lock).is_intact
