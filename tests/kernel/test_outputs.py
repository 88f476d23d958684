"""IOPub messages in, nbformat outputs out: a real kernel's messages, hostile messages, bounds and costs."""

from __future__ import annotations

import copy
import json
import math
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any, cast

import machine
import msgspec
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.shared import junk
from nbclient import NotebookClient
from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

from nbagent.core.events import Output
from nbagent.kernel.outputs.displays import DisplayIndex, Updated
from nbagent.kernel.outputs.outputs import Added, CellOutputs, Change, Cleared
from nbagent.kernel.outputs.streams import LineFold, OutputLimits, left_out

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


class Recorder(NotebookClient):
    """nbclient, taking down the messages of each cell while it makes its own outputs of them."""

    def __init__(self, nb: Any) -> None:
        super().__init__(nb, allow_errors=True, timeout=60)
        self.messages: list[tuple[int, dict[str, Any]]] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Take one message down before nbclient sees it."""
        self.messages.append((cell_index, copy.deepcopy(msg)))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="session")
def recorded() -> Recorder:
    """All CELLS, run in a real ipykernel."""
    nb = v4.new_notebook(cells=[v4.new_code_cell(code) for code in CELLS.values()])
    recorder = Recorder(nb)
    recorder.execute()
    return recorder


@pytest.fixture(scope="session")
def replayed(recorded: Recorder) -> dict[str, CellOutputs]:
    """Our outputs of the same messages, by the names of CELLS."""
    displays = DisplayIndex()
    cells = [CellOutputs(displays=displays) for _ in CELLS]
    for index, message in recorded.messages:
        cells[index].add(message)
    return dict(zip(CELLS, cells, strict=True))


def message(kind: object, **content: Any) -> dict[str, Any]:
    """A message of this type and content."""
    return {"header": {"msg_type": kind}, "parent_header": {"msg_id": "1"}, "content": content, "metadata": {}}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """A stream message."""
    return message("stream", name=name, text=text)


def display(data: Any, display_id: str = "", kind: str = "display_data") -> dict[str, Any]:
    """A message with a MIME bundle."""
    return message(kind, data=data, metadata={}, transient={"display_id": display_id} if display_id else {})


def cell(messages: Iterable[Any] = (), **limits: int) -> CellOutputs:
    """A cell of a session of its own, after these messages."""
    outputs = CellOutputs(displays=DisplayIndex(), limits=OutputLimits(**limits))
    for each in messages:
        outputs.add(each)
    return outputs


def validate(outputs: list[Output]) -> None:
    """Raise unless a notebook, strict JSON in UTF-8 and the event log can all hold these outputs."""
    code = v4.new_code_cell()
    code["outputs"] = outputs
    nb = v4.new_notebook()
    nb["cells"] = [code]
    nbformat.validate(nb)
    json.dumps(outputs, allow_nan=False, ensure_ascii=False).encode()
    msgspec.json.encode(outputs)


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


def test_long_streams_keep_head_and_tail() -> None:
    """A stream over its bounds keeps both ends with an exact count between, and its live display stops."""
    spilled: list[tuple[str, str]] = []
    outputs = CellOutputs(
        displays=DisplayIndex(),
        limits=OutputLimits(stream_head=10, stream_tail=5),
        spill=lambda name, text: spilled.append((name, text)),
    )
    changes = [outputs.add(stream(f"{n:04}\n")) for n in range(1000)]
    assert outputs.outputs()[0]["text"] == "0000\n0001\n" + left_out(4985) + "0999\n"
    assert [len(change) for change in changes[:4]] == [1, 1, 0, 0]
    assert outputs.truncated == "stdout: 4,985 characters left out."
    assert "".join(text for _, text in spilled) == "".join(f"{n:04}\n" for n in range(2, 999))


def test_many_displays_are_bounded_and_the_error_stays() -> None:
    """Displays beyond the bound are counted, and do not crowd out the result or the error that comes last."""
    outputs = cell(displays=20)
    for n in range(27):
        outputs.add(display({"text/plain": str(n)}))
    outputs.add(message("execute_result", data={"text/plain": "result"}, execution_count=1))
    outputs.add(message("error", ename="E", evalue="", traceback=[]))
    assert [output["output_type"] for output in outputs.outputs()] == ["display_data"] * 20 + [
        "execute_result",
        "error",
    ]
    assert outputs.truncated == "7 outputs left out, there were too many."
    for _ in range(100):
        outputs.add(message("error", ename="forged"))
    assert len(outputs.outputs()) < 40


def test_an_oversize_representation_is_named() -> None:
    """What is too large is replaced by its type and size; smaller representations stay."""
    outputs = cell([display({"text/plain": "small", "text/html": "x" * 1234, "image/png": "AAAA"})], mime=1000)
    assert outputs.outputs()[0]["data"] == {
        "text/plain": "small\n[left out: text/html of 1,234 characters]",
        "image/png": "AAAA",
    }
    assert outputs.truncated == "Left out: text/html of 1,234 characters."
    outputs = cell([display({"application/json": {"a": ["x" * 600, "y" * 600]}})], mime=1000)
    assert outputs.outputs()[0]["data"] == {"text/plain": "[left out: application/json of more than 1,000 characters]"}


def test_an_oversize_representation_costs_nothing() -> None:
    """100 MB of HTML are refused by their length, without a copy."""
    huge = display({"text/html": "x" * 100_000_000})
    tracemalloc.start()
    try:
        outputs = cell([huge]).outputs()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert outputs[0]["data"] == {"text/plain": "[left out: text/html of 100,000,000 characters]"}


def test_all_bundles_together_are_bounded() -> None:
    """Once a cell's bundles fill their room, further ones are named and left out."""
    outputs = cell([display({"text/plain": "x" * 400}) for _ in range(5)], display_total=1000)
    texts_kept = [output["data"]["text/plain"] for output in outputs.outputs()]
    assert [len(text) for text in texts_kept[:2]] == [400, 400]
    assert texts_kept[2:] == ["[left out: text/plain of 400 characters]"] * 3


