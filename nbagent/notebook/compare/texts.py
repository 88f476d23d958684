"""Two texts that a cell showed: what differs between them, where, and why. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from nbagent.core.text import one_line
from nbagent.notebook.compare import forms, layout, tables
from nbagent.notebook.compare.dates import Moments, is_as_far, is_clock, is_in_step, is_moment, is_named
from nbagent.notebook.compare.masks import ROW, Mask, masked
from nbagent.notebook.compare.narrow import Narrowed, narrowed
from nbagent.notebook.compare.neighbours import SHORTEST, apart_of, ids_of, is_alike, is_id, tokens_at
from nbagent.notebook.compare.reads import Reads
from nbagent.notebook.compare.tokens import TOLERANCE, Change, Token, changes, number, tokens
from nbagent.notebook.compare.volatile import Processes, is_duration, is_memory, is_other_span, is_process

HTML, PLAIN = "text/html", "text/plain"
TIMED = frozenset({"number", "factor", "quantity", "rate", "time", "date"})
"""Kinds of tokens that a clock may have made."""
_SPANS = frozenset({"quantity", "time", "rate"})
LARGE = 16 * 1024
"""Characters of a text from which on only what differs is masked and taken apart."""
MOST = 20
"""Findings of a cell that are kept."""
SHORT = 0.01
"""Seconds that clocks and people round."""
LONGEST = 80
"""Characters of a text in a finding."""
LONGEST_LABEL = 160
"""Characters of the name of what differs, and of its place."""
EVERY_RUN = "it changes with every run"
BEYOND = "more differs than is compared word by word"
UNSET = "it may be what was in memory before, as in an array that nobody has filled"
NO_SEED = f"{EVERY_RUN}, as random numbers without a seed do"
BY_CHANCE = "it may be of the random numbers without a seed beside it, on which two runs agree here by chance"
MEASURED = "it may be what the machine had left, which this cell measures"
UNSET_AGAIN = f"{EVERY_RUN}, as an array does that nobody has filled"
TWICE = "when it was made, a cell that missed a module may have run twice"
ORDER = "the same in another order"
"""What a set gives with another seed of hashes, and an unsorted group-by with another number of threads."""
REORDERED = f"{ORDER}; {EVERY_RUN}"
_NAMED = re.compile(r"[A-Za-z][^\w<>|│┃]*$")
_LARGER = re.compile(r"\d ?(?:d|days?|h|hrs?|hours?|m|mins?|minutes?)(?: and|,)? ?$")
"""What stands before the smaller part of a duration, which may be none."""


class Difference(NamedTuple):
    """Something that differs.

    Attributes:
        what: Of the outputs, such as `stdout` or `output 2, text/html`.
        where: In there, such as `line 3` or `row 2, column mass`; may be empty.
        stored: What was shown before.
        fresh: What is shown now.
        cause: Why, as far as that is known; may be empty.
    """

    what: str
    where: str
    stored: str
    fresh: str
    cause: str = ""

    @property
    def is_unstable(self) -> bool:
        """Whether two fresh runs differ in it, too."""
        return self.cause in (EVERY_RUN, NO_SEED, UNSET_AGAIN, REORDERED)

    def __str__(self) -> str:
        where = f"{self.what}, {self.where}" if self.where else self.what
        return f"{where}: {self.stored} → {self.fresh}" if self.stored or self.fresh else where


@dataclass(frozen=True, kw_only=True)
class Strictness:
    """How outputs are compared.

    Attributes:
        masks: A person's own rules.
        tolerance: The relative difference up to which numbers with a decimal point are the same.
    """

    masks: Sequence[Mask] = ()
    tolerance: float = TOLERANCE


@dataclass
class Room:
    """What of a cell may still be compared word by word, so that a hostile notebook doesn't hold up anybody for long.

    Attributes:
        characters: Of all texts that differ.
        changes: Places in which two texts differ and a cause is looked for.
    """

    characters: int = 2 * 1024 * 1024
    changes: int = 20_000


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is known of a cell beside its outputs.

    Attributes:
        moments: When it ran.
        reads: What its code reads.
        processes: The number of the fresh run's kernel; several runs may have the same.
        strictness: How its outputs are compared.
        ordered: Whether a set in another order is a difference.
        same_programs: Whether both ran in the same environment, so that tracebacks name the same lines of it.
        room: How much of it may still be compared.
    """

    moments: Moments
    reads: Reads = field(default_factory=Reads)
    processes: Processes = field(default_factory=Processes)
    strictness: Strictness = field(default_factory=Strictness)
    ordered: bool = False
    same_programs: bool = False
    room: Room = field(default_factory=Room)


