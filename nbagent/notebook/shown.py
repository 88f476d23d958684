"""The outputs of a cell as its notebook shows them: they load nothing, and late ones are marked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container

from nbagent.core.events import Cell, Output
from nbagent.notebook.compare.notes import ADDED, CHANGED, WIDGET_CHANGED, mark
from nbagent.notebook.record import Recording
from nbagent.safety.sanitize import clean_output
from nbagent.safety.sanitize.outputs import VIEW_MIME


def shown(
    cell: Cell,
    recording: Recording,
    *,
    widgets: Container[str] = (),
    clean: Callable[[Output], Output] | None = None,
) -> list[Output]:
    """A cell's outputs as its notebook has them; `clean` makes something else of each than an export has."""
    clean = clean or (lambda output: clean_output(output, widgets=widgets))
    outputs: list[Output] = []
    for place, output in enumerate(cell.outputs):
        if (cell.cell, place) in recording.updated:
            outputs.append(mark(CHANGED, recording.updated[cell.cell, place]))
        elif (during := _widget_changed(output, cell, recording)) is not None:
            outputs.append(mark(WIDGET_CHANGED, during))
        outputs.append(clean(output))
    for late in recording.late.get(cell.cell, ()):
        outputs.append(mark(ADDED, late.during))
        outputs.append(clean(late.output))
    return outputs


def _widget_changed(output: Output, cell: Cell, recording: Recording) -> int | None:
    """The last later cell that changed a widget in an output; None if none did."""
    view = output.get("data", {}).get(VIEW_MIME)
    name = view.get("model_id") if isinstance(view, dict) else None
    if not isinstance(name, str):
        return None
    last = recording.widgets_changed.get(name, 0)
    return last if last > cell.cell else None
