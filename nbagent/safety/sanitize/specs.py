"""Checks JSON that renderers draw: Plotly's figures. Pure.

JupyterLab draws these in untrusted notebooks, too. A figure that could load something is removed whole, since its parts
refer to each other; its static forms stay.

Vega's and Vega-Lite's charts are left out always: their grammar is a language. An input that it binds takes any
attribute, such as `onfocus`, and an expression can put an address together for the cursor or a tip. Either acts in
JupyterLab as soon as the notebook is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nbagent.safety.sanitize.left_out import is_data_image
from nbagent.safety.sanitize.markup import unescape

PLOTLY = "application/vnd.plotly.v1+json"

_ELSEWHERE = re.compile(r"//|\\|url\s*\(|@import|https?:", re.IGNORECASE)
"""What begins an address: browsers read `https:host/x` as one, too."""
_MARKUP = re.compile(r"<(?!/?(?:b|i|em|strong|br|sub|sup|s|u|extra)\s*/?>|[\s\d=])", re.IGNORECASE)
"""Anything that may begin another element than those: Plotly copies styles of texts, which templates put together."""
_MADE = re.compile(r"<=[-+( ]?[$#]?\d+,?(?:\.\d+)?~?[xc]", re.IGNORECASE)
"""A number's format that fills up with `<`, before what may begin with a letter: 11 becomes `<b`."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_ARGUMENTS = ("args", "args2")
_OF_ALL = re.compile(r"__proto__|constructor\.prototype")
"""By such a path or key, older ones of Plotly's set what all objects of the page have."""
_ADDRESSES = frozenset("source src url uri href topojsonurl plotlyserverurl accesstoken geojson".split())
_TILES = re.compile(r"geo|map|choropleth", re.IGNORECASE)
_NOT_TILES = frozenset({"heatmap", "treemap", "heatmapgl"})


def draw(figure: object) -> dict[str, Any] | None:
    """The JSON of a figure of Plotly's; None if it could load something."""
    if not isinstance(figure, dict):
        return None
    data, layout = figure.get("data"), figure.get("layout")
    if not isinstance(data, list) or not isinstance(layout, dict):
        return None
    if any(re.fullmatch(r"(?:geo|mapbox|map)\d*", key) for key in layout):
        return None
    frames = figure.get("frames")
    kept = {"data": data, "layout": layout} | ({"frames": frames} if isinstance(frames, list) else {})
    # A template has the looks of each type, also of those that are not there. A button may give a type as an argument.
    plain = {**kept, "layout": {name: each for name, each in layout.items() if name != "template"}}
    kinds = [text for key, text in _strings(plain) if _last(key) in ("type", *_ARGUMENTS)]
    if any(_TILES.search(kind) and kind not in _NOT_TILES for kind in kinds):
        return None
    for key, written in _strings(kept):
        # Plotly decodes references in the attributes of its texts; browsers skip control characters in addresses.
        text = _CONTROLS.sub("", unescape(_CONTROLS.sub("", written)))
        if is_data_image(text):
            continue
        name = _last(text if _last(key) in _ARGUMENTS else key)
        if any(each.search(text) for each in (_ELSEWHERE, _MARKUP, _MADE, _OF_ALL)) or name in _ADDRESSES:
            return None
    # `config` names servers, and isn't shown.
    return kept


def _last(key: str) -> str:
    """The name at the end of a key: a button's change may name a place, such as `images[0].source`."""
    return key.lower().rpartition(".")[2]


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """All strings with their keys, and all keys."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield "", str(name)
            yield from _strings(item, str(name))
