"""Cells in sandboxed kernels of both engines: what they show, several at once, and much of everything."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from typing import Any

import machine
import pytest
from kernel.shared import Events, a_cell_takes, data, errors, short

from nbagent.core.errors import UsageError
from nbagent.core.events import CellFinished, CellStarted, OutputAdded
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

# -- what cells show ------------------------------------------------------------------------------------------------


async def test_the_last_expression_is_the_result(kernel: Kernel, events: Events) -> None:
    """The last expression is an execute_result with the kernel's count, told as it happens."""
    cell = await kernel.run("6 * 7")
    assert (cell.status, cell.success, cell.text, cell.note) == ("ok", True, "42", "")
    assert cell.outputs[0]["output_type"] == "execute_result"
    assert cell.outputs[0]["execution_count"] == cell.execution_count
    assert [type(each) for each in events] == [CellStarted, OutputAdded, CellFinished]
    assert {each.cell for each in events if hasattr(each, "cell")} == {cell.cell}


async def test_stdout_and_stderr_keep_their_order(kernel: Kernel) -> None:
    """Stdout and stderr are outputs of their own, in the order in which they were written."""
    code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stderr.flush()\nprint('three')"
    cell = await kernel.run(code)
    shown = [(each["name"], each["text"]) for each in cell.outputs]
    assert sorted(shown) in (
        [("stderr", "two\n"), ("stdout", "one\n"), ("stdout", "three\n")],
        [("stderr", "two\n"), ("stdout", "one\nthree\n")],
    )


async def test_what_a_child_process_prints_is_the_cells(kernel: Kernel) -> None:
    """What a child process prints to the kernel's own stdout is the cell's, too."""
    assert "from a shell" in (await kernel.run("import os; os.system('echo from a shell');")).text
    assert "from a shell" in (await kernel.run("!echo from a shell")).text


async def test_k_means_shows_its_result_and_no_warning(kernel: Kernel) -> None:
    """It asks joblib for the number of cores, which otherwise runs a program that finds none in a sandbox."""
    code = """
from joblib import cpu_count
from sklearn.cluster import KMeans
model = KMeans(n_clusters=2, n_init=1, random_state=1).fit([[0.0], [1.0], [8.0], [9.0]])
print(len(set(model.labels_)), cpu_count(only_physical_cores=True) == cpu_count())
"""
    cell = await kernel.run(code)
    assert [each.get("text", each) for each in cell.outputs] == ["2 True\n"]


async def test_an_exception_is_an_error_output(kernel: Kernel) -> None:
    """An exception is an error output, and no exception here; what was printed before it stays."""
    cell = await kernel.run("print('before')\n1 / 0")
    assert cell.status == "error"
    assert errors(cell) == ["ZeroDivisionError"]
    assert cell.text == "before"
    assert cell.state_lost == ""


@pytest.mark.parametrize("code", ["x =", "'", "\ufeffx = (", "return", "\ud800"])
async def test_what_python_cannot_read_is_the_codes_error(kernel: Kernel, code: str) -> None:
    """What Python can't read is the code's error, whatever it is."""
    cell = await kernel.run(code)
    assert cell.status == "error"
    assert len(errors(cell)) == 1


async def test_an_empty_cell_shows_nothing(kernel: Kernel) -> None:
    """An empty cell, or one of comments, is fine and shows nothing."""
    for code in ("", "\n\n", "# only a comment"):
        cell = await kernel.run(code)
        assert (cell.status, cell.outputs) == ("ok", [])


async def test_nul_is_refused(kernel: Kernel, events: Events) -> None:
    """Code with NUL characters is refused before it counts as a cell."""
    before = kernel.last_cell
    with pytest.raises(UsageError, match="NUL"):
        await kernel.run("x = '\0'")
    assert (kernel.last_cell, events) == (before, [])


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
async def test_a_timeout_must_be_above_zero(kernel: Kernel, limit: float) -> None:
    """Zero seconds, fewer or none at all are refused."""
    with pytest.raises(UsageError, match="above 0"):
        await kernel.run("1", timeout=limit)


async def test_a_figure_is_a_png_with_a_text(kernel: Kernel) -> None:
    """A figure of Matplotlib is a PNG with a text beside it."""
    cell = await kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    shown = data(cell)
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG\r\n")
    assert "Figure" in shown["text/plain"]
    assert cell.to_codebox().type == "image/png"


@pytest.mark.parametrize(
    ("made", "kind", "value"),
    [
        ("HTML('<b>bold</b>')", "text/html", "<b>bold</b>"),
        ("Latex('$x^2$')", "text/latex", "$x^2$"),
        ("Markdown('*x*')", "text/markdown", "*x*"),
        ("JSON({'a': [1, None, 'ü']})", "application/json", {"a": [1, None, "ü"]}),
        ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml", "<svg"),
        ("Javascript('1')", "application/javascript", "1"),
    ],
)
async def test_a_rich_result_is_kept_under_its_mime_type(kernel: Kernel, made: str, kind: str, value: Any) -> None:
    """Whatever a result shows itself as is kept under its MIME type."""
    shown = data(await kernel.run(f"from IPython.display import *\n{made}"))
    assert shown[kind] == value or shown[kind].startswith(value)


async def test_a_data_frame_is_html_and_text(kernel: Kernel) -> None:
    shown = data(await kernel.run("import polars; polars.DataFrame({'a': [1, 2]})"))
    assert "<table" in shown["text/html"]
    assert "shape: (2, 1)" in shown["text/plain"]


