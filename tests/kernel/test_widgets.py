"""Comm messages in, a notebook's widget state out: real ipywidgets, hostile comms, bounds."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.iopub import Recorder

from nbagent.kernel.outputs.displays import DisplayIndex
from nbagent.kernel.outputs.outputs import CellOutputs
from nbagent.kernel.outputs.widgets import WidgetTracker
from nbagent.safety.sanitize.widgets import STATE_MIME

v4: Any = nbformat.v4

CELLS = {
    "prelude": "import ipywidgets as w\nfrom IPython.display import display, clear_output\nfrom traitlets import Bytes",
    "slider": "slider = w.IntSlider(3, max=9, description='é漢')\nslider.value = 5\nslider",
    "buffers": (
        "image = w.Image(value=b'\\x89PNG', width=2)\nimage.value = b'\\x00\\xff'\nimage.format = 'jpg'\nimage\n"
        "class Deep(w.Widget):\n"
        "    from traitlets import Dict, Unicode, List\n"
        "    _model_name = Unicode('DeepModel').tag(sync=True)\n"
        "    _model_module = Unicode('deep').tag(sync=True)\n"
        "    _model_module_version = Unicode('1').tag(sync=True)\n"
        "    x = Dict().tag(sync=True)\n"
        "deep = Deep(x={'a': [b'one', 2], 'b': b'two'})\n"
    ),
    "closed": "gone = w.Text('gone')\ngone.close()",
    "echo": (
        "slider._handle_msg({'content': {'data': {'method': 'update', 'state': {'value': 8}, 'buffer_paths': []}},"
        " 'buffers': []})\nslider.send({'custom': 1})"
    ),
    "captured": (
        "print('before')\nout = w.Output()\ndisplay(out)\nwith out:\n    print('inside')\n    display('shown', "
        "display_id='inside')\nprint('after')"
    ),
    "interact": "print('stays')\nw.interact(lambda n: print('n is', n), n=4);",
    "cleared inside": "print('kept')\nwith out:\n    clear_output()\n    1 / 0",
}


@pytest.fixture(scope="session")
def recorded() -> Recorder:
    """All CELLS, run in a real ipykernel."""
    return Recorder.run(CELLS.values())


def replay(recorded: Recorder, *, without: Iterable[str] = ()) -> tuple[WidgetTracker, dict[str, CellOutputs]]:
    """Widgets and cells after the recorded messages, but for those of some types."""
    displays = DisplayIndex()
    widgets = WidgetTracker(displays=displays)
    cells = {name: CellOutputs(displays=displays) for name in CELLS}
    for index, message in recorded.messages:
        if message["header"]["msg_type"] not in without and not widgets.add(message):
            cells[list(CELLS)[index]].add(message)
    return widgets, cells


def models(widgets: WidgetTracker, name: str) -> list[dict[str, Any]]:
    """The models of this name."""
    return [model for model in widgets.state()["state"].values() if model["model_name"] == name]


def comm(kind: str, model_id: Any = "m", *, buffers: Any = (), **content: Any) -> dict[str, Any]:
    """A comm message."""
    header = {"msg_type": kind}
    return {"header": header, "content": {"comm_id": model_id, **content}, "buffers": list(buffers), "metadata": {}}


def opened(model_id: str = "m", *, buffers: Any = (), paths: Any = (), **state: Any) -> dict[str, Any]:
    """A message that opens a model."""
    names = {"_model_name": "Model", "_model_module": "module", "_model_module_version": "1"}
    data = {"state": names | state, "buffer_paths": list(paths)}
    return comm("comm_open", model_id, buffers=buffers, target_name="jupyter.widget", data=data)


def update(model_id: str = "m", *, buffers: Any = (), paths: Any = (), **state: Any) -> dict[str, Any]:
    """A message that updates a model."""
    data = {"method": "update", "state": state, "buffer_paths": list(paths)}
    return comm("comm_msg", model_id, buffers=buffers, data=data)


def widgets_of(*messages: dict[str, Any], **bounds: int) -> WidgetTracker:
    """The widgets of a session of its own, after these messages."""
    widgets = WidgetTracker(displays=DisplayIndex(), **bounds)
    for message in messages:
        widgets.add(message)
    return widgets


def state_of(widgets: WidgetTracker, model_id: str = "m") -> dict[str, Any]:
    """One model's state."""
    state: dict[str, Any] = widgets.state()["state"][model_id]
    return state


