"""A cell's outputs against those it had before: pairs them, and says what differs and why. Pure.

Text to standard output is one piece, and so is text to standard error: into how many parts a kernel cuts them, and how
the two mix, is a matter of time. All other outputs are paired in their order, and each representation of one by its
MIME type.
"""

from __future__ import annotations

import json
import re
from array import array
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from nbagent.core.events import Output
from nbagent.notebook.compare import tables, texts
from nbagent.notebook.compare.masks import masked
from nbagent.notebook.compare.texts import EVERY_RUN, HTML, MOST, PLAIN, Context, Difference, label
from nbagent.safety.sanitize.markup import clean_classes, elements
from nbagent.safety.sanitize.outputs import IMAGES, SVG, VIEW_MIME
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
_NEVER_SEEN = re.compile(r"id|class|for|headers|scope|role|name|aria-.*|data-.*")
"""Attributes that change nothing that is seen. Some classes do, which `_looks` tells apart."""
_HIDES = re.compile(r"hidden|hide|invisible|visually-hidden|sr-only|collapse|d-none")
"""Classes of Bootstrap, which pages of notebooks use."""
_ARRAYS = {"f8": "d", "f4": "f", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
"""Kinds of numbers by Plotly's names, and by Python's."""
TRACEBACK = "traceback"
"""What it is called in findings; it is compared where the same programs ran, and the error itself is the same."""
_ELEMENTS = re.compile(r"<[^<>]*>")
_NAMES = re.compile(
    r"""((?<![\w-])id=["']|(?<![\w-])(?:xlink:)?href=["']#|\burl\((?:["']|&quot;)?#)([^"')\s<>&]{1,200})"""
)
"""Where an element of a drawing gets a name, and where others use it; a colour, `#ff0000`, is none."""
_NOTE = re.compile(
    r"nbagent: saved in [^\n]*"
    r"|\[(?:What|The widget that) follows was (?:changed|added)[\w ,]* after this cell had ended\.\]"
)
"""What nbagent itself says among outputs: of files that were saved (`results_inside.py`), of late ones (`shown.py`)."""
_INSTALLED = "nbagent: Installed "
"""How a client's kernel begins to say which packages a cell missed (`magics_inside.py`)."""
_Pieces = dict[tuple[str, str], str]
_NOT_DELIVERED = re.compile(r"(?m)^nbagent: .* was not delivered: .*\n?")


class Pair(NamedTuple):
    """Two pictures whose files differ, in base64.

    `again` are those of further fresh runs that drew another one than the first.
    """

    what: str
    mime: str
    stored: str
    fresh: str
    again: tuple[str, ...] = ()


@dataclass
class Comparison:
    """What came of it.

    Attributes:
        differences: What differs.
        pictures: What must be decoded to tell.
        excused: Kinds of what differs and is no change, such as `date` and `timing`.
        is_cut: Whether so much differs that the rest was not compared.
    """

    differences: list[Difference] = field(default_factory=list)
    pictures: list[Pair] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)
    is_cut: bool = False


def compare(
    stored: Iterable[Output],
    fresh: Iterable[Output],
    context: Context,
    *,
    again: Sequence[Iterable[Output]] = (),
    most: int = MOST,
) -> Comparison:
    """Compare.

    Args:
        stored: The outputs that a notebook has.
        fresh: Those of a fresh run.
        context: What is known of the cell.
        again: Those of further fresh runs; where these differ too, the notebook can't agree with all of them.
        most: After so many findings the rest is not compared.
    """
    one, other, more = pieces(stored), pieces(fresh), [pieces(each) for each in again]
    found = Comparison()
    for key in dict.fromkeys((*one, *other)):
        if one.get(key, "") == other.get(key, ""):
            continue
        if len(found.differences) >= most:
            found.is_cut = True
            break
        _compare_piece(key, one, other, more, context, found)
    found.differences = list(_once(found.differences))[:most]
    return found


def _compare_piece(
    key: tuple[str, str], one: _Pieces, other: _Pieces, more: Sequence[_Pieces], context: Context, found: Comparison
) -> None:
    """Compare what differs between two runs by the name of `key`."""
    if key[0] == TRACEBACK:
        if not context.same_programs or any(each.what == "error" for each in found.differences):
            return
        if len({_masked(run.get(key, ""), context) for run in (other, *more)}) > 1:
            found.excused.add(TRACEBACK)  # as that of a thread, or of a recursion that ends where memory does
            return
    if key not in one or key not in other:
        cause = EVERY_RUN if any((key in each) != (key in other) for each in more) else ""
        lost, new = ("missing", "") if key not in other else ("", "new")
        found.differences.append(Difference(label(*key), lost or new, "", "", cause))
        return
    others = [each[key] for each in more if key in each]
    if key[1] in IMAGES:
        drawn = tuple(each for each in others if each != other[key])
        found.pictures.append(Pair(*key, one[key], other[key], drawn))
    else:
        _compare_text(key, one[key], other[key], others, context, found)


def _masked(text: str, context: Context) -> str:
    return masked(text, context.strictness.masks)


def _once(differences: Sequence[Difference]) -> Iterator[Difference]:
    """The differences without those of an output's plain text that its HTML shows too."""
    told = Counter(_told(each) for each in differences if each.what.endswith(HTML))
    for each in differences:
        if each.what.endswith(PLAIN) and told[_told(each)] > 0:
            told[_told(each)] -= 1
        else:
            yield each


def _told(difference: Difference) -> tuple[str, ...]:
    """The output, what it showed and shows, and why."""
    return difference.what.partition(",")[0], difference.stored, difference.fresh, difference.cause


