"""The export of a session as a person would have written it: what was tried in vain is left out if nothing needs it."""

from __future__ import annotations

import compileall
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from program import TABLE, call, nbagent, replies

from nbagent import Session
from nbagent.notebook.formats import markdown, percent
from nbagent.notebook.nodes import new_code_cell, new_markdown_cell, new_notebook

USELESS = ["import csv\nrows = list(csv.DictReader(open('/tmp/data/tabel.csv')))", "rows[0]['bil']"]
USEFUL = ["import csv\nrows = list(csv.DictReader(open('/tmp/data/table.csv')))\nlen(rows)", "print(rows[0]['bill'])"]

FAILED = ["raises-exception", "active-ipynb"]
PROGRAM = (
    "import subprocess\ntry:\n    subprocess.run(['true'])\n    print('programs')\n"
    "except OSError as error:\n    print(error.errno)"
)


async def asked(
    folder: Path, *cells: str, question: str = "How many rows?", trust: str = "isolated", out: str = ""
) -> str:
    """The id of a session in which a model ran these cells, each with a remark before it, and has ended.

    With `out`, it exports itself to there before its end, without what was tried in vain.
    """
    (folder / "table.csv").write_text(TABLE)
    model = replies(folder / "r.jsonl", *(call(cell) for cell in cells), "There are 5 rows.")
    state = folder / "state"
    data = [folder / "table.csv"]
    async with Session(model=model, data=data, engine="bubblewrap", state_dir=state, trust=trust) as session:
        await session.ask(question)
        if out:
            await session.export(folder / out, keep_attempts=False)
        return session.id


async def test_failed_and_superseded_attempts_are_left_out_if_the_rest_shows_the_same(tmp_path: Path) -> None:
    """Of the session itself as of the command. They stay if a person wants them, tagged; cells are counted anew."""
    cells = (USELESS[0], USEFUL[0], USELESS[1], USEFUL[1].replace("[0]", "[1]"), USEFUL[1])
    name = await asked(tmp_path, *cells, out="own.ipynb")
    state = str(tmp_path / "state")
    done = nbagent("export", name, "-o", "n.ipynb", cwd=tmp_path, NBAGENT_STATE_DIR=state, seconds=200)
    assert done.code == 0, done.err
    assert "3 failed or superseded attempts are left out; a run of the rest shows the same." in done.err
    made = nbformat.read(tmp_path / "n.ipynb", as_version=4)
    nbformat.validate(made)
    assert made.cells[0].source.startswith("# How many rows?\n\nData: `/tmp/data/table.csv` (106 bytes, SHA-256 `")
    code = [cell for cell in made.cells if cell.metadata.nbagent.role == "cell"]
    assert [(cell.source, cell.execution_count) for cell in code] == [(USEFUL[0], 1), (USEFUL[1], 2)]
    assert len(made.metadata.nbagent.lock.kernel) > 40
    assert (tmp_path / "own.ipynb").read_bytes() == (tmp_path / "n.ipynb").read_bytes()
    columns = made.metadata.nbagent.lock.data[0].schema
    assert [(each.name, each.dtype) for each in columns] == [
        *(("species", "String"), ("bill", "Float64"), ("mass", "Int64")),
    ]
    assert "changed" not in done.err
    table = (tmp_path / "table.csv").read_text()
    (tmp_path / "table.csv").write_text(f"{table}\n")
    done = nbagent("export", name, "-o", "all.ipynb", "--keep-attempts", cwd=tmp_path, NBAGENT_STATE_DIR=state)
    assert done.code == 0, done.err
    assert re.search(r"table\.csv was changed at .* UTC: cells 1 to 5 ran before, no cell after\.", done.err)
    (tmp_path / "table.csv").write_text(table)
    whole = nbformat.read(tmp_path / "all.ipynb", as_version=4)
    kept = [cell for cell in whole.cells if cell.metadata.nbagent.role == "cell"]
    assert [cell.metadata.get("tags", []) for cell in kept] == [
        FAILED, [], FAILED, ["superseded"], []
    ]  # fmt: skip
    done = nbagent("verify", "n.ipynb", cwd=tmp_path, NBAGENT_STATE_DIR=state, seconds=200)
    assert done.code == 0, done.out + done.err


