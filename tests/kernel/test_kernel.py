"""Cells in sandboxed kernels of both engines: what they show, how they end, and what is told of it."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from typing import Any

import pytest
from kernel.shared import Events
from sandbox.index import Index

from nbagent.errors import InstallRefused, KernelDied, NbagentError, UsageError
from nbagent.events import (
    CellFinished,
    CellStarted,
    InstallFailed,
    LateOutput,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    PackagesInstalled,
    StateLost,
)
from nbagent.kernel.cell import Cell
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.recovery import MAX_RESTARTS
from nbagent.policy import InstallPolicy, TrustLevel, trust_for
from nbagent.sandbox.engine import Engine
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")

SWALLOW = """
import time
while True:
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        pass
"""


def short(**limits: Any) -> SandboxSpec:
    """A sandbox with other limits."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **{"timeout": 20, "grace": 1, **limits}))


def errors(cell: Cell) -> list[str]:
    """Names of a cell's errors."""
    return [each["ename"] for each in cell.outputs if each["output_type"] == "error"]


def data(cell: Cell) -> dict[str, Any]:
    """The MIME bundle of a cell's only rich output."""
    (found,) = [each["data"] for each in cell.outputs if "data" in each]
    assert isinstance(found, dict)
    return found


# -- what cells show ------------------------------------------------------------------------------------------------


async def test_a_result(kernel: Kernel, events: Events) -> None:
    """The last expression is an execute_result with the kernel's count, told as it happens."""
    cell = await kernel.run("6 * 7")
    assert (cell.status, cell.success, cell.text, cell.note) == ("ok", True, "42", "")
    assert cell.outputs[0]["output_type"] == "execute_result"
    assert cell.outputs[0]["execution_count"] == cell.execution_count
    assert [type(each) for each in events] == [CellStarted, OutputAdded, CellFinished]
    assert {each.cell for each in events if hasattr(each, "cell")} == {cell.cell}


async def test_streams(kernel: Kernel) -> None:
    """Stdout and stderr are outputs of their own, in the order in which they were written."""
    code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stderr.flush()\nprint('three')"
    cell = await kernel.run(code)
    shown = [(each["name"], each["text"]) for each in cell.outputs]
    assert sorted(shown) in (
        [("stderr", "two\n"), ("stdout", "one\n"), ("stdout", "three\n")],
        [("stderr", "two\n"), ("stdout", "one\nthree\n")],
    )


async def test_output_of_programs(kernel: Kernel) -> None:
    """What a child process prints to the kernel's own stdout is the cell's, too."""
    cell = await kernel.run("import os, time; os.system('echo from a shell'); time.sleep(0.3)")
    assert "from a shell" in str(cell.outputs)
    assert "from a shell" in (await kernel.run("!echo from a shell")).text


async def test_an_error(kernel: Kernel) -> None:
    """An exception is an error output, and no exception here; what was printed before it stays."""
    cell = await kernel.run("print('before')\n1 / 0")
    assert cell.status == "error"
    assert errors(cell) == ["ZeroDivisionError"]
    assert cell.text == "before"
    assert cell.state_lost == ""


@pytest.mark.parametrize("code", ["x =", "'", "\ufeffx = (", "return", "\ud800"])
async def test_code_that_is_none(kernel: Kernel, code: str) -> None:
    """What Python can't read is the code's error, whatever it is."""
    cell = await kernel.run(code)
    assert cell.status == "error"
    assert len(errors(cell)) == 1


async def test_nothing(kernel: Kernel) -> None:
    """An empty cell, or one of comments, is fine and shows nothing."""
    for code in ("", "\n\n", "# only a comment"):
        cell = await kernel.run(code)
        assert (cell.status, cell.outputs) == ("ok", [])


async def test_nul_is_refused(kernel: Kernel, events: Events) -> None:
    """Code with NUL characters is refused before it counts as a cell."""
    before = kernel.cells
    with pytest.raises(UsageError, match="NUL"):
        await kernel.run("x = '\0'")
    assert (kernel.cells, events) == (before, [])


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
async def test_a_limit_must_be_one(kernel: Kernel, limit: float) -> None:
    """Zero seconds, fewer or none at all are refused."""
    with pytest.raises(UsageError, match="above 0"):
        await kernel.run("1", timeout=limit)


