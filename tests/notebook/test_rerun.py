"""An exported notebook runs again: in nbclient, by its kernelspec alone, with equal outputs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import machine
import msgspec
import nbformat
import pytest
from nbclient import NotebookClient
from program import TABLE, Done, Forks, call, replies

from nbagent import Session
from nbagent.faces.cli.rerun import changes
from nbagent.notebook import document
from nbagent.notebook.fresh import Ran
from nbagent.notebook.lock import Lock, digest_of
from nbagent.safety.sanitize import clean_output

READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')\ndf.group_by('species').len().sort('species')"
CELLS = [
    READ,
    "df['speces']",
    "import humanize\nprint(humanize.intcomma(1234567))",
    "import matplotlib.pyplot as plt\nplt.plot(df['bill'].sort())\nplt.show()",
    "df.height",
]


async def exported(path: Path, *data: Path, cells: list[str] = CELLS, engine: str = "bubblewrap", **more: Any) -> Any:
    """The notebook of a session that ran these cells for a question."""
    path.parent.mkdir(exist_ok=True)
    model = replies(path.parent / "r.jsonl", *(call(cell) for cell in cells), "So it is.")
    async with Session(model=model, data=data, engine=engine, **more) as session:
        await session.ask("What is it?")
        await session.export(path)
    return nbformat.read(path, as_version=4)


async def again(path: Path) -> Any:
    """The notebook after a plain re-run, as `jupyter execute` does it; its new outputs as an export has them."""
    notebook: Any = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(path.parent)}})
    made: Any = await asyncio.wait_for(client.async_execute(), 120)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(clean_output(output)) for output in cell.outputs]
    return made


def outputs(notebook: Any) -> dict[str, list[Any]]:
    """What each cell shows, but for numbers that count the cells."""
    found: dict[str, list[Any]] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found[cell.id] = [shown(output) for output in cell.outputs]
    return found


def shown(output: Any) -> Any:
    """An output without its number, and what an export says of a figure; an error without its frames."""
    if output.output_type == "error":
        return (output.ename, output.evalue)
    found = {name: value for name, value in output.items() if name not in ("execution_count", "metadata")}
    plain = {name: {**value} for name, value in output.get("metadata", {}).items()}
    for each in plain.values():
        each.pop("alt", None)
    return {**found, "metadata": {name: value for name, value in plain.items() if value}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table far from any notebook."""
    path = tmp_path / "elsewhere" / "table.csv"
    path.parent.mkdir()
    path.write_text(TABLE)
    for each in (path.parent, *path.parents[1:3]):
        each.chmod(0o755)
    return path


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
async def test_a_rerun_gives_equal_outputs(tmp_path: Path, table: Path, engine: str) -> None:
    """With data that lies elsewhere, a cell that failed, an installed package and a figure."""
    path = tmp_path / "here" / "n.ipynb"
    first = await exported(path, table, engine=engine)
    assert first.metadata.kernelspec.name == f"nbagent-{engine}"
    assert sum(len(each) for each in outputs(first).values()) == len(CELLS)
    second = await again(path)
    assert outputs(second) == outputs(first)


@pytest.mark.needs("docker")
async def test_the_engines_write_equal_notebooks(tmp_path: Path, table: Path) -> None:
    """The same replay through both has equal sources and outputs."""
    one, two = [await exported(tmp_path / each / "n.ipynb", table, engine=each) for each in ("bubblewrap", "docker")]
    assert [cell.source for cell in one.cells] == [cell.source for cell in two.cells]
    assert outputs(one) == outputs(two)


async def test_data_beside_the_notebook_is_seen_again(table: Path) -> None:
    """A notebook in the folder of its data needs nothing but the folder."""
    path = table.parent / "n.ipynb"
    first = await exported(path, table, cells=[READ])
    assert outputs(await again(path)) == outputs(first)


async def test_data_is_seen_again_whatever_the_state_and_the_home_folder(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook lies in the home folder, which no sandbox sees, and its session kept its state in its own folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "here"))
    path = tmp_path / "here" / "n.ipynb"
    first = await exported(path, table, cells=[READ], state_dir=tmp_path / "state")
    assert outputs(await again(path)) == outputs(first)


async def test_another_file_of_the_same_name_is_not_taken_for_the_data(tmp_path: Path, table: Path) -> None:
    """What the session saw counts, not what happens to lie beside the notebook."""
    path = tmp_path / "here" / "n.ipynb"
    path.parent.mkdir()
    (path.parent / "table.csv").write_text("species,bill,mass\nEmperor,8.1,30000\n")
    first = await exported(path, table, cells=[READ])
    assert outputs(await again(path)) == outputs(first)


async def test_a_cell_that_was_stopped_is_not_run_again(tmp_path: Path) -> None:
    """A re-run of a session with a timeout takes no longer than what is left of it."""
    path = tmp_path / "here" / "n.ipynb"
    cells = ["x = 1", "import time\ntime.sleep(60)", "import os\nos._exit(1)", "1 + 1"]
    first = await exported(path, cells=cells, timeout=1)
    assert [cell.id for cell in first.cells if cell.cell_type == "code"] == ["requirements", "cell-1", "cell-4"]
    assert outputs(await again(path)) == outputs(first)


async def test_a_session_of_cells_alone_runs_again(tmp_path: Path) -> None:
    """Without a model too, what ran is a notebook."""
    async with Session(engine="bubblewrap") as session:
        await session.run("print('hello')")
        await session.run(
            "from IPython.display import display, HTML\ndisplay(HTML('<b>1</b>'), display_id='d')\n{'a': 1}"
        )
        path = await session.export(tmp_path / "here" / "n.ipynb")
    first: Any = nbformat.read(path, as_version=4)
    assert first.metadata.nbagent.turns == []
    assert outputs(await again(path)) == outputs(first)


