"""IOPub messages in, nbformat outputs out: a real kernel's messages, hostile messages, bounds and costs."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any, cast

import msgspec
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.iopub import Recorder, cell, display, message, stream, validate
from kernel.shared import junk
from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

from nbagent.core.events import Output
from nbagent.kernel.outputs.displays import DisplayIndex, Updated
from nbagent.kernel.outputs.outputs import Added, CellOutputs, Change, Cleared
from nbagent.kernel.outputs.streams import LineFold

v4: Any = nbformat.v4
coalesce: Any = cast("Any", CoalesceStreamsPreprocessor)()

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CELLS = {
    "prelude": "import sys, time\nfrom IPython.display import *",
    "prints": "for n in range(3):\n    print(n, flush=True)\n    time.sleep(0.3)",
    "interleaved": (
        "for n in range(3):\n    print('out', n, flush=True)\n    time.sleep(0.3)\n"
        "    print('err', n, file=sys.stderr, flush=True)\n    time.sleep(0.3)"
    ),
    "progress": (
        "for n in range(4):\n    print(f'\\r{n * 25:>3}% \\x1b[32m' + '#' * n + ' ' * (4 - n) + '\\x1b[0m', end='',"
        " flush=True)\n    time.sleep(0.3)\nprint('\\r\\ndone\\r')"
    ),
    "result": "{'a': [1, 2.5], 'b': 'ü漢😀'}",
    "error": "print('before')\n1 / 0",
    "syntax error": "print(",
    "exit code": "raise SystemExit('enough')",
    "images": (
        f"display(Image(data=__import__('base64').b64decode('{PNG}'), width=3))\n"
        "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))"
    ),
    "markup": "display(HTML('<b>x</b>'), Markdown('**x**'), Latex('$x$'), Javascript('1'), JSON({'x': [None, True]}))",
    "every MIME type": (
        "display({'text/plain': 'x', 'image/jpeg': 'AAAA', 'application/pdf': 'AAAA', 'text/latex': '$x$',\n"
        " 'application/vnd.plotly.v1+json': {'data': [{'y': [1, 2.5]}], 'layout': {}},\n"
        " 'application/vnd.vega.v5+json': {'marks': []},\n"
        " 'application/vnd.jupyter.widget-view+json': {'version_major': 2, 'model_id': 'x'}},\n"
        " metadata={'image/jpeg': {'width': 10}, 'isolated': True}, raw=True)"
    ),
    "updated here": "h = display('one', display_id='here')\nprint('between')\nh.update(HTML('two'), metadata={'m': 1})",
    "shown for later": "later = display('first', display_id='later')\nprint('x')",
    "updates an earlier cell": "print('y')\nlater.update('second')",
    "shown again": "display('third', display_id='later')",
    "cleared": "print('gone'); display('gone')\nclear_output()\nprint('kept')",
    "cleared later": (
        "for n in range(3):\n    clear_output(wait=True)\n    print(n, flush=True)\n    display(n)\n    time.sleep(0.3)"
    ),
    "cleared at last": "print('stays')\nclear_output(wait=True)",
    "cleared display": "c = display('gone', display_id='c')\nclear_output()\nprint('kept')\nc.update('lost')",
    "figure": (
        "import matplotlib.pyplot as plt\n%matplotlib inline\nfig, ax = plt.subplots(figsize=(1, 1))\nax.plot([1, 2])"
    ),
    "nothing": "x = 1",
}


@pytest.fixture(scope="session")
def recorded() -> Recorder:
    """All CELLS, run in a real ipykernel."""
    return Recorder.run(CELLS.values())


@pytest.fixture(scope="session")
def replayed(recorded: Recorder) -> dict[str, CellOutputs]:
    """Our outputs of the same messages, by the names of CELLS."""
    displays = DisplayIndex()
    cells = [CellOutputs(displays=displays) for _ in CELLS]
    for index, each in recorded.messages:
        cells[index].add(each)
    return dict(zip(CELLS, cells, strict=True))


def shown(changes: Iterable[Change]) -> list[Output]:
    """What a live display shows after these changes, streams folded."""
    items: list[tuple[Output, str]] = []
    for change in changes:
        if isinstance(change, Cleared):
            items.clear()
        elif isinstance(change, Updated):
            for output, display_id in items:
                if display_id == change.display_id:
                    output.update(data=change.data, metadata=change.metadata)
        elif change.output["output_type"] == "stream" and items and items[-1][0].get("name") == change.output["name"]:
            items[-1][0]["text"] += change.output["text"]
        else:
            items.append((dict(change.output), change.display_id))
    for output, _ in items:
        if output["output_type"] == "stream":
            folder = LineFold()
            output["text"] = folder.feed(output["text"]) + folder.flush()
    return [output for output, _ in items]


@pytest.mark.parametrize("name", CELLS)
def test_outputs_are_those_of_nbclient(name: str, recorded: Recorder, replayed: dict[str, CellOutputs]) -> None:
    """The same messages give the outputs that nbclient makes, streams merged and folded as nbconvert does."""
    theirs = copy.deepcopy(recorded.nb.cells[list(CELLS).index(name)])
    coalesce.preprocess_cell(theirs, {}, 0)
    # nbconvert leaves a carriage return that is the last character of an output; JupyterLab, as we, does not.
    for output in theirs.outputs:
        if output.output_type == "stream":
            output.text = output.text.replace("\r\n", "\n")
    ours = replayed[name].outputs()
    assert ours == theirs.outputs
    assert replayed[name].truncated == ""
    validate(ours)


def test_recorded_messages_are_what_the_cells_mean(replayed: dict[str, CellOutputs]) -> None:
    """The recording is not empty: each kind of output arrived, and updates reached earlier cells."""
    outputs = {name: each.outputs() for name, each in replayed.items()}
    assert [output["name"] for output in outputs["interleaved"]] == ["stdout", "stderr"] * 3
    assert outputs["progress"][0]["text"] == " 75% \x1b[32m### \x1b[0m\ndone\n"
    assert outputs["error"][1]["ename"] == "ZeroDivisionError"
    assert outputs["result"][0]["execution_count"] == 5
    assert outputs["figure"][-1]["data"]["image/png"]
    assert outputs["updated here"][0]["data"]["text/html"] == "two"
    assert outputs["shown for later"][0]["data"] == {"text/plain": "'third'"}
    assert outputs["cleared later"][0]["text"] == "2\n"
    assert outputs["cleared at last"][0]["text"] == "stays\n"
    assert outputs["nothing"] == []


def test_live_display_ends_as_the_outputs(recorded: Recorder) -> None:
    """Whoever applies the changes as they come sees in the end what the cell's outputs are."""
    displays = DisplayIndex()
    for index in range(len(CELLS)):
        outputs = CellOutputs(displays=displays)
        changes = [change for at, each in recorded.messages if at == index for change in outputs.add(each)]
        assert shown(changes) == outputs.outputs()