async def test_a_picture(kernel: Kernel) -> None:
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
async def test_rich_results(kernel: Kernel, made: str, kind: str, value: Any) -> None:
    """Whatever a result shows itself as is kept under its MIME type."""
    shown = data(await kernel.run(f"from IPython.display import *\n{made}"))
    assert shown[kind] == value or shown[kind].startswith(value)


async def test_a_table(kernel: Kernel) -> None:
    """A frame of Polars is HTML and text."""
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


async def test_displays_are_updated_across_cells(kernel: Kernel, events: Events) -> None:
    """A display_id of an earlier cell is updated by a later one, where it stands."""
    first = await kernel.run("from IPython.display import display; handle = display('first', display_id='shown')")
    events.clear()
    second = await kernel.run("handle.update('second')")
    assert second.outputs == []
    (told,) = events.of(OutputUpdated)
    assert (told.display_id, told.data["text/plain"]) == ("shown", "'second'")
    assert first.status == "ok"


async def test_output_is_cleared(kernel: Kernel, events: Events) -> None:
    """`clear_output` takes away what was shown; with `wait`, only when something new comes."""
    code = """
from IPython.display import clear_output
for n in range(5):
    print(n)
    clear_output(wait=True)
print('end')
"""
    cell = await kernel.run(code)
    assert cell.text == "end"
    assert events.of(OutputsCleared)
    assert (await kernel.run("print(1); clear_output(wait=True)")).text == "1"
    assert (await kernel.run("print(1); clear_output()")).text == ""


async def test_a_progress_bar_ends_as_its_last_state(kernel: Kernel) -> None:
    """Carriage returns write over the line."""
    cell = await kernel.run("for n in range(101): print(f'\\r{n} %', end='')")
    assert cell.text == "100 %"


async def test_widgets_are_kept(kernel: Kernel) -> None:
    """The state of widgets is there for the notebook, and what is shown refers to it."""
    cell = await kernel.run("import ipywidgets; ipywidgets.IntSlider(value=7)")
    model = data(cell)["application/vnd.jupyter.widget-view+json"]["model_id"]
    state = kernel.widgets.state()["state"]
    assert state[model]["state"]["value"] == 7


async def test_late_output_is_told(kernel: Kernel, events: Events) -> None:
    """What a thread prints after its cell is told with that cell's number, and is not the next one's."""
    code = """
import threading, time
def say():
    time.sleep(0.3)
    print('late')
threading.Thread(target=say).start()
"""
    first = await kernel.run(code)
    await asyncio.sleep(0.6)
    second = await kernel.run("pass")
    assert (first.text, second.text) == ("", "")
    (late,) = events.of(LateOutput)
    assert (late.cell, late.output["text"]) == (first.cell, "late\n")


async def test_questions_are_refused(kernel: Kernel) -> None:
    """`input()` is an error at once: nobody is there to answer."""
    started = time.monotonic()
    for code in ("input('name?')", "import getpass; getpass.getpass()"):
        assert errors(await kernel.run(code)) == ["StdinNotImplementedError"]
    assert time.monotonic() - started < 3


async def test_payloads_do_nothing_here(kernel: Kernel) -> None:
    """Code can't put text into the person's next cell, open an editor or a pager, or end the session."""
    cell = await kernel.run(
        "shell = get_ipython()\nshell.set_next_input('rm -rf /')\n"
        "shell.payload_manager.write_payload({'source': 'edit_magic', 'filename': '/etc/passwd'})"
    )
    assert (cell.status, cell.outputs) == ("ok", [])
    assert (await kernel.run("len?")).status == "ok"


async def test_values_are_asked_for_as_json(kernel: Kernel) -> None:
    """`evaluate` fetches a value without a cell and without a trace, and gives None for what is none."""
    before = kernel.cells
    assert await kernel.evaluate("def main(*given):\n    return list(given)", [1, "ü"]) == [1, "ü"]
    for code in ("", "def main(): return object()", "def main(): 1 / 0", "def main(", "def main(): raise SystemExit"):
        assert await kernel.evaluate(code, []) is None
    assert kernel.cells == before
    assert (await kernel.run("'main' in globals()")).text == "False"


