"""The state of the widgets that a cell showed, as text that can be compared: without made-up names. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from nbagent.core.events import Output
from nbagent.notebook.compare.forms import json_of
from nbagent.notebook.compare.streams import as_kept
from nbagent.safety.sanitize import clean_output, clean_widgets
from nbagent.safety.sanitize.outputs import VIEW_MIME
from nbagent.safety.sanitize.widgets import MODEL, OWN_MODULES

WIDGET = "widget"
"""Stands for a MIME type in outputs whose widgets' state is to be compared."""
OF_OTHERS = "widget of "
"""How that of a widget begins which another program than Jupyter's own draws; the names of its modules follow."""
BY_PAGE = "a page that showed it may have set it"
MOST = 1_000_000
"""Values that are compared of all widgets that a notebook shows; a long text counts as several."""
ONE = 50
"""Characters of a text that count as one value."""
BEYOND = "more widgets are shown than are compared"
"""The end of the text of widgets that are not all compared, since nobody knows what else is shown there."""
_VERSION = "_model_module_version"
_LAYOUT = "layout"
_ONLY_IF_WHOLE = "_view_count"
"""An attribute that a page leaves out if it leaves out any, since nobody sets it."""
_PLAIN_VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}(?!\d)[\w.+-]{0,50}")
_CONTENT = frozenset("value index children outputs description data titles _titles _options_labels".split())
"""Attributes of Jupyter's own widgets that say what they show."""
_BEGINS = {
    "ColorPickerModel": ("value", "black"),
    "FloatLogSliderModel": ("value", 1.0),
    "FloatRangeSliderModel": ("value", [0.0, 1.0]),
    "IntRangeSliderModel": ("value", [0, 1]),
    "SelectionRangeSliderModel": ("index", [0, 0]),
}
"""How such an attribute begins in a page, by the name of the model, where that is neither empty nor zero."""
_State = Mapping[str, Any]


