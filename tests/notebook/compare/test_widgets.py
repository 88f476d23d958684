"""The state of the widgets that a cell showed, compared without their made-up names."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest
from notebook.compare.shared import MOMENTS, result, stream

from nbagent.notebook import document
from nbagent.notebook.compare import widgets
from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.texts import Context, Strictness
from nbagent.notebook.compare.widgets import BEYOND, BY_PAGE, WIDGET, Widgets
from nbagent.notebook.compare_runs import all_reads, compared
from nbagent.notebook.fresh import Ran
from nbagent.safety.sanitize.outputs import VIEW_MIME
from nbagent.safety.sanitize.widgets import STATE_MIME


def apart(stored: list[Any], fresh: list[Any], states: tuple[Any, Any]) -> Comparison:
    """What comes of a cell that shows widgets."""
    return compare(*Widgets(*states).with_state(stored, fresh), Context(moments=MOMENTS))


def test_widgets_that_show_one_another_without_end_are_followed_once() -> None:
    """A widget that shows itself twice, fifty times over, would otherwise be more than there are atoms."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    state = {"w": {"state": {"children": ["IPY_MODEL_w", "IPY_MODEL_v"], "value": 1, "layout": "IPY_MODEL_w"}}}
    state["v"] = {"state": {"children": ["IPY_MODEL_w"] * 50, "value": 2}}
    other = {name: {"state": {**model["state"], "value": 3}} for name, model in state.items()}
    one, two = Widgets(state, other).with_state(view, view)
    assert one[0]["data"][WIDGET] != two[0]["data"][WIDGET]
    assert len(one[0]["data"][WIDGET]) < 2_000


def test_widgets_in_widgets_are_compared_however_deep() -> None:
    """Behind many boxes in each other, or beside many others, a notebook could show whatever it liked."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w0"}}, "metadata": {}}]
    boxes = {f"w{at}": {"state": {"children": [f"IPY_MODEL_w{at + 1}"]}} for at in range(3_000)}
    boxes["w3000"] = {"state": {"value": 1}}
    many = {"w0": {"state": {"children": [f"IPY_MODEL_w{at}" for at in range(1, 10_002)]}}}
    many |= {f"w{at}": {"state": {"value": 1}} for at in range(1, 10_002)}
    for state in (boxes, many):
        assert apart(view, view, (state, state)).differences == []
        forged = {**state, f"w{len(state) - 1}": {"state": {"value": 5_000_000}}}
        (found,) = apart(view, view, (forged, state)).differences
        assert (found.stored, found.fresh) == ("'5000000'", "'1'")


def test_values_in_values_are_compared_however_deep() -> None:
    """Lists, objects, and names of models in them; what isn't of one form is compared as a whole."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]

    def state(name: str, value: Any) -> dict[str, Any]:
        for _ in range(2_000):
            value = [{"a": value}, f"IPY_MODEL_{name}"]
        return {"w": {"state": {"value": value}}, name: {"state": {"value": name == "x"}}}

    for value in (5, [5], {"b": 5}):
        assert apart(view, view, (state("v", value), state("u", value))).differences == []
        assert apart(view, view, (state("v", value), state("u", 6))).differences
        assert apart(view, view, (state("v", value), state("x", value))).differences


def test_widgets_beyond_those_that_are_compared_are_no_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all cells of a notebook together, and the reason is told."""
    monkeypatch.setattr(widgets, "MOST", 90)
    state = {"w": {"state": {"children": [f"IPY_MODEL_{at}" for at in range(5)]}}}
    state |= {str(at): {"state": {"value": 1}} for at in range(5)}
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    both = Widgets(state, state)
    found = [compare(*both.with_state(view, view), Context(moments=MOMENTS)).differences for _ in range(2)]
    assert [[(each.what, each.cause) for each in one] for one in found] == [[], [("output 1, widget", BEYOND)]]


def test_a_widget_that_no_run_leaves_there_is_told() -> None:
    """Code that closes its widget leaves the view alone, for which a notebook may have any state; or one more view."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    forged = {"w": {"model_name": "HTMLModel", "state": {"value": "Revenue: 5,000,000"}}}
    assert WIDGET in apart(view, view, (forged, {})).differences[0].what
    assert apart(view, view, ({}, {})).differences == []
    assert apart(view * 2, view, (forged, forged)).differences