def test_state_is_that_of_nbclient(recorded: Recorder) -> None:
    """Of the same messages, nbclient collects the same state, and keeps that of closed widgets beside it."""
    widgets, _ = replay(recorded)
    ours = widgets.state()
    theirs = json.loads(json.dumps(recorded.nb.metadata.widgets[STATE_MIME]))
    closed = {m["content"]["comm_id"] for _, m in recorded.messages if m["header"]["msg_type"] == "comm_close"}
    assert len(closed) == 1
    assert closed <= set(theirs["state"])
    assert closed == set(widgets.closed()) == set(theirs["state"]) - set(ours["state"])
    for model in theirs["state"].values():
        # What a buffer replaced; nbclient keeps what the attribute was before, under the buffer.
        model["state"] = {
            key: value for key, value in model["state"].items() if key != "value" or "buffers" not in model
        }
    assert ours | {"state": ours["state"] | widgets.closed()} == theirs
    assert len(ours["state"]) > 10


def test_state_is_that_of_the_kernel(recorded: Recorder) -> None:
    """Values follow updates and echoes; buffers are base64 with the paths that the front end puts them back to."""
    widgets, _ = replay(recorded)
    state = widgets.state()
    assert (state["version_major"], state["version_minor"]) == (2, 0)
    slider = models(widgets, "IntSliderModel")[0]
    assert slider["state"]["value"] == 8
    assert slider["model_module"] == "@jupyter-widgets/controls"
    (image,) = models(widgets, "ImageModel")
    assert image["state"]["format"] == "jpg"
    assert "value" not in image["state"]
    assert image["buffers"] == [{"encoding": "base64", "path": ["value"], "data": "AP8="}]
    (deep,) = models(widgets, "DeepModel")
    assert deep["state"]["x"] == {"a": [None, 2]}
    assert {tuple(buffer["path"]): base64.b64decode(buffer["data"]) for buffer in deep["buffers"]} == {
        ("x", "a", 0): b"one",
        ("x", "b"): b"two",
    }
    assert "buffers" not in slider


def test_output_widgets_capture(recorded: Recorder) -> None:
    """What is displayed inside an Output widget is its own; the cell's other outputs stay where they are."""
    widgets, cells = replay(recorded)
    captured = cells["captured"].outputs()
    assert [output.get("text") for output in captured] == ["before\n", None, "after\n"]
    (interact,) = [
        model["state"]["outputs"]
        for model in models(widgets, "OutputModel")
        if len(model["state"]["outputs"]) == 1 and "text" in model["state"]["outputs"][0]
    ]
    assert interact == [{"output_type": "stream", "name": "stdout", "text": "n is 4\n"}]
    assert [output.get("text") for output in cells["interact"].outputs()] == ["stays\n", None]


def test_clear_output_inside_clears_the_widget(recorded: Recorder) -> None:
    """Clearing inside of an Output widget leaves the cell's outputs; an error inside shows there."""
    widgets, cells = replay(recorded)
    assert [output["text"] for output in cells["cleared inside"].outputs()] == ["kept\n"]
    errors = [
        [output["output_type"] for output in model["state"]["outputs"]] for model in models(widgets, "OutputModel")
    ]
    assert ["error"] in errors


OUTPUT = {"_model_name": "OutputModel", "_model_module": "@jupyter-widgets/output"}


def printed(text: str) -> dict[str, Any]:
    """A stream message of the request `1`."""
    content = {"name": "stdout", "text": text}
    return {"header": {"msg_type": "stream"}, "parent_header": {"msg_id": "1"}, "content": content}


def test_the_innermost_output_widget_captures() -> None:
    """Of nested Output widgets the last one entered captures; when it is left or closed, the one around it does."""
    widgets = widgets_of(opened("a", **OUTPUT), opened("b", **OUTPUT))
    for message in (update("a", msg_id="1"), update("b", msg_id="1"), printed("in b"), update("b", msg_id="")):
        assert widgets.add(message)
    assert widgets.add(printed("in a"))
    widgets.add(update("b", msg_id="1"))
    widgets.add(comm("comm_close", "b"))
    assert widgets.add(printed(", too"))
    widgets.add(update("a", msg_id=""))
    assert not widgets.add(printed("in the cell"))
    assert [output["text"] for output in state_of(widgets, "a")["state"]["outputs"]] == ["in a, too"]