class _Every(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERY: Container[str] = _Every()
"""Holds every name: that of each widget whose view stays in outputs."""


def cleaned(state: Any) -> dict[str, Any]:
    """The models of a notebook's widget state, by their names, as an export has them."""
    if not isinstance(state, dict):
        return {}
    found = clean_widgets(state, lambda outputs: [clean_output(each) for each in outputs])
    return dict(found["state"])


class Widgets:
    """The widgets of a notebook and of a fresh run of it, by the views that show them.

    Args:
        stored: The models of the notebook, by their names.
        fresh: Those of the run.
        whole: Whether the notebook surely has each attribute of its models.
    """

    def __init__(self, stored: _State, fresh: _State, *, whole: bool = False) -> None:
        self._states = stored, fresh
        self._whole = whole
        self._left = MOST

    def with_state(self, stored: list[Output], fresh: list[Output]) -> tuple[list[Output], list[Output]]:
        """The outputs of a cell in both, whose widgets, in their order, have a text of their state."""
        both = [*stored], [*fresh]
        places = [[n for n, each in enumerate(outputs) if VIEW_MIME in each.get("data", {})] for outputs in both]
        for pair in zip(*places, strict=False):
            names = _Names(*(_name(outputs[n]["data"][VIEW_MIME]) for outputs, n in zip(both, pair, strict=True)))
            if names.stored not in self._states[0]:
                continue
            others = set[str]()
            for outputs, n, text in zip(both, pair, self._texts(names, others), strict=True):
                kind = f"{OF_OTHERS}{', '.join(sorted(others))}" if others else WIDGET
                outputs[n] = {**outputs[n], "data": {**outputs[n]["data"], kind: text}}
        return both

    def _texts(self, names: _Names, others: set[str]) -> tuple[str, str]:
        """The state of both widgets and of those in them, each once, a value a line; `others` gets their modules."""
        if names.fresh not in self._states[1]:
            return json_of(
                _attributes(self._states[0][names.stored])
            ), ""  # the notebook shows what no run leaves there
        lines: tuple[list[str], list[str]] = ([], [])
        seen, todo = set[_Names](), [_Pair("", names, names)]
        while todo:
            each = todo.pop()
            if self._left <= 0:
                lines[0].append(BEYOND)
                break
            if isinstance(each.stored, _Names):
                todo += self._of_models(each.stored, others) if each.stored not in seen else []
                seen.add(each.stored)
                continue
            parts = _parts(each)
            todo += reversed(parts)
            for found, value in zip(lines, each[1:], strict=True):
                text = "" if parts else value.text if isinstance(value, _End) else json_of(value)
                found.append(f"{each.label}: {text}" if each.label else text)
                self._left -= 1 + len(text) // ONE
        return "\n".join(lines[0]), "\n".join(lines[1])

    def _of_models(self, names: _Names, others: set[str]) -> list[_Pair]:
        """What both models say of their attributes, the last one first.

        A page that saves a notebook leaves out those that are as they began. Other versions have others.
        """
        models = [state.get(name) for state, name in zip(self._states, names, strict=True)]
        one, other = map(_attributes, models)
        before, now = map(_version, models)
        others.update({str(other.get("model_module"))} - {"None", *OWN_MODULES})
        # A page takes what is no plain version, such as `^2.0.0`, for any that fits.
        is_same_program = self._whole or before in (None, now) or not _PLAIN_VERSION.fullmatch(str(before))
        is_whole = self._whole or _ONLY_IF_WHOLE in one
        named = one.keys() & other.keys()
        named |= {name for name in other if _is_set(name, other)}
        if is_same_program:
            named |= one.keys() | (other.keys() if is_whole else set())
        named = {name for name in named if not _is_of_program(name)}
        if all(map(_is_hidden, self._states, names)):
            named &= {_LAYOUT}  # nobody sees what it shows, as a bar that was to go when it ended
        return [
            _Pair(json_of(name), *(each.get(name, _NOTHING) for each in (one, other))) for name in sorted(named)[::-1]
        ]


class _Names(NamedTuple):
    """The names of two models."""

    stored: str
    fresh: str


class _End(NamedTuple):
    """The end of a list or an object."""

    text: str


_NOTHING = _End("no such attribute")


class _Pair(NamedTuple):
    """A value in both runs, and what it is called; the names of two models are one value."""

    label: str
    stored: Any
    fresh: Any


def _parts(pair: _Pair) -> list[_Pair]:
    """The values in two lists of one length, or in two objects of the same names; the models that two names mean."""
    match pair.stored, pair.fresh:
        case list(one), list(other) if len(one) == len(other):
            parts = [_Pair("", *both) for both in zip(one, other, strict=True)]
            return [*parts, _Pair("", _End("]"), _End("]"))]
        case dict(one), dict(other) if one.keys() == other.keys():
            return [
                *(_Pair(json_of(name), one[name], other[name]) for name in sorted(one)),
                _Pair("", *[_End("}")] * 2),
            ]
        case str(one), str(other):
            names = [*map(_model, (one, other))]
            return [_Pair("", *[_Names(*names)] * 2)] if all(names) else []
    return []


def _is_hidden(state: _State, name: str) -> bool:
    """Whether the layout of a widget hides it, with all that is in it: what is visible in a hidden one is shown."""
    looks = _layout(state, name)
    if looks.get("display") == "none" or looks.get("visibility") != "hidden":
        return looks.get("display") == "none"
    seen, todo = {name}, [name]
    while todo:
        children = _attributes(state.get(todo.pop())).get("children")
        found = {*map(_model, children)} - seen if isinstance(children, list) else set()
        if any(_layout(state, each).get("visibility") not in (None, "hidden") for each in found):
            return False
        seen |= found
        todo += found
    return True


def _layout(state: _State, name: str) -> dict[str, Any]:
    return _attributes(state.get(_model(_attributes(state.get(name)).get(_LAYOUT))))


def _model(value: Any) -> str:
    """The name of the model that a value means; empty if it means none."""
    found = MODEL.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else ""


def _name(view: Any) -> str:
    """The name of the model that a view shows."""
    return str(view.get("model_id")) if isinstance(view, dict) else ""


def _attributes(model: Any) -> dict[str, Any]:
    state = model.get("state") if isinstance(model, dict) else None
    if not isinstance(state, dict):
        return {}
    # A page makes the model that is named beside the state, and puts the buffers into it.
    buffers = [each for each in model.get("buffers") or () if isinstance(each, dict)]
    binary = {json_of(each.get("path")): each.get("data") for each in buffers}
    if isinstance(shown := state.get("outputs"), list) and all(map(_is_output, shown)):
        # Into how many parts printed text is cut there is a matter of time, as in a cell's own outputs.
        state = {**state, "outputs": as_kept(shown)}
    return {**state, **{name: model.get(name) for name in ("model_name", "model_module")}, "buffers": binary}


def _is_set(name: str, attributes: Mapping[str, Any]) -> bool:
    """Whether an attribute says what a widget of Jupyter's own shows, and is another than a page begins with."""
    if name not in _CONTENT or attributes.get("model_module") not in OWN_MODULES or not attributes[name]:
        return False
    return _BEGINS.get(str(attributes.get("model_name"))) != (name, attributes[name])


def _version(model: Any) -> Any:
    """The version of the program that a model is of: beside its state, where a page leaves it in; None if unknown."""
    state = model.get("state") if isinstance(model, dict) else None
    if not isinstance(state, dict):
        return None
    return model.get("model_module_version", state.get(_VERSION))


def _is_output(value: Any) -> bool:
    """Whether a value has the form of an output, with text if it is a stream."""
    if not isinstance(value, dict) or not isinstance(value.get("output_type"), str):
        return False
    text = value.get("text", "")
    return isinstance(text, str) or (isinstance(text, list) and all(isinstance(each, str) for each in text))


def _is_of_program(name: str) -> bool:
    """Whether an attribute says which version of a program draws the widget, or which request it is part of."""
    return name in ("msg_id", _ONLY_IF_WHOLE, _VERSION, "_view_module_version")