texts = st.text("ab\r\b\n", min_size=1, max_size=8)
ids = st.sampled_from(["", "p", "q"])
honest = st.one_of(
    st.builds(stream, texts, st.sampled_from(["stdout", "stderr"])),
    st.builds(display, st.dictionaries(st.sampled_from(["text/plain", "text/html"]), texts), ids),
    st.builds(display, st.builds(lambda text: {"text/html": text}, texts), ids, st.just("update_display_data")),
    st.builds(lambda wait: message("clear_output", wait=wait), st.booleans()),
    st.just(message("error", ename="E", evalue="v", traceback=["a", "b"])),
)


@given(st.lists(honest, max_size=14))
def test_live_display_ends_as_the_outputs_for_any_messages(messages: list[dict[str, Any]]) -> None:
    """The changes and the outputs agree, whatever order streams, displays, updates and clears come in."""
    outputs = cell()
    changes = [change for each in messages for change in outputs.add(each)]
    assert shown(changes) == outputs.outputs()
    assert len(outputs.display_ids()) == len(outputs.outputs())
    assert outputs.truncated == ""


def test_live_text_is_raw_and_only_the_new() -> None:
    """A change carries a message's own text, control characters included, not what was folded from all."""
    outputs = cell([stream("10%")])
    assert outputs.add(stream("\r20%")) == [Added({"output_type": "stream", "name": "stdout", "text": "\r20%"})]
    assert outputs.outputs()[0]["text"] == "20%"


