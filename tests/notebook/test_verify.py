"""Verifying notebooks on real kernels: honest ones are the same, and each real change is named."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import re
import time
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import machine
import msgspec
import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image
from program import TABLE, nbagent

from nbagent import Session
from nbagent.core import settings
from nbagent.core.errors import UsageError
from nbagent.core.options import Options
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.faces.cli import verify
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import document, lock_check
from nbagent.notebook.compare.notes import ADDED, mark
from nbagent.notebook.compare.pictures import Pictures
from nbagent.notebook.compare.texts import BY_CHANCE, EVERY_RUN, ORDER, TWICE, Strictness
from nbagent.notebook.compare_runs import BY_MACHINE, OTHER_SEED, all_reads, compared
from nbagent.notebook.fresh import STEP, FreshRuns, Ran
from nbagent.notebook.inputs import inputs
from nbagent.notebook.lock import Lock, digest_of, utc
from nbagent.notebook.proof import CellProof, Proof
from nbagent.notebook.report import junit
from nbagent.notebook.sweep import PROCESS
from nbagent.notebook.uploads import places_cell
from nbagent.notebook.verify import Verification
from nbagent.safety.sanitize import clean_output
from nbagent.safety.sanitize.widgets import STATE_MIME
from nbagent.sandbox.spec import SandboxSpec

CELLS = [
    "import csv\nrows = list(csv.DictReader(open('/tmp/data/table.csv')))\nprint(len(rows), 'rows')",
    "import datetime, time, uuid\nt = time.time()\nprint(datetime.datetime.now(), uuid.uuid4(), object())\n"
    "print(f'{time.time() - t:.4f} seconds')",
    "print('mean', sum(float(row['bill']) for row in rows) / len(rows))",
    "import humanize\nhumanize.intcomma(1234567)",
    "rows[99]",
    "from IPython.display import HTML\nbills = ''.join(f'<tr><td>{row[\"bill\"]}</td></tr>' for row in rows)\n"
    "HTML(f'<table><tr><th>bill</th></tr>{bills}</table>')",
    "{'a', 'b', 'c', 'd', 'e'}",
    "import base64\nfrom IPython.display import Image\nImage(base64.b64decode(PICTURE))",
]

INSERTED = {"role": "cell", "cell": 1, "turn": 2, "tool": "python", "model": "m", "approver": "policy", "status": "ok"}
INSERTED |= {"seconds": 1, "source_sha256": hashlib.sha256(b"1").hexdigest()}


def png(*pixels: int) -> str:
    """A grey picture of one line, in base64."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    head = len(pixels).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"\0" + bytes(pixels))), chunk(b"IEND", b"")]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


BLOCK = "# /// script\n# dependencies = []\n# ///"
PLACES = places_cell([], plain=False)["source"]
PICTURE = png(*range(0, 250, 5))
OLD_CYCLER = ("0.11.0", "3a27e95f763a428a739d2add979fa7494c912a32c17c4c38c4d5f082cad165a3")
OTHER = png(*range(0, 245, 5), 246)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of an honest session, with its data beside it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "table.csv").write_text(TABLE)

    async def make() -> None:
        async with Session(data=[folder / "table.csv"], engine="bubblewrap") as session:
            for code in CELLS:
                await session.run(code.replace("PICTURE", repr(PICTURE)))
            await session.export(folder / "n.ipynb")

    asyncio.run(make())
    return folder / "n.ipynb"


async def verified(path: Path, *data: Path, sweeps: bool = False) -> Proof:
    """What a verification finds."""
    found = document.parse(path.read_text(), name=path.name)
    foreign = "version" not in found.facts
    given = inputs(path, given=data, root=path.parent / "state", foreign=foreign)
    spec = SandboxSpec.of(settings.load(), data=given.mounts)
    engine = machine.works("bubblewrap")
    return await Verification(found, engine=engine, spec=spec, problems=given.problems).run(sweeps=sweeps)


def changed(path: Path, to: Path, change: Callable[[Any, dict[str, Any]], object]) -> Path:
    """A copy of a notebook in which something is changed: `change` gets it, and its cells by name."""
    notebook = json.loads(path.read_text())
    change(notebook, {cell["id"]: cell for cell in notebook["cells"]})
    (to / "n.ipynb").write_text(json.dumps(notebook))
    (to / "table.csv").write_text(TABLE)
    return to / "n.ipynb"


def replace_output(cell: dict[str, Any], old: str, new: str) -> None:
    """Change what a cell shows."""
    text = json.dumps(cell["outputs"])
    assert old in text
    cell["outputs"] = json.loads(text.replace(old, new))


def differing(proof: Proof) -> dict[str, list[str]]:
    """What differs, cell by cell."""
    return {cell.id: [*map(str, cell.differences), cell.note] for cell in proof.cells if cell.result != "same"}


async def test_an_honest_notebook_is_the_same(made: Path) -> None:
    """With dates, ids, timings, addresses, an installed package, an error and a set in it."""
    proof = await verified(made)
    assert (proof.result, differing(proof), proof.problems, proof.error) == ("same", {}, [], "")
    assert [cell.id for cell in proof.cells if cell.excused] == ["cell-2"]


async def test_every_changed_output_is_named(made: Path, tmp_path: Path) -> None:
    """A number, a date that no clock shows, a message, a cell of a table, a pixel, an output that is gone."""

    def change(_: Any, cells: dict[str, Any]) -> None:
        replace_output(cells["cell-1"], "5 rows", "6 rows")
        replace_output(cells["cell-2"], "seconds", "seconds on 2019-03-04")
        replace_output(cells["cell-3"], "43.98", "43.97")
        cells["cell-4"]["outputs"] = []
        replace_output(cells["cell-5"], "out of range", "out of reach")
        replace_output(cells["cell-6"], ">46.1<", ">46.2<")
        replace_output(cells["cell-8"], PICTURE, OTHER)
        cells["cell-7"]["metadata"]["nbagent"]["status"] = "timeout"

    proof = await verified(changed(made, tmp_path, change))
    found = differing(proof)
    assert proof.result == "differs"
    assert list(found) == [f"cell-{number}" for number in range(1, 9)]
    assert found["cell-7"] == ["It ended with ok, and the notebook says timeout."]
    assert found["cell-1"][0] == "stdout, line 1: '6' → '5'"
    assert found["cell-6"][0] == "output 1, text/html, row 3, column bill: '46.2' → '46.1'"
    assert "1 of 50 pixels differ, by up to 1 of 255" in found["cell-8"][0]
    assert [bool(cell.pictures) for cell in proof.cells if cell.id == "cell-8"] == [True]