async def test_values_that_json_has_not(kernel: Kernel) -> None:
    """NaN and lone surrogates come out as something a notebook can hold, or are the code's error."""
    for code in (
        "display({'application/json': {'a': float('nan'), 'b': [float('inf')]}}, raw=True)",
        "display({'text/plain': 'x\\ud800'}, raw=True)",
        "raise ValueError('\\ud800')",
        "'\\ud800'",
    ):
        cell = await kernel.run(code)
        assert json.dumps(cell.outputs, allow_nan=False, ensure_ascii=False).encode()
        assert cell.status in ("ok", "error")


async def test_names_that_are_not_text_are_printed(kernel: Kernel) -> None:
    """A file's name that isn't UTF-8 can be printed: what can't be sent is escaped, and all else is there."""
    code = """
import os
open(b'/workspace/bad\\xff', 'w').close()
print('before', os.listdir('/workspace')[0])
print('after')
"""
    cell = await kernel.run(code)
    assert cell.text == "before bad\\udcff\nafter"
    assert (await kernel.run("os.unlink(b'/workspace/bad\\xff')")).outputs == []


async def test_a_progress_bar_ends_as_its_last_state(kernel: Kernel) -> None:
    """Carriage returns write over the line."""
    cell = await kernel.run("for n in range(101): print(f'\\r{n} %', end='')")
    assert cell.text == "100 %"


async def test_questions_are_refused(kernel: Kernel) -> None:
    """`input()` is an error at once: nobody is there to answer."""
    started = time.monotonic()
    for code in ("input('name?')", "import getpass; getpass.getpass()"):
        assert errors(await kernel.run(code)) == ["StdinNotImplementedError"]
    assert time.monotonic() - started < 30


async def test_payloads_do_nothing_here(kernel: Kernel) -> None:
    """Code can't put text into the person's next cell, open an editor or a pager, or end the session."""
    cell = await kernel.run(
        "shell = get_ipython()\nshell.set_next_input('rm -rf /')\n"
        "shell.payload_manager.write_payload({'source': 'edit_magic', 'filename': '/etc/passwd'})"
    )
    assert (cell.status, cell.outputs) == ("ok", [])
    assert (await kernel.run("len?")).status == "ok"


# -- several at once ------------------------------------------------------------------------------------------------


async def test_a_cell_that_waits_can_be_cancelled(kernel: Kernel) -> None:
    """A cell that has not begun is given up without a trace."""
    first = asyncio.create_task(kernel.run("import time; time.sleep(0.5); 'first'"))
    second = asyncio.create_task(kernel.run("raise SystemError"))
    await asyncio.sleep(0.1)
    second.cancel()
    assert (await first).text == "'first'"
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_cells_wait_for_each_other(kernel: Kernel, events: Events) -> None:
    """Calls at the same time run one after the other, in the order of the calls."""
    cells = await asyncio.gather(*(kernel.run(f"import time; time.sleep(0.05); {n}") for n in range(5)))
    assert [each.text for each in cells] == [str(n) for n in range(5)]
    kinds = [type(each) for each in events if isinstance(each, CellStarted | CellFinished)]
    assert kinds == [CellStarted, CellFinished] * 5


# -- much of everything ---------------------------------------------------------------------------------------------


async def test_cells_cost_the_same_at_the_end(kernel: Kernel) -> None:
    """The last of 500 cells is as quick as the first ones."""
    times = []
    for _ in range(500):
        started = time.monotonic()
        await kernel.run("print(2)")
        times.append(time.monotonic() - started)
    # The quick ones of each: what else this machine does slows down some, at any time.
    early, late = sorted(times[:100])[10], sorted(times[-100:])[10]
    assert late < 2 * early + 0.005


FLOOD = """
import asyncio, sys, psutil
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.registry import engines

async def main():
    async with Kernel(engines()[sys.argv[1]]) as kernel:
        await kernel.run("print('x' * 1_000_000)")
        me = psutil.Process()
        before = me.memory_info().rss
        cell = await kernel.run(sys.argv[2])
        after = me.memory_info()
        print(cell.status, (me.memory_info().rss - before) >> 20, cell.note)

asyncio.run(main())
"""


MUCH = {
    "one print": "print('x' * 100_000_000)",
    "many prints": "for _ in range(1000): print('x' * 100_000)",
    "from below Python": "import os\nfor _ in range(1000): os.write(1, b'x' * 100_000)",
    "many displays": "for n in range(3_000): display(n)",
}


# What bounds it is above the engines, so that one way is enough to see that it holds in Docker.
@pytest.mark.parametrize(("name", "way"), [*(("bubblewrap", way) for way in MUCH), ("docker", "many prints")])
async def test_much_output_costs_little_memory(name: str, way: str) -> None:
    """100 MB of output grow this side by less than 50 MB, and what was left out is counted."""
    command = [sys.executable, "-c", FLOOD, machine.works(name).name, MUCH[way]]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    status, grown, *note = done.stdout.split(maxsplit=2)
    assert status == "ok"
    assert int(grown) <= 50
    assert "left out" in note[0]


async def test_a_flood_does_not_stop_others(engine: Engine, kernel: Kernel) -> None:
    """While one session floods, cells of another one stay quick."""
    alone = await a_cell_takes(kernel)
    async with Kernel(engine, short()) as other:
        flood = asyncio.create_task(other.run("while True: print('x' * 1000)", timeout=3))
        await asyncio.sleep(0.5)
        times = []
        while not flood.done():
            times.append(await a_cell_takes(kernel, cells=1))
        assert (await flood).status == "timeout"
        assert sorted(times)[len(times) // 2] < 0.3 + 10 * alone
        assert (await other.run("1 + 1")).text == "2"
