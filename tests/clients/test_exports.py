"""Exports that other people's programs run, in a sandbox and without one, with the data beside them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest
from nbformat import NotebookNode

from nbagent import Session
from nbagent.packages import uv

TABLE = "exported-table.csv"
CELLS = (
    f"import polars as pl\ndf = pl.read_csv('/tmp/data/{TABLE}')\nprint(df['bill'].sum())",
    "import matplotlib.pyplot as plt\nplt.plot(df['bill'])\nplt.savefig('/tmp/output/exported.png')\nplt.show()",
    "df['mass']",
    "display(df.height)",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a zip that a session exported, unpacked by somebody who has none of its data."""
    folder = tmp_path_factory.mktemp("zip")
    (folder / TABLE).write_text("species,bill\nAdelie,38.5\nGentoo,46.0\n")

    async def make() -> None:
        async with Session(data=[folder / TABLE], engine="bubblewrap") as session:
            for code in CELLS:
                await session.run(code)
            await session.export(folder / "birds.zip", keep_attempts=True)

    asyncio.run(make())
    (folder / TABLE).unlink()
    with zipfile.ZipFile(folder / "birds.zip") as packed:
        packed.extractall(folder)
    yield folder / "birds"
    # What a run without a sandbox has left where its code looks.
    for left in (Path("/tmp/data", TABLE), Path("/tmp/output/exported.png")):
        left.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            left.parent.rmdir()


def shown(notebook: NotebookNode) -> list[str]:
    """What its own cells show: text, or the error."""
    cells = [cell for cell in notebook.cells if cell.metadata.nbagent.get("role") == "cell"]
    assert any("image/png" in each.get("data", {}) for each in cells[1].outputs)
    return [str(cells[0].outputs[0].text), str(cells[2].outputs[0].ename), str(cells[3].outputs[0].data["text/plain"])]


@pytest.mark.parametrize("kernel", ["nbagent-bubblewrap", "python3"])
async def test_nbclient_runs_it_with_either_kernel(
    unpacked: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without nbagent's, the data is found beside the notebook all the same."""
    monkeypatch.chdir(unpacked)
    made = nbformat.read("birds.ipynb", as_version=4)
    executed = await nbclient.NotebookClient(made, timeout=120, kernel_name=kernel).async_execute()
    assert shown(executed) == ["84.5\n", "ColumnNotFoundError", "2"]


def test_uv_runs_the_script(unpacked: Path, tmp_path: Path) -> None:
    """With the packages of its block, from anywhere, and on behind a cell that failed."""
    command = [uv.binary(), "run", "--script", str(unpacked / "birds.py")]
    own = {**os.environ, "MPLBACKEND": "agg", "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "84.5\n2\n"
    assert "ColumnNotFoundError" in done.stderr


def test_the_zip_has_what_installs_its_packages(unpacked: Path, tmp_path: Path) -> None:
    """Each package of the requirements file is had by its hash, from wheels that the cache has."""
    command = [uv.binary(), "pip", "install", "--target", str(tmp_path / "site"), "--require-hashes", "--no-deps"]
    files = {each.name for each in unpacked.iterdir() if each.is_file()}  # a run of it made a folder
    assert files == {"README.txt", "birds.ipynb", "birds.py", "environment.yml", "lock.json", "requirements.txt", TABLE}
    done = subprocess.run(
        [*command, "-r", str(unpacked / "requirements.txt")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "polars").is_dir()