async def test_a_question_that_takes_too_long_is_interrupted(kernel: Kernel, events: Events) -> None:
    """Nbagent's own request has a limit too; the kernel keeps its state, and really runs the next cell."""
    await kernel.run("kept = 7")
    started = time.monotonic()
    assert await kernel.evaluate("import time\ndef main(): time.sleep(100)", [], seconds=0.3) is None
    assert time.monotonic() - started < 3
    assert (await kernel.run("kept")).text == "7"
    assert not events.of(StateLost)


async def test_a_question_that_cannot_be_stopped_costs_the_kernel(kernel: Kernel, events: Events) -> None:
    """One that ignores the interrupt too is ended; the next cell gets a new kernel, and is told."""
    await kernel.run("gone = 1")
    stubborn = "import time\ndef main():\n    while True:\n        try: time.sleep(60)\n"
    stubborn += "        except KeyboardInterrupt: pass"
    started = time.monotonic()
    assert await kernel.evaluate(stubborn, [], seconds=0.3) is None
    assert time.monotonic() - started < 0.3 + 1 + 1
    assert not kernel.is_alive
    cell = await kernel.run("'gone' in globals()")
    assert cell.text == "False"
    assert "did not answer between two cells, ignored the interrupt, and was killed" in cell.state_lost
    assert cell.state_lost in cell.note
    (told,) = events.of(StateLost)
    assert (told.cell, told.reason) == (cell.cell, cell.state_lost)
    assert (await kernel.run("2")).state_lost == ""


async def test_a_loss_that_a_question_found_is_told_to_the_next_cell(kernel: Kernel, events: Events) -> None:
    """A kernel that ended is replaced for nbagent's own request; the cell after it hears that state is lost."""
    await kernel.run("import os, threading; threading.Timer(0.2, os._exit, [4]).start()")
    await asyncio.sleep(0.6)
    assert await kernel.evaluate("def main(): return 5", []) == 5
    assert len(events.of(StateLost)) == 1
    assert "code 4" in (await kernel.run("1")).state_lost
    assert (await kernel.run("1")).state_lost == ""


# -- stopping -------------------------------------------------------------------------------------------------------


async def test_a_timeout_keeps_variables(kernel: Kernel, events: Events) -> None:
    """A cell over its limit is interrupted in time, and the next one finds its variables."""
    started = time.monotonic()
    cell = await kernel.run("import time; kept = 5; print('begun'); time.sleep(100)", timeout=0.5)
    assert time.monotonic() - started < 2
    assert (cell.status, cell.text, cell.state_lost) == ("timeout", "begun", "")
    assert "variables are kept" in cell.note
    assert errors(cell) == ["KeyboardInterrupt"]
    assert (await kernel.run("kept")).text == "5"
    assert not events.of(StateLost)


