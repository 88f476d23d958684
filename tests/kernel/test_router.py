"""Whose output a message becomes: of the cell that runs, of an earlier one, a widget's, or nobody's."""

from __future__ import annotations

import asyncio
import json

import machine
import pytest
from kernel.shared import Events, data

from nbagent.core.events import LateOutputAdded, OutputsCleared, OutputUpdated
from nbagent.kernel.kernel import Kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_displays_are_updated_across_cells(kernel: Kernel, events: Events) -> None:
    """A display_id of an earlier cell is updated by a later one, where it stands."""
    first = await kernel.run("from IPython.display import display; handle = display('first', display_id='shown')")
    events.clear()
    second = await kernel.run("handle.update('second')")
    assert second.outputs == []
    (told,) = events.of(OutputUpdated)
    assert (told.display_id, told.data["text/plain"]) == ("shown", "'second'")
    assert (told.during, told.changed) == (second.cell, [first.cell])
    assert f"What cell {first.cell} showed was changed while cell {second.cell} ran" in second.note
    third = await kernel.run("own = display(1, display_id='own'); own.update(2)")
    assert (events.of(OutputUpdated)[-1].changed, third.note) == ([], "")
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


async def test_widgets_are_kept(kernel: Kernel) -> None:
    """The state of widgets is there for the notebook, and what is shown refers to it."""
    cell = await kernel.run("import ipywidgets; ipywidgets.IntSlider(value=7)")
    model = data(cell)["application/vnd.jupyter.widget-view+json"]["model_id"]
    state = kernel._router.widgets.state()["state"]
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
    await asyncio.sleep(1.5)
    second = await kernel.run("pass")
    assert (first.text, second.text) == ("", "")
    (late,) = events.of(LateOutputAdded)
    assert (late.cell, late.during, late.output["text"]) == (first.cell, 0, "late\n")
    assert f"Output was added to cell {first.cell} while no cell ran" in second.note


async def test_all_that_came_between_two_cells_is_told_as_that(kernel: Kernel, events: Events) -> None:
    """However much it is, and however long each reader takes over it: the next cell did nothing of it."""
    await kernel.run("""
import threading
from IPython.display import display
handle = display('x', display_id='between')
def work():
    for number in range(60):
        handle.update(str(number))
thread = threading.Timer(0.3, work)
thread.start()
""")
    await asyncio.sleep(0.3 + 20 * machine.pace())
    events.clear()
    events.pause = 0.005
    second = await kernel.run("thread.join()")
    events.pause = 0
    assert {each.during for each in events.of(OutputUpdated) if each.display_id == "between"} == {0}
    assert f"while cell {second.cell} ran" not in second.note


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
    assert {(each.cell, each.during) for each in events.of(LateOutputAdded)} == {(first.cell, second.cell)}
    assert f"Output was added to cell {first.cell} while cell {second.cell} ran" in second.note


async def test_an_early_idle_loses_nothing_for_others(kernel: Kernel) -> None:
    """A cell that says that it is idle before it is ends with its reply, and the next cell is whole."""
    code = FORGE + "forge('status', {'execution_state': 'idle'}, me)\nimport time; time.sleep(0.3)\nprint('after')"
    assert (await kernel.run(code)).status == "ok"
    cell = await kernel.run("print('next')")
    assert cell.text == "next"


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


async def test_updates_that_are_superseded_at_once_are_not_all_told(kernel: Kernel, events: Events) -> None:
    """Thousands in a row are told now and then; the last one of each display is told, before the cell's end."""
    events.clear()
    code = "handles = [display('first', display_id=f'fast-{i}') for i in (1, 2)]\n"
    await kernel.run(f"{code}for n in range(2000):\n    for handle in handles: handle.update(n)")
    told = events.of(OutputUpdated)
    assert 2 <= len(told) < 1000
    last = {each.display_id: each.data["text/plain"] for each in told}
    assert last == {"fast-1": "1999", "fast-2": "1999"}


async def test_an_update_that_claims_another_cell_is_told_with_the_one_that_ran(kernel: Kernel, events: Events) -> None:
    """Whatever parent a message names, an update of what an ended cell showed names the cell that really ran."""
    first = await kernel.run(FORGE + "first = me\nfrom IPython.display import display\ndisplay(1, display_id='mine')")
    forged = """
content = {"data": {"text/plain": "forged"}, "metadata": {}, "transient": {"display_id": "mine"}}
forge("update_display_data", content, first)
forge("display_data", content, first)
"""
    second = await kernel.run(forged)
    changes = [each for each in events.of(OutputUpdated) if each.display_id == "mine"]
    assert {(each.during, *each.changed) for each in changes} == {(second.cell, first.cell)}
    assert f"What cell {first.cell} showed was changed while cell {second.cell} ran" in second.note
