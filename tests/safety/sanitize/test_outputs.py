"""Which representations and which metadata of an output stay."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from safety.sanitize import cases

from nbagent.safety.sanitize import clean_output, clean_widgets
from nbagent.safety.sanitize.notebook import clean_notebook
from nbagent.safety.sanitize.specs import draw

VIEW = "application/vnd.jupyter.widget-view+json"
FIGURE = {
    "data": [{"type": "heatmap", "z": [[1]]}],
    "layout": {"title": {"text": "a: b"}, "template": {"data": {"scattermap": [{"type": "scattermap"}]}}},
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
    """Plotly's; servers in its settings go."""
    plotly = "application/vnd.plotly.v1+json"
    written = clean_output(display({plotly: FIGURE}))
    assert written["data"] == {plotly: {"data": FIGURE["data"], "layout": FIGURE["layout"]}}


@pytest.mark.parametrize(
    "figure",
    [
        {"data": [], "layout": {"meta": ["l(ht", "tps:h"], "title": "<span style='cursor:u%{meta[0]}%{meta[1]}'>"}},
        {"data": [], "layout": {"title": "&amp;amp;lt;b style=x&amp;gt;", "separators": "<a"}},
        {"data": [], "layout": {"title": "<\nb style=x>", "xaxis": {"tickprefix": "<", "tickformat": "<^9c"}}},
        {"data": [], "layout": {"<b style=x>": "&" + "amp;" * 9 + "lt;b style=x>"}},
        {"data": [], "layout": {"meta": ["<", "span style='x'>"], "title": "%{meta[0]}%{meta[1]}"}},
        {"data": [{"type": "bar", "text": "<span style=\"background: image-set('ht\ttps:h' 1x)\">"}], "layout": {}},
        {"data": [], "layout": {"buttons": [{"args2": ["images[0].source", "ht\ttps:h"]}]}},
        {"data": [], "layout": {"buttons": [{"args2": ["type", "scattergeo"]}]}},
        {"data": [], "layout": {"title": "&lt;b style=x&gt;"}},
        # Eleven in hexadecimal is b, and what a format fills up with is any character.
        {
            "data": [{"type": "bar", "y": [11], "texttemplate": "%{y:<=2x} style='mask:ur%{text}>", "text": ["l(h"]}],
            "layout": {},
        },
        {"data": [], "layout": {"xaxis": {"tickformat": "<=+2,.1~X", "ticksuffix": " style='x'>"}}},
        {
            "data": [{"type": "bar", "customdata": ["span"], "texttemplate": "%{customdata:<=5c} style='x'>"}],
            "layout": {},
        },
    ],
)
def test_no_figure_styles_its_text(figure: dict[str, Any]) -> None:
    """Plotly copies styles into the page, which templates can put together; browsers skip tabs in addresses.

    Whatever it puts together, there is no sign in the whole figure with which an element could begin.
    """
    written = json.dumps(draw(figure))
    assert "<" not in unescape(unescape(written))


@pytest.mark.parametrize(
    "figure",
    [
        {"data": [{"type": "scatterg&#101;o"}], "layout": {}},
        {"data": [{"t&#121;pe": "chorop&amp;#108;eth"}], "layout": {}},
        {"data": [], "layout": {"g&#101;o": {}}},
        {"data": [], "layout": {"images": [{"sour&#99;e": "/lab/api/x"}]}},
        {"data": [], "layout": {"template": {"layout": {"images": [{"sour&#99;e": "/lab/api/x"}]}}}},
        {"data": [], "layout": {"updatemenus": [{"buttons": [{"&#97;rgs": [{"type": "scattermap"}]}]}]}},
        {"data": [], "layout": {"title": {"text": "htt&#112;s:&#47;&#47;h.invalid"}}},
    ],
)
def test_a_reference_completes_nothing_in_a_figure(figure: dict[str, Any]) -> None:
    """What is checked is what is shown: with references resolved."""
    assert draw(figure) is None