@pytest.mark.parametrize(
    ("outer", "inner", "same"),
    [
        ({"visibility": "hidden"}, {}, True), ({"display": "none"}, {"visibility": "visible"}, True),
        ({"visibility": "hidden"}, {"visibility": "visible"}, False), ({"visibility": "inherit"}, {}, False),
        ({}, {"visibility": "hidden"}, True), ({"width": "0"}, {}, False),
    ],
)  # fmt: skip
def test_what_a_layout_hides_is_not_compared(outer: dict[str, str], inner: dict[str, str], same: bool) -> None:
    """As a bar that was to go when it ended: how far it was drawn is a matter of time, and nobody sees it."""
    view = [result() | {"data": {VIEW_MIME: {"model_id": "box"}}}]

    def state(value: int, **looks: Any) -> dict[str, Any]:
        models = {"box": {"layout": "IPY_MODEL_o", "children": ["IPY_MODEL_bar"]}}
        models |= {"bar": {"layout": "IPY_MODEL_i", "value": value}, "o": outer | looks, "i": inner}
        return {name: {"state": attributes} for name, attributes in models.items()}

    assert (apart(view, view, (state(96), state(100))).differences == []) is same
    shown = {"visibility": "visible", "display": ""}
    assert apart(view, view, (state(96), state(100, **shown))).differences or inner == {"visibility": "hidden"}
    assert apart(view, view, (state(96, width="1px"), state(96))).differences


def test_widgets_are_compared_by_their_state_and_not_by_their_names() -> None:
    """With the widgets in them; attributes that only one side saved don't count."""

    def shown(name: str) -> list[dict[str, Any]]:
        return [result() | {"data": {VIEW_MIME: {"model_id": name}}}]

    def state(name: str, value: int, **more: Any) -> dict[str, Any]:
        return {
            f"box{name}": {"state": {"children": [f"IPY_MODEL_{name}"], "_view_module_version": name}},
            name: {"state": {"value": value, **more}},
        }

    def differing(value: int) -> list[str]:
        found = apart(shown("boxa1"), shown("boxb2"), (state("a1", 3), state("b2", value, max=10)))
        return [each.what for each in found.differences]

    assert (differing(3), differing(4)) == ([], ["output 1, widget"])
    models = (
        {"w": {"model_name": f"{kind}Model", "state": {"value": "a <!-- no --> b"}}} for kind in ("HTML", "Label")
    )
    assert apart(shown("w"), shown("w"), (next(models), next(models))).differences


def test_all_of_a_widget_is_compared_but_for_the_versions_of_its_programs() -> None:
    """Its buffers, the classes and the code that draw it, and the module that a page loads."""
    view = [result() | {"data": {VIEW_MIME: {"model_id": "w"}}}]
    buffers = [{"path": ["value"], "encoding": "base64", "data": "AAAA"}]
    made = {"model_name": "ImageModel", "model_module": "@jupyter-widgets/controls", "buffers": buffers}
    made |= {"state": {"format": "png", "_dom_classes": [], "_esm": "render()", "_view_module_version": "2.0.0"}}
    for part, other in (
        ({"buffers": [buffers[0] | {"data": "AAAB"}]}, True), ({"buffers": []}, True), ({"model_module": "evil"}, True),
        ({"state": made["state"] | {"_dom_classes": ["lm-mod-hidden"]}}, True),
        ({"state": made["state"] | {"_esm": "render(5)"}}, True),
        ({"state": made["state"] | {"_view_module_version": "1.5.0"}}, False),
        ({"model_module_version": "1"}, False),
    ):  # fmt: skip
        assert bool(apart(view, view, ({"w": made | part}, {"w": made})).differences) is other