async def test_a_clock_that_jumps_changes_no_limit(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time of day is set forward or back, a cell is neither stopped early nor runs on for ever."""
    real = time.time
    for jump in (86_400.0, -86_400.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        assert (await kernel.run("import time; time.sleep(0.3); 'slept'", timeout=10)).text == "'slept'"
        started = time.monotonic()
        assert (await kernel.run("time.sleep(60)", timeout=0.3)).status == "timeout"
        assert time.monotonic() - started < 5
        monkeypatch.setattr(time, "time", real)


async def test_ten_timeouts_in_a_row(kernel: Kernel) -> None:
    """After each interrupt the next cell really runs: no empty success."""
    for number in range(10):
        assert (await kernel.run("import time; time.sleep(100)", timeout=0.05)).status == "timeout"
        assert (await kernel.run(f"{number}")).text == str(number)


async def test_a_swallowed_interrupt_ends_in_time(kernel: Kernel, events: Events) -> None:
    """At limit plus grace the kernel is killed and replaced; person and model are told that state is lost."""
    await kernel.run("gone = 1")
    started = time.monotonic()
    cell = await kernel.run(SWALLOW, timeout=0.5)
    # The end is told before the new kernel is up, which takes what a start takes here.
    assert events.last[OutputAdded] - started < 0.5 + 1 + 1
    assert cell.status == "timeout"
    assert errors(cell) == ["KernelDied"]
    assert "Variables, imports and files of the sandbox are lost." in cell.state_lost
    (told,) = events.of(StateLost)
    assert (told.cell, told.reason) == (cell.cell, cell.state_lost)
    assert errors(await kernel.run("gone")) == ["NameError"]


async def test_a_person_stops_a_cell(kernel: Kernel) -> None:
    """`interrupt` stops what runs and keeps variables; when nothing runs it does nothing to the next cell."""
    kernel.interrupt()
    assert (await kernel.run("kept = 6; kept")).text == "6"
    running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    kernel.interrupt()
    cell = await asyncio.wait_for(running, 3)
    assert cell.status == "interrupted"
    assert "was stopped" in cell.note
    assert (await kernel.run("kept")).text == "6"


async def test_a_stop_is_for_the_running_cell_only(kernel: Kernel) -> None:
    """Of two cells that wait for each other, only the first is stopped."""
    first = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    second = asyncio.create_task(kernel.run("'second'"))
    await asyncio.sleep(0.3)
    kernel.interrupt()
    assert (await first).status == "interrupted"
    assert (await second).text == "'second'"


async def test_an_interrupt_that_came_too_late(kernel: Kernel) -> None:
    """A cell that ends well while it is being stopped has ended well."""
    code = "import time\ntry:\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    print('put away')"
    cell = await kernel.run(code, timeout=0.3)
    assert cell.text == "put away"
    assert cell.status == "ok"


async def test_a_cancelled_run_stops_its_cell(kernel: Kernel) -> None:
    """Who gives up on a cell stops it: the next one runs at once, with the variables."""
    await kernel.run("kept = 7")
    running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    started = time.monotonic()
    assert (await kernel.run("kept")).text == "7"
    assert time.monotonic() - started < 1


async def test_a_cancelled_run_that_swallows(kernel: Kernel) -> None:
    """If its cell doesn't stop, the kernel is replaced before the cancellation is over."""
    running = asyncio.create_task(kernel.run(SWALLOW))
    await asyncio.sleep(0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await kernel.run("1 + 1")).text == "2"


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


# -- dying ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os._exit(3)", "exited with code 3"),
        ("import os; os._exit(0)", "exited with code 0"),
        ("import os; os._exit(200)", "exited with code 200"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was killed by SIGTERM"),
        ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("import os; os.abort()", "was killed by SIGABRT"),
        ("x = bytearray(2 * 10**9)", "ran out of memory (limit 512 MB"),
    ],
)
async def test_a_death_is_told_and_mended(kernel: Kernel, events: Events, code: str, told: str) -> None:
    """How the kernel died is named within five seconds, its state is told as lost, and a new one is there."""
    await kernel.run("gone = 1")
    started = time.monotonic()
    cell = await kernel.run(f"print('before', flush=True); import time; time.sleep(0.1); {code}")
    assert time.monotonic() - started < 5
    assert cell.status == "died"
    assert told in cell.state_lost
    assert errors(cell) == ["KernelDied"]
    assert cell.text == "before"
    assert len(events.of(StateLost)) == 1
    assert errors(await kernel.run("gone")) == ["NameError"]
    assert (await kernel.run("1")).success


async def test_last_words_are_heard(kernel: Kernel) -> None:
    """What was sent before the death is shown, however much of it was still on its way."""
    code = "import os, time\nfor n in range(300): print(n, flush=True)\ntime.sleep(0.2)\nos._exit(1)"
    cell = await kernel.run(code)
    assert cell.status == "died"
    assert cell.text.split() == [str(n) for n in range(300)]


async def test_a_polite_end_is_an_end(kernel: Kernel) -> None:
    """`exit()` ends the kernel, which is told like any other death, and the next cell has a new one."""
    await kernel.run("gone = 1")
    cell = await kernel.run("exit()")
    following = await kernel.run("1 + 1")
    assert "2" in (following.text, (await kernel.run("1 + 1")).text)
    assert cell.status in ("ok", "died")


