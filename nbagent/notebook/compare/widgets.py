"""The state of the widgets that a cell showed, as text that can be compared: without made-up names. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any

from nbagent.core.events import Output
from nbagent.safety.sanitize import clean_output, clean_widgets
from nbagent.safety.sanitize.outputs import VIEW_MIME

WIDGET = "widget"
"""Stands for a MIME type in outputs whose widgets' state is to be compared."""
DEEPEST = 50
"""Widgets within widgets that are followed."""
MOST = 2_000
"""Widgets of one view that are followed, each once: a widget that shows itself twice would be followed for ever."""
BEYOND = "more widgets than are compared", ""
"""In the place of what lies deeper, or is more: two texts that differ, since nobody knows what is shown there."""
MODEL = re.compile(r"IPY_MODEL_([\w-]{1,200})")
"""The name of a model in another one's state."""
_State = Mapping[str, Any]
_Pair = tuple[str, str]


class _Every(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERY: Container[str] = _Every()
"""Holds every name: that of each widget whose view stays in outputs."""


def models(state: Any) -> dict[str, Any]:
    """The models of a notebook's widget state, by their names, as an export has them."""
    if not isinstance(state, dict):
        return {}
    cleaned = clean_widgets(state, lambda outputs: [clean_output(each) for each in outputs])
    return dict(cleaned["state"])


def with_state(
    stored: list[Output], fresh: list[Output], states: tuple[_State, _State]
) -> tuple[list[Output], list[Output]]:
    """The outputs of two runs of a cell, whose widgets, in their order, have a text of their state."""
    both = [*stored], [*fresh]
    places = [[n for n, each in enumerate(outputs) if VIEW_MIME in each.get("data", {})] for outputs in both]
    for pair in zip(*places, strict=False):
        one, other = (_name(outputs[n]["data"][VIEW_MIME]) for outputs, n in zip(both, pair, strict=True))
        if one in states[0]:
            is_closed = other not in states[1]  # then the notebook shows what no run leaves there
            trees = (_attributes(states[0][one]), "") if is_closed else _both((one, other), states, DEEPEST, set())
            for outputs, n, tree in zip(both, pair, trees, strict=True):
                data = {**outputs[n]["data"], WIDGET: json.dumps(tree, indent=0, sort_keys=True, ensure_ascii=False)}
                outputs[n] = {**outputs[n], "data": data}
    return both


def _name(view: Any) -> str:
    """The name of the model that a view shows."""
    return str(view.get("model_id")) if isinstance(view, dict) else ""


def _both(names: _Pair, states: tuple[_State, _State], depth: int, seen: set[_Pair]) -> tuple[Any, Any]:
    """What both models say of the same attributes: who saves a notebook may leave out those that are as they began."""
    if names in seen:
        return "", ""
    if len(seen) >= MOST or not depth:
        return BEYOND
    seen.add(names)
    found = [_attributes(state.get(name)) for state, name in zip(states, names, strict=True)]
    shared = [name for name in found[0] if name in found[1] and not _is_of_program(name)]
    pairs = {name: _values(found[0][name], found[1][name], states, depth - 1, seen) for name in sorted(shared)}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def _values(one: Any, other: Any, states: tuple[_State, _State], depth: int, seen: set[_Pair]) -> tuple[Any, Any]:
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [_values(*each, states, depth, seen) for each in zip(one, other, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    names = [MODEL.fullmatch(each) if isinstance(each, str) else None for each in (one, other)]
    if names[0] and names[1]:
        return _both((names[0][1], names[1][1]), states, depth, seen)
    return one, other


def _attributes(model: Any) -> dict[str, Any]:
    state = model.get("state") if isinstance(model, dict) else None
    # A page makes the model that is named beside the state.
    return {**state, "model_name": model.get("model_name")} if isinstance(state, dict) else {}


def _is_of_program(name: str) -> bool:
    """Whether an attribute says which program draws the widget, or which request it is part of."""
    return name == "msg_id" or (name.startswith("_") and name not in ("_model_name", "_view_name"))
