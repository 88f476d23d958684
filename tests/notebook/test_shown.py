"""What a notebook shows of output that came late."""

from __future__ import annotations

import time
from typing import Any

import nbformat

from nbagent.core.events import CellFinished, CellStarted, Event, LateOutputAdded, OutputUpdated, Record, WidgetsChanged
from nbagent.notebook.build import build
from nbagent.notebook.record import record

VIEW = "application/vnd.jupyter.widget-view+json"


def cells(*events: Event) -> list[Any]:
    """The code cells of a session's notebook, but the one of the requirements."""
    recording = record(Record(number, 0.0, event) for number, event in enumerate(events, start=1))
    made = nbformat.from_dict(build(recording))
    nbformat.validate(made)
    return [cell for cell in made.cells if cell.id.startswith("cell-")]


def ran(
    cell: int, *outputs: dict[str, Any], names: tuple[str, ...] = (), between: tuple[Event, ...] = ()
) -> list[Event]:
    """A cell's events, and others while it ran."""
    ended = CellFinished(
        cell=cell, status="ok", outputs=list(outputs), execution_count=cell, duration=0.1, display_ids=list(names)
    )
    return [CellStarted(cell=cell, turn=0, code="1"), *between, ended]


def stream(text: str) -> dict[str, Any]:
    """Text of a stream."""
    return {"output_type": "stream", "name": "stdout", "text": text}


def display(**data: Any) -> dict[str, Any]:
    """A display of text, or of a widget."""
    return {"output_type": "display_data", "data": data or {"text/plain": "old"}, "metadata": {}}


def marks(cell: Any) -> list[tuple[str, Any]]:
    """The marks of a cell's outputs: what each says, and what its metadata does."""
    found = [each for each in cell.outputs if each.get("metadata", {}).get("nbagent", {}).get("late")]
    return [(each["data"]["text/plain"], each["metadata"]["nbagent"]["late"]["during"]) for each in found]


def test_late_output_says_so() -> None:
    """Text stands apart from what the cell showed, below a mark with the cell that ran; so for each moment."""
    late = LateOutputAdded(cell=1, output=stream("b"), during=2)
    first, second = cells(
        *ran(1, stream("a")), *ran(2, between=(late,)), LateOutputAdded(cell=1, output=stream("c"), during=0)
    )
    assert [each.get("text") for each in first.outputs] == ["a", None, "b", None, "c"]
    assert marks(first) == [
        ("[What follows was added while cell 2 ran, after this cell had ended.]", 2),
        ("[What follows was added while no cell ran, after this cell had ended.]", 0),
    ]
    assert second.outputs == []


def test_a_display_that_another_cell_changed_says_so() -> None:
    """A mark stands before it; what changed while its own cell ran has none."""
    own = OutputUpdated(cell=1, display_id="a", data={"text/plain": "1"}, during=1)
    other = OutputUpdated(cell=1, display_id="a", data={"text/plain": "new"}, during=2, changed=[1])
    first, second = cells(
        *ran(1, stream("x"), display(), names=("", "a"), between=(own,)),
        *ran(2, display(), names=("a",), between=(other,)),
    )
    assert marks(first) == [("[What follows was changed while cell 2 ran, after this cell had ended.]", 2)]
    assert first.outputs[2].data["text/plain"] == "new"
    assert marks(second) == []


def test_a_widget_that_a_later_cell_changed_says_so() -> None:
    """Also one that holds the widget; a widget that its own cell changed, or nobody, has no mark."""

    def state(value: int) -> WidgetsChanged:
        names = {"model_module": "@jupyter-widgets/controls", "model_module_version": "2.0.0"}
        box = {"model_name": "HBoxModel", **names, "state": {"children": ["IPY_MODEL_inner"]}}
        inner = {"model_name": "IntTextModel", **names, "state": {"value": value}}
        alone = {"model_name": "IntTextModel", **names, "state": {"value": 1}}
        return WidgetsChanged(
            state={"version_major": 2, "version_minor": 0, "state": {"b": box, "inner": inner, "c": alone}}
        )

    views = [display(**{VIEW: {"model_id": name}, "text/plain": name}) for name in ("b", "c")]
    first, second = cells(*ran(1, *views), state(1), *ran(2, views[0]), state(2))
    assert marks(first) == [("[The widget that follows was changed while cell 2 ran, after this cell had ended.]", 2)]
    assert [VIEW in each.data for each in first.outputs] == [False, True, True]
    assert marks(second) == []


def test_thousands_of_views_of_thousands_of_widgets_take_no_time() -> None:
    """Which of them changed is the same for each view: followed anew for each, an export took hours."""

    def state(value: int) -> WidgetsChanged:
        names = {
            "model_name": "HBoxModel",
            "model_module": "@jupyter-widgets/controls",
            "model_module_version": "2.0.0",
        }
        models = {
            f"m{number}": {**names, "state": {"children": [f"IPY_MODEL_m{number + 1}"], "x": value}}
            for number in range(2_000)
        }
        return WidgetsChanged(state={"version_major": 2, "version_minor": 0, "state": models})

    views = [display(**{VIEW: {"model_id": "m0"}, "text/plain": "m0"}) for _ in range(400)]
    events = [*ran(1, *views), state(1), *ran(2), state(2)]
    begun = time.process_time()
    first, _ = cells(*events)
    assert time.process_time() - begun < 3
    assert len(marks(first)) == 400
