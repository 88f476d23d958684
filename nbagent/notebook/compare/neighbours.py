"""Ids: which tokens differ with every run, with those beside them that agree by chance, and what may be one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nbagent.notebook.compare.tokens import Change, Token

WIDEST = 1_000
"""Characters of bytes that are taken as one."""
TWICE = 2
"""Runs from which on what an id has in all of them is of its kind."""
SHORTEST = 5
"""Characters of an id."""
CHANCE = 3
"""Characters beside a change in an id that two runs may have in common by chance."""
_APART = frozenset("?&=:;,.<>()[]{}|\"'`")
"""Signs that end an id."""
_SCIENTIFIC = re.compile(r"[+-]?\d+(?:\.\d*[eE][+-]?|[eE][+-])\d+")
"""Numbers with an exponent. Without a point and a sign, `12e34` may be the begin of a hash."""
_ENDS = re.compile(rf"[\s{re.escape(''.join(sorted(_APART)))}]")
_HEX = re.compile(r"[\da-f_-]+")
_BYTES = re.compile(r"b(['\"])(?:\\.|(?!\1)[^\\]){0,1000}")


def apart_of(found: Sequence[Change], fresh: Sequence[Token]) -> Iterator[int]:
    """The numbers of the tokens that changes are of, with those beside them that may agree by chance, as in ids."""
    piece = range(0)
    for change in found:
        begin, end = change.place
        if begin in piece and end <= piece.stop:
            continue  # all of these bytes was given: a walk from each change in them would take the square of the time
        yield from tokens_at(begin, end)
        if begin < len(fresh):
            piece = _bytes_around(begin, fresh)
            yield from piece or (() if _is_plain(change) else _beside(begin, end, fresh))


def _is_plain(change: Change) -> bool:
    """Whether no signs differ, but words and numbers one by one."""
    return len(change.stored) == len(change.fresh) and all(each.kind != "sign" for each in change.fresh)


def _beside(begin: int, end: int, found: Sequence[Token]) -> range:
    """The tokens of a change, and those of an id that stand beside them and may agree by chance."""
    room = [CHANCE] * 2
    while begin and found[begin].is_glued and _crosses(found[begin - 1], room, 0):
        begin -= 1
    while end < len(found) and found[end].is_glued and _crosses(found[end], room, 1):
        end += 1
    return tokens_at(begin, end)


def _crosses(token: Token, room: list[int], side: int) -> bool:
    """Whether an id may go on with a token, of which there is room for so many characters."""
    room[side] -= len(token.text)
    return room[side] >= 0 and token.text not in _APART


def _bytes_around(number: int, found: Sequence[Token]) -> range:
    """The tokens of the bytes, as Python writes them, that a token is part of, up to spaces; none if it is of none."""
    token = found[number]
    first = max(0, token.start - WIDEST)
    at = max(token.row.rfind(sign, first, token.start + 2) for sign in ("b'", 'b"'))
    match = _BYTES.match(token.row, at) if at >= 0 else None
    if match is None or match.end() <= token.start or "\\x" not in match[0]:
        return range(0)
    begin, end = number, number + 1
    while begin and found[begin].is_glued and found[begin - 1].start >= at:
        begin -= 1
    while end < len(found) and found[end].is_glued and found[end].start < match.end():
        end += 1
    return range(begin, end)


def tokens_at(begin: int, end: int) -> range:
    """The numbers of the tokens at a place; an empty one stands for the next token."""
    return range(begin, max(end, begin + 1))


def is_id(token: Token) -> bool:
    """Whether a token looks made up: a UUID, or letters and digits in one that are no number such as 3.2e-12."""
    text = token.text
    mixed = len(text) >= SHORTEST and re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
    is_one = token.kind in ("word", "number") and mixed and not _SCIENTIFIC.fullmatch(text)
    return token.kind == "uuid" or bool(is_one)


def is_alike(stored: Sequence[Token], fresh: Sequence[Sequence[Token]]) -> bool:
    """Whether an id may be one of those that fresh runs have: as long, of the same letters, with no new signs."""
    one, others = _piece(stored), [*map(_piece, fresh)]
    if "\\" in one and all(
        "\\x" in each[0].row[max(0, each[0].start - WIDEST) : each[0].start + WIDEST] for each in fresh if each
    ):
        return True  # bytes, as fresh runs have them there
    if not one and all(others):
        return False  # it is gone
    new = _APART.intersection(each.text for each in stored).difference(*others)
    lengths = [*map(len, others)]
    is_hex = _HEX.fullmatch(one) is not None or len(others) < TWICE or not all(map(_HEX.fullmatch, others))
    return not new and min(lengths) - CHANCE <= len(one) <= max(lengths) + CHANCE and is_hex


def _piece(found: Sequence[Token]) -> str:
    """Tokens with what stands beside them, not too far, up to spaces and signs that end an id; those of one line."""
    if not found:
        return ""
    row, begin, end = found[0].row, found[0].start, found[-1].start + len(found[-1].text)
    # A line may be one piece of many ids: who walked through it from each would take the square of the time.
    before, behind = row[max(0, begin - WIDEST) : begin][::-1], row[end : end + WIDEST]
    return row[begin - len(_ENDS.split(before, maxsplit=1)[0]) : end + len(_ENDS.split(behind, maxsplit=1)[0])]


def ids_of(change: Change) -> tuple[str, str] | None:
    """Two ids of which one stands for the other. Where a third one does, something has become another's."""
    one, other = change.stored, change.fresh
    both = len(one) == len(other) == 1 and is_id(one[0]) and is_id(other[0])
    return (one[0].text, other[0].text) if both else None