def test_a_bundle_of_many_types_is_bounded() -> None:
    """A bundle with a hundred thousand types keeps the first ones and counts the rest."""
    (output,) = cell([display({f"a/{n}": "x" for n in range(100_000)})]).outputs()
    assert output["data"]["text/plain"] == "[left out: 99,936 more MIME types]"
    assert len(output["data"]) == 65


def test_a_huge_error_is_shortened() -> None:
    """A traceback or message of any size is cut in its middle like a stream."""
    lines = ["x" * 100] * 1000
    outputs = cell([message("error", ename="E", evalue="y" * 5000, traceback=lines)], stream_head=50, stream_tail=50)
    (error,) = outputs.outputs()
    assert sum(map(len, error["traceback"])) < 200
    assert error["evalue"] == "y" * 50 + left_out(4900) + "y" * 50
    assert "the middle of an error" in outputs.truncated
    validate([error])


@pytest.mark.parametrize("line", [0, "", [[]], "x" * 100], ids=["numbers", "empty", "nested", "text"])
def test_a_traceback_of_very_many_frames(line: object) -> None:
    """The middle ones go, before any work is spent on them."""
    started = time.thread_time()
    outputs = cell([message("error", ename="E", evalue="v", traceback=[line] * 1_000_000)])
    assert time.thread_time() - started < 5 * machine.pace()
    (error,) = outputs.outputs()
    assert len(error["traceback"]) <= 1001
    assert "[left out: 999,000 frames]" in error["traceback"]
    assert "999,000 frames of an error" in outputs.truncated
    validate([error])


def test_errors_are_shorter_than_streams() -> None:
    """Sixteen errors of a cell, with three texts each, are not hundreds of megabytes."""
    long = "x" * 5_000_000
    outputs = cell([message("error", ename=long, evalue=long, traceback=[long, long])] * 20).outputs()
    assert len(outputs) == 16
    assert len(json.dumps(outputs)) < 16 * 2**20


def test_live_changes_are_bounded_where_outputs_replace_each_other() -> None:
    """An endless animation stops being told, its last state is in the outputs and in the withheld updates."""
    displays = DisplayIndex()
    earlier = CellOutputs(displays=displays)
    earlier.add(display({"text/plain": "0"}, "x"))
    outputs = CellOutputs(displays=displays, limits=OutputLimits(live=10_000))
    told = [change for n in range(1000) for change in outputs.add(display({"a/b": f"{n}"}, "x", "update_display_data"))]
    for n in range(1000):
        told += outputs.add(message("clear_output", wait=True)) + outputs.add(stream(f"{n}"))
    assert len(told) < 80
    assert outputs.withheld() == [Updated("x", {"a/b": "999"}, {})]
    assert earlier.outputs()[0]["data"] == {"a/b": "999"}
    assert outputs.outputs()[0]["text"] == "999"


def test_live_display_that_stopped_stays_stopped() -> None:
    """After a change that was too large to tell, small ones aren't told either: a gap would look whole."""
    outputs = cell(live=1000)
    assert len(outputs.add(stream("a"))) == 1
    assert outputs.add(display({"text/plain": "x" * 2000})) == []
    assert outputs.add(stream("b")) == []
    assert len(outputs.outputs()) == 3


def test_displays_let_the_oldest_go() -> None:
    """Beyond its bounds the registry forgets what was used longest ago; those outputs stay as they are."""
    displays = DisplayIndex(count=2)
    outputs = CellOutputs(displays=displays)
    for name in ("a", "b"):
        outputs.add(display({"text/plain": name}, name))
    outputs.add(display({"text/plain": "A"}, "a", "update_display_data"))
    outputs.add(display({"text/plain": "c"}, "c"))
    for name in ("a", "b", "c"):
        outputs.add(display({"text/plain": "new"}, name, "update_display_data"))
    assert [output["data"]["text/plain"] for output in outputs.outputs()] == ["new", "b", "new"]


