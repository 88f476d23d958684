"""What the outputs of a cell may hold and cost, whatever code prints and displays."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any

import machine
import pytest
from kernel.iopub import cell, display, message, stream, validate

from nbagent.kernel.outputs.displays import DisplayIndex, Updated
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.outputs import CellOutputs, Cleared
from nbagent.sandbox.inside.message_sizes_inside import left_out


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
    error = message("error", ename="E", evalue="v", traceback=[line] * 1_000_000)
    outputs = machine.within(10, lambda: cell([error]))
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
    machine.within(30, lambda: cell([huge]).outputs())
    outputs, peak = peak_of([huge])
    assert peak < 16 << 20
    assert len(outputs.outputs()[0]["text"]) == (2 << 20) + len(left_out(100_000_000 - (2 << 20)))


def test_many_tiny_messages_are_cheap() -> None:
    """A hundred thousand tiny messages take microseconds each and the memory of their text."""
    tiny = stream("ab")
    machine.within(50, lambda: cell([tiny] * 100_000).outputs())
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
