"""What a face that shows text says of a session, from recorded events alone."""

from __future__ import annotations

import base64
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nbagent.core.events import (
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    CellStarted,
    Event,
    InstallFailed,
    LateOutputAdded,
    ModelReplied,
    OutputAdded,
    Package,
    PackagesInstalled,
    StateLost,
)
from nbagent.core.text import safe
from nbagent.faces.terminal.lines import LineRenderer, StyledLine, waits_for

EVIL = "a\x1b]0;title\x07b\x1b[2Jc\x9b"
RED = "\x1b[31mred\x1b[0m"


def stream(text: str) -> OutputAdded:
    """A piece of standard output."""
    return OutputAdded(cell=1, output={"output_type": "stream", "name": "stdout", "text": text})


def failed(text: str) -> dict[str, Any]:
    """An error as an output."""
    return {"output_type": "error", "ename": "E", "evalue": text, "traceback": [text]}


def shown(*events: Event, **how: Any) -> list[tuple[str, str]]:
    """Styles and texts, in order."""
    lines = LineRenderer(**how)
    return [(line.style, line.text) for event in events for line in lines.of(event) or ()]


TURN: list[Event] = [
    Asked(turn=1, question="?", model="replay:r.jsonl", replay=True),
    ModelReplied(turn=1, text="I look.", tools=["python"]),
    CellStarted(cell=1, turn=1, code="import humanize"),
    PackagesInstalled(cell=1, packages=[Package("humanize", "4.17.0", "0")]),
    stream("1"),
    stream("0\n"),
    LateOutputAdded(cell=1, output={"output_type": "stream", "name": "stdout", "text": RED}),
    CellFinished(cell=1, status="error", outputs=[failed(RED)], execution_count=1, duration=0.25, note="Cut."),
    ApprovalAsked(id="a1", turn=1, kind="shell", tool="python", what="rm\nx"),
    ApprovalGiven(id="a1", turn=1, decision="reject", by="person", reason="No."),
]


def test_a_turn_is_told_line_by_line() -> None:
    """The model, its words, the cell with what it printed as it came, its end, and a no."""
    assert shown(*TURN) == [
        ("told", "model: replay:r.jsonl (recorded replies; everything else is live)"),
        ("said", "I look."),
        ("heading", "── cell 1"),
        ("code", "import humanize"),
        ("good", "installed humanize 4.17.0"),
        ("output", "1"),
        ("output", "0\n"),
        ("output", "red"),
        ("end", ""),
        ("traceback", "red"),
        ("warning", "Cut."),
        ("warning", "not approved: rm x. No."),
    ]


def test_colours_are_kept_where_the_face_has_them() -> None:
    """Of what code printed, and of tracebacks, each for itself."""
    assert ("output", RED) in shown(*TURN, coloured=["output"])
    assert ("traceback", "red") in shown(*TURN, coloured=["output"])
    assert ("traceback", RED) in shown(*TURN, coloured=["traceback"])


def test_without_code_the_cells_outputs_remain() -> None:
    """As for `nbagent exec`, whose person knows the code."""
    assert {style for style, _ in shown(*TURN, code=False)} & {"heading", "code"} == set()


def test_a_quiet_face_is_told_what_must_be_known() -> None:
    """An event of which it shows nothing is None: nothing on the screen need move."""
    lines = LineRenderer(quiet=True)
    assert lines.of(TURN[0]) is lines.of(stream("x")) is None
    assert lines.of(StateLost(cell=1, reason="It died.")) == [StyledLine("warning", "It died.")]
    assert lines.of(InstallFailed(cell=1, requirements=[], reason="No.")) == [
        StyledLine("warning", "not installed: No.")
    ]


def test_what_was_told_is_not_told_again() -> None:
    """The loss of the state is the cell's note and its error too."""
    lost = StateLost(cell=1, reason="The kernel died.")
    end = CellFinished(
        cell=1, status="died", outputs=[failed("The kernel died.")], execution_count=1, duration=2, note=lost.reason
    )
    assert shown(CellStarted(cell=1, turn=0, code="1"), lost, end, code=False) == [
        ("warning", "The kernel died."),
        ("end", ""),
        ("bad", "cell 1 took the kernel with it after 2.0 s"),
    ]


def test_a_figure_is_its_name_and_its_bytes() -> None:
    """What claims to be one and isn't is passed over."""
    data = {"image/png": base64.b64encode(b"PNG").decode(), "text/plain": "<Figure>"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    lines = LineRenderer()
    assert lines.of(OutputAdded(cell=2, output=output)) == [StyledLine("figure", "cell-2-figure-1.png", b"PNG")]
    assert lines.of(OutputAdded(cell=2, output={**output, "data": {"image/png": "&&&&&"}})) == []


def test_what_the_session_does_is_known_after_each_event() -> None:
    """For whoever shows that something takes its time."""
    assert [waits_for(event) for event in TURN] == [
        "thinking", "working", "cell 1 runs", "running again", *["cell 1 runs"] * 3, "thinking",
        "waiting for approval", "working",
    ]  # fmt: skip


def filled(kind: Any) -> Any:
    """A value of a type, with hostile text wherever text can be."""
    args = typing.get_args(kind)
    match typing.get_origin(kind) or kind:
        case typing.Literal:
            return args[0]
        case origin if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            hints = typing.get_type_hints(origin, include_extras=True)
            named = [*(each.name for each in msgspec.structs.fields(origin))]
            return origin(**{name: filled(hints[name]) for name in named})
        case origin if origin is list:
            return [filled(args[0])]
        case origin if origin is tuple:
            return (filled(args[0]),)
        case origin if origin is dict:
            return {"output_type": "execute_result", "data": {"text/plain": EVIL}, "metadata": {}}
        case _ if args:
            return filled(args[0])
        case origin if origin in (str, Path):
            return origin(EVIL)
        case origin:
            return origin(1)


@pytest.mark.parametrize("kind", typing.get_args(Event), ids=lambda kind: kind.__name__)
def test_no_event_can_steer_a_face(kind: Any) -> None:
    """Whatever stands in its texts, each line, and what is waited for, is safe to show."""
    lines = LineRenderer()
    event = filled(kind)
    lines.of(filled(ApprovalAsked))
    found = lines.of(event) or []
    if kind is ApprovalGiven:
        found += lines.of(msgspec.structs.replace(event, decision="reject")) or []
    assert [line.text for line in found] == [safe(line.text) for line in found]
    assert waits_for(event) == safe(waits_for(event))
