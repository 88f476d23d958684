"""Cleans outputs so that they load nothing in any program: which MIME types and metadata stay. Pure."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Container
from typing import Any

from nbagent.core.errors import contained
from nbagent.core.events import Output
from nbagent.core.markdown import clean_latex, clean_markdown
from nbagent.core.text import joined
from nbagent.safety.sanitize.left_out import IN_LOG, LeftOut
from nbagent.safety.sanitize.markup import clean_html, clean_svg
from nbagent.safety.sanitize.specs import PLOTLY, draw

VIEW_MIME = "application/vnd.jupyter.widget-view+json"
SVG = "image/svg+xml"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
MAX_TEXT_CHARACTERS = 256 * 1024
"""Characters of Markdown or LaTeX that are read: patterns hold up other threads while they do."""
_TEXTS = {"text/markdown": clean_markdown, "text/latex": clean_latex}
PIXELS = 20_000
"""The largest width or height in an output's metadata."""

_TEXTUAL = {"stream": ("name", "text"), "error": ("ename", "evalue", "traceback")}
"""The outputs that are text, with their fields."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*+(?:=++\s*+)?")


def clean_output(output: Output, *, widgets: Container[str] = (), rest: str = IN_LOG) -> Output:
    """Clean a valid nbformat 4 output; of widgets, only views of models whose state the notebook has stay.

    A note in it, and in its metadata, says what was removed; it ends with `rest`, a sentence on where that is.
    """
    kind = output.get("output_type")
    if kind in _TEXTUAL:
        return {"output_type": kind} | {name: output[name] for name in _TEXTUAL[kind] if name in output}
    if kind != "execute_result":  # programs draw kinds that the format doesn't know, too
        output = {**output, "output_type": "display_data", "data": output.get("data") or {}}
    # A failure removes the output: it must neither fail the export nor be shown unchecked.
    text = f"[Left out: an output that can't be read. {rest}]"
    kept = {**output, "data": {"text/plain": text}, "metadata": {}}
    with contained("An output is left out of the notebook"):
        kept = _clean_bundle(output, LeftOut(rest), widgets=widgets)
    return kept


def clean_for_page(output: Output, *, widgets: Container[str] = (), rest: str = IN_LOG) -> Output:
    """Clean an output for a page that draws SVG only if it trusts the output: a drawing becomes a picture in HTML.

    In a picture, a drawing runs and loads nothing.
    """
    kept = clean_output(output, widgets=widgets, rest=rest)
    data = kept.get("data", {})
    if SVG not in data or "text/html" in data:
        return kept
    encoded = b64encode(data[SVG].encode("utf-8", "replace")).decode()
    return {**kept, "data": {**data, "text/html": f'<img alt="" src="data:{SVG};base64,{encoded}">'}}


def _clean_bundle(output: Output, left_out: LeftOut, *, widgets: Container[str]) -> Output:
    given: dict[str, Any] = output["data"]
    data: dict[str, Any] = {}
    for mime, value in given.items():
        kept = _clean_form(mime, value, left_out, widgets=widgets)
        if kept is not None:
            data[mime] = kept
    if SVG in given and not IMAGES & data.keys():
        if drawing := clean_svg(joined(given[SVG]), left_out):
            data[SVG] = drawing
        else:
            left_out.add("an SVG picture")
    metadata = _metadata(output.get("metadata", {}), data)
    if left_out:
        metadata["nbagent"] = {"left_out": left_out.sentence()}
        _add_note(data, left_out.sentence())
    cleaned: Output = {"output_type": output["output_type"], "data": data, "metadata": metadata}
    if cleaned["output_type"] == "execute_result":
        cleaned["execution_count"] = whole(output.get("execution_count"))
    return cleaned


def _clean_form(mime: str, value: Any, left_out: LeftOut, *, widgets: Container[str]) -> Any:
    """Clean one representation; None removes it."""
    if mime == "text/plain":
        return joined(value)
    if mime == "text/html":
        return clean_html(joined(value), left_out.rest)
    if mime in _TEXTS:
        text = joined(value)
        if len(text) <= MAX_TEXT_CHARACTERS:
            return _TEXTS[mime](text)
        left_out.add(f"{len(text):,} characters of {mime}")
        return None
    if mime in IMAGES:
        encoded = joined(value)
        if _BASE64.fullmatch(encoded):
            return encoded
    elif mime == "application/json":
        return value
    elif mime == PLOTLY:
        if (figure := draw(value)) is not None:
            return figure
    elif mime == VIEW_MIME:
        model = value.get("model_id") if isinstance(value, dict) else None
        if isinstance(model, str) and model in widgets:
            return {"model_id": model, "version_major": 2, "version_minor": 0}
    elif mime == SVG:
        return None  # `_clean_bundle` keeps it if there is no other picture
    name = re.sub(r"[^\w.+/-]", "", mime)[:80]
    left_out.add(f"interactive output of type {name}")
    return None


def whole(count: object) -> int | None:
    """A count of executions: programs write it into their pages as it is."""
    return count if type(count) is int else None


def _add_note(data: dict[str, Any], sentence: str) -> None:
    """Add the note to each representation that can have one."""
    if "text/html" in data:
        data["text/html"] += f"\n<p><em>{html.escape(sentence)}</em></p>"
    if "text/markdown" in data:
        data["text/markdown"] += f"\n\n*{sentence}*"
    text = f"{data['text/plain']}\n" if "text/plain" in data else ""
    data["text/plain"] = f"{text}[{sentence}]"


def _metadata(given: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Clean the metadata for renderers: sizes and backgrounds stay; not `isolated`, a frame in which scripts run."""
    if not isinstance(given, dict):
        return {}
    kept: dict[str, Any] = _display_options(given)
    for mime in data:
        if isinstance(of_it := given.get(mime), dict) and (shown := _display_options(of_it)):
            kept[mime] = shown
    return kept


def _display_options(given: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in ("width", "height"):
        size = given.get(name)
        if isinstance(size, int | float) and not isinstance(size, bool) and 0 < size <= PIXELS:
            kept[name] = size
    if given.get("needs_background") in ("light", "dark"):
        kept["needs_background"] = given["needs_background"]
    for name in ("unconfined", "expanded"):
        if type(given.get(name)) is bool:
            kept[name] = given[name]
    return kept
