"""Text of a model's as a person must see it who decides about it: each sign visible, each line behind a bar. Pure.

What is shown can't pass for the question itself: it never begins a line of the terminal, and nothing in it can move the
cursor or turn the direction of writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbagent.core.text import ends, visible

HEAD, TAIL = 30, 10
"""Lines that are shown of many."""
LINE_HEAD, LINE_TAIL = 300, 80
"""Characters that are shown of a long line."""
BAR, MORE = "  │ ", "  ┆ "
"""Before a line, and before what of it has no room."""


@dataclass(frozen=True)
class Excerpt:
    """Lines for a terminal.

    Attributes:
        lines: In order, none longer than the terminal is wide.
        is_whole: Whether they are all of the text.
    """

    lines: tuple[str, ...]
    is_whole: bool


def excerpt(text: str, *, width: int, whole: bool = False) -> Excerpt:
    """The beginning and the end of a text, or the `whole`, with what is left out counted; `width` is the terminal's."""
    lines = text.removesuffix("\n").split("\n")
    left_out = 0 if whole else max(0, len(lines) - HEAD - TAIL)
    shown: list[str] = []
    is_whole = not left_out
    for number, line in enumerate(lines):
        if HEAD <= number < HEAD + left_out:
            shown += [f"    … {left_out:,} more lines …"] if number == HEAD else []
            continue
        cut = line if whole or len(line) < LINE_HEAD + 2 * LINE_TAIL else ends(line, head=LINE_HEAD, tail=LINE_TAIL)
        is_whole = is_whole and cut == line
        shown += _folded(visible(cut.expandtabs(4)), max(8, width - len(BAR)))
    return Excerpt(tuple(shown), is_whole)


def _folded(line: str, width: int) -> Iterator[str]:
    """The line in pieces of that width, each after a space where one is in its last third."""
    from rich.cells import cell_len, chop_cells

    bar, at = BAR, 0
    while bar is BAR or at < len(line):
        piece = line[at : at + 4 * width]  # so that a long line takes time in proportion
        if cell_len(piece) > width:
            piece = chop_cells(piece, width)[0]
            after_space = piece.rfind(" ") + 1
            piece = piece[:after_space] if after_space > len(piece) * 2 // 3 else piece
        yield bar + piece
        at, bar = at + len(piece), MORE