async def test_a_changed_traceback_is_named(made: Path, tmp_path: Path) -> None:
    """It is what a reader sees of an error, whose type and message may be the same."""

    def change(_: Any, cells: dict[str, Any]) -> None:
        (error,) = cells["cell-5"]["outputs"]
        error["traceback"] = [each.replace("out of range", "out of reach") for each in error["traceback"]]

    found = differing(await verified(changed(made, tmp_path, change)))
    assert list(found) == ["cell-5"]
    assert "traceback" in found["cell-5"][0]


@pytest.mark.parametrize("form", ["png", "svg"])
async def test_a_figure_that_tells_the_day_is_that_of_its_day(tmp_path: Path, form: str) -> None:
    """All fresh runs show another one. A point that was changed in it is named all the same."""
    figure = """%config InlineBackend.figure_formats = ["FORM"]
from datetime import datetime
import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2))
plt.plot([1, 3, {}])
plt.title(f"{{datetime.{}:%d %B %Y, %H:%M}}")
plt.show()""".replace("FORM", form)
    moment = (time.time() - 40 * 86_400) // 60 * 60 + 5  # a busy machine imports for a while, in the same minute
    async with Session(engine="bubblewrap") as session:
        await session.run(figure.format(2, "now()"))
        await session.export(tmp_path / "made.ipynb")
        shown = [await session.run(figure.format(last, f"fromtimestamp({moment})")) for last in (2, 2.1)]
    for cell, result in zip(shown, ("same", "differs"), strict=True):
        (output,) = cell.outputs

        def change(_: Any, cells: dict[str, Any], output: Any = output) -> None:
            # Matplotlib writes the time into a drawing, too.
            data = json.dumps(clean_output(output)["data"])
            data = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+", f"{datetime.fromtimestamp(moment):%FT%T}", data)
            cells["cell-1"]["outputs"][0]["data"] = json.loads(data)
            cells["cell-1"]["metadata"]["nbagent"] |= {"time": utc(moment), "seconds": 0.1}

        proof = await verified(changed(tmp_path / "made.ipynb", tmp_path, change))
        # A second run of that day says which names in a drawing differ each time, and a last one that all else agrees.
        runs = 3 if form == "png" else 4 if result == "same" else 5
        assert (proof.result, proof.problems, proof.runs) == (result, [], runs)
        assert [cell.excused for cell in proof.cells if cell.id == "cell-1"] == [["date"] if result == "same" else []]


async def test_words_of_a_date_are_those_of_its_day(tmp_path: Path) -> None:
    """Whatever code makes of the clock is what it would have made then. A number that was changed beside is named."""
    code = """import datetime as dt, sys, time
for _ in range(25):  # more than is told of a cell
    print(time.perf_counter(), file=sys.stderr)
now, today = dt.datetime.{}, dt.date.{}
day = ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"][today.weekday()]
print(day, "morning" if now.hour < 12 else "evening", 333, time.perf_counter())
print(now + dt.timedelta(7), f"{{now:%A %B}}", now.hour, now.minute, time.{})
print("next Friday:", today + dt.timedelta((4 - today.weekday()) % 7 or 7), (today - dt.date(1990, 6, 15)).days // 7)
time.strftime("%j", time.{}) + " of 366"
"""
    moment = (time.time() - 40.5 * 86_400) // 60 * 60 + 5
    then, local = f"fromtimestamp({moment})", f"localtime({moment})"
    async with Session(engine="bubblewrap") as session:
        await session.run(code.format("now()", "today()", "localtime()", "localtime()"))
        await session.export(tmp_path / "made.ipynb")
        shown = await session.run(code.format(then, then, local, local))
    for was, number in (("333", "333"), ("333", "334"), ("366", "466")):

        def change(_: Any, cells: dict[str, Any], was: str = was, number: str = number) -> None:
            cells["cell-1"]["outputs"] = json.loads(json.dumps(shown.outputs).replace(was, number))
            cells["cell-1"]["metadata"]["nbagent"] |= {"time": utc(moment), "seconds": 0.1}

        proof = await verified(changed(tmp_path / "made.ipynb", tmp_path, change))
        assert (proof.result, proof.problems) == ("same" if was == number else "differs", [])
        assert [cell.excused for cell in proof.cells if cell.id == "cell-1"] == [["date", "timing"]]


async def test_parts_of_a_moment_that_nobody_names_differ_with_the_clock(tmp_path: Path) -> None:
    """Another client's notebook needn't say when it ran: what another clock changes is of the clock."""
    code = """import datetime as dt
now = dt.datetime.now()
print(f"{now:%A %B}", now.day, now.hour, now.date(), dt.date.today() - dt.timedelta(7), 11)"""
    then = datetime.now(UTC) - timedelta(days=40, hours=7)
    was = f"{then:%A %B} {then.day} {then.hour} {then.date()} {(then - timedelta(7)).date()} 11"
    for shown, result in ((was, "same"), (f"{was[:-2]}12", "differs"), (was.replace(f"{then:%B}", "bad"), "differs")):
        cell = nbformat.v4.new_code_cell(code, outputs=[nbformat.v4.new_output("stream", text=f"{shown}\n")])
        path = tmp_path / "n.ipynb"
        path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
        proof = await verified(path)
        assert (proof.result, len(differing(proof))) == (result, result == "differs")
    cell.metadata["execution"] = {"iopub.execute_input": then.isoformat()}  # where one does, no day is told
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    (found,) = (await verified(path)).cells
    assert [each.stored for each in found.differences] == ["'bad'"]
    cell.source = "import datetime\nprint(f'{datetime.date.today():%A}', *range(6, 8))"
    cell.outputs[0].text = f"{then:%A} 5\n"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    (found,) = (await verified(path)).cells
    assert [(each.stored, each.fresh, each.cause) for each in found.differences] == [("'5'", "'6 7'", "")]


async def test_processes_that_cells_start_have_other_numbers_in_each_run(tmp_path: Path) -> None:
    """So those of another machine are none of a result, however far from a sandbox's they are."""
    code = """import os, subprocess
one = subprocess.Popen(['true'])
print(one.pid, subprocess.run(['sh', '-c', 'echo $$'], capture_output=True, text=True).stdout.strip(), one.wait(), 20)
"""
    for shown, result in (("48123 48124 0 20", "same"), ("9 10 0 20", "same"), ("48123 48124 0 19", "differs")):
        cell = nbformat.v4.new_code_cell(code, outputs=[nbformat.v4.new_output("stream", text=f"{shown}\n")])
        path = tmp_path / "n.ipynb"
        path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
        proof = await verified(path)
        assert (proof.result, len(differing(proof))) == (result, result == "differs")


