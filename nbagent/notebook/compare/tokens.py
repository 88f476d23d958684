"""Text as tokens (dates, quantities, numbers, words), and which tokens of two texts differ. Pure."""

from __future__ import annotations

import difflib
import math
import re
from typing import NamedTuple

TOLERANCE = 1e-9
"""The relative difference up to which two numbers with a decimal point are the same."""
MOST = 4_000
"""Tokens that are aligned where two texts have different numbers of them: the time is square in them."""
_ALIKE = {"rule": "---", "dots": "…"}
"""The text of each line of a table, however long, and of each three dots."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})\b)?"
_TH = r"(?:st|nd|rd|th)?"
_AT = rf"(?:,? {_CLOCK}(?: [A-Z]{{2,5}})?)?"
_THEN = rf"(?:,? (?:at )?{_CLOCK}{_ZONE})?"
_UNITS = (
    r"(?:ns|nsec|nanoseconds?|µs|us|μs|usec|microseconds?|ms|msec|milliseconds?|s|secs?|seconds?|mins?|minutes?|"
    r"h|hrs?|hours?)"
)
_EACH = r"/(?:it|iter|iteration|step|epoch|batch|sample|row|call|loop|item|op|run|file|image|query|request|token)\b"
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?"
_TOKENS = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in (
            ("uuid", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
            ("repr", r"\b(?:datetime\.)?(?:datetime|date|time)\([\d, ]{1,60}\)|\b\w{0,10}Timestamp\('[^'\n]{1,60}'\)"),
            ("date", rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}{_ZONE})?"),
            ("date2", rf"\b\d{{1,4}}(?P<sep>[./])\d{{1,2}}(?P=sep)\d{{2,4}}\b(?:,? {_CLOCK}{_ZONE})?"),
            ("date3", rf"\b(?:{_DAY},? )?\d{{1,2}}{_TH} {_MONTH},? \d{{4}}\b{_THEN}"),
            ("date4", rf"\b(?:{_DAY},? )?{_MONTH} +\d{{1,2}}{_TH}{_AT},? \d{{4}}\b{_THEN}"),
            ("date7", rf"\b{_MONTH} +\d{{1,2}} +\d{{2}}:\d{{2}}\b(?!:)"),
            ("date5", r"\b(?:20)?\d\d[01]\d[0-3]\d[T_-]\d{4,6}\b|\b20\d{10,12}\b"),
            ("date6", r"(?<=_)20\d{6}(?:[T_-]?\d{4,6})?(?![A-Za-z0-9])"),
            ("time", rf"\b(?:\d+ days?,? )?{_CLOCK}{_ZONE}"),
            ("rate", rf"(?<![\w.])(?:{_NUMBER}) ?(?!k?c?m/)[A-Za-z]{{0,12}}/(?:s|sec|second|min|minute)\b"),
            ("quantity", rf"(?<![\w.])(?:{_NUMBER}) ?{_UNITS}(?:(?![\w/])|(?={_EACH}))"),
            ("factor", rf"(?<![\w.])(?:{_NUMBER})[x×](?!\w)"),
            ("number", rf"(?<![\w.])(?:{_NUMBER})(?![\w])"),
            ("word", r"(?:(?!_20\d{6})\w)+|_(?=20\d{6})"),
            ("space", r"[ \t]+"),
            ("rule", r"(?:(?=[-─═━=+])|(?<!\|)(?=\|++[-─═━=+]))[-─═━=+|]{3,}(?!\w)"),
            ("dots", r"[…]|\.{3}"),
            ("sign", r"[^\w \t]"),
        )
    ),
)  # fmt: skip
_SECONDS = {
    "n": 1e-9,
    "µ": 1e-6,
    "μ": 1e-6,
    "u": 1e-6,
    "mic": 1e-6,
    "mil": 1e-3,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


class Token(NamedTuple):
    """A part of a text.

    Attributes:
        kind: What it looks like: `uuid`, `date`, `time`, `quantity` (a number with a unit of time), `rate`, `number`,
            `factor` (such as 2.5x), `word`, `rule` (a table's line), `sign`.
        text: As it stands there.
        line: The number of its line, from 1.
        row: The whole line.
        start: Where it begins in the line.
    """

    kind: str
    text: str
    line: int
    row: str = ""
    start: int = 0

    @property
    def before(self) -> str:
        """What stands before it in its line, the last 40 characters."""
        return self.row[max(0, self.start - 40) : self.start]

    @property
    def is_glued(self) -> bool:
        """Whether no space stands before it in its line."""
        return self.start > 0 and not self.row[self.start - 1].isspace()


class Change(NamedTuple):
    """A place in which two texts differ; a side is empty where the other has more.

    Attributes:
        stored: The tokens of the first text.
        fresh: The tokens of the second.
        place: The numbers of the latter, from the first to behind the last.
    """

    stored: tuple[Token, ...]
    fresh: tuple[Token, ...]
    place: tuple[int, int]


def tokens(text: str) -> list[Token]:
    """The tokens of a text, without spaces; a table's lines are all as long, since their width follows values."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in _TOKENS.finditer(line):
            kind = (match.lastgroup or "sign").rstrip("234567")
            if kind == "repr":
                kind = "date"
            if kind != "space":
                found.append(Token(kind, _ALIKE.get(kind, match[0]), number, line, match.start()))
    return found


def changes(stored: list[Token], fresh: list[Token], *, tolerance: float = TOLERANCE) -> list[Change]:
    """Where two texts differ, in order; numbers that are close are the same."""
    left, right = [each.text for each in stored], [each.text for each in fresh]
    if left == right:
        return []
    if len(left) == len(right) and _same_shape(stored, fresh):
        pairs = [(place, place, place + 1, place + 1) for place in range(len(left)) if left[place] != right[place]]
    else:
        pairs = _aligned(left, right)
    found = []
    for i, j, to_i, to_j in pairs:
        if to_i - i == to_j - j:
            # As many on both sides: one by one, so that each has a cause of its own.
            for step in range(to_i - i):
                one, other = stored[i + step], fresh[j + step]
                if not close(one, other, tolerance=tolerance):
                    found.append(Change((one,), (other,), (j + step, j + step + 1)))
        else:
            found.append(Change(tuple(stored[i:to_i]), tuple(fresh[j:to_j]), (j, to_j)))
    return found


def _aligned(left: list[str], right: list[str]) -> list[tuple[int, int, int, int]]:
    """The parts that differ, each with its begin in both and its end in both."""
    least = min(len(left), len(right))
    begin = next((place for place in range(least) if left[place] != right[place]), least)
    rest = least - begin
    end = next((back for back in range(rest) if left[-1 - back] != right[-1 - back]), rest)
    one, other = left[begin : len(left) - end], right[begin : len(right) - end]
    if max(len(one), len(other)) > MOST:
        return [(begin, begin, len(left) - end, len(right) - end)]
    # Without its leaving out of tokens that are everywhere, such as commas, it would take time cubic in the tokens.
    opcodes = difflib.SequenceMatcher(None, one, other).get_opcodes()
    return [(begin + i, begin + j, begin + to_i, begin + to_j) for kind, i, to_i, j, to_j in opcodes if kind != "equal"]


def _same_shape(stored: list[Token], fresh: list[Token]) -> bool:
    """Whether only values differ: the signs are the same, and nearly all of the words."""
    different = [one for one, other in zip(stored, fresh, strict=True) if one.text != other.text]
    return not any(each.kind == "sign" for each in different) and 2 * len(different) <= len(stored) + 2


def number(token: Token) -> float | None:
    """The value of a number or a quantity, without its unit; None if it has none."""
    if token.kind not in ("number", "factor", "quantity", "rate"):
        return None
    found = re.match(_NUMBER, token.text)
    try:
        return float(found[0].replace(",", "")) if found else None
    except (ValueError, OverflowError):
        return None


def seconds(token: Token) -> float | None:
    """A quantity in seconds; None for anything else."""
    value = number(token)
    if value is None or token.kind != "quantity":
        return None
    unit = re.sub(rf"^(?:{_NUMBER}) ?", "", token.text)
    if unit.startswith(("min", "mins")):
        return value * 60
    return value * next(
        _SECONDS[key] for key in ("mic", "mil", "ms", "n", "µ", "μ", "u", "s", "m", "h") if unit.startswith(key)
    )


def close(one: Token, other: Token, *, tolerance: float) -> bool:
    """Whether two tokens are the same: in their text or, with a decimal point, in their value."""
    if one.text == other.text:
        return True
    left, right = number(one), number(other)
    if left is None or right is None or one.kind != other.kind or not any(sign in one.text for sign in ".eE"):
        return False
    # All that is too large for a float would be the same infinity; a zero that lost its sign came of another number.
    signed = math.copysign(1, left) == math.copysign(1, right)
    return signed and math.isfinite(left) and math.isclose(left, right, rel_tol=tolerance, abs_tol=0.0)