async def test_the_rest_runs_at_the_level_of_its_session(tmp_path: Path) -> None:
    """Which the person chose for this code, whatever their settings say; and nothing is written through a link."""
    name = await asked(tmp_path, USELESS[0], PROGRAM, trust="untrusted")
    state = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "NBAGENT_TRUST": "trusted"}
    (tmp_path / "n.md").symlink_to("elsewhere.md")
    done = nbagent("export", name, "-o", "n.md", cwd=tmp_path, **state)
    assert (done.code, "is a link" in done.err, (tmp_path / "elsewhere.md").exists()) == (2, True, False)
    done = nbagent("export", name, "-o", "n.ipynb", cwd=tmp_path, seconds=200, **state)
    assert (done.code, "1 failed or superseded attempts are left out" in done.err) == (0, True), done.err


async def test_an_attempt_that_the_rest_needs_stays(tmp_path: Path) -> None:
    """What it did before it failed is seen later."""
    name = await asked(tmp_path, "found = 5\n1 / 0", "print(found)")
    state = str(tmp_path / "state")
    done = nbagent("export", name, "-o", "n.py", cwd=tmp_path, NBAGENT_STATE_DIR=state, seconds=200)
    assert done.code == 0, done.err
    assert "The attempts stay. Without them cell-2 is another one: " in done.err
    assert "try:\n    found = 5\n    1 / 0\nexcept" in (tmp_path / "n.py").read_text()


def test_a_script_runs_and_names_its_packages(tmp_path: Path) -> None:
    """In the percent format: text and magics are comments, and what awaits has a loop."""
    block = '# /// script\n# requires-python = ">=3.11"\n# dependencies = []\n# ///'
    metadata = {"nbagent": {"role": "requirements"}}
    cells = [
        new_markdown_cell('# Title\n\n/// script\ndependencies = ["evil"]\n///', id="t", metadata={}),
        new_code_cell(block, id="requirements", metadata=metadata),
        new_code_cell("%matplotlib inline\n!ls\n%time x = 6 * 7", id="c", metadata={}),
        new_code_cell("print(x\n  % 100)", id="c2", metadata={}),
        new_code_cell("%%bash\nls", id="d", metadata={}),
        new_code_cell("%%time\ny = 8", id="e", metadata={}),
        new_code_cell("z = 1; text = '''a\nb'''\n1 / 0", id="f", metadata={"tags": ["raises-exception"]}),
        new_code_cell("import asyncio\n%time await asyncio.sleep(0)", id="g", metadata={}),
        new_code_cell("task = asyncio.create_task(asyncio.sleep(0, '\\n'))", id="g2", metadata={}),
        new_code_cell("'''text'''; await task; print(len(task.result()))", id="g3", metadata={}),
        new_code_cell("# /// tool\n# a = 1\n# ///\r# /// tool\r# ///\ndisplay(y, z, text)", id="h", metadata={}),
    ]
    (tmp_path / "n.py").write_text(percent(new_notebook(cells, {})))
    text = (tmp_path / "n.py").read_text()
    assert text.startswith(block)
    assert text.count("\n# ///") == 1, "a text or a comment is no metadata for uv"
    marks = re.findall(r"^# %%.*$", text, re.MULTILINE)
    assert [each for each in marks if each not in ("# %%bash", "# %%time")] == [
        *("# %%", "# %%", "# %% [markdown]", "# %%", "# %%", "# %%", "# %%"),
        *('# %% tags=["raises-exception"]', "# %%", "# %%", "# %%", "# %%"),
    ]
    assert compileall.compile_file(tmp_path / "n.py", quiet=1)
    done = subprocess.run([sys.executable, tmp_path / "n.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n1\n8 1 a\nb\n"
    assert "ZeroDivisionError" in done.stderr


def test_markdown_has_code_outputs_and_figures() -> None:
    """Code that has fences in it is fenced by longer ones."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "a\n"},
        {"output_type": "display_data", "data": {"image/png": "AA\n==", "text/plain": "<Figure>"}, "metadata": {}},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": []},
    ]
    cell = new_code_cell("print('```')", id="c", metadata={}, outputs=outputs, execution_count=1)
    text = markdown(new_notebook([new_markdown_cell("# T", id="t", metadata={}), cell], {}))
    code, figure = "````python\nprint('```')\n````", "![cell 1](data:image/png;base64,AA==)"
    assert text == f"# T\n\n{code}\n\n```\na\n```\n\n{figure}\n\n```\nE: x\n```\n"