async def test_processes_have_other_numbers_where_few_may_run_at_a_time() -> None:
    """As in a sandbox for what nobody trusts, and in the twelfth run of a sweep."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED))
    async with Kernel(machine.works("bubblewrap"), spec) as kernel:
        assert await kernel.evaluate(PROCESS, [12 * STEP]) in range(1, STEP)
        cell = await kernel.run("import threading\none = threading.Thread(target=int)\none.start()\none.native_id")
        assert int(cell.text) > 12 * STEP


async def test_a_clock_that_no_code_names_is_that_of_its_day(tmp_path: Path) -> None:
    """As in the first bytes of what gzip makes: they differ with every run, and a run of that day shows them."""
    moment = time.time() // 1 - 40 * 86_400
    async with Session(engine="bubblewrap") as session:
        await session.run("import gzip, time\ntime.sleep(2)")
        await session.run("list(gzip.compress(b'n')[4:8])")
        await session.export(tmp_path / "made.ipynb")
    for second, result in ((0, "same"), (9, "differs")):
        shown = str(list(int(moment + second).to_bytes(4, "little")))

        def change(_: Any, cells: dict[str, Any], shown: str = shown) -> None:
            cells["cell-2"]["outputs"][0]["data"]["text/plain"] = shown
            cells["cell-2"]["metadata"]["nbagent"] |= {"time": utc(moment), "seconds": 0.1}

        proof = await verified(changed(tmp_path / "made.ipynb", tmp_path, change))
        assert (proof.result, proof.problems) == (result, [])


async def test_how_long_a_library_says_that_something_took_is_no_difference(tmp_path: Path) -> None:
    """Though all runs take as long: one with an uneven clock says something else."""
    code = """import unittest, time as t
class Test(unittest.TestCase):
    def test_it(self):
        t.sleep(0.5)
unittest.main(argv=["x"], exit=False);"""
    for tests, result in ((1, "same"), (2, "differs")):
        text = f".\n{'-' * 70}\nRan {tests} test{'s' * (tests > 1)} in 0.613s\n\nOK\n"
        shown = [nbformat.v4.new_output("stream", name="stderr", text=text)]
        cell = nbformat.v4.new_code_cell(code, outputs=shown, execution_count=1)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "n.ipynb")
        assert (await verified(tmp_path / "n.ipynb")).result == result


async def test_changed_code_text_data_and_lock_are_named(made: Path, tmp_path: Path) -> None:
    """Even where every output is the same."""

    def change(notebook: Any, cells: dict[str, Any]) -> None:
        cells["cell-7"]["source"] = "# sorted\n" + "".join(cells["cell-7"]["source"])
        notebook["metadata"]["nbagent"]["lock"]["limits"]["timeout"] = 61.0
        # With which no Python would start.
        notebook["metadata"]["nbagent"]["lock"]["machine"]["hash_seed"] = "evil"

    path = changed(made, tmp_path, change)
    (tmp_path / "table.csv").write_text(TABLE.replace("3700\nAdelie", "3701\nAdelie"))
    proof = await verified(path, tmp_path)
    assert differing(proof) == {"cell-7": ["edited since nbagent wrote it"]}
    assert [each.split(" (")[0] for each in proof.problems] == [
        "The data table.csv is not what it was when the notebook was made",
        "The lock in the notebook's metadata was edited since nbagent wrote it.",
    ]


def test_a_lock_that_was_removed_is_told(made: Path, tmp_path: Path) -> None:
    """Nobody else's notebook has one."""
    path = changed(made, tmp_path, lambda notebook, _: notebook["metadata"]["nbagent"].pop("lock"))
    parsed = document.parse(path.read_text(), name="n")
    assert lock_check.problems(parsed) == ["The notebook's lock was removed since nbagent wrote it."]


async def test_cells_that_were_added_removed_or_moved_are_told(made: Path, tmp_path: Path) -> None:
    """Though each that is left is what it was."""

    def change(notebook: Any, _: dict[str, Any]) -> None:
        gone = {f"cell-{number}" for number in (2, 3, 4, 5, 6, 8)}
        notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in gone]
        notebook["cells"][-2]["metadata"]["tags"] = ["skip-execution"]

    proof = await verified(changed(made, tmp_path, change))
    gone = ", ".join(f"cell-{number}" for number in (2, 3, 4, 5, 6, 8))
    assert proof.problems == [
        "cell-1 was tagged to be skipped since nbagent wrote it.",
        f"Cells were removed from the notebook since nbagent wrote it: {gone}.",
    ]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("sha256", "0" * 64, "not the one that the index announced"), ("version", "4.16.0", ""), ("version", "99", "")],
)
async def test_another_package_than_the_locks_is_not_installed(
    made: Path, tmp_path: Path, name: str, value: str, told: str
) -> None:
    """A hash that no such wheel has, and a version whose wheel has another one: then nothing runs."""

    def change(notebook: Any, _: dict[str, Any]) -> None:
        notebook["metadata"]["nbagent"]["lock"]["packages"][0][name] = value

    proof = await verified(changed(made, tmp_path, change))
    assert (proof.result, proof.exit_code, proof.cells) == ("not run", 2, [])
    assert told in proof.error
    assert proof.problems


async def test_a_package_of_the_kernel_is_had_in_the_locks_version(tmp_path: Path) -> None:
    """Of a notebook that was made with another environment: what its code imports is what the lock says."""
    async with Session(engine="bubblewrap") as session:
        await session.run("__import__('cycler').cycler\nfrom importlib.metadata import version\nversion('cycler')")
        path = await session.export(tmp_path / "n.ipynb")
    notebook = nbformat.read(path, as_version=4)
    facts = notebook.metadata.nbagent
    (package,) = [each for each in facts.lock.kernel if each.name == "cycler"]
    package.version, package.sha256 = OLD_CYCLER
    notebook.cells[-1].outputs[0].data["text/plain"] = f"'{package.version}'"
    facts.lock.sha256 = digest_of(msgspec.convert(json.loads(json.dumps(facts.lock)), Lock))
    nbformat.write(notebook, path)
    proof = await verified(path)
    assert (differing(proof), proof.problems, proof.error) == ({}, [], "")