def test_a_told_output_stays_as_it_was_told() -> None:
    """An update changes the cell's output, never the fact that was told before."""
    outputs = cell()
    (told,) = outputs.add(display({"text/plain": "old"}, "x"))
    assert isinstance(told, Added)
    outputs.add(display({"text/plain": "new"}, "x", kind="update_display_data"))
    assert told.output["data"] == {"text/plain": "old"}
    assert outputs.outputs()[0]["data"] == {"text/plain": "new"}
    assert outputs.display_ids() == [told.display_id] == ["x"]


def test_update_of_an_unknown_display_is_ignored() -> None:
    """An update for a display_id that nothing shows changes nothing."""
    outputs = cell([display({"text/plain": "x"}, "p", kind="update_display_data")])
    assert outputs.outputs() == []


kinds = st.sampled_from(
    ["stream", "display_data", "update_display_data", "execute_result", "error", "clear_output", "status", 7, None]
)
fields = ["name", "text", "data", "metadata", "transient", "execution_count", "ename", "evalue", "traceback", "wait"]
broken = st.one_of(
    junk,
    st.fixed_dictionaries({}, optional={"header": junk, "content": junk, "parent_header": junk, "buffers": junk}),
    st.builds(
        lambda kind, content: {"header": {"msg_type": kind}, "content": content},
        kinds,
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(fields, junk) | {"transient": st.fixed_dictionaries({"display_id": junk})}
        ),
    ),
    honest,
)


@settings(max_examples=300)
@given(st.lists(broken, max_size=8))
def test_any_messages_leave_a_valid_notebook(messages: list[Any]) -> None:
    """Nothing that arrives raises, and what is kept can be validated, written as UTF-8 JSON and logged."""
    outputs = cell()
    changes = [change for each in messages for change in outputs.add(each)]
    validate(outputs.outputs())
    validate([change.output for change in changes if isinstance(change, Added)])
    msgspec.json.encode([change for change in changes if isinstance(change, Updated)])
    assert isinstance(outputs.truncated, str)


@pytest.mark.parametrize(
    ("data", "repaired"),
    [
        ({"text/plain": ["a\n", "b"]}, {"text/plain": "a\nb"}),
        ({"text/plain": None, "text/html": {"a": math.nan}}, {"text/plain": "null", "text/html": '{"a": null}'}),
        (
            {"application/json": [math.nan], "application/x+json": None},
            {"application/json": [None], "application/x+json": None},
        ),
        ({"image/png": b"\x00\x01"}, {"image/png": "AAE="}),
        ({"application/json\n": {"a": 1}}, {"application/json\n": '{"a": 1}'}),
        ({3: "x"}, {"3": "x"}),
    ],
)
def test_bundles_are_repaired(data: dict[Any, Any], repaired: dict[str, Any]) -> None:
    """JSON types hold any JSON, all other types text, in a form that nbformat accepts."""
    outputs = cell([display(data)]).outputs()
    assert outputs == [{"output_type": "display_data", "data": repaired, "metadata": {}}]
    validate(outputs)


@pytest.mark.parametrize("count", [None, -1, True, 1.5, "3", 2**60, []])
def test_wrong_execution_counts_become_null(count: object) -> None:
    """A result keeps its place with no number where the number is none."""
    (output,) = cell([message("execute_result", data={}, execution_count=count)]).outputs()
    assert output["execution_count"] is None


def test_errors_are_repaired() -> None:
    """An error with wrong or missing fields is still an error output, all text."""
    outputs = cell([message("error", ename=None, evalue={"a": math.nan}, traceback=["\ud800", 3, None])]).outputs()
    assert outputs == [{"output_type": "error", "ename": "", "evalue": '{"a": null}', "traceback": ["\ufffd", "3", ""]}]
    validate(outputs + cell([message("error")]).outputs())


def test_any_stream_is_stdout_or_stderr() -> None:
    """A stream of another name, or of none, is shown as stdout: front ends know no others."""
    outputs = cell([stream("a", "x"), message("stream", text="b"), message("stream", name=3, text=["c", "d"])])
    assert outputs.outputs() == [{"output_type": "stream", "name": "stdout", "text": "abcd"}]


@pytest.mark.parametrize(
    "broken_message",
    [None, [], {}, {"header": None, "content": {}}, message("status"), message(["stream"]), message("stream", text=5)],
)
def test_messages_beyond_repair_show_nothing(broken_message: Any) -> None:
    """What is no output message, or has nothing to show, is ignored."""
    assert cell([broken_message]).outputs() == []