def test_outputs_that_the_kernel_sets_replace_what_was_captured() -> None:
    """`out.outputs = (...)` in the kernel is the new content of an Output widget, made valid."""
    widgets = widgets_of(opened("a", **OUTPUT), update("a", msg_id="1"), printed("old"))
    widgets.add(update("a", outputs=[{"output_type": "stream", "name": "stdout", "text": ["n", "ew"]}, 3]))
    widgets.add(printed("er"))
    assert state_of(widgets, "a")["state"]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "newer"}]


def test_few_output_widgets_capture() -> None:
    """The memory for captured outputs is bounded: what is printed in the 33rd Output widget shows in the cell."""
    widgets = widgets_of(*[opened(f"{n}", **OUTPUT) for n in range(33)])
    widgets.add(update("32", msg_id="1"))
    assert not widgets.add(printed("x"))
    widgets.add(update("31", msg_id="1"))
    assert widgets.add(printed("x"))


def test_every_real_message_is_understood(recorded: Recorder) -> None:
    """None of ipywidgets' own messages counts as ignored, except those for widgets that closed."""
    widgets, _ = replay(recorded)
    assert widgets.ignored == 0
    assert replay(recorded, without=["comm_open"])[0].ignored > 10


def test_an_update_replaces_an_attribute_and_its_buffers() -> None:
    """An attribute that is set again loses the buffers it had, and the other way round."""
    widgets = widgets_of(opened(x={"a": 1}, buffers=[b"old"], paths=[["x", "b"]]), update(x={"c": 2}))
    assert state_of(widgets)["state"]["x"] == {"c": 2}
    assert "buffers" not in state_of(widgets)
    widgets.add(update(buffers=[b"new"], paths=[["x"]]))
    assert "x" not in state_of(widgets)["state"]
    assert state_of(widgets)["buffers"] == [{"encoding": "base64", "path": ["x"], "data": "bmV3"}]
    widgets.add(update(x=3))
    assert state_of(widgets)["state"]["x"] == 3
    assert "buffers" not in state_of(widgets)
    widgets.add(update(x=4, buffers=[b"new"], paths=[["x"]]))
    assert "x" not in state_of(widgets)["state"]


@pytest.mark.parametrize(
    "path",
    [
        [],
        "x",
        ["x", "b", "c"],
        ["x", "a", 1],
        ["x", "a", -1],
        ["x", "a", "0"],
        ["x", "a", False],
        ["y", "z"],
        ["x", True],
        ["x", None],
        ["x", "__proto__"],
        ["x", "constructor", "prototype"],
        ["__proto__"],
    ],
)
def test_buffers_that_lead_nowhere_are_dropped(path: Any) -> None:
    """A path that a front end can't follow, or that leads out of the state, would break all widgets: it goes."""
    widgets = widgets_of(opened(x={"a": [None], "b": 1, "constructor": {}}, buffers=[b"x"], paths=[path]))
    assert "buffers" not in state_of(widgets)
    assert state_of(widgets)["state"]["x"] == {"a": [None], "b": 1, "constructor": {}}


@pytest.mark.parametrize(
    "message",
    [
        comm("comm_open", target_name="jupyter.widget", data={}),
        comm("comm_open", target_name="jupyter.widget", data={"state": {"_model_name": 1}}),
        {**opened(), "content": {**opened()["content"], "target_name": "else"}},
        {**opened(), "content": {**opened()["content"], "comm_id": ["m"]}},
        comm("comm_msg", data={"method": "update", "state": {"x": 1}}),
        comm("comm_close"),
    ],
)
def test_comms_of_no_widget_are_counted(message: dict[str, Any]) -> None:
    """A comm to another target, without a model's names, or never opened, leaves no state."""
    widgets = WidgetTracker(displays=DisplayIndex())
    assert widgets.add(message)
    assert widgets.state()["state"] == {}
    assert widgets.ignored == 1


def test_other_messages_are_not_taken() -> None:
    """What is no comm message, and in no Output widget, is left to the cell."""
    widgets = widgets_of(opened())
    assert not widgets.add({"header": {"msg_type": "stream"}, "content": {"name": "stdout", "text": "x"}})
    assert not widgets.add({})