async def test_anybodys_notebook_is_verified(tmp_path: Path) -> None:
    """Without a lock, with its data by plain names; what has no output is not compared; skipped cells do not run.

    All that programs draw is compared, also what an export leaves out: charts of Vega, and frames. Plotly shows its
    figures in as many forms as the notebook has. A progress bar may be stored message by message. What a cell shows
    whose code was taken out is what nothing shows now.
    """
    (tmp_path / "a.txt").write_text("hello")
    chart = "application/vnd.vegalite.v5+json"
    draw = f"display({{{chart!r}: {{'bars': [1, 2]}}, 'text/plain': 'a chart'}}, raw=True)"
    charts = [{chart: {"bars": [1, last]}, "text/plain": "a chart"} for last in (2, 9)]
    frame = "display({'text/html': '<iframe srcdoc=\"a loss\"></iframe>'}, raw=True)"
    framed = {"text/html": '<iframe srcdoc="a profit"></iframe>'}
    drawn = "<svg><text><![CDATA[a {}]]></text></svg>"
    drawing = nbformat.v4.new_output("display_data", {"image/svg+xml": drawn.format("profit")})
    figure = {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}}
    plot = f"import os\ndisplay({figure!r} | {{'text/html': os.environ['PLOTLY_RENDERER']}}, raw=True)"
    plotted = figure | {"text/html": "plotly_mimetype+notebook_connected"}
    bar = "import sys, time\nfor n in range(3): print(f'\\r{n} of 2', end='', file=sys.stderr); time.sleep(0.1)"
    bars = [nbformat.v4.new_output("stream", name="stderr", text=f"\r{n} of 2") for n in range(3)]
    mixed = "import sys\nfor n in range(3):\n    print(f'\\r{n} of 2', end='', file=sys.stderr, flush=True)\n"
    mixed += "    if n == 1: print('half', flush=True)"
    half = nbformat.v4.new_output("stream", text="half\n")
    states = [nbformat.v4.new_output("stream", name="stderr", text=each) for each in ("\r0 of 2", "\r1 of 2\r2 of 2")]
    cells = [
        ("print(open('a.txt').read())", [nbformat.v4.new_output("stream", text="hello\n")], []),
        ("1 / 0", [nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero")], []),
        ("6 * 7", [nbformat.v4.new_output("execute_result", {"text/plain": "41"}, execution_count=3)], []),
        ("raise SystemError", [], ["skip-execution"]),
        ("'never run'", [], []),
        *((draw, [nbformat.v4.new_output("display_data", each)], []) for each in charts),
        (frame, [nbformat.v4.new_output("display_data", framed)], []),
        (f"display({{'image/svg+xml': {drawn.format('loss')!r}}}, raw=True)", [drawing], []),
        (plot, [nbformat.v4.new_output("display_data", plotted)], []),
        (bar, bars, []),
        (mixed, [states[0], half, states[1]], []),
        (" ", [nbformat.v4.new_output("stream", text="p = 0.0003")], []),
        ("", [], []),
    ]
    notebook = nbformat.v4.new_notebook()
    for number, (code, outputs, tags) in enumerate(cells, 1):
        count = number if outputs else None
        made = nbformat.v4.new_code_cell(code, id=f"c{number}", outputs=outputs, execution_count=count)
        made.metadata["tags"] = tags
        notebook.cells.append(made)
    nbformat.write(notebook, tmp_path / "n.ipynb")
    proof = await verified(tmp_path / "n.ipynb")
    assert [cell.id for cell in proof.cells] == [
        "c1",
        "c2",
        "c3",
        "c5",
        "c6",
        "c7",
        "c8",
        "c9",
        "c10",
        "c11",
        "c12",
        "c13",
    ]
    assert differing(proof) == {
        "c3": ["output 1, text/plain, line 1: '41' → '42'", ""],
        "c7": [f"output 1, {chart}, line 4: '9' → '2'", ""],
        "c8": ["output 1, text/html, markup: 'profit' → 'loss'", ""],
        "c9": ["output 1, image/svg+xml, line 1: 'profit' → 'loss'", ""],
        "c13": ["stdout, missing", ""],
    }


async def test_widgets_of_anybodys_notebook_are_compared(tmp_path: Path) -> None:
    """Closed ones too, whose state nbclient keeps, and those of another program than Jupyter's own."""
    define = """import ipywidgets as w, traitlets as t
class Map(w.DOMWidget):
    _model_name, _view_name = t.Unicode('MapModel').tag(sync=True), t.Unicode('MapView').tag(sync=True)
    _model_module = _view_module = t.Unicode('some-map').tag(sync=True)
    zoom = t.Int(9).tag(sync=True)
"""
    cells = [define + "Map()", "gone = w.Text('gone')\ndisplay(gone)\ngone.close()", "w.VBox([Map(zoom=3)])"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    notebook.metadata["kernelspec"] = {"name": "nbagent-bubblewrap", "display_name": "x", "language": "python"}
    await NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).async_execute()
    for name, changes in (("honest", {}), ("forged", {"zoom": 99, "value": "forged"})):
        for model in notebook.metadata.widgets[STATE_MIME]["state"].values():
            model["state"] |= {key: value for key, value in changes.items() if key in model["state"]}
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    proof = await verified(tmp_path / "honest.ipynb")
    assert (differing(proof), proof.result) == ({}, "same")
    found = differing(await verified(tmp_path / "forged.ipynb"))
    told = ["widget of some-map", "widget", "widget of some-map"]
    assert [each[0].split(", line")[0] for each in found.values()] == [f"output 1, {each}" for each in told]


async def test_a_sweep_names_what_a_cell_depends_on(tmp_path: Path) -> None:
    """The processor by an unstable sort, the seed of hashes, threads, the time zone, and the locale."""
    cells = [
        "import numpy as np, os, time\nx = np.random.default_rng(0).integers(0, 5, size=400)\nprint(x.sum())",
        "print(np.argsort(x)[:10], x.argsort()[-5:])",
        "print({'alpha', 'beta', 'gamma', 'delta', 'epsilon'})",
        "print(os.environ.get('OMP_NUM_THREADS'))",
        "print(time.strftime('%Z'))",
        "print(os.environ['LANG'])",
        "import pandas as pd\nt = pd.DataFrame({'x': x, 'n': range(400)})\n"
        "list(t.sort_values('x', kind='quicksort').n)",
        "t.set_index('x').sort_index().n.tolist()",
    ]
    async with Session(engine="bubblewrap") as session:
        for code in cells:
            await session.run(code)
        await session.export(tmp_path / "n.ipynb")
    proof = await verified(tmp_path / "n.ipynb", sweeps=True)
    found = {cell.id: cell.depends for cell in proof.cells if cell.depends}
    sorts = ["the processor's vector instructions: unstable sort"]
    depends = await _sorts_depend("\n".join(cells[:2]))
    assert found == (dict.fromkeys(("cell-2", "cell-7", "cell-8"), sorts) if depends else {}) | {
        "cell-3": ["the seed of Python's hashes"],
        "cell-4": ["the number of threads"],
        "cell-5": ["the time zone"],
        "cell-6": ["the locale"],
    }
    assert proof.result == "same"


async def _sorts_depend(code: str) -> bool:
    """Whether what `code` prints is another without the vector instructions of this machine's processor."""
    from nbagent.kernel.kernel import Kernel
    from nbagent.notebook.sweep import DISPATCH

    async with Kernel(machine.works("bubblewrap")) as kernel:
        await kernel.run("import numpy")
        features = " ".join(await kernel.evaluate(DISPATCH, []))
        program = f"import os, subprocess, sys; command = [sys.executable, '-c', {code!r}]; print(len({{\n"
        for variables in ("os.environ", f"{{**os.environ, 'NPY_DISABLE_CPU_FEATURES': {features!r}}}"):
            program += f"subprocess.run(command, env={variables}, capture_output=True, check=True).stdout,\n"
        cell = await kernel.run(program + "}))")
        assert cell.text in ("1", "2"), cell.text
        return cell.text == "2"


async def test_pictures_are_compared_by_their_pixels() -> None:
    """In a sandbox; within a bound where programs and fonts are others; what is no picture is told."""
    async with Pictures(machine.works("bubblewrap")) as pictures:
        same = await pictures.compare(PICTURE, PICTURE + "\n", exact=True)
        assert same.same
        assert not (await pictures.compare(PICTURE, OTHER, exact=True)).same
        near = await pictures.compare(PICTURE, OTHER, exact=False)
        assert (near.same, near.shown is not None) == (True, True)
        assert not (await pictures.compare(PICTURE, png(*[255] * 50), exact=False)).same
        assert "50×1 → 3×1" in (await pictures.compare(PICTURE, png(1, 2, 3), exact=False)).told
        assert "can't be read" in (await pictures.compare(PICTURE, "AAAA", exact=False)).told


async def test_what_browsers_draw_of_a_picture_is_compared() -> None:
    """Not only its first frame, nor its pixels without what turns and colours them."""

    def moving(*greys: int, format: str = "PNG", duration: int = 9, **more: Any) -> str:
        frames = [Image.new("L", (40, 20), grey) for grey in greys]
        more |= {"save_all": True, "append_images": frames[1:], "duration": duration}
        frames[0].save(file := io.BytesIO(), format, **more)
        return base64.b64encode(file.getvalue()).decode()

    def still(**more: Any) -> str:
        Image.new("RGB", (40, 20), "navy").save(file := io.BytesIO(), more.pop("format", "PNG"), **more)
        return base64.b64encode(file.getvalue()).decode()

    turned = Image.Exif()
    turned[274] = 3
    async with Pictures(machine.works("bubblewrap")) as pictures:
        assert (await pictures.compare(moving(5, 90), moving(5, 90) + "\n", exact=True)).same
        assert not (await pictures.compare(moving(5, 90), moving(5), exact=False)).same
        assert not (await pictures.compare(moving(5, 90, 5), moving(5, 200, 5), exact=False)).same
        assert not (await pictures.compare(still(icc_profile=b"x" * 200), still(), exact=False)).same
        slow, once = moving(5, 90, duration=70), moving(5, 90, loop=1)
        for other in (slow, once):
            assert not (await pictures.compare(moving(5, 90), other, exact=False)).same
        greys = [n % 2 * 90 + n for n in range(101)]
        many = await pictures.compare(moving(*greys, format="GIF"), moving(*greys[:-1], 200, format="GIF"), exact=True)
        assert (many.same, many.told) == (False, "it moves in more frames than are compared")
        jpeg = [still(format="JPEG"), still(format="JPEG", exif=turned)]
        assert not (await pictures.compare(jpeg[1], jpeg[0], exact=False)).same


async def test_greys_of_16_bits_and_what_only_a_dark_theme_shows_are_compared() -> None:
    """A decoder that clips, or a white page, would hide them."""

    def saved(mode: str, colour: Any) -> str:
        Image.new(mode, (40, 20), colour).save(file := io.BytesIO(), "PNG")
        return base64.b64encode(file.getvalue()).decode()

    white, clear = saved("RGBA", (255, 255, 255, 255)), saved("RGBA", (255, 255, 255, 0))
    async with Pictures(machine.works("bubblewrap")) as pictures:
        deep = await pictures.compare(saved("I;16", 1_000), saved("I;16", 60_000), exact=False)
        pale = await pictures.compare(white, clear, exact=False)
        dark = await pictures.compare(saved("RGBA", (0, 0, 0, 255)), saved("RGBA", (0, 0, 0, 0)), exact=False)
        alike = await pictures.compare(saved("I;16", 1_000), saved("I;16", 1_001), exact=True)
    assert [each.same for each in (deep, pale, dark, alike)] == [False, False, False, True]


async def test_a_curve_between_two_times_is_no_time() -> None:
    """A date above it and a duration below it differ in each run."""

    def drawn(*rows: int) -> str:
        picture = Image.new("L", (100, 100), 255)
        for row in rows:
            picture.paste(0, (40, row, 44, row + 5))
        picture.save(file := io.BytesIO(), "PNG")
        return base64.b64encode(file.getvalue()).decode()

    async with Pictures(machine.works("bubblewrap")) as pictures:
        times = [await pictures.compare(drawn(*rows), drawn(), drawn(3, 90), exact=True) for rows in ((3,), (1, 93))]
        edited = await pictures.compare(drawn(3, 50, 90), drawn(), drawn(3, 90), exact=True)
    assert [each.is_within for each in (*times, edited)] == [True, True, False]


async def test_a_time_in_a_figure_may_differ_as_wide_as_it_is() -> None:
    """Two runs of the same minute differ in its last digit, the notebook in all of it; not where no text can be.

    A label of another width makes the whole as much wider, in some of three runs that all draw something else.
    """

    def drawn(*places: int) -> str:
        return png(*(0 if place in places else 255 for place in range(50)))

    async with Pictures(machine.works("bubblewrap")) as pictures:
        near = await pictures.compare(drawn(31, 43), drawn(42), drawn(43), exact=True)
        far = await pictures.compare(drawn(20, 43), drawn(42), drawn(43), exact=True)
        wide = await pictures.compare(png(*[255] * 49), drawn(42), drawn(43), exact=True)
        wider = await pictures.compare(png(*[255] * 80), drawn(42), drawn(43), exact=True)
        alone = await pictures.compare(png(*[255] * 49), drawn(42), exact=True)
    assert [each.is_within for each in (near, far, wide, wider, alone)] == [True, False, True, False, False]


async def test_what_is_drawn_beside_a_time_is_compared() -> None:
    """A curve close to it, in its own colour; and all of a figure that a longer label made wider."""

    def drawn(second: int, *, curve: int = 60, label: int = 0) -> str:
        picture = Image.new("RGB", (200 + label, 120), "white")
        picture.paste("black", (label + 90 + 4 * second, 20, label + 94 + 4 * second, 30))
        picture.paste("navy", (label + 10, curve, label + 190, curve + 2))
        picture.save(file := io.BytesIO(), "PNG")
        return base64.b64encode(file.getvalue()).decode()

    async with Pictures(machine.works("bubblewrap")) as pictures:
        honest = await pictures.compare(drawn(2, curve=36), drawn(1, curve=36), drawn(3, curve=36), exact=True)
        edited = await pictures.compare(drawn(2, curve=34), drawn(1, curve=36), drawn(3, curve=36), exact=True)
        wider = await pictures.compare(drawn(2, label=6), drawn(1), drawn(3), exact=True)
        moved = await pictures.compare(drawn(2, label=6, curve=80), drawn(1), drawn(3), exact=True)
        others = await pictures.compare(drawn(2, curve=80), drawn(1), drawn(3, label=6), exact=True)
    assert [each.is_within for each in (honest, edited, wider, moved, others)] == [True, False, True, False, False]


def test_cells_are_called_as_a_person_knows_them() -> None:
    """By the id that somebody chose; by their place where Jupyter made up one, which no page shows."""
    ids = ("cell-2", "plot", "12b24d66-110d-4247-becb-d6c0779f38b9", "a1b2c3d4")
    names = [CellProof(id=each, number=7).name for each in ids]
    assert names == ["cell-2", "plot", "code cell 7", "code cell 7"]
    assert [document.DocumentCell(id=each, number=7, code="").name for each in ids] == names
    assert b'"code cell 7"' in junit([Proof(name="n", cells=[CellProof(id="a1b2c3d4", number=7)])])


async def test_no_cell_runs_where_what_comes_first_fails() -> None:
    """As where there is no matplotlib to tell the time of a former run."""
    code = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    runs = FreshRuns(document.of(code, name="n"), engine=machine.works("bubblewrap"), spec=SandboxSpec())
    ran = await runs.once(first=lambda kernel: kernel.evaluate("def main():\n    import nothing", []))
    assert (ran.outputs, runs.count) == ({}, 0)


async def test_what_another_seed_of_hashes_gives_is_told_as_such(tmp_path: Path) -> None:
    """Fresh runs agree on it, since a sandbox has one seed, and a notebook of another client's names none."""
    words = "words = {'quick', 'brown', 'fox', 'jumps', 'over', 'lazy', 'dog'}"
    shown = (
        "hash('abc')",
        "print(*words)",
        "list(words)[:2]",
        "for each in words: print(each, len(each))",
        "print(words)",
    )
    drawn = "import matplotlib.pyplot as plt\nplt.bar([*words], range(7))\nplt.show()"
    chance = "import random\nrandom.random() > 2, hash('abc')"
    told = (words, *shown, drawn, "print(3)", "print('fox', 'dog')", chance)
    cells = [*map(nbformat.v4.new_code_cell, told)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "P"}})
    runs = FreshRuns(document.of(notebook, name="n"), engine=machine.works("bubblewrap"), spec=SandboxSpec())
    ran = await runs.once([("PYTHONHASHSEED", "7")])
    for number, cell in enumerate(cells, 1):
        cell.outputs = [nbformat.from_dict(each) for each in ran.outputs[number]]
        cell.execution_count = number
    for number, text in ((8, "4\n"), (9, "dog fox\n")):
        cells[number - 1].outputs[0].text = text
    nbformat.write(notebook, tmp_path / "n.ipynb")
    proof = await verified(tmp_path / "n.ipynb")
    causes = {each.number: {found.cause for found in each.differences} for each in proof.cells if each.differences}
    assert causes == {each: {OTHER_SEED} for each in (2, 3, 4, 5, 7)} | {8: {""}, 9: {ORDER}, 10: {BY_CHANCE}}