async def test_a_death_between_cells(kernel: Kernel, events: Events) -> None:
    """A kernel that dies while nothing runs is replaced before the next cell, which is told so and not to blame."""
    await kernel.run("import os, threading; threading.Timer(0.2, os._exit, [4]).start()")
    await asyncio.sleep(0.6)
    cell = await kernel.run("1 + 1")
    assert cell.text == "2"
    (told,) = events.of(StateLost)
    assert told.reason == cell.state_lost
    assert "code 4" in told.reason


async def test_a_kernel_that_became_something_else(kernel: Kernel) -> None:
    """A kernel replaced by another program answers no more: it is stopped at the limit and replaced."""
    cell = await kernel.run("import os; os.execv('/bin/sleep', ['sleep', '1000'])", timeout=0.5)
    assert cell.status == "timeout"
    assert cell.state_lost
    assert (await kernel.run("1 + 1")).text == "2"


async def test_restarts_are_bounded(engine: Engine) -> None:
    """After some deaths in a row it is not restarted by itself, but when somebody runs a cell again."""
    told = Events()
    async with Kernel(engine, short(), notify=told.append) as kernel:
        for _ in range(MAX_RESTARTS):
            assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert len(told.of(StateLost)) == MAX_RESTARTS
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert len(told.of(StateLost)) == MAX_RESTARTS
        assert not kernel.provisioner.has_process
        # ... and one cell that ends well starts the count again.
        assert (await kernel.run("1 + 1")).text == "2"
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        assert (await kernel.run("1 + 1")).text == "2"


async def test_a_start_that_hangs_is_an_error(engine: Engine) -> None:
    """A kernel that doesn't answer in time is an error of the sandbox's, and nothing of it is left."""
    with pytest.raises(NbagentError, match="did not answer"):
        await Kernel(engine, short(start_timeout=0.01)).start()


async def test_a_start_that_dies_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that ends while it starts is an error with the end of what it said."""
    monkeypatch.setattr("nbagent.sandbox.seccomp.inner_program", lambda **_: b"\xff" * 8)
    with pytest.raises(NbagentError, match="the system call filter was refused"):
        await Kernel(engine).start()


async def test_a_restart_that_fails_can_be_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no engine a cell is a typed error; when there is one again, the session goes on."""
    async with Kernel(engine, short()) as kernel:
        site = kernel.provisioner.site
        with monkeypatch.context() as patch:
            patch.setattr("nbagent.sandbox.seccomp.inner_program", lambda **_: b"\xff" * 8)
            with pytest.raises(NbagentError):
                await kernel.run("import os; os._exit(1)")
            with pytest.raises(KernelDied):
                await kernel.run("1")
        assert (await kernel.run("1 + 1")).text == "2"
        assert kernel.provisioner.site == site
        assert site.is_dir()


async def test_stopping_ends_a_running_cell(engine: Engine) -> None:
    """Who stops the kernel ends its cell with an error, and leaves nothing behind."""
    kernel = Kernel(engine, short())
    await kernel.start()
    running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    await kernel.stop()
    with pytest.raises(NbagentError):
        await asyncio.wait_for(running, 5)


async def test_a_kernel_that_was_not_started(engine: Engine) -> None:
    """Asking one for its sandbox is an error with the mend; stopping it does nothing."""
    kernel = Kernel(engine)
    with pytest.raises(UsageError, match="not running"):
        _ = kernel.provisioner
    await kernel.stop()


# -- hostile messages -----------------------------------------------------------------------------------------------

FORGE = """
import json, zmq
from ipykernel.kernelbase import Kernel
kernel = get_ipython().kernel
session, socket = kernel.session, kernel.iopub_socket
def forge(kind, content, parent):
    session.send(socket, kind, content, parent={"header": parent} if parent else {}, ident=b"x")
me = kernel.get_parent()["header"]
"""