def label(what: str, mime: str) -> str:
    """What a piece of a cell's outputs is called, by names that a notebook gives it, on one line."""
    return one_line(f"{what}, {mime}" if mime else what, LONGEST_LABEL)


def differences(
    key: tuple[str, str], given: Sequence[str], context: Context, excused: set[str], *, markup: bool
) -> list[Difference]:
    """What differs between two texts.

    Args:
        key: What they are of a cell's outputs, and their MIME type.
        given: The text that a notebook has, that of a fresh run, and those of further fresh runs.
        context: What is known of the cell.
        excused: Gets the kinds of what differs and is no change.
        markup: Whether names in them are made up by libraries.
    """
    if given[0] == given[1]:
        return []
    parts = [Narrowed(each, []) for each in given]
    if max(map(len, given)) > LARGE:
        parts = narrowed(given)
        if (size := sum(len(each.text) for each in parts)) > context.room.characters:
            return [_beyond(key, parts, context)]
        context.room.characters -= size
    stored, fresh, *_ = texts = [masked(each.text, context.strictness.masks) for each in parts]
    if stored == fresh:
        return _drawn(key, given, context)
    spots = tables.Spots(key[1], *given[:2])
    numbers = parts[0].numbers, parts[1].numbers
    found = list(_changes(key, texts, context, excused, markup=markup, spots=spots, numbers=numbers))
    if context.reads.concurrent and not key[1]:
        # Printed lines in whatever order: in theirs, each place differs with every run, and would excuse a change.
        lines = ["\n".join(sorted(each.splitlines())) for each in texts]
        changed = list(_changes(key, lines, context, excused, markup=markup, spots=spots))
        if found and not changed:
            excused.add("order")
        found = (found or changed) if changed else []
    if not found:
        return moved(key, given, context) or _drawn(key, given, context)
    if Counter("".join(stored.split())) != Counter("".join(fresh.split())):
        return found
    unstable = any(each.is_unstable for each in found)
    sets = not context.ordered and layout.sorted_sets(stored) == layout.sorted_sets(fresh)
    listed = [layout.elements(tables.html_lines(each) if key[1] == HTML else each) for each in (stored, fresh)]
    any_order = context.reads.unordered or (unstable and context.reads.concurrent)
    if sets or (any_order and listed[0] == listed[1]):
        excused.add("order")
        return []
    if not layout.is_reordered(stored, fresh):
        return found
    return [found[0]._replace(cause=REORDERED if unstable else ORDER)]


def moved(key: tuple[str, str], given: Sequence[str], context: Context) -> list[Difference]:
    """Find words that stand in other columns than in every fresh run; of HTML, only where spaces are seen."""
    texts = map(forms.preformatted if key[1] == HTML else str, given)
    rows = layout.moved(*texts, wraps=not context.same_programs)
    return [Difference(label(*key), "place in a line", *map(_quoted, rows))] if rows else []


def _drawn(key: tuple[str, str], given: Sequence[str], context: Context) -> list[Difference]:
    """Text that is drawn in colours in which no run drew it: they say what it means, and those of the page hide it."""
    row = layout.coloured(*given, exact=context.same_programs)
    return [Difference(label(*key), "colours", *map(_quoted, row))] if row else []