async def test_what_another_moment_gives_is_not_of_another_seed(tmp_path: Path) -> None:
    """Where the run with the other seed is the first of the next minute, as the times of files are told by `ls`."""
    cell = nbformat.v4.new_code_cell("import time\nprint(open('now.txt').read(), time.time() > 0)")
    cell.outputs, cell.execution_count = [nbformat.v4.new_output("stream", text="a True\n")], 1
    (tmp_path / "now.txt").write_text("b")
    (tmp_path / "n.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    found = document.parse((tmp_path / "n.ipynb").read_text(), name="n")
    given = inputs(tmp_path / "n.ipynb", given=(), root=tmp_path / "state", foreign=True)
    spec, runs = SandboxSpec.of(settings.load(), data=given.mounts), 0

    def tell(_done: int, _all: int) -> None:
        nonlocal runs
        if (runs := runs + 1) > 4:  # three as they are, one at another time, and then that with the other seed
            (tmp_path / "now.txt").write_text("c")

    proof = await Verification(found, engine=machine.works("bubblewrap"), spec=spec, tell=tell).run()
    assert [(each.stored, each.cause) for each in proof.cells[0].differences] == [("'a'", EVERY_RUN)]


def test_that_a_file_of_its_own_was_there_is_no_difference() -> None:
    """A notebook that `%%writefile` saved beside itself finds the file when it runs again."""
    cells = [nbformat.v4.new_code_cell(each) for each in ("%%writefile a.py\nx = 5", "x = 5")]
    for cell, said in zip(cells, ("Writing a.py\n", "Writing a.py\n"), strict=True):
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=said)]
    notebook = document.of(nbformat.v4.new_notebook(cells=cells), name="n")
    for name, differ in (("a.py", [False, True]), ("b.py", [True, True])):
        shown = [nbformat.v4.new_output("stream", name="stdout", text=f"Overwriting {name}\n")]
        ran = Ran(outputs={1: shown, 2: shown})
        found = compared(notebook, ran, reads=all_reads(notebook), strictness=Strictness())
        assert [bool(each.differences) for each in found.values()] == differ