async def test_forged_output_changes_no_other_cell(kernel: Kernel, events: Events) -> None:
    """Messages that claim to be another cell's are late output of that cell, and never change what it returned."""
    first = await kernel.run(FORGE + "first = me\nprint('mine')")
    outputs = json.dumps(first.outputs)
    code = """
for kind, content in (
    ("stream", {"name": "stdout", "text": "forged"}),
    ("status", {"execution_state": "idle"}),
    ("execute_result", {"data": {"text/plain": "forged"}, "metadata": {}, "execution_count": 1}),
):
    forge(kind, content, first)
    forge(kind, content, {"msg_id": "unknown", "session": "x"})
    forge(kind, content, None)
print("second")
"""
    second = await kernel.run(code)
    assert (second.status, second.text) == ("ok", "second")
    assert json.dumps(first.outputs) == outputs
    assert {each.cell for each in events.of(LateOutput)} == {first.cell}


async def test_an_early_idle_loses_nothing_for_others(kernel: Kernel) -> None:
    """A cell that says that it is idle before it is ends with its reply, and the next cell is whole."""
    code = FORGE + "forge('status', {'execution_state': 'idle'}, me)\nimport time; time.sleep(0.3)\nprint('after')"
    assert (await kernel.run(code)).status == "ok"
    cell = await kernel.run("print('next')")
    assert cell.text == "next"


async def test_an_end_that_is_withheld_is_bounded(kernel: Kernel) -> None:
    """A kernel that never says idle is waited for a few seconds, and that is noted."""
    code = """
kernel = get_ipython().kernel
say = kernel._publish_status
kernel._publish_status = lambda *a, **k: None
kernel._publish_status_and_flush = lambda *a, **k: None
"""
    started = time.monotonic()
    cell = await kernel.run(code)
    assert time.monotonic() - started < 8
    assert "may be incomplete" in cell.note
    await kernel.restart()


async def test_junk_is_counted_and_survived(kernel: Kernel) -> None:
    """Unsigned, replayed, broken and unknown messages, in any number of frames, stop nothing."""
    code = (
        FORGE
        + """
frames = session.serialize(session.msg("stream", {"name": "stdout", "text": "replayed"}, parent={"header": me}))
unsigned = [*frames[:1], b"0" * 64, *frames[2:]]
deep = b"[" * 100_000
for junk in (
    [b""], [b"x"], [b"x"] * 50, [b"<IDS|MSG>"], [b"<IDS|MSG>", b""], unsigned, frames, frames, frames,
    [b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"], [b"\\xff" * 1000], [b"x", b"<IDS|MSG>", b"y", *[deep] * 4],
):
    socket.send_multipart(junk)
def signed(header, parent, metadata, content):
    parts = (header, parent, metadata, content)
    parts = [each if isinstance(each, bytes) else json.dumps(each, default=repr).encode() for each in parts]
    socket.send_multipart([b"x", b"<IDS|MSG>", session.sign(parts), *parts])
for bad in (None, 1, "x", [], {}, {"msg_type": 1}, {"msg_type": ["x"], "msg_id": {}}, deep):
    signed(bad, me, {}, {})
    signed({"msg_type": "stream", "msg_id": "a"}, bad, {}, {})
    signed({"msg_type": "stream", "msg_id": "b"}, me, bad, {"name": "stdout", "text": "x"})
    for kind in "stream display_data error status comm_open comm_msg clear_output execute_result".split():
        signed({"msg_type": kind, "msg_id": f"c{kind}{bad!r:.9}"}, me, {}, bad)
        signed({"msg_type": kind, "msg_id": "e", "version": "5.3"}, me, {}, {"data": bad, "name": bad, "text": bad})
        signed({"msg_type": kind, "msg_id": f"d{kind}{bad!r:.9}"}, me, {}, {"data": bad, "name": bad, "text": bad})
"""
    )
    before = kernel._process.connection.rejected
    cell = await kernel.run(code)
    assert cell.status == "ok", cell.outputs
    assert kernel._process.connection.rejected > before
    assert json.dumps(cell.outputs, allow_nan=False).encode()
    assert (await kernel.run("print('next')")).text == "next"


async def test_unknown_comms_are_ignored(kernel: Kernel) -> None:
    """A comm to a target that nobody has opens nothing here."""
    code = "from comm import create_comm; c = create_comm('nobody', data={'x': 1}); c.send({'y': 2}); c.close()"
    assert (await kernel.run(code)).status == "ok"


