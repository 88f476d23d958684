"""The representations of an output as text that can be compared: what is seen of them, and no made-up names. Pure."""

from __future__ import annotations

import json
import re
from array import array
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbagent.notebook.compare import tables
from nbagent.notebook.compare.pdf import PDF, unpacked, unpacked_in
from nbagent.safety.sanitize.markup import clean_classes, elements, is_of_page, nested, parts
from nbagent.safety.sanitize.nesting import VOID
from nbagent.sandbox.untrusted import UnreadableError, parse

_DRAWN = re.compile(
    r"<(?:svg|canvas|img|style|script|i?frame(?:set)?|object|embed|video|audio|input|meter|progress|link|math|textarea|select|"
    r"template|title|no(?:script|embed|frames)|xmp|plaintext|portal|applet|marquee)\b",
    re.I,
)
"""Elements of which more is seen than their text, or another text than a cleaned one."""
_PLAIN = frozenset(
    """a abbr b big blockquote body caption center cite code col colgroup dd div dl dt em figcaption figure font footer
    h1 h2 h3 h4 h5 h6 head header hr html i kbd label main mark nav ol pre samp section small span strong tbody tfoot
    thead time tt u ul var wbr""".split()
)
"""Elements that only style their text."""
_PAGE = frozenset({"html", "head", "body"})
_NEVER_SEEN = re.compile(r"id|class|for|headers|scope|role|name|aria-.*|data-.*")
"""Attributes that change nothing that is seen. Some ids and classes do, which `looks` tells apart."""
_DIGIT = re.compile(r"\d")
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


def is_drawn(markup: str) -> bool:
    """Whether HTML shows more than its text, or a browser may see another text than `tables.content`."""
    return len(markup) > tables.MOST or _DRAWN.search(markup) is not None or not nested(markup)[1]


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


def looks(markup: str) -> str:
    """The text of HTML, with a line where something begins or ends that changes how it is seen; empty if nothing does.

    Such elements and attributes hide it, turn it round, number it, or show something else. Where the tags begin and end
    that `tables.content` keeps is compared there.
    """
    marks = [_mark(name, attributes) for name, attributes, _ in elements(markup) if name in _PAGE]
    found, opened, is_marked = [f"{mark}\n" for mark in marks], [""], any(marks)
    for text, name, attributes in parts(markup):
        mark = opened.pop() if name.startswith("/") else _mark(name, attributes)
        if name and not name.startswith("/") and name not in VOID:
            opened.append(mark and f"/{name}")
        is_marked |= bool(mark)
        is_apart = mark or (name and name.removeprefix("/") not in _PLAIN)
        found.append(f"{text}\n{mark}\n" if is_apart else text)
    lines = "".join(found).splitlines()
    return "\n".join(line for line in lines if line.strip()) if is_marked else ""


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


def _mark(name: str, attributes: Iterable[tuple[str, str]]) -> str:
    """What of an element changes how its text is seen, in a line; empty if nothing does."""
    pairs = dict(reversed([*attributes]))
    shown = [f"{key}={json.dumps(value)}" for key, value in pairs.items() if not _NEVER_SEEN.fullmatch(key)]
    # Who makes a name up takes numbers; those of a page, and of rules of style, are words.
    classes = pairs.get("class", "").split()
    shown += [each for each in classes if not clean_classes(each) or not _DIGIT.search(each)]
    id = pairs.get("id", "")
    shown += [f"id={id}"] if id and (is_of_page(id) or not _DIGIT.search(id)) else []
    is_compared = name in _PLAIN or name in tables.KEPT or not name
    return " ".join([*([] if is_compared and not shown else [name]), *sorted(shown)])