async def test_all_files_of_a_cell_are_known_where_a_notebook_says_how_many() -> None:
    """One look reports a part of them."""
    code = "for each in range(1_300):\n    open(f'/tmp/output/{each}', 'w').close()"
    cells = [nbformat.v4.new_code_cell(each, execution_count=1) for each in (code, "1")]
    said = "nbagent: 1,200 more files come after the next cell.\n"
    cells[0].outputs = [nbformat.v4.new_output("stream", name="stderr", text=said)]
    notebook = document.of(nbformat.v4.new_notebook(cells=cells), name="n")
    ran = await FreshRuns(notebook, engine=machine.works("bubblewrap"), spec=SandboxSpec()).once()
    assert [len(ran.saved[each]) for each in (1, 2)] == [1_300, 0]
    found = compared(notebook, ran, reads=all_reads(notebook), strictness=Strictness())
    assert found[1].differences == []


@pytest.mark.parametrize(
    ("first", "counted"),
    [
        *((each, False) for each in ("first = 1", "get_ipython().execution_count -= 1", PLACES, BLOCK)),
        *((each, True) for each in (PLACES, BLOCK)),
    ],
)
async def test_cells_that_an_export_adds_are_not_counted(first: str, counted: bool) -> None:
    """Code finds the numbers of the session in `In` and `Out`, also where the cell counts back by itself.

    The cell for data does so in other clients' kernels, which count it.
    """
    sources = (first, "41", "print(In[1], Out[1])")
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    if not counted:
        cells[0].metadata |= {"nbagent": {"role": "places"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"nbagent": {"version": 1}})
    runs = FreshRuns(document.of(notebook, name="n"), engine=machine.works("bubblewrap"), spec=SandboxSpec())
    assert (await runs.once()).cells[3].text.strip() == "41 41"