async def test_a_notebook_runs_on_new_data_and_with_other_parameters(tmp_path: Path, forks: Forks) -> None:
    """What changed is told, what comes of it verifies, and what doesn't fit is refused in a sentence."""
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "new.csv").write_text(TABLE.replace("38.1", "83.1"))
    (tmp_path / "other.csv").write_text("species,weight\nAdelie,3\n")
    cells = [
        "factor = 2",
        "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')",
        "round(df['bill'].max() * factor, 1)",
        "import ipywidgets\nipywidgets.IntSlider(value=factor)",
    ]
    async with Session(data=[tmp_path / "table.csv"], engine="bubblewrap") as session:
        for code in cells:
            await session.run(code)
        path = await session.export(tmp_path / "n.ipynb")
    notebook: Any = nbformat.read(path, as_version=4)
    next(cell for cell in notebook.cells if cell.id == "cell-1").metadata.tags = ["parameters"]
    lock = notebook.metadata.nbagent.lock
    schema = {"species": "String", "bill": "Float64", "mass": "String"}  # as if some were NA
    lock.data[0].schema = notebook.metadata.nbagent.data[0].schema = [
        {"name": name, "dtype": kind} for name, kind in schema.items()
    ]
    lock.sha256 = digest_of(msgspec.convert(json.loads(json.dumps(lock)), Lock))
    nbformat.write(notebook, path)

    def again(*words: str) -> Done:
        return forks.run(*words, "-e", "bubblewrap", cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "state"))

    done = again("rerun", "n.ipynb", "--data", "new.csv", "-p", "factor=3")
    assert done.code == 0, done.err
    assert "cell-3: output 1, text/plain, line 1: '97.8' → '249.3'" in done.out
    assert "2 of 6 cells show something else." in done.out
    made: Any = nbformat.read(tmp_path / "n-rerun.ipynb", as_version=4)
    assert [cell.source for cell in made.cells if "injected-parameters" in cell.metadata.get("tags", [])] == [
        "# Parameters\nfactor = 3"
    ]
    # The slider of before is gone, whose view no cell has any longer.
    states = made.metadata.widgets["application/vnd.jupyter.widget-state+json"].state
    assert [each.state.get("value") for each in states.values() if each.model_name == "IntSliderModel"] == [3]
    view = made.cells[-1].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    assert states[view.model_id].state.value == 3
    assert again("verify", "n-rerun.ipynb").code == 0
    told = forks.run("log", "n-rerun.ipynb", cwd=tmp_path).out
    assert re.search(r"(?m)^Run again 20\S+Z, with factor = 3\.$", told)
    for words, told in (
        (["--data", "other.csv"], "The new table.csv has another schema: it has no column 'bill'"),
        (["-p", "facto=3"], "n.ipynb has no parameter 'facto'."),
        ([], "Nothing is to change."),
    ):
        done = again("rerun", "n.ipynb", "-o", "m.ipynb", *words)
        assert (done.code, told in done.err) == (2, True), done.err


async def test_the_tables_of_a_folder_keep_their_columns(tmp_path: Path, forks: Forks) -> None:
    """Those of the same name; and any other, where all had the same columns."""
    for folder, name, text in (
        ("parts", "a.csv", "day,x\n1,2\n"),
        ("parts", "b.csv", "day,x\n3,4\n"),
        ("more", "a.csv", "day,x\n1,2\n"),
        ("more", "c.csv", "day,x,y\n5,60,7\n"),
        ("other", "c.csv", "day,z\n5,6\n"),
        ("text", "a.csv", "day,x\n1,two\n"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    code = "import glob, polars as pl\nsum(pl.read_csv(path)['x'].sum() for path in glob.glob('/tmp/data/parts/*.csv'))"
    async with Session(engine="bubblewrap", data=str(tmp_path / "parts")) as session:
        await session.run(code)
        await session.export(tmp_path / "n.ipynb", keep_attempts=True)

    def again(folder: str) -> Done:
        words = ("rerun", "n.ipynb", "--data", f"parts={folder}", "-e", "bubblewrap", "--force")
        return forks.run(*words, cwd=tmp_path)

    done = again("more")
    assert (done.code, "'6' → '62'" in done.out) == (0, True), done.err
    for folder, told in (
        ("other", "The new parts/c.csv has another schema: it has no column 'x'."),
        ("text", "The new parts/a.csv has another schema: 'x' is String, and was Int64."),
    ):
        done = again(folder)
        assert (done.code, told in done.err) == (2, True), done.err


async def test_what_changed_is_compared_beside_the_event_loop() -> None:
    """Much text in a stranger's notebook hold nobody else up."""
    cells = [nbformat.v4.new_code_cell("print(x)", outputs=[], execution_count=1) for _ in range(2)]
    for cell in cells:
        cell.outputs = [nbformat.v4.new_output("stream", text=" ".join(map(str, range(20_000))))]
    notebook = document.of(nbformat.v4.new_notebook(cells=cells), name="n")
    shown = [nbformat.v4.new_output("stream", text=" ".join(map(str, range(1, 40_001, 2))))]
    ran = Ran(outputs={cell.number: shown for cell in notebook.cells})
    work = asyncio.create_task(changes(notebook, ran, machine.works("bubblewrap")))
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0.01)
    assert len(work.result()) == len(cells)
    assert turns > 3