async def test_a_representation_that_loops_ends(kernel: Kernel) -> None:
    """A result that takes for ever to show itself ends at the cell's limit."""
    code = "class Loop:\n    def _repr_html_(self):\n        while True: x = 1\nLoop()"
    assert (await kernel.run(code, timeout=0.5)).status in ("timeout", "ok")
    assert (await kernel.run("1 + 1")).text == "2"


# -- packages -------------------------------------------------------------------------------------------------------


async def test_a_missing_module_is_installed(kernel: Kernel, packages: Index, events: Events) -> None:
    """The distribution is installed, the cell runs again from its start, and only that run's output is kept."""
    packages.add("automatic", "1.2")
    cell = await kernel.run("print('before')\nimport automatic\nautomatic.version")
    assert (cell.status, cell.text) == ("ok", "before\n'1.2'")
    assert [(each.name, each.version, each.requested) for each in cell.installed] == [("automatic", "1.2", True)]
    assert [each.packages for each in events.of(PackagesInstalled)] == [cell.installed]
    assert events.of(OutputsCleared)
    assert (await kernel.run("import automatic")).installed == []


async def test_modules_one_after_the_other(kernel: Kernel, packages: Index) -> None:
    """A cell that misses several modules gets them all."""
    for name in ("onemore", "twomore"):
        packages.add(name)
    cell = await kernel.run("import onemore, twomore; onemore.version + twomore.version")
    assert cell.text == "'1.01.0'"
    assert [each.name for each in cell.installed] == ["onemore", "twomore"]


async def test_a_name_that_is_none(kernel: Kernel, events: Events) -> None:
    """A module that no index has stays the code's error, with the reason in the note; the cell ran once."""
    cell = await kernel.run("print('once'); import invented_by_a_model")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert "Not installed" in cell.note
    assert "invented-by-a-model" in cell.note
    assert cell.text == "once"
    assert len(events.of(InstallFailed)) == 1


async def test_a_package_without_the_module(kernel: Kernel, packages: Index) -> None:
    """Installed and still not there: one attempt a module, no loop."""
    packages.add("hollow", files={"other_name.py": ""})
    started = time.monotonic()
    cell = await kernel.run("import hollow")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert len(packages.requests) < 200
    assert time.monotonic() - started < 10


async def test_a_release_that_is_too_young(kernel: Kernel, packages: Index, events: Events) -> None:
    """Policy refuses it, and that is told as a refusal."""
    packages.add("young", days=0.1)
    cell = await kernel.run("import young")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert "Not installed" in cell.note
    assert events.of(InstallFailed)


async def test_a_denied_package(engine: Engine, packages: Index) -> None:
    """A name that policy denies is refused wherever it comes from."""
    packages.add("denied")
    spec = SandboxSpec(install=InstallPolicy(deny=frozenset({"denied"})))
    told = Events()
    async with Kernel(engine, spec, notify=told.append) as kernel:
        assert errors(await kernel.run("import denied")) == ["ModuleNotFoundError"]
        cell = await kernel.run("%pip install denied")
        assert "Not installed" in str(cell.outputs)
        with pytest.raises(InstallRefused):
            await kernel.install(["denied"])
        assert [each.refused for each in told.of(InstallFailed)] == [True] * 3


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("%pip install {}", "magic"),
        ("%pip install -q '{}'", "quoted"),
        ("!pip install {}", "shelled"),
        ("  !python -m pip install -q {}", "indented"),
        ("!uv pip install {}==1.0", "pinned"),
        ("%pip install {} {}", "twice"),
    ],
)
async def test_pip_in_a_cell(kernel: Kernel, packages: Index, events: Events, command: str, name: str) -> None:
    """However a person says `pip install`, it is the host's installer that does it, and the module is there."""
    packages.add(name)
    cell = await kernel.run(command.strip().format(name, name) + f"\nimport {name}\n{name}.version")
    assert cell.text.endswith("'1.0'"), cell
    assert [each.packages[0].name for each in events.of(PackagesInstalled)] == [name]


