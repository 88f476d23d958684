"""The state of the widgets that a cell showed, compared without their made-up names."""

from __future__ import annotations

from typing import Any

from notebook.compare.shared import MOMENTS, result

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.texts import Context
from nbagent.notebook.compare.widgets import WIDGET, with_state
from nbagent.safety.sanitize.outputs import VIEW_MIME


def test_widgets_that_show_one_another_without_end_are_followed_once() -> None:
    """A widget that shows itself twice, fifty times over, would otherwise be more than there are atoms."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    state = {"w": {"state": {"children": ["IPY_MODEL_w", "IPY_MODEL_v"], "value": 1, "layout": "IPY_MODEL_w"}}}
    state["v"] = {"state": {"children": ["IPY_MODEL_w"] * 50, "value": 2}}
    other = {name: {"state": {**model["state"], "value": 3}} for name, model in state.items()}
    one, two = with_state(view, view, (state, other))
    assert one[0]["data"][WIDGET] != two[0]["data"][WIDGET]
    assert len(one[0]["data"][WIDGET]) < 2_000


def test_widgets_beyond_those_that_are_compared_are_no_same_ones() -> None:
    """Behind many boxes in each other, or beside many others, a notebook could show whatever it liked."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w0"}}, "metadata": {}}]
    boxes = {f"w{at}": {"state": {"children": [f"IPY_MODEL_w{at + 1}"]}} for at in range(60)}
    many = {"w0": {"state": {"children": [f"IPY_MODEL_w{at}" for at in range(1, 10_002)]}}}
    many |= {f"w{at}": {"state": {"value": 1}} for at in range(1, 10_002)}
    for state in (boxes, many):
        last = f"w{len(state) - 1}"
        forged = {**state, last: {"state": {**state[last]["state"], "value": 5_000_000}}}
        assert compare(*with_state(view, view, (forged, state)), Context(moments=MOMENTS)).differences


def test_a_widget_that_no_run_leaves_there_is_told() -> None:
    """Code that closes its widget leaves the view alone, for which a notebook may have any state; or one more view."""
    context = Context(moments=MOMENTS)
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    forged = {"w": {"model_name": "HTMLModel", "state": {"value": "Revenue: 5,000,000"}}}
    assert WIDGET in compare(*with_state(view, view, (forged, {})), context).differences[0].what
    assert compare(*with_state(view, view, ({}, {})), context).differences == []
    assert compare(*with_state(view * 2, view, (forged, forged)), context).differences


def test_widgets_are_compared_by_their_state_and_not_by_their_names() -> None:
    """With the widgets in them; attributes that only one side saved don't count."""

    def shown(name: str) -> list[dict[str, Any]]:
        return [result() | {"data": {VIEW_MIME: {"model_id": name}}}]

    def state(name: str, value: int, **more: Any) -> dict[str, Any]:
        return {
            f"box{name}": {"state": {"children": [f"IPY_MODEL_{name}"], "_view_module_version": name}},
            name: {"state": {"value": value, **more}},
        }

    def apart(value: int) -> list[str]:
        both = with_state(shown("boxa1"), shown("boxb2"), (state("a1", 3), state("b2", value, max=10)))
        return [each.what for each in compare(*both, Context(moments=MOMENTS)).differences]

    assert (apart(3), apart(4)) == ([], ["output 1, widget"])
    models = (
        {"w": {"model_name": f"{kind}Model", "state": {"value": "a <!-- no --> b"}}} for kind in ("HTML", "Label")
    )
    assert compare(
        *with_state(shown("w"), shown("w"), (next(models), next(models))), Context(moments=MOMENTS)
    ).differences