def test_state_is_bounded() -> None:
    """Models, attributes and buffers beyond the bounds are refused and counted, and a close gives the room back."""
    widgets = widgets_of(*[opened(f"{n}") for n in range(5)], count=3)
    assert (list(widgets.state()["state"]), widgets.ignored) == (["0", "1", "2"], 2)
    widgets = widgets_of(opened(), limit=5_000)
    widgets.add(update(x="x" * 3_000))
    widgets.add(update(y="y" * 3_000))
    widgets.add(update(x="z" * 3_000))
    widgets.add(update(buffers=[b"b" * 3_000], paths=[["v"]]))
    assert set(state_of(widgets)["state"]) == {"_model_name", "_model_module", "_model_module_version", "x"}
    assert state_of(widgets)["state"]["x"][0] == "z"
    assert widgets.ignored == 2
    widgets.add(comm("comm_close"))
    widgets.add(opened())
    widgets.add(update(y="y" * 3_000))
    assert widgets.ignored == 2
    for n in range(1000):
        widgets.add(update("m", **{f"a{n}": 0}))
    assert len(json.dumps(widgets.state())) < 20_000


def test_what_is_remembered_of_closed_widgets_is_bounded() -> None:
    """The last ones, each with its last state, until a model of that name is opened again."""
    widgets = widgets_of(opened(x=1), update(x=2), comm("comm_close"))
    assert (widgets.state()["state"], widgets.closed()["m"]["state"]["x"]) == ({}, 2)
    widgets.add(opened(x=3))
    assert (state_of(widgets)["state"]["x"], widgets.closed()) == (3, {})
    widgets.add(comm("comm_close"))
    assert widgets.closed()["m"]["state"]["x"] == 3
    out = {"_model_name": "OutputModel", "_model_module": "@jupyter-widgets/output"}
    for number in range(1_500):
        widgets.add(opened(f"{number}", **out, outputs=[{"output_type": "stream", "name": "stdout", "text": "x"}]))
        widgets.add(comm("comm_close", f"{number}"))
    assert list(widgets.closed()) == [f"{number}" for number in range(500, 1_500)]
    assert widgets.closed()["500"]["state"]["outputs"][0]["text"] == "x"
    for number in range(9):
        widgets.add(opened(f"large{number}", x="x" * 1_000_000))
        widgets.add(comm("comm_close", f"large{number}"))
    assert len(json.dumps(widgets.closed())) < 5_000_000


junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab\ud800"), inner, max_size=3)),
    max_leaves=8,
)
steps = st.one_of(st.sampled_from(["a", "b", "x", "__proto__", "\ud800"]), st.integers(-1, 2), junk)
datas = st.fixed_dictionaries(
    {},
    optional={
        "state": st.one_of(junk, st.dictionaries(st.sampled_from(["x", "msg_id", "outputs", "\ud800"]), junk)),
        "buffer_paths": st.one_of(junk, st.lists(st.lists(steps, max_size=3), max_size=3)),
        "method": junk,
    },
)
names = {"_model_name": "OutputModel", "_model_module": "@jupyter-widgets/output", "_model_module_version": "1"}
comms = st.builds(
    lambda kind, model_id, data, buffers: comm(
        kind, model_id, data=data, buffers=buffers, target_name="jupyter.widget"
    ),
    st.sampled_from(["comm_open", "comm_msg", "comm_msg", "comm_close", "stream"]),
    st.one_of(st.sampled_from(["m", "n", "\ud800"]), junk),
    st.one_of(datas, datas.map(lambda data: data | {"state": names | {"x": data.get("state")}}), junk),
    st.lists(st.one_of(st.binary(max_size=4), junk), max_size=3),
)


def follow(path: list[Any], value: Any) -> bool:
    """Whether JavaScript's put_buffers would find the place, by walking there."""
    for step in path[:-1]:
        if not isinstance(value, (dict, list)):
            return False
        value = value[step]
    return isinstance(value, dict) or path[-1] < len(value)


@settings(max_examples=150)
@given(st.lists(comms, max_size=8))
def test_any_comms_leave_a_valid_state(messages: list[Any]) -> None:
    """Nothing that arrives raises; the state is strict UTF-8 JSON and each buffer has its place."""
    widgets = widgets_of(opened("m", _model_name="OutputModel", _model_module="@jupyter-widgets/output"), *messages)
    state = widgets.state()
    json.dumps(state, allow_nan=False, ensure_ascii=False).encode()
    for model in state["state"].values():
        assert {"model_name", "model_module", "model_module_version", "state"} <= set(model)
        assert all(follow(buffer["path"], model["state"]) for buffer in model.get("buffers", []))