def _beyond(key: tuple[str, str], parts: Sequence[Narrowed], context: Context) -> Difference:
    """What stands for all that is not compared: where it begins, and that nobody has looked at the rest."""
    context.room.characters = 0
    shown = [each.text[: 40 * LONGEST] for each in parts[:2]]
    one, other = (tokens(each) for each in shown)
    pairs = ((left, right) for left, right in zip(one, other, strict=False) if left.text != right.text)
    stored, fresh = (repr(f"{each.text[:LONGEST]}…") for each in pair) if (pair := next(pairs, None)) else ("", "")
    line = (parts[0].numbers or parts[1].numbers)[0]
    return Difference(label(*key), f"line {line}", stored, fresh, BEYOND)


def _changes(
    key: tuple[str, str],
    texts: Sequence[str],
    context: Context,
    excused: set[str],
    *,
    markup: bool,
    spots: tables.Spots,
    numbers: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Iterator[Difference]:
    """What differs token by token; `numbers` are those of the lines of the first two texts, if these are parts."""
    tolerance = context.strictness.tolerance
    one, other, *more = map(tokens, texts)
    apart = [changes(another, other, tolerance=tolerance) for another in more]
    unstable = {n for found in apart for n in apart_of(found, other)}
    others: dict[int, list[Sequence[Token]]] = {}
    for each in chain(*apart):
        others.setdefault(each.place[0], []).append(each.stored)
    timed, told = {other[n].line for n in unstable if n < len(other)}, 0
    names: dict[tuple[int, str], str] = {}
    for change in changes(one, other, tolerance=tolerance):
        ids, is_unstable = ids_of(change), not unstable.isdisjoint(tokens_at(*change.place))
        if is_unstable and ids and names.get((0, ids[0])) == ids[1]:
            continue  # drawings use theirs over and over
        line = (change.stored or change.fresh)[0].line
        of = numbers[0 if change.stored else 1]
        where = f"line {of[line - 1] if line <= len(of) else line}"
        if (room := context.room).changes <= 0:
            yield Difference(label(*key), where, "", "", BEYOND)
            return
        room.changes -= 1
        differs_again = is_unstable or _is_coarse(change, timed, context)
        runs = [change.fresh, *others.get(change.place[0], ())]
        excuse, cause = _judge(
            change, runs, context, again=differs_again, balanced=len(one) == len(other), markup=markup
        )
        if excuse and (ids is None or all(names.setdefault((n, ids[n]), ids[1 - n]) == ids[1 - n] for n in (0, 1))):
            excused.add(excuse)
            continue
        shown = _show(change.stored, change.fresh), _show(change.fresh, change.stored)
        yield Difference(label(*key), one_line(spots.place(change), LONGEST_LABEL) or where, *shown, cause)
        if (told := told + 1) == MOST:
            return  # nobody is told of more


def _is_coarse(change: Change, timed: Set[int], context: Context) -> bool:
    """Whether a change is of a measured number that runs may agree on by chance, since it has few digits.

    It has no name of its own, and is tiny in both and the only one with a point in its line, or stands there with
    others that differ with every run; or it is all.
    """
    if len(change.stored) != 1 or len(change.fresh) != 1 or change.fresh[0].kind != "number":
        return False
    token, digits = change.fresh[0], re.sub(r"\D", "", change.fresh[0].text).lstrip("0")
    if context.reads.clock:
        tiny = all(abs(number(each) or 0) < SHORT for each in (*change.stored, token))
        likely = token.line in timed or (tiny and len(re.findall(r"\d\.\d", token.row)) == 1)
        return likely and "." in token.text and len(digits) <= 2 and not _NAMED.search(token.before)
    return context.reads.measure and token.row.strip() == token.text


def _judge(
    change: Change,
    runs: Sequence[Sequence[Token]],
    context: Context,
    *,
    again: bool,
    balanced: bool,
    markup: bool,
) -> tuple[str, str]:
    """Why a change doesn't count, in a word; else an empty word, and the cause of the change as far as it is known.

    Args:
        change: Where the notebook and a fresh run differ.
        runs: What stands there in fresh runs.
        context: What is known of the cell.
        again: Whether fresh runs differ there, too.
        balanced: Whether both have as many words and signs in all.
        markup: Whether names are made up by libraries.
    """
    reads, both = context.reads, [*change.stored, *change.fresh]
    if again and reads.clock and all(re.match(ROW, each.row) for each in both):
        return "timing", ""
    if len(change.stored) != len(change.fresh):
        parts = [sum(not each.is_glued for each in side[1:]) for side in (change.stored, change.fresh)]
        if again and parts[0] == parts[1] and (markup or reads.ident) and is_alike(change.stored, runs):
            return "id", ""
        timed = reads.clock and not reads.shows_samples
        kinds = TIMED if balanced else _SPANS
        timed &= all(each.kind in kinds or each.kind == "sign" for each in both)
        if again and timed and (all(change[:2]) or balanced or _LARGER.search(both[0].before)):
            return "timing", ""
    else:
        excuses = [
            _excuse(*pair, runs, context, again=again, markup=markup)
            for pair in zip(change.stored, change.fresh, strict=True)
        ]
        if all(excuses):
            return excuses[0], ""
    return "", cause(reads, again=again)


def cause(reads: Reads, *, again: bool) -> str:
    """Why something differs, as far as that is known.

    Args:
        reads: What its cell reads.
        again: Whether two fresh runs differ in it, too.
    """
    if reads.unset:
        return UNSET_AGAIN if again else UNSET
    if not again:
        return MEASURED if reads.measure else ""
    return NO_SEED if reads.random else EVERY_RUN


def _excuse(
    stored: Token, fresh: Token, runs: Sequence[Sequence[Token]], context: Context, *, again: bool, markup: bool
) -> str:
    reads, moments = context.reads, context.moments
    unknown = moments.stored is None
    in_step = is_in_step(stored, fresh, moments)
    if in_step and (again or not unknown) and is_clock(stored, fresh, moments):
        return "date"
    if unknown and again and reads.clock and is_named(stored) and is_named(fresh):
        return "date"
    if is_moment(fresh, moments.fresh, moments.zones) and not markup:
        return ""
    if is_other_span(stored, fresh, moments, differs_again=again):
        return ""
    if is_duration(stored, fresh, moments, reads_clock=reads.clock, differs_again=again):
        return "timing"
    known = {"own": reads.own_process, "logged": reads.logs_process}
    if (reads.ident or reads.logs_process) and is_process(stored, fresh, context.processes, **known):
        return "id"
    # Libraries make names up, and no numbers with a point or few digits: these are what a chart draws.
    few = "." in fresh.text or len(fresh.text) < SHORTEST or reads.shows_samples
    named = markup and not (fresh.kind == "number" and few)
    if again and (named or is_id(stored) or is_id(fresh) or fresh.before.endswith('id="')):
        return "id" if is_alike([stored], runs) else ""
    again = again and not (reads.shows_samples and fresh.kind == "number")
    measured = fresh.kind == "quantity" or (fresh.kind == "number" and "." in fresh.text)
    if again and reads.ident and not measured:
        return "id" if is_alike([stored], runs) else ""
    if not unknown and reads.clock and stored.kind == fresh.kind == "date":
        # Of a day without a time, a run at the moment of the notebook tells.
        return "date" if is_as_far(stored, fresh, moments) else ""
    if again and reads.clock and {stored.kind, fresh.kind} <= TIMED:
        return "timing"
    if reads.only_measure and any(map(str.isdecimal, stored.text)) and any(map(str.isdecimal, fresh.text)):
        return "measure"
    measured = (again and fresh.kind in TIMED) or is_memory(stored, fresh)
    return "measure" if reads.measure and measured else ""


def _text(found: Sequence[Token]) -> str:
    """Tokens as they stand in their line; those of several lines with a space between them."""
    if len({each.line for each in found}) != 1:
        return " ".join(each.text for each in found)
    return found[0].row[found[0].start : found[-1].start + len(found[-1].text)]


def _show(found: Sequence[Token], other: Sequence[Token]) -> str:
    """What stands there, cut to where it differs from the other."""
    text, beside = (_text(side[:30]) for side in (found, other))
    same = next((at for at, pair in enumerate(zip(text, beside, strict=False)) if len(set(pair)) > 1), 0)
    if len(text) > LONGEST and same > LONGEST // 2:
        text = f"…{text[same - LONGEST // 2 :]}"
    return _quoted(text) if text else "nothing"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")
