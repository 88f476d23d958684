"""Checks JSON that renderers draw: Plotly's figures. Pure.

JupyterLab draws these in untrusted notebooks, too. A figure that could load something is removed whole, since its parts
refer to each other; its static forms stay. Its texts are made anew: Plotly reads them as a markup of its own, with
styles and links, and its templates, formats and separators put them together from many strings. So no string keeps a
`<` but those of a few elements without attributes, and there is nothing of which another element could be made.

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
_OTHER = re.compile(r"<(?!/?(?:b|i|em|strong|br|sub|sup|s|u|extra)>|br ?/>)", re.IGNORECASE)
"""A `<` that begins none of the elements that stay."""
_LIKE_IT = "\u2039"
_NESTED = 5
"""How often a reference such as `&amp;lt;` is resolved."""
_BINARY = re.compile(r"[A-Za-z0-9+/]*={0,2}")
"""An array's numbers in base64, in which two slashes are no address."""
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
    # `config` names servers, and isn't shown.
    kept = {name: figure[name] for name in ("data", "layout", "frames") if name in figure}
    if not isinstance(kept.get("data"), list) or not isinstance(kept.get("layout"), dict):
        return None
    if not isinstance(kept.get("frames", []), list):
        del kept["frames"]
    # Checked is what is shown: a reference such as `&#101;` may complete a type, a name or an address.
    kept = _made_anew(kept)
    return None if _may_load(kept) else kept


def _may_load(kept: dict[str, Any]) -> bool:
    """Whether a figure, made anew, names a map, an address, or what all objects of a page have."""
    layout = kept["layout"]
    if any(re.fullmatch(r"(?:geo|mapbox|map)\d*", key) for key in layout):
        return True
    # A template has the looks of each type, also of those that are not there. A button may give a type as an argument.
    plain = {**kept, "layout": {name: each for name, each in layout.items() if name != "template"}}
    kinds = [text for key, text in _strings(plain) if _last(key) in ("type", *_ARGUMENTS)]
    if any(_TILES.search(kind) and kind not in _NOT_TILES for kind in kinds):
        return True
    for key, written in _strings(kept):
        text = _CONTROLS.sub("", written)  # browsers skip these in addresses
        if is_data_image(text) or (key == "bdata" and _BINARY.fullmatch(text)):
            continue
        name = _last(text if _last(key) in _ARGUMENTS else key)
        if _ELSEWHERE.search(text) or _OF_ALL.search(text) or name in _ADDRESSES:
            return True
    return False


def _made_anew(value: Any) -> Any:
    """A value whose strings have no markup but elements without attributes."""
    if isinstance(value, str):
        return _OTHER.sub(_LIKE_IT, _resolved(value)) if "<" in value or "&" in value else value
    if isinstance(value, list):
        return [_made_anew(item) for item in value]
    return {_made_anew(name): _made_anew(item) for name, item in value.items()} if isinstance(value, dict) else value


def _resolved(text: str) -> str:
    """A text without references such as `&lt;`, which Plotly resolves, and again where it reads what it has drawn."""
    for _ in range(_NESTED):
        if (resolved := unescape(text)) == text:
            return text
        text = resolved
    return text.replace("&", "")


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
