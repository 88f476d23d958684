"""Checks JSON that renderers draw: Plotly's figures, Vega's and Vega-Lite's charts. Pure.

JupyterLab draws these in untrusted notebooks, too. A figure that could load something is removed whole, since its parts
refer to each other; its static forms stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nbagent.safety.sanitize.left_out import is_data_image
from nbagent.safety.sanitize.markup import unescape

PLOTLY = "application/vnd.plotly.v1+json"
VEGA = re.compile(r"application/vnd\.vega(?:lite)?\.v\d+\+json")

_ELSEWHERE = re.compile(r"//|\\|url\s*\(|@import", re.IGNORECASE)
_ADDRESSES = frozenset("source src url uri href topojsonurl plotlyserverurl accesstoken geojson".split())
_TILES = re.compile(r"geo|map(?!$)|choropleth|mapbox|^map\d*$", re.IGNORECASE)
_NOT_TILES = frozenset({"heatmap", "treemap", "heatmapgl"})
_EMBEDDED = frozenset("url href src usermeta patch loader baseurl image".split())
_SCHEMA = re.compile(r"https://vega\.github\.io/schema/vega(?:-lite)?/v[\d.]+\.json")


def is_drawn(mime: str) -> bool:
    """Whether a MIME type is of such JSON."""
    return mime == PLOTLY or VEGA.fullmatch(mime) is not None


def draw(mime: str, value: Any) -> dict[str, Any] | None:
    """The JSON of a figure; None if it could load something."""
    if not isinstance(value, dict):
        return None
    return _plotly(value) if mime == PLOTLY else _vega(value)


def _plotly(figure: dict[str, Any]) -> dict[str, Any] | None:
    data, layout = figure.get("data"), figure.get("layout")
    if not isinstance(data, list) or not isinstance(layout, dict):
        return None
    kinds = [str(trace.get("type", "")) for trace in data if isinstance(trace, dict)]
    if any(_TILES.search(kind) and kind not in _NOT_TILES for kind in kinds):
        return None
    if any(re.fullmatch(r"(?:geo|mapbox|map)\d*", key) for key in layout):
        return None
    frames = figure.get("frames")
    kept = {"data": data, "layout": layout} | ({"frames": frames} if isinstance(frames, list) else {})
    for key, written in _strings(kept):
        text = unescape(written)  # Plotly does so with attributes in its texts
        if is_data_image(text):
            continue
        if _ELSEWHERE.search(text) or key.lower() in _ADDRESSES:
            return None
    # `config` names servers, and isn't shown.
    return kept


def _vega(spec: dict[str, Any]) -> dict[str, Any] | None:
    schema = spec.get("$schema", "")
    if schema and not (isinstance(schema, str) and _SCHEMA.fullmatch(schema)):
        return None
    for key, text in _strings({key: value for key, value in spec.items() if key not in ("$schema", "datasets")}):
        # Expressions can compute an address, so no `image` stays.
        if _ELSEWHERE.search(text) or "image" in text.lower():
            return None
        if key.lower() in _EMBEDDED:
            return None
    return None if "image" in _keys(spec) or _EMBEDDED & _keys(spec, skip=("datasets", "values")) else spec


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """All strings with their keys, without those of Vega's inline data, which draws no picture by itself."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name != "values" or not isinstance(item, list) or not all(isinstance(row, dict) for row in item):
                yield from _strings(item, str(name))


def _keys(value: Any, *, skip: tuple[str, ...] = ()) -> set[str]:
    if isinstance(value, list):
        return set().union(*(_keys(item, skip=skip) for item in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    inside = (_keys(item, skip=skip) for name, item in value.items() if name not in skip)
    return set().union({str(name).lower() for name in value}, *inside)
