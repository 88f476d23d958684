"""Which representations and which metadata of an output stay."""

from __future__ import annotations

from typing import Any

import pytest
from safety.sanitize import cases

from nbagent.safety.sanitize import clean_output, clean_widgets

VIEW = "application/vnd.jupyter.widget-view+json"
CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"name": "d"},
    "datasets": {"d": [{"url": "https://text.example", "x": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}
FIGURE = {
    "data": [{"type": "heatmap", "z": [[1]]}],
    "layout": {"title": {"text": "a: b"}},
    "config": {"plotlyServerURL": "x"},
}


def display(data: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An output."""
    return {"output_type": "display_data", "data": data, "metadata": metadata}


@pytest.mark.parametrize("case", cases.JSON, ids=lambda case: str(case[0]))
def test_what_is_drawn_and_loads_is_left_out(case: tuple[str, Any]) -> None:
    """Its text stays, with a word on it."""
    written = clean_output(display(cases.fill({case[0]: case[1]}, h="h.invalid", n="x") | {"text/plain": "static"}))
    assert list(written["data"]) == ["text/plain"]
    assert written["data"]["text/plain"].startswith("static\n[Left out: interactive output of type ")
    assert "left_out" in written["metadata"]["nbagent"]


def test_a_chart_of_its_own_data_stays() -> None:
    """Vega-Lite's and Plotly's; servers in its settings go."""
    vega, plotly = "application/vnd.vegalite.v5+json", "application/vnd.plotly.v1+json"
    written = clean_output(display({vega: CHART, plotly: FIGURE}))
    assert written["data"] == {vega: CHART, plotly: {"data": FIGURE["data"], "layout": FIGURE["layout"]}}


def test_metadata_can_t_steer_a_renderer() -> None:
    """Sizes and backgrounds stay; frames, trust and what nobody knows go."""
    of_image = {"width": 10, "height": 1e9, "isolated": True, "alt": "x"}
    given = {"isolated": True, "trusted": True, "needs_background": "light", "tags": ["x"], "image/png": of_image}
    written = clean_output(display({"image/png": "AAAA", "text/plain": "x"}, **given))
    assert written["metadata"] == {"needs_background": "light", "image/png": {"width": 10}}


def test_svg_stands_where_there_is_no_picture_beside_it() -> None:
    """Which shows the same."""
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><rect width='9'/></svg>"
    assert list(clean_output(display({"image/svg+xml": drawing, "image/png": "AAAA"}))["data"]) == ["image/png"]
    alone = clean_output(display({"image/svg+xml": drawing}))["data"]["image/svg+xml"]
    assert alone == '<svg xmlns="http://www.w3.org/2000/svg"><rect width="9"></rect></svg>'


def test_only_jupyters_own_widgets_stay() -> None:
    """One of another module would be fetched; HTML in one is cleaned; a view of one that is not there goes."""
    own = {"model_module": "@jupyter-widgets/controls", "model_module_version": "2.0.0"}
    page = {"model_name": "HTMLModel", **own, "state": {"value": "<img src='http://h.invalid'>x"}}
    state = {
        "page": page,
        "evil": {"model_name": "AnyModel", "model_module": "//h.invalid/x", "model_module_version": "1", "state": {}},
        "picture": {"model_name": "ImageModel", **own, "state": {"format": "url"}},
    }
    kept = clean_widgets({"state": state}, lambda outputs: outputs)["state"]
    assert list(kept) == ["page"]
    assert "h.invalid'" not in kept["page"]["state"]["value"]
    assert VIEW in clean_output(display({VIEW: {"model_id": "page"}}), widgets=kept)["data"]
    assert VIEW not in clean_output(display({VIEW: {"model_id": "evil"}}), widgets=kept)["data"]
