"""Cleans a whole notebook that hostile code may have written, before a program shows it. Pure.

Programs act on more of a notebook than on its outputs: they restore widgets, load the pictures of its text, pair it
with other files, and import the exporter that it names.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from nbagent.core.markdown import clean_markdown
from nbagent.core.text import joined
from nbagent.safety.sanitize.outputs import IMAGES, MAX_TEXT_CHARACTERS, clean_for_page, whole
from nbagent.safety.sanitize.widgets import STATE_MIME, clean_widgets

Notebook = dict[str, Any]
"""A notebook or a cell, in JSON."""
_PYTHON = {
    "name": "python",
    "mimetype": "text/x-python",
    "file_extension": ".py",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
}
_OF_NOTEBOOK = ("kernelspec", "language_info", "widgets", "nbagent", "title")
_OF_CELL = ("nbagent", "tags", "jupyter", "collapsed", "scrolled", "name", "deletable", "editable", "slideshow")


def clean_notebook(notebook: Notebook, *, rest: str) -> Notebook:
    """Clean a notebook of which nothing was written by a person: all that `clean_shown` does, its text and metadata.

    The note on what was removed ends with `rest`, a sentence on where that can be found.
    """
    shown = clean_shown(notebook, rest=rest)
    metadata = _only(shown["metadata"], _OF_NOTEBOOK)
    if not str(_dict(metadata.get("kernelspec")).get("name", "")).startswith("nbagent-"):
        metadata.pop("kernelspec", None)  # a person chooses where it may run
    return {**shown, "metadata": metadata, "cells": [_written(each) for each in shown["cells"]]}


def clean_shown(notebook: Notebook, *, rest: str) -> Notebook:
    """Clean what code has made of a person's notebook: outputs, widgets, and what is noted of the code's language."""
    metadata = dict(_dict(notebook.get("metadata")))
    state = _dict(_dict(metadata.pop("widgets", None)).get(STATE_MIME))
    models = {}
    if isinstance(state.get("state"), dict):
        widgets = clean_widgets(state, lambda outputs: [clean_for_page(each, rest=rest) for each in outputs])
        models = widgets["state"]
        metadata["widgets"] = {STATE_MIME: widgets}
    if "language_info" in metadata:
        metadata["language_info"] = language_info(metadata["language_info"])
    cells = [_ran(_dict(each), models, rest) for each in notebook.get("cells", [])]
    return {**notebook, "metadata": metadata, "cells": cells}


def language_info(said: object) -> dict[str, Any]:
    """What is noted of the language of sandboxed kernels, whatever one says: exporters are imported by it."""
    return {**_PYTHON, "version": re.sub(r"[^0-9.]", "", str(_dict(said).get("version", "")))[:20]}


def _ran(cell: Notebook, models: dict[str, Any], rest: str) -> Notebook:
    if cell.get("cell_type") != "code":
        return cell
    outputs = [each for each in cell.get("outputs", []) if isinstance(each, dict)]
    return {
        **cell,
        "execution_count": whole(cell.get("execution_count")),
        "outputs": [clean_for_page(each, widgets=models, rest=rest) for each in outputs],
    }


def _written(cell: Notebook) -> Notebook:
    kept = {**cell, "metadata": _only(_dict(cell.get("metadata")), _OF_CELL)}
    if "attachments" in cell:
        kept["attachments"] = {name: _only(_dict(each), IMAGES) for name, each in _dict(cell["attachments"]).items()}
    if cell.get("cell_type") == "markdown":
        kept["source"] = clean_markdown(joined(cell.get("source", ""))[:MAX_TEXT_CHARACTERS])
    elif cell.get("cell_type") == "raw":
        kept["metadata"]["raw_mimetype"] = "text/plain"  # else it would become a part of the page that nbconvert makes
    return kept


def _only(given: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: each for name, each in given.items() if name in names}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