def test_a_widget_of_another_program_is_compared_and_the_page_named_as_a_cause() -> None:
    """It may have set what differs, as the part of a map that is shown; also within one of Jupyter's own."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "box"}}, "metadata": {}}]

    def state(zoom: int) -> dict[str, Any]:
        own = {"model_module": "@jupyter-widgets/controls", "state": {"children": ["IPY_MODEL_map"]}}
        return {"box": own, "map": {"model_module": "jupyter-leaflet", "state": {"zoom": zoom}}}

    cell = nbformat.v4.new_code_cell("m", outputs=view, execution_count=1)
    given = {"widgets": {STATE_MIME: {"state": state(9), "version_major": 2, "version_minor": 0}}}
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=[cell], metadata=given)), name="n")
    for zoom, told in ((9, []), (10, [("output 1, widget of jupyter-leaflet", BY_PAGE)])):
        ran = Ran(outputs={1: view}, moments={1: (0.0, 1.0)}, models=state(zoom))
        (comparison,) = compared(found, ran, [ran], reads=all_reads(found), strictness=Strictness()).values()
        assert [(each.what, each.cause) for each in comparison.differences] == told


def test_what_a_page_told_an_output_widget_has_a_cause() -> None:
    """What a cell without one prints has none, though it looks the same."""
    view = {VIEW_MIME: {"model_id": "w"}, "text/plain": "Output(outputs=(1, 2, 3))"}
    shown = {"output_type": "display_data", "data": view, "metadata": {}}
    fresh = shown | {"data": view | {"text/plain": "Output()"}}
    cells = [
        nbformat.v4.new_code_cell("f()", outputs=outputs, execution_count=1)
        for outputs in ([shown], [stream("outputs=(5.25 million)")])
    ]
    found = document.parse(json.dumps(nbformat.v4.new_notebook(cells=cells)), name="n")
    ran = Ran(outputs={1: [fresh], 2: [stream("zzz")]}, moments=dict.fromkeys((1, 2), (0.0, 1.0)))
    told = compared(found, ran, [ran], reads=all_reads(found), strictness=Strictness()).values()
    assert [[each.cause for each in comparison.differences] for comparison in told] == [[BY_PAGE], [""]]


def test_an_attribute_that_one_side_lacks_is_compared() -> None:
    """Unless a page saved the notebook, which leaves out what is as it began, or another version of the program did."""
    view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
    full = {"value": 5, "max": 10, "_view_count": None, "_model_module_version": "2.0.0"}
    lacking = {name: value for name, value in full.items() if name != "value"}
    by_page = {"max": 10, "_model_module_version": "2.0.0"}
    for one, other, whole, differs in (
        (full, full, True, False),
        (lacking, full, False, True),
        (by_page, full, False, False),
        (by_page, full, True, True),
        ({**by_page, "description": "Revenue"}, full, False, True),
        ({**full, "_model_module_version": "1.5.0", "tooltip": "a"}, full, False, False),
    ):
        both = Widgets({"w": {"state": one}}, {"w": {"state": other}}, whole=whole).with_state(view, view)
        assert bool(compare(*both, Context(moments=MOMENTS)).differences) is differs, one
    for version, differs in (("1.5.0", False), ("2.0.0", True)):
        saved = {"model_module_version": version, "state": {"max": 10, "description_tooltip": "a"}}
        both = Widgets({"w": saved}, {"w": {"model_module_version": "2.0.0", "state": full}}).with_state(view, view)
        assert bool(compare(*both, Context(moments=MOMENTS)).differences) is differs, version


def test_where_text_in_an_output_widget_is_cut_is_no_difference() -> None:
    """A client may keep each message by itself."""
    view = [result() | {"data": {VIEW_MIME: {"model_id": "w"}}}]
    parts, whole, other = (
        {"w": {"state": {"outputs": [*map(stream, each)]}}} for each in (("n", "\n2"), ("n\n2",), ("n3",))
    )
    assert apart(view, view, (parts, whole)).differences == []
    assert apart(view, view, (parts, other)).differences
    odd = [{"w": {"state": {"outputs": [{"output_type": "stream", "text": each}]}}} for each in ([5], [6])]
    assert apart(view, view, (odd[0], odd[1])).differences


def test_a_progress_bar_in_widgets_is_none_of_a_result() -> None:
    """What tqdm says of time in there, between signs as wide as figures."""
    view = [result() | {"data": {VIEW_MIME: {"model_id": "w"}}}]
    one, other, third = (
        {"w": {"state": {"value": f"\u2007{count}/4\u2007[00:00&lt;00:00,\u2007{rate}it/s]"}}}
        for count, rate in ((4, "47.1"), (4, "\u20079.8"), (3, "9.8"))
    )
    assert apart(view, view, (one, other)).differences == []
    assert apart(view, view, (third, other)).differences


@pytest.mark.parametrize("version", ["2.0.0", "^2.0.0", "2.0", "*"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_value_that_was_taken_out_is_a_difference(version: str, whole: bool) -> None:
    """A page shows how it begins, a zero, whichever versions the notebook names: it takes one that fits."""

    def model(name: str = "IntTextModel", **state: Any) -> dict[str, Any]:
        return {"model_name": name, "model_module": "@jupyter-widgets/controls", "state": state}

    def differ(stored: Any, fresh: Any) -> bool:
        view = [{"output_type": "display_data", "data": {VIEW_MIME: {"model_id": "w"}}, "metadata": {}}]
        both = Widgets({"w": {**stored, "model_module_version": version}}, {"w": fresh}, whole=whole)
        return bool(compare(*both.with_state(view, view), Context(moments=MOMENTS)).differences)

    now = {"model_module_version": "2.0.0"}
    assert differ(model(), {**model(value=42), **now})
    assert differ(model("HTMLModel"), {**model("HTMLModel", value="a loss"), **now})
    if not whole:
        assert not differ(model(), {**model(value=0, disabled=True), **now})
        assert not differ(model("IntRangeSliderModel"), {**model("IntRangeSliderModel", value=[0, 1]), **now})