def test_displays_count_what_they_hold() -> None:
    """What was cleared takes no room in the registry, and an update takes the room of its new data."""
    displays = DisplayIndex(limit=1000)
    kept, other = CellOutputs(displays=displays), CellOutputs(displays=displays)
    kept.add(display({"text/plain": "x" * 100}, "kept"))
    for _ in range(20):
        other.add(display({"text/plain": "x" * 400}, "other"))
        other.add(message("clear_output"))
    assert kept.add(display({"text/plain": "x" * 900}, "kept", "update_display_data"))
    other.add(display({"text/plain": "x" * 200}, "other"))
    assert kept.add(display({"text/plain": "too late"}, "kept", "update_display_data")) == []
    assert len(kept.outputs()[0]["data"]["text/plain"]) == 900


def test_an_update_that_would_grow_without_bound_is_refused() -> None:
    """One large update for many outputs counts once for each of them."""
    displays = DisplayIndex(limit=10_000)
    outputs = CellOutputs(displays=displays)
    for _ in range(100):
        outputs.add(display({"text/plain": "small"}, "x"))
    (change,) = outputs.add(display({"text/plain": "x" * 1000}, "x", "update_display_data"))
    assert isinstance(change, Updated)
    assert change.data == {"text/plain": "[left out: an update of 1,010 characters for 100 outputs]"}
    assert outputs.outputs()[99]["data"] == change.data


def test_a_clear_gives_the_room_back() -> None:
    """After a clear the bounds begin anew, and updates no longer reach what is gone."""
    outputs = cell([stream("x" * 50), display({}, "a"), display({}, "b")], stream_head=5, stream_tail=5, displays=1)
    assert outputs.truncated
    assert outputs.add(message("clear_output")) == [Cleared()]
    assert outputs.truncated == ""
    assert outputs.add(message("clear_output")) == []
    outputs.add(display({"text/plain": "kept"}))
    assert outputs.add(display({"text/plain": "lost"}, "a", "update_display_data")) == []
    assert outputs.outputs() == [{"output_type": "display_data", "data": {"text/plain": "kept"}, "metadata": {}}]


def peak_of(messages: Iterable[Any]) -> tuple[CellOutputs, int]:
    """The outputs of these messages, and the peak of memory in bytes while they were added."""
    outputs = cell()
    tracemalloc.start()
    try:
        for each in messages:
            outputs.add(each)
        outputs.outputs()
        return outputs, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_single_message_of_100_mb_is_not_copied() -> None:
    """One huge message costs a few megabytes besides itself, and well under a second."""
    huge = stream("x" * 100_000_000)
    start = time.thread_time()
    cell([huge]).outputs()
    assert time.thread_time() - start < 15 * machine.pace()
    outputs, peak = peak_of([huge])
    assert peak < 16 << 20
    assert len(outputs.outputs()[0]["text"]) == (2 << 20) + len(left_out(100_000_000 - (2 << 20)))


def test_many_tiny_messages_are_cheap() -> None:
    """A hundred thousand tiny messages take microseconds each and the memory of their text."""
    tiny = stream("ab")
    start = time.thread_time()
    cell([tiny] * 100_000).outputs()
    assert time.thread_time() - start < 50 * machine.pace()
    _, peak = peak_of([tiny] * 50_000)
    assert peak < 4 << 20


def test_alternating_streams_do_not_grow() -> None:
    """Stdout and stderr that alternate for ever take bounded memory, in bytes and in outputs."""
    outputs, peak = peak_of([stream("x" * 10_000), stream("y" * 10_000, "stderr")] * 5_000)
    assert peak < 32 << 20
    assert len(outputs.outputs()) <= 1002
    kept = sum(output["text"].count("x") + output["text"].count("y") for output in outputs.outputs())
    assert kept <= 10 << 20
    assert "The order of stdout and stderr was given up" in outputs.truncated


def test_a_cell_costs_the_same_after_many_cells() -> None:
    """What ran before, and what it displayed, doesn't make a cell slower."""

    def cost(displays: DisplayIndex) -> float:
        start = time.thread_time()
        for n in range(200):
            outputs = CellOutputs(displays=displays)
            outputs.add(display({"text/plain": "x"}, f"new {n}"))
            outputs.add(display({"text/plain": "y"}, f"new {n}", "update_display_data"))
            outputs.add(message("clear_output"))
        return time.thread_time() - start

    fresh, used = DisplayIndex(), DisplayIndex()
    for n in range(9_000):
        CellOutputs(displays=used).add(display({"text/plain": "x"}, f"old {n}"))
    assert min(cost(used) for _ in range(5)) < 5 * min(cost(fresh) for _ in range(5))
