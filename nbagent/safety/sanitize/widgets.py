"""Cleans the state of widgets in a notebook's metadata, which programs restore in untrusted notebooks, too. Pure.

A widget names the JavaScript module that draws it, which a renderer fetches. Only Jupyter's own modules stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nbagent.core.errors import contained
from nbagent.core.markdown import break_commands
from nbagent.safety.sanitize.left_out import LeftOut
from nbagent.safety.sanitize.markup import clean_classes, clean_html
from nbagent.safety.sanitize.styles import clean_value

STATE_MIME = "application/vnd.jupyter.widget-state+json"
"""The key in a notebook's `metadata.widgets` whose value is the state."""
OWN_MODULES = frozenset({"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"})
"""The modules that draw Jupyter's own widgets."""
MODEL = re.compile(r"IPY_MODEL_([\w-]{1,200})")
"""How a widget's state names the model of another widget."""
_VERSION = re.compile(r"[\^~]?\d{1,3}(?:\.\d{1,3}){0,2}")
_NAME = re.compile(r"[A-Za-z]{1,60}")
_HTML = frozenset({"HTML", "HTMLMath"})
_MEDIA = frozenset({"Image", "Audio", "Video"})
_LINKS = frozenset({"LinkModel", "DirectionalLinkModel"})
"""Models that write what one widget holds into another as soon as they are there: text into HTML."""
_STYLES = ("StyleModel", "LayoutModel")
"""Ends of the names of models whose strings are CSS."""

State = dict[str, Any]


def clean_widgets(state: State, clean_outputs: Callable[[list[Any]], list[Any]]) -> State:
    """Clean a notebook's widget state, of the type `application/vnd.jupyter.widget-state+json`.

    Widgets that could load something are removed; `clean_outputs` cleans what is in an Output widget.
    """
    models = {}
    for name, model in state.get("state", {}).items():
        with contained("A widget is left out of the notebook"):
            if (kept := _model(model, clean_outputs)) is not None:
                models[name] = kept
    return {"version_major": 2, "version_minor": 0, "state": models}


def _model(model: State, clean_outputs: Callable[[list[Any]], list[Any]]) -> State | None:
    name, module, version = (str(model.get(key)) for key in ("model_name", "model_module", "model_module_version"))
    if module not in OWN_MODULES or not _VERSION.fullmatch(version) or not _NAME.fullmatch(name):
        return None
    if name in _LINKS:
        return None
    given = model.get("state")
    state = _without_commands(given) if isinstance(given, dict) else {}
    modules = (None, *OWN_MODULES)
    if state.get("_view_module") not in modules or state.get("_model_module") not in modules:
        return None
    # The view draws, and may be any other model's.
    drawn = {name.removesuffix("Model"), str(state.get("_view_name")).removesuffix("View")}
    if drawn & _MEDIA and (not isinstance(kind := state.get("format", "png"), str) or kind == "url"):
        return None
    if drawn & _HTML and "value" in state:
        state["value"] = clean_html(str(state["value"]))
    if name.endswith(_STYLES):
        state = {key: value for key, value in state.items() if key.startswith("_") or _is_plain(value)}
    if "_dom_classes" in state:
        classes = state["_dom_classes"]
        state["_dom_classes"] = [clean_classes(str(each)) for each in classes] if isinstance(classes, list) else []
    if "description_allow_html" in state:
        state["description_allow_html"] = False
    if isinstance(outputs := state.get("outputs"), list):
        state["outputs"] = clean_outputs(outputs)
    return {**model, "state": state}


def _is_plain(value: Any) -> bool:
    """Whether a value is None, a number, or CSS that loads nothing."""
    if isinstance(value, str):
        return not value or clean_value("", value, LeftOut()) == value
    return value is None or isinstance(value, int | float)


def _without_commands(value: Any) -> Any:
    """A value whose strings are clean TeX, since labels and descriptions are given to MathJax."""
    if isinstance(value, str):
        return break_commands(value)
    if isinstance(value, list):
        return [_without_commands(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_commands(item) for name, item in value.items()}
    return value