@pytest.mark.parametrize(
    "wanted",
    ["git+https://example.com/x", "./wheel.whl", "/tmp/x", "x @ file:///etc/passwd", "--index-url=http://x y", "$(x)"],
)
async def test_pip_takes_names_only(kernel: Kernel, wanted: str) -> None:
    """Addresses, paths and options are refused, and the kernel goes on."""
    cell = await kernel.run(f"%pip install {wanted}")
    assert cell.status == "ok"
    assert "Not installed" in str(cell.outputs) or "can only install" in str(cell.outputs)


async def test_a_script_block_installs(kernel: Kernel, packages: Index) -> None:
    """The dependencies of a PEP 723 block are there before the cell runs."""
    packages.add("declared", "2.0")
    cell = await kernel.run("# /// script\n# dependencies = ['declared>=1']\n# ///\nimport declared; declared.version")
    assert cell.text.endswith("'2.0'")
    assert "can't be read" in str((await kernel.run("# /// script\n# dependencies = [\n# ///\n")).outputs)


async def test_packages_survive_a_restart(kernel: Kernel, packages: Index) -> None:
    """A new kernel of the same session still has what was installed."""
    packages.add("lasting")
    assert [each.name for each in await kernel.install(["lasting"])] == ["lasting"]
    await kernel.restart()
    assert (await kernel.run("import lasting; lasting.version")).text == "'1.0'"


async def test_packages_are_read_only_inside(kernel: Kernel, packages: Index) -> None:
    """Code can't change what was installed, nor put anything beside it."""
    packages.add("firm")
    await kernel.install(["firm"])
    for code in ("import firm; open(firm.__file__, 'a')", "open('/opt/site/x.pth', 'w')"):
        assert errors(await kernel.run(code))[0] in ("OSError", "PermissionError")


async def test_a_stop_while_installing(kernel: Kernel, packages: Index) -> None:
    """A person who stops a cell while its module is installed has stopped it: it doesn't run again."""
    packages.add("slow")
    packages.slow = True
    try:
        running = asyncio.create_task(kernel.run("import slow; print('ran')"))
        while not any("slow" in each for each in packages.requests):
            await asyncio.sleep(0.02)
        kernel.interrupt()
        await asyncio.sleep(0.1)
    finally:
        packages.slow = False
        packages.delay.set()
    cell = await asyncio.wait_for(running, 60)
    packages.delay.clear()
    assert "ran" not in cell.text
    assert cell.status in ("interrupted", "error")


# -- much of everything ---------------------------------------------------------------------------------------------


async def test_cells_cost_the_same_at_the_end(kernel: Kernel) -> None:
    """The last of 500 cells is as quick as the first ones."""
    times = []
    for _ in range(500):
        started = time.monotonic()
        await kernel.run("print(2)")
        times.append(time.monotonic() - started)
    early, late = sorted(times[:100])[50], sorted(times[-100:])[50]
    assert late < 2 * early + 0.005
    assert late < 0.05


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


@pytest.mark.parametrize(
    "code",
    [
        "print('x' * 100_000_000)",
        "for _ in range(1000): print('x' * 100_000)",
        "import os\nfor _ in range(1000): os.write(1, b'x' * 100_000)",
        "for n in range(3_000): display(n)",
    ],
    ids=["one print", "many prints", "from below Python", "many displays"],
)
async def test_much_output_costs_little_memory(engine: Engine, code: str) -> None:
    """100 MB of output grow this side by less than 50 MB, and what was left out is counted."""
    command = [sys.executable, "-c", FLOOD, engine.name, code]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    status, grown, *note = done.stdout.split(maxsplit=2)
    assert status == "ok"
    assert int(grown) <= 50
    assert "left out" in note[0]


async def test_a_flood_does_not_stop_others(engine: Engine, kernel: Kernel) -> None:
    """While one session floods, cells of another one stay quick."""
    async with Kernel(engine, short()) as other:
        flood = asyncio.create_task(other.run("while True: print('x' * 1000)", timeout=3))
        await asyncio.sleep(0.5)
        times = []
        while not flood.done():
            started = time.monotonic()
            assert (await kernel.run("print(2)")).text == "2"
            times.append(time.monotonic() - started)
        assert (await flood).status == "timeout"
        assert sorted(times)[len(times) // 2] < 0.3
        assert (await other.run("1 + 1")).text == "2"