@pytest.mark.parametrize(
    ("kernelspec", "told"), [("python3", "None"), ("nbagent-docker", "40"), ("nbagent-local", "None")]
)
async def test_polars_shows_as_much_as_where_a_notebook_was_made(kernelspec: str, told: str) -> None:
    """Elsewhere it shows ten rows of a table, and in each sandbox forty."""
    code = nbformat.v4.new_code_cell("import os\nprint(os.environ.get('POLARS_FMT_MAX_ROWS'))")
    made = nbformat.v4.new_notebook(cells=[code], metadata={"kernelspec": {"name": kernelspec, "display_name": "K"}})
    runs = FreshRuns(document.of(made, name="n"), engine=machine.works("bubblewrap"), spec=SandboxSpec())
    assert (await runs.once()).cells[1].text.strip() == told


def test_what_a_cloned_repository_calls_a_notebook_is_read_within_bounds(tmp_path: Path) -> None:
    """A link to a device that never ends, a pipe that nobody writes to, and what parses to many times its size."""
    (tmp_path / "a.ipynb").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "b.ipynb")
    (tmp_path / "c.ipynb").write_bytes(b"[" * 20_000_000)
    with zipfile.ZipFile(tmp_path / "d.ipynb", "w") as packed:
        packed.writestr("n/n.ipynb", "{}")
    for name, told in (
        ("a", "no plain file"),
        ("b", "no plain file"),
        ("c", "too large"),
        ("d", "is a zip. Unpack it"),
    ):
        with pytest.raises(UsageError, match=told):
            verify.read(tmp_path / f"{name}.ipynb")


def reached(chosen: Options) -> set[str]:
    """The hosts that a sandbox with these options reaches, or asks for."""
    hosts = SandboxSpec.of(chosen).trust.allowed_hosts
    assert hosts is not None
    return {*hosts, *(["any that a person allows"] if chosen.ask_hosts else [])}


def test_a_notebook_is_trusted_only_by_an_option_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a stranger's, whatever the person's own level is, and whatever hosts their own sessions reach."""
    monkeypatch.setenv("NBAGENT_TRUST", "trusted")
    assert verify.load().trust == "isolated"
    assert verify.load(trust="trusted").trust == "trusted"
    for name, value in (
        ("ALLOW_HOSTS", '["h.invalid"]'),
        ("SECURITY", '{"network_enabled": true, "allowed_hosts": ["h.invalid"]}'),
    ):
        monkeypatch.setenv(f"NBAGENT_{name}", value)
        assert not reached(verify.load())
        assert not reached(verify.load(trust="isolated"))
    assert reached(verify.load(allow_hosts=["other.invalid"])) == {"other.invalid"}
    assert verify.load(ask_hosts=True).ask_hosts
    monkeypatch.setenv("NBAGENT_TRUST", "untrusted")
    assert verify.load().trust == "untrusted"


def test_a_notebook_leads_nobody_from_the_wall_that_they_chose(made: Path) -> None:
    """The engine that it names is taken where a person has chosen neither one nor a runtime, such as gVisor."""
    document = verify.read(made)
    assert document.lock is not None
    assert verify.engine_for(document, Options()) == document.lock.engine
    assert verify.engine_for(document, Options(engine="docker")) == "docker"
    assert verify.engine_for(document, Options(docker_runtime="runsc")) is None
    assert verify.engine_for(document, Options(image="mine:1")) == "docker"
    with pytest.raises(UsageError, match="takes no image"):
        verify.engine_for(document, Options(image="mine:1", engine="bubblewrap"))
    for name in ("local", "existing", "../x"):
        document.lock.engine = name
        assert verify.engine_for(document, Options()) is None


def test_the_command_tells_people_and_programs(made: Path, tmp_path: Path) -> None:
    """Exit codes, the table, JSON, JUnit's XML, the verdict in the notebook, several notebooks at once, the story."""

    def change(_: Any, cells: dict[str, Any]) -> None:
        replace_output(cells["cell-3"], "43.98", "43.97")

    wrong = changed(made, tmp_path, change)
    words = ["verify", "-e", "bubblewrap", str(made), str(wrong), "--junit", "out.xml"]
    done = nbagent(*words, cwd=tmp_path, seconds=300)
    assert done.code == 1, done.err
    assert f"{made}: same" in done.out
    assert "stdout, line 1: '43.97" in done.out
    assert "within a relative difference of 1e-09" in done.out
    suites = Xml.parse(tmp_path / "out.xml").getroot()  # noqa: S314 - nbagent's own
    assert [suite.get("failures") for suite in suites] == ["0", "1"]
    assert nbformat.read(made, as_version=4).metadata.nbagent.verified.result == "same"
    assert nbformat.read(wrong, as_version=4).metadata.nbagent.verified.cells == {"cell-3": "differs"}
    (tmp_path / "empty").mkdir()
    broken = changed(made, tmp_path / "empty", lambda *_: None)
    (tmp_path / "empty" / "table.csv").unlink()
    words = ["verify", "-e", "bubblewrap", str(broken), "--json", "--no-write"]
    done = nbagent(*words, cwd=tmp_path, seconds=120, NBAGENT_STATE_DIR=str(tmp_path / "state"))
    (told,) = done.json["notebooks"]
    assert (done.code, told["result"]) == (2, "not run")
    assert "table.csv, which isn't here" in told["error"]
    story = nbagent("log", str(made), cwd=tmp_path).out
    assert "cell-4, by person, approved by person, ok" in story
    assert "installed humanize" in story
    assert "(bubblewrap): same." in story
    # A person's notebook in which nbagent has put a cell that was changed then.
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("2", metadata={"nbagent": INSERTED})])
    nbformat.write(book, tmp_path / "own.ipynb")
    story = nbagent("log", "own.ipynb", cwd=tmp_path).out
    assert "turn 2, by python of m, approved by policy, ok in 1 s; edited since: 2" in story


def test_nothing_that_a_notebook_says_looks_like_a_line_of_ours(tmp_path: Path) -> None:
    """Neither the name of a cell, nor a language, nor what a stream is called; and nothing turns the writing round."""
    forged = "a\r\nall.ipynb: same \u202e"
    shown = {"output_type": "stream", "name": forged, "text": forged}
    cell = {"cell_type": "code", "id": forged, "source": "1", "metadata": {}, "outputs": [shown], "execution_count": 1}
    for name, facts in (("cells", {"nbagent": {"cells": [forged]}}), ("language", {"language_info": {"name": forged}})):
        made = {"cells": [cell], "metadata": facts, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(made))
    ran = nbagent("verify", "cells.ipynb", "language.ipynb", cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "state"))
    assert ran.code == 2, ran.err
    assert "all.ipynb: same" in ran.out
    assert not [each for each in ran.out.split("\n") if each.startswith("all")]
    assert not {"\r", "\u202e"} & set(ran.out)


