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
    late: bool = True,
) -> list[Output]:
    """A cell's outputs as its notebook has them.

    Args:
        cell: The cell.
        recording: What came late.
        widgets: Those whose views stay.
        clean: Makes something else of each output than an export has.
        late: Whether those that came after the cell's end are among them.
    """
    clean = clean or (lambda output: clean_output(output, widgets=widgets))
    outputs: list[Output] = []
    for place, output in enumerate(cell.outputs):
        if (cell.cell, place) in recording.updated:
            outputs.append(mark(CHANGED, recording.updated[cell.cell, place]))
        elif (during := _widget_changed(output, cell, recording)) is not None:
            outputs.append(mark(WIDGET_CHANGED, during))
        outputs.append(clean(output))
    for each in recording.late.get(cell.cell, ()) if late else ():
        outputs.append(mark(ADDED, each.during))
        outputs.append(clean(each.output))
    return outputs


def _widget_changed(output: Output, cell: Cell, recording: Recording) -> int | None:
    """The last later cell that changed a widget in an output; None if none did."""
    view = output.get("data", {}).get(VIEW_MIME)
    name = view.get("model_id") if isinstance(view, dict) else None
    if not isinstance(name, str):
        return None
    last = recording.widgets_changed.get(name, 0)
    return last if last > cell.cell else None