def test_a_figure_of_plotly_express_stays() -> None:
    """Its templates have elements without attributes, and texts may compare."""
    template = "species=Adelie<br>%{x} &lt; 5<br><b>%{y}</b><extra></extra>"
    figure = {
        "data": [{"type": "scatter", "hovertemplate": template}],
        "layout": {"title": {"text": "a < b, a <= 3, <=50K"}},
    }
    assert draw(figure) == {
        "data": [{"type": "scatter", "hovertemplate": template.replace("&lt;", "\u2039")}],
        "layout": {"title": {"text": "a \u2039 b, a \u2039= 3, \u2039=50K"}},
    }


def test_a_figure_of_many_numbers_stays() -> None:
    """Plotly writes them in base64, where two slashes may follow each other and are no address."""
    numbers = {"dtype": "f8", "bdata": "//9/AAAA/////w=="}
    figure = {"data": [{"type": "scatter", "y": numbers}], "layout": {}}
    assert draw(figure) == figure
    assert draw({"data": [{"type": "scatter", "y": {"bdata": "//h.invalid/x"}}], "layout": {}}) is None


def test_what_holds_other_threads_up_is_left_out() -> None:
    """Markdown, LaTeX and HTML that a reader would need seconds for, in which no other thread gets a turn."""
    for mime, size in (("text/markdown", 300_000), ("text/latex", 300_000), ("text/html", 5_000_000)):
        kept = clean_output(display({mime: "x" * size, "text/plain": "x"}))["data"]
        assert f"{size:,} characters" in str(kept)
        assert len(str(kept)) < 1_000


def test_javascript_is_left_out() -> None:
    """Under each of its names, and what would run it in another form."""
    for mime in ("application/javascript", "text/javascript", "application/vnd.holoviews_exec.v0+json"):
        output = {"output_type": "display_data", "data": {mime: "steal()", "text/plain": "x"}, "metadata": {}}
        kept = clean_output(output)["data"]
        assert set(kept) == {"text/plain"}
        assert "Left out" in kept["text/plain"]


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
    assert alone.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert alone.endswith('><g><rect width="9"></rect></g></svg>')


def test_no_drawing_is_drawn_for_ever() -> None:
    """What is shown again may not show something again: nine steps of ten times each would hold a browser up."""
    steps = ((step, f"<use href='#a{step - 1}'/>" * 10) for step in range(1, 10))
    often = "".join(f"<g id='a{step}'>{uses}</g>" for step, uses in steps) + "<use href='#a9'/>"
    for drawn in (often, "<use id='a' href='#b'/><use id='b' href='#a'/>"):
        written = f"<svg>{drawn}</svg>"
        assert "<use" not in str(clean_output(display({"image/svg+xml": written, "text/plain": "x"}))["data"])
    marker = "<svg><defs><path id='m' d='M0 0'/></defs><g id='points'><use xlink:href='#m' x='1'/></g></svg>"
    assert "<use" in clean_output(display({"image/svg+xml": marker}))["data"]["image/svg+xml"]
    picture = '<img src="data:image/svg+xml,%3Csvg/%3E">'
    assert "src=" not in clean_output(display({"text/html": picture}))["data"]["text/html"]


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


CONTROLS = {"model_module": "@jupyter-widgets/controls", "model_module_version": "2.0.0"}


def cleaned(name: str, **state: Any) -> Any:
    """The state of one widget as an export has it, None if it has none."""
    given = {"x": {**CONTROLS, "model_name": name, "state": state}}
    return clean_widgets({"state": given}, lambda outputs: outputs)["state"].get("x", {}).get("state")


def test_a_widget_is_judged_by_what_draws_it() -> None:
    """The view of HTML draws any model's text; a picture's address is one in a list too."""
    assert "src" not in cleaned("LabelModel", _view_name="HTMLView", value="<img src='//h.invalid/x'>")["value"]
    assert cleaned("LabelModel", _view_name="ImageView", format="url", value="http://h.invalid") is None
    assert cleaned("ImageModel", format=["url"], value="http://h.invalid") is None