def test_a_notebook_that_never_ran_is_not_the_same_but_one_without_code_is(tmp_path: Path) -> None:
    """As a chapter of text, or an export all of whose cells ended their kernel."""
    block = "# /// script\n# dependencies = []\n# ///"
    for name, code in (("text", []), ("block", [block]), ("code", [block, "1"])):
        cells = [nbformat.v4.new_markdown_cell("# Words"), *map(nbformat.v4.new_code_cell, code)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    ran = nbagent("verify", "text.ipynb", "block.ipynb", "code.ipynb", "-e", "bubblewrap", cwd=tmp_path, seconds=120)
    assert ran.code == 2, ran.err
    assert "text.ipynb: same" in ran.out
    assert "block.ipynb: same" in ran.out
    assert "code.ipynb has no outputs to compare. Run it first, and save it." in " ".join(ran.out.split())


def test_a_cell_that_ran_twice_for_a_module_is_a_cause() -> None:
    """Where it changes what was there before it, also for cells that show that; any other difference has no cause."""

    def made(shown: str) -> list[Any]:
        return [{"output_type": "stream", "name": "stdout", "text": shown}]

    facts = {"nbagent": {"installed": [{"name": "late"}], "status": "ok"}}
    codes = ["n += 1\nimport late\nprint(n)", "print(n)", "print(m)"]
    cells = [nbformat.v4.new_code_cell(code, outputs=made("2"), execution_count=1) for code in codes]
    cells[0].metadata |= facts
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=cells)), name="n")
    fresh = Ran(outputs=dict.fromkeys((1, 2, 3), made("1")), moments=dict.fromkeys((1, 2, 3), (0.0, 1.0)))
    told = compared(found, fresh, [fresh], reads=all_reads(found), strictness=Strictness())
    assert [each.differences[0].cause for each in told.values()] == [TWICE, TWICE, ""]


@pytest.mark.parametrize("locked", [False, True])
def test_the_name_of_a_machine_is_told_as_such(locked: bool) -> None:
    """Where nothing says that a notebook ran in a sandbox, which has names of its own."""
    pairs = [("vm\n", "sandbox\n"), ("/home/ann\n", "/workspace\n"), ("3\n", "4\n"), ("box\n", "sandboxes\n")]
    pairs.append(("/usr/bin/python\n", "/opt/kernel/bin/python\n"))
    cells = [
        nbformat.v4.new_code_cell("f()", outputs=[nbformat.v4.new_output("stream", text=was)], execution_count=1)
        for was, _ in pairs
    ]
    metadata = {"nbagent": {"version": "1", "lock": msgspec.to_builtins(Lock())}} if locked else {}
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=cells, metadata=metadata)), name="n")
    outputs = {n: [nbformat.v4.new_output("stream", text=now)] for n, (_, now) in enumerate(pairs, 1)}
    ran = Ran(outputs=outputs, moments=dict.fromkeys(outputs, (0.0, 1.0)))
    told = compared(found, ran, [ran], reads=all_reads(found), strictness=Strictness())
    causes = [each.differences[-1].cause for each in told.values()]
    assert causes == ([""] * 5 if locked else [BY_MACHINE, BY_MACHINE, "", "", BY_MACHINE])


@pytest.mark.parametrize("version", [None, "1"])
def test_what_came_after_a_cells_end_may_lack_where_another_client_ran_it(version: str | None) -> None:
    """As the output of a task that went on, of which nbclient keeps nothing; what stands there is compared."""

    def told(*texts: str) -> bool:
        shown = [nbformat.v4.new_output("stream", text=each) for each in texts]
        cell = nbformat.v4.new_code_cell("create_task(f())", outputs=shown, execution_count=1)
        metadata = {"nbagent": {"version": version}} if version else {}
        found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=[cell], metadata=metadata)), name="n")
        late = [mark(ADDED, 0), nbformat.v4.new_output("stream", text="late\n")]
        first = [nbformat.v4.new_output("stream", text="begun\n")]
        ran = Ran(outputs={1: [*first, *late]}, moments={1: (0.0, 1.0)}, ended={} if version else {1: first})
        return bool(compared(found, ran, [ran], reads=all_reads(found), strictness=Strictness())[1].differences)

    assert told("begun\n") is (version is not None)
    assert not told("begun\n", "late\n")
    assert [told(), told("late\n"), told("begun\n", "later\n")] == [True] * 3


@pytest.mark.parametrize("code", ["%pip install cycler", "# /// script\n# dependencies = []\n# ///"])
def test_what_stands_below_cells_that_give_no_results_is_compared(code: str) -> None:
    """Below one that installs packages, or names them and isn't run, a notebook could show anything."""
    shown = {"output_type": "display_data", "data": {"text/plain": "Revenue: 5,000,000"}, "metadata": {}}
    cell = nbformat.v4.new_code_cell(code, outputs=[shown], execution_count=1)
    lock = {"nbagent": {"version": "1", "lock": msgspec.to_builtins(Lock())}}
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=[cell], metadata=lock)), name="n")
    ran = Ran() if found.cells[0].is_block else Ran(outputs={1: []}, moments={1: (0.0, 1.0)})
    told = compared(found, ran, reads=all_reads(found), strictness=Strictness())
    assert [each.where for each in told[1].differences] == ["missing"]


@pytest.mark.parametrize(
    ("code", "stored", "fresh", "same"),
    [
        ("# For the browser\n%pip install -q cycler", "Installed cycler 0.12.1.\n", "Already there: cycler.\n", True),
        ("%pip install cycler\nprint(3)", "Installed cycler 0.12.1.\n3\n", "Already there: cycler.\n3\n", True),
        ("!pip install cycler\nprint(3)", "Collecting cycler\nUsing cached cycler-0.12.1.whl\n3\n", "3\n", True),
        ("%pip install cycler\nprint(3)", "Installed cycler 0.12.1.\n2\n", "Already there: cycler.\n3\n", False),
        ("print('Installed', n)", "Installed 2.\n", "Installed 3.\n", False),
        ("%pip install cycler\nf(n)", "Found 2 rows.\n", "Found 3 rows.\n", False),
        (
            "!pip install cycler",
            "Found existing installation: cycler 0.11.0\n  Attempting uninstall: cycler\n",
            "",
            True,
        ),
    ],
)
def test_what_an_install_says_is_no_result(code: str, stored: str, fresh: str, same: bool) -> None:
    """Whether packages were there already depends on what ran before; what else the cell shows is compared."""

    def made(shown: str) -> list[Any]:
        return [{"output_type": "stream", "name": "stdout", "text": shown}]

    cell = nbformat.v4.new_code_cell(code, outputs=made(stored), execution_count=1)
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=[cell])), name="n")
    fresh_run = Ran(outputs={1: made(fresh)}, moments={1: (0.0, 1.0)})
    told = compared(found, fresh_run, reads=all_reads(found), strictness=Strictness())
    assert any(each.differences for each in told.values()) is not same
