"""A cell's outputs against those it had before: pairs them, and says what differs and why. Pure.

Text to standard output is one piece, and so is text to standard error: into how many parts a kernel cuts them, and how
the two mix, is a matter of time. All other outputs are paired in their order, and each representation of one by its
MIME type.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from nbagent.core.events import Output
from nbagent.notebook.compare import forms, tables, texts
from nbagent.notebook.compare.forms import text_of
from nbagent.notebook.compare.notes import is_mark
from nbagent.notebook.compare.texts import (
    BY_CHANCE,
    EVERY_RUN,
    HTML,
    MOST,
    NO_SEED,
    PLAIN,
    REORDERED,
    Context,
    Difference,
    label,
)
from nbagent.notebook.compare.widgets import BEYOND, WIDGET
from nbagent.safety.sanitize.outputs import IMAGES, SVG, VIEW_MIME

TRACEBACK = "traceback"
"""What it is called in findings; it is compared where the same programs ran, and the error itself is the same."""
SIZE, SIZES = "size of ", 0.1
"""How the name of a picture's size begins, and how far two may be from each other, as a share."""
_Pieces = dict[tuple[str, str], str]


class Pair(NamedTuple):
    """Two pictures whose files differ, in base64.

    `again` are those of further fresh runs that drew another one than the first; `cause` says why, if known.
    """

    what: str
    mime: str
    stored: str
    fresh: str
    again: tuple[str, ...] = ()
    cause: str = ""


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
    found.differences = list(_once(_by_chance(found.differences)))[:most]
    return found


def _by_chance(differences: Sequence[Difference]) -> list[Difference]:
    """The differences, each with the cause of others in its piece: rows drawn at random have few values in a column."""
    drawn = {each.what for each in differences if each.cause == NO_SEED}
    return [
        each._replace(cause=BY_CHANCE) if not each.cause and each.what in drawn and each.stored and each.fresh else each
        for each in differences
    ]


def _compare_piece(
    key: tuple[str, str], one: _Pieces, other: _Pieces, more: Sequence[_Pieces], context: Context, found: Comparison
) -> None:
    """Compare what differs between two runs by the name of `key`."""
    is_other_error = not context.same_programs or any(each.what == "error" for each in found.differences)
    if key[0] == TRACEBACK and is_other_error:
        return
    if key not in one or key not in other:
        cause = EVERY_RUN if any((key in each) != (key in other) for each in more) else ""
        lost, new = ("missing", "") if key not in other else ("", "new")
        found.differences.append(Difference(label(*key), lost or new, "", "", cause))
        return
    if key[1].startswith(SIZE) and _is_near(one[key], other[key]):
        return
    others = [each[key] for each in more if key in each]
    if key[1].startswith(WIDGET) and one[key].endswith(BEYOND):
        found.differences.append(Difference(label(*key), "", "", "", BEYOND))
        one, other = ({key: run[key].removesuffix(BEYOND)} for run in (one, other))
    if key[1] in IMAGES:
        drawn = tuple(each for each in others if each != other[key])
        found.pictures.append(Pair(*key, one[key], other[key], drawn))
    else:
        _compare_text(key, one[key], other[key], others, context, found)
    excusable = [each for each in found.differences if each.what == TRACEBACK == key[0] and each.is_unstable]
    if excusable:
        found.excused.add(TRACEBACK)  # as that of a thread, or of a recursion that ends where memory does
        found.differences = [each for each in found.differences if each not in excusable]


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
    number, outputs = 0, [*outputs]
    for output, following in zip_longest(outputs, outputs[1:]):
        kind = output["output_type"]
        if kind == "stream":
            name = str(output.get("name", "stdout"))
            found[name, ""] = found.get((name, ""), "") + text_of(output.get("text", ""))
            continue
        if kind == "display_data" and is_mark(output, following):
            continue
        number += 1
        if kind == "error":
            found["error", ""] = f"{found.get(('error', ''), '')}{output.get('ename')}: {output.get('evalue')}\n"
            lines = [found.get((TRACEBACK, ""), ""), *output.get("traceback", ())]
            found[TRACEBACK, ""] = "\n".join(filter(None, lines))
        for mime, value in output.get("data", {}).items():
            # Which model a view shows is a made-up name; that there is one counts.
            found[f"output {number}", mime] = text_of(value) if mime != VIEW_MIME else "there"
            if size := _size(output.get("metadata"), mime):
                found[f"output {number}", f"{SIZE}{mime}"] = size
    return {key: text for key, text in found.items() if text or key[1]}


def _size(metadata: Any, mime: str) -> str:
    """The width and height at which a picture is shown, if its metadata say; a pixel would hide it."""
    if mime not in IMAGES or not isinstance(metadata, dict):
        return ""
    own = metadata.get(mime)
    given = {**metadata, **own} if isinstance(own, dict) else metadata
    return ", ".join(f"{name} {given[name]}" for name in ("width", "height") if name in given)


def _is_near(stored: str, fresh: str) -> bool:
    """Whether two sizes are those of pictures of other fonts."""
    both = [re.findall(r"(width|height) (\d{1,9}(?:\.\d{1,9})?)(?=, |\Z)", each) for each in (stored, fresh)]
    named = [[name for name, _ in each] for each in both]
    numbers = ((float(one[1]), float(other[1])) for one, other in zip(*both, strict=False))
    return named[0] == named[1] != [] and all(math.isclose(*each, rel_tol=SIZES) for each in numbers)


def _compare_text(
    key: tuple[str, str], stored: str, fresh: str, again: Sequence[str], context: Context, found: Comparison
) -> None:
    def apart(read: Callable[[str], str], *, markup: bool) -> list[Difference]:
        given = [read(each) for each in (stored, fresh, *again)]
        return texts.differences(key, given, context, found.excused, markup=markup)

    form = partial(forms.read, key[1])
    if key[1] != HTML or max(len(stored), len(fresh)) > tables.MOST:
        differences = apart(form, markup=key[1] in (HTML, SVG))
        if context.reads.piped and not key[1] and {each.cause for each in differences} == {REORDERED}:
            found.excused.add("order")  # another one in each run
            return
        found.differences += differences
        return
    differences = apart(tables.content, markup=False)
    if not differences:
        # Names that a library makes up in markup differ with every run.
        differences = [each._replace(where="markup") for each in apart(form, markup=True)[:1]]
        differences = differences or texts.moved(key, (stored, fresh), context)
    found.differences += differences