@pytest.mark.parametrize("name", ["LinkModel", "DirectionalLinkModel"])
def test_no_widget_writes_into_another_one(name: str) -> None:
    """A link would make a text, which nobody cleans as HTML, the value of a widget that shows HTML."""
    assert cleaned(name, source=["IPY_MODEL_text", "value"], target=["IPY_MODEL_page", "value"]) is None


def test_what_styles_a_widget_loads_nothing() -> None:
    """A background is CSS, a label is mathematics, and a class is one of its own."""
    style = cleaned("HTMLStyleModel", background="url(//h.invalid/x)", text_color="red", _model_name="HTMLStyleModel")
    assert style == {"text_color": "red", "_model_name": "HTMLStyleModel"}
    assert cleaned("LayoutModel", width=["url(x)"], height="1px", margin=None) == {"height": "1px", "margin": None}
    assert r"\style" not in cleaned("LabelModel", value=r"$\style{background:url(//h.invalid)}{x}$")["value"]
    assert cleaned("LabelModel", _dom_classes=["jp-Dialog", "own"])["_dom_classes"] == ["", "own"]


def test_no_figure_changes_what_all_objects_of_a_page_have() -> None:
    """By its keys, nested or written as a path, or by what a button changes."""
    button = {"method": "relayout", "args": ["xaxis.__proto__.ran", 1]}
    paths: list[dict[str, Any]] = [{"xaxis": {"__proto__": {"ran": 1}}}, {"xaxis.constructor.prototype.ran": 1}]
    for layout in [*paths, {"updatemenus": [{"buttons": [button]}]}]:
        assert draw({"data": [], "layout": layout}) is None
    assert draw({"data": [], "layout": {"title": {"text": "A constructor's prototype"}}}) is not None


@pytest.mark.parametrize("value", [[], {}, [[]], {"a": []}, 1, "evil", True])
def test_a_widget_of_no_known_form_costs_no_notebook(value: object) -> None:
    """Whatever an update put in place of a module's name, the widget is left out and the others stay."""
    for key in ("_view_module", "_model_module"):
        assert cleaned("LabelModel", **{key: value}) is None
    assert cleaned("HTMLModel", _view_name=value, format=value, _dom_classes=value, value=value) is not None


def nested(depth: int) -> Any:
    """Lists within lists."""
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_can_not_be_read_costs_itself_alone(contained: list[str]) -> None:
    """An output becomes a word on it, and a widget is left out; the others stay, and so does the notebook."""
    figure = {"data": nested(100_000), "layout": {}}
    written = clean_output(display({"application/vnd.plotly.v1+json": figure, "text/plain": "x"}))
    assert written["data"]["text/plain"].startswith("[Left out: an output that can't be read.")
    assert list(written["data"]) == ["text/plain"]
    state = {"deep": {"a": nested(100_000)}, "other": {"value": "x"}}
    models = {name: {**CONTROLS, "model_name": "LabelModel", "state": each} for name, each in state.items()}
    assert list(clean_widgets({"state": models}, lambda outputs: outputs)["state"]) == ["other"]
    assert len(contained) == 2


def test_counts_are_numbers_and_unknown_fields_go() -> None:
    """Templates of pages write both as they are."""
    output = {
        "output_type": "execute_result",
        "execution_count": "<b>",
        "data": {"text/plain": "1"},
        "metadata": {},
        "x": 1,
    }
    cell = {"cell_type": "code", "source": "1", "metadata": {}, "execution_count": "<script>", "outputs": [output]}
    cleaned = clean_notebook({"cells": [cell], "metadata": {"authors": [{"name": "x"}]}}, rest="")
    (shown,) = cleaned["cells"]
    assert shown["execution_count"] is shown["outputs"][0]["execution_count"] is None
    assert shown["outputs"][0].keys() == {"output_type", "execution_count", "data", "metadata"}
    assert "authors" not in cleaned["metadata"]
