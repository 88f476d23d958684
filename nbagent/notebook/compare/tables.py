"""Where in a table a difference is: tables in HTML, and frames that are printed with lines between columns. Pure."""

from __future__ import annotations

import html
import re
from itertools import zip_longest
from typing import NamedTuple

import nh3

from nbagent.notebook.compare.tokens import Change
from nbagent.safety.sanitize.markup import nested

MOST = 2 * 1024 * 1024
"""Characters of HTML that is read as tables."""
KEPT = {"table", "tr", "td", "th", *"sup sub br div p li del s".split()}
"""What says which words are apart, or what they mean: without it, ten squared would read as a hundred and two."""
_ROW = re.compile(r"<tr>(.*?)(?=<tr>|</table>|\Z)", re.DOTALL)
_CELL = re.compile(r"<t[dh]>(.*?)(?=<t[dh]>|</tr>|\Z)", re.DOTALL)
_BORDER = re.compile(r"[│┆┃|║]")


class Spot(NamedTuple):
    """A cell of a table that differs; row and column count from 1, the header's row is 0."""

    row: int
    column: str
    stored: str
    fresh: str

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}: {self.stored!r} → {self.fresh!r}"


def content(markup: str) -> str:
    """The text and the tables of HTML, without tags that only style them.

    Where a browser may see another text (`nested`), the HTML has to be compared as it stands, too.
    """
    return nh3.clean(nested(markup[:MOST])[0], tags=KEPT, attributes={})


def html_rows(markup: str) -> list[list[str]]:
    """The rows of all tables in HTML."""
    plain = content(markup)
    return [[_plain(cell) for cell in _CELL.findall(row)] for row in _ROW.findall(plain)]


def html_lines(markup: str) -> str:
    """The lines of HTML: a row of a table is one, and so is what stands beside tables."""
    plain = content(markup)
    rows = [" ".join(row) for row in html_rows(markup)]
    return "\n".join([*rows, *map(_plain, _ROW.sub("\n", plain).splitlines())])


def text_rows(text: str) -> list[list[str]]:
    """The rows of a frame that is printed with lines between its columns."""
    rows = []
    for line in text.splitlines():
        if len(parts := _BORDER.split(line)) > 2:
            rows.append([part.strip() for part in parts[1:-1]])
    return rows


def _plain(cell: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]{0,200}>", " ", cell)).split())


def spots(stored: list[list[str]], fresh: list[list[str]]) -> list[Spot]:
    """The cells that differ, by row and column; rows and cells that one lacks are empty."""
    header = fresh[0] if fresh else []
    found = []
    one: list[str]
    other: list[str]
    for row, (one, other) in enumerate(zip_longest(stored, fresh, fillvalue=[])):
        for column, (left, right) in enumerate(zip_longest(one, other, fillvalue="")):
            if left != right:
                name = header[column] if column < len(header) and header[column] else str(column + 1)
                found.append(Spot(row, name, left, right))
    return found


class Spots:
    """The cells of tables in which two texts differ; they are looked for where one is asked for."""

    def __init__(self, mime: str, stored: str, fresh: str) -> None:
        self._given = mime, stored, fresh
        self._spots: list[Spot] | None = None
        self._used: set[Spot | None] = set()

    def place(self, change: Change) -> str:
        """Where a change is; empty if it is in no table."""
        if self._spots is None:
            mime, *texts = self._given
            rows = html_rows if mime == "text/html" else text_rows
            self._spots = spots(*map(rows, texts))
        at = [each for each in self._spots if _is_at(change, each)]
        # The same value may be in several cells; a cell may have several values.
        spot = next((each for each in at if each not in self._used), at[0] if at else None)
        self._used.add(spot)
        return str(spot).split(":")[0] if spot else ""


def _is_at(change: Change, spot: Spot) -> bool:
    """Whether a cell of a table holds a change."""
    return all(each.text in spot.stored for each in change.stored) and all(
        each.text in spot.fresh for each in change.fresh
    )