def pieces(outputs: Iterable[Output]) -> _Pieces:
    """What a cell shows, by what it is and its MIME type."""
    found: _Pieces = {}
    number = 0
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            name = str(output.get("name", "stdout"))
            found[name, ""] = found.get((name, ""), "") + _text(output.get("text", ""))
            continue
        if kind == "display_data" and _is_note(output.get("data", {})):
            continue
        number += 1
        if kind == "error":
            found["error", ""] = f"{found.get(('error', ''), '')}{output.get('ename')}: {output.get('evalue')}\n"
            lines = [found.get((TRACEBACK, ""), ""), *output.get("traceback", ())]
            found[TRACEBACK, ""] = "\n".join(filter(None, lines))
        for mime, value in output.get("data", {}).items():
            # Which model a view shows is a made-up name; that there is one counts.
            found[f"output {number}", mime] = _text(value) if mime != VIEW_MIME else "there"
    if ("stderr", "") in found:
        found["stderr", ""] = _NOT_DELIVERED.sub("", found["stderr", ""])
    return {key: text for key, text in found.items() if text or key[1]}


def is_of_installs(output: Output, versions: Container[str]) -> bool:
    """Whether an output only says that packages were installed, each of which a fresh run has.

    Args:
        output: Of a cell.
        versions: The names of the packages of that run, normalised.
    """
    data = output.get("data") or {}
    said = _text(data["text/plain"]) if list(data) == ["text/plain"] else ""
    if not said.startswith(_INSTALLED):
        return False
    packages = [each.split(" ") for each in said.removeprefix(_INSTALLED).removesuffix(".").split(", ")]
    return all(len(each) == 2 and each[1][:1].isdigit() and canonicalize_name(each[0]) in versions for each in packages)


def _is_note(data: Any) -> bool:
    return list(data) == ["text/plain"] and _NOTE.fullmatch(_text(data["text/plain"])) is not None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "".join(value)
    try:
        return json.dumps(value, indent=0, sort_keys=True)
    except RecursionError:
        return "\n".join(_flat(value))


def _flat(value: Any) -> Iterator[str]:
    """JSON that is nested too deep for Python to write: its signs, names and values one by one."""
    rest = [(value, False)]
    while rest:
        each, is_sign = rest.pop()
        pairs = sorted(each.items()) if isinstance(each, dict) else each if isinstance(each, list) else None
        if pairs is None:
            yield each if is_sign else json.dumps(each)
            continue
        signs = "{}" if isinstance(each, dict) else "[]"
        parts = [part for pair in pairs for part in pair] if isinstance(each, dict) else pairs
        rest += [(signs[1], True), *((part, False) for part in reversed(parts)), (signs[0], True)]


def _with_numbers(text: str) -> str:
    """JSON in which the arrays that Plotly packs are numbers, which can be compared one by one."""
    if '"bdata"' not in text:
        return text
    try:
        return json.dumps(_unpacked(parse(text, limit=tables.MOST)), indent=0, sort_keys=True)
    except (UnreadableError, RecursionError):
        return text


def _unpacked(value: Any) -> Any:
    match value:
        case {"dtype": str(kind), "bdata": str(data)} if kind in _ARRAYS:
            try:
                return {**value, "bdata": array(_ARRAYS[kind], b64decode(data)).tolist()}
            except ValueError:
                return value
        case dict():
            return {name: _unpacked(each) for name, each in value.items()}
        case list():
            return [_unpacked(each) for each in value]
    return value


def _compare_text(
    key: tuple[str, str], stored: str, fresh: str, again: Sequence[str], context: Context, found: Comparison
) -> None:
    def apart(read: Callable[[str], str], *, markup: bool) -> list[Difference]:
        given = [read(each) for each in (stored, fresh, *again)]
        return texts.differences(key, given, context, found.excused, markup=markup)

    if key[1] != HTML or max(len(stored), len(fresh)) > tables.MOST:
        read = _renamed if key[1] == SVG else _with_numbers if key[1].endswith("json") else str
        found.differences += apart(read, markup=key[1] == SVG)
        return
    differences = apart(tables.content, markup=False)
    if not differences:
        # What is drawn stands in the markup. Names that a library makes up in there differ with every run.
        drawn = any(_DRAWN.search(each) or tables.takes_long(each) for each in (stored, fresh))
        differences = apart(str if drawn else _looks, markup=True)[:1]
        differences = [each._replace(where="markup" if drawn else "style or link") for each in differences]
    found.differences += differences


def _looks(markup: str) -> str:
    """Elements and attributes that change how the text of HTML is seen, each on a line with the text behind it.

    They hide it, turn it round, number it, or show something else.
    """
    found = []
    for name, attributes, text in elements(markup):
        shown = [f"{key}={value}" for key, value in attributes if not _NEVER_SEEN.fullmatch(key)]
        classes = " ".join(value for key, value in attributes if key == "class").split()
        shown += [each for each in classes if not clean_classes(each) or _HIDES.fullmatch(each)]
        if shown or name not in _PLAIN:
            found.append(" ".join((*([] if name in _PLAIN else [name]), *shown, text)))
    return "\n".join(found)


def _renamed(drawing: str) -> str:
    """An SVG drawing with the names in it by their order: Matplotlib makes up new ones each time."""
    names = [each[2] for tag in _ELEMENTS.findall(drawing) for each in _NAMES.finditer(tag) if each[1].startswith("id")]
    order = {name: f"N{number}" for number, name in enumerate(dict.fromkeys(names))}
    return _ELEMENTS.sub(
        lambda tag: _NAMES.sub(lambda found: found[1] + order.get(found[2], found[2]), tag[0]), drawing
    )
