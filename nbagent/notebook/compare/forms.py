"""The representations of an output as text that can be compared: what is seen of them, and no made-up names. Pure."""

from __future__ import annotations

import json
from array import array
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

from nbagent.notebook.compare import tables
from nbagent.notebook.compare.pdf import PDF, unpacked, unpacked_in
from nbagent.safety.sanitize.markup import parts
from nbagent.safety.sanitize.nesting import VOID
from nbagent.sandbox.untrusted import UnreadableError, parse

_ARRAYS = {"f8": "d", "f4": "f", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
"""Kinds of numbers by Plotly's names, and by Python's."""


def text_of(value: Any) -> str:
    """A representation as nbformat has it: text, lines of it, or JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    return json_of(value)


def json_of(value: Any) -> str:
    """JSON, a value a line, however deep it is nested."""
    try:
        return json.dumps(value, indent=0, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return "\n".join(_flat(value))


def _flat(value: Any) -> Iterator[str]:
    """JSON that is nested too deep for Python to write: its signs, names and values one by one."""
    rest = [(value, False)]
    while rest:
        each, is_sign = rest.pop()
        pairs = sorted(each.items()) if isinstance(each, dict) else each if isinstance(each, list) else None
        if pairs is None:
            yield each if is_sign else json.dumps(each, ensure_ascii=False)
            continue
        signs = "{}" if isinstance(each, dict) else "[]"
        parts = [part for pair in pairs for part in pair] if isinstance(each, dict) else pairs
        rest += [(signs[1], True), *((part, False) for part in reversed(parts)), (signs[0], True)]


def read(mime: str, text: str) -> str:
    """A representation as text in which what differs with every run is as little as possible."""
    by_mime: dict[str, Callable[[str], str]] = {PDF: unpacked, "text/html": unpacked_in}
    return by_mime.get(mime, _with_numbers if mime.endswith("json") else str)(text)


def _with_numbers(text: str) -> str:
    """JSON in which the arrays that Plotly packs are numbers, which can be compared one by one."""
    if '"bdata"' not in text:
        return text
    try:
        return json.dumps(_with_lists(parse(text, limit=tables.MOST)), indent=0, sort_keys=True)
    except (UnreadableError, RecursionError):
        return text


def _with_lists(value: Any) -> Any:
    match value:
        case {"dtype": str(kind), "bdata": str(data)} if kind in _ARRAYS:
            try:
                return {**value, "bdata": array(_ARRAYS[kind], b64decode(data)).tolist()}
            except ValueError:
                return value
        case dict():
            return {name: _with_lists(each) for name, each in value.items()}
        case list():
            return [_with_lists(each) for each in value]
    return value


def preformatted(markup: str) -> str:
    """The text of HTML in which spaces are seen."""
    found, opened = list[str](), [False]
    for text, name, attributes in parts(markup):
        found += [text] if opened[-1] else []
        if name.startswith("/"):
            found += ["\n\n"] if opened.pop() and not opened[-1] else []
        elif name and name not in VOID:
            styled = any(key == "style" and "white-space" in value for key, value in attributes)
            opened.append(opened[-1] or name == "pre" or styled)
    return "".join(found)
