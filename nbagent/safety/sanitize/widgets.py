"""The state of widgets in a notebook's metadata, as programs restore it that were never asked to trust it. Pure.

A widget names the JavaScript module that draws it, and a renderer fetches that module: only Jupyter's own stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nbagent.safety.sanitize.markup import clean_html

_MODULES = frozenset({"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"})
_VERSION = re.compile(r"[\^~]?\d{1,3}(?:\.\d{1,3}){0,2}")
_NAME = re.compile(r"[A-Za-z]{1,60}")
_HTML = frozenset({"HTMLModel", "HTMLMathModel"})
_MEDIA = frozenset({"ImageModel", "AudioModel", "VideoModel"})

State = dict[str, Any]


def clean_widgets(state: State, clean_outputs: Callable[[list[Any]], list[Any]]) -> State:
    """A notebook's widget state with the widgets that load nothing.

    Args:
        state: The value of `metadata.widgets["application/vnd.jupyter.widget-state+json"]`.
        clean_outputs: Cleans what an Output widget shows.
    """
    models = {name: kept for name, model in state.get("state", {}).items() if (kept := _model(model, clean_outputs))}
    return {"version_major": 2, "version_minor": 0, "state": models}


def _model(model: State, clean_outputs: Callable[[list[Any]], list[Any]]) -> State | None:
    name, module, version = (str(model.get(key)) for key in ("model_name", "model_module", "model_module_version"))
    if module not in _MODULES or not _VERSION.fullmatch(version) or not _NAME.fullmatch(name):
        return None
    state = dict(model.get("state", {}))
    if state.get("_view_module") not in (None, *_MODULES) or state.get("_model_module", module) not in _MODULES:
        return None
    if name in _MEDIA and state.get("format", "png") == "url":
        return None
    if name in _HTML and "value" in state:
        state["value"] = clean_html(str(state["value"]))
    if "description_allow_html" in state:
        state["description_allow_html"] = False
    if isinstance(outputs := state.get("outputs"), list):
        state["outputs"] = clean_outputs(outputs)
    return {**model, "state": state}
