"""What pages of HTML have in them: a part of `profile_inside.py`.

Never imported on the host.
"""

from __future__ import annotations

import io
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import polars as pl

from nbagent.kernel.inside.clock_inside import Clock
from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.frames_inside import MAX_TABLES, profiled
from nbagent.kernel.inside.table_layout_inside import Layout
from nbagent.kernel.inside.text_forms_inside import encoding_of
from nbagent.kernel.inside.text_tables_inside import RAW_LINES, RAW_WIDTH
from nbagent.kernel.inside.value_forms_inside import DECIMAL_COMMAS, FORMS, THOUSANDS_COMMAS

NOTE_BYTES, MIN_PROSE = 128 * 1024, 200
"""Bytes of a note that are kept, and characters outside of tables from which a page is one."""


def page(path: str, size: int, clock: Clock) -> dict[str, Any]:
    """The title of a page of HTML, and each of its tables as pandas reads it."""
    if size > clock.whole // 4:
        return {"kind": "HTML", "note": "too large to be read whole"}
    with open(path, "rb") as file:
        start = file.read()
    encoding = encoding_of(start)
    text = start.decode(encoding, "replace")
    title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
    found: dict[str, Any] = {"kind": "HTML", "tables": []}
    if title:
        found["note"] = f"title: {brief(' '.join(unescape(title[1]).split()))}"
    # Of one row, it lays out the page; pandas would take a table's time for each.
    if len(re.findall(r"<tr\b", text, re.IGNORECASE)) > 1 and not _WIDE_SPAN.search(text):
        import pandas as pd  # type: ignore[import-untyped]

        read = f"pd.read_html({path!r}, encoding={encoding!r}"
        try:
            frames = pd.read_html(io.StringIO(text), thousands=None)
        except (ImportError, ValueError):  # it has only empty ones
            frames = []
        for number, frame in enumerate(frames[:MAX_TABLES]):
            commas = ", decimal=',', thousands='.'" if _has_decimal_commas(frame) else ""
            found["tables"].append({"name": f"table {number}", **_page_table(read + commas, number, frame, pd)})
            if clock.is_over():
                break
    found["tables"] = [each for each in found["tables"] if each["rows"]]
    prose = Prose()
    prose.feed(text)
    said = prose.text()
    is_note = len(said) >= MIN_PROSE
    return found | ({"is_note": is_note, "text": said[: NOTE_BYTES if is_note else 200]} if said else {})


class Prose(HTMLParser):
    """What a page says outside of its tables, in lines; headings as in Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._left_out: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002 - the base class names it
        """Begin what stands on a line of its own."""
        if tag in ("script", "style", "table", "title", "svg", "nav"):
            self._left_out.append(tag)
        self._parts.append("\n\n# " if _HEADING.match(tag) else _BEGINS.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        """Go on behind what is left out."""
        if tag in self._left_out:
            while self._left_out.pop() != tag:
                pass
        self._parts.append("\n\n" if _HEADING.match(tag) else "")

    def handle_data(self, data: str) -> None:
        """Take what is said."""
        if not self._left_out:
            self._parts.append(data.replace("\0", ""))

    def text(self) -> str:
        """All of it, a term with its definition on one line."""
        said = re.sub(r"[^\S\n]*\n[^\S\n]*", "\n", re.sub(r"[^\S\n]+", " ", "".join(self._parts)))
        for pattern, by in (
            (r"\s*\0\s*", ": "),
            (r"\n+- ", "\n- "),
            (r"\n(?:-|#+) *(?=\n|$)", ""),
            (r"\n{3,}", "\n\n"),
        ):
            said = re.sub(pattern, by, said)
        return said.strip()


_HEADING = re.compile("h[1-6]$")
_BEGINS = {"p": "\n\n", "br": "\n", "div": "\n", "li": "\n- ", "dt": "\n- ", "dd": "\0"}
"""What stands before the text of an element; \0 is taken for a colon."""
_WIDE_SPAN = re.compile(r"(?:col|row)span\s*=\s*[\"']?\s*\d{4}", re.IGNORECASE)
"""A cell over so many columns or rows that the table would fill the memory."""


def _has_decimal_commas(frame: Any) -> bool:
    """Whether a table has its numbers with decimal commas, which pandas takes for those of thousands."""
    texts = pl.Series([each for each in frame.to_numpy().ravel() if isinstance(each, str)], dtype=pl.String)
    decimal, thousands = (texts.str.contains(dict(FORMS)[form]).sum() for form in (DECIMAL_COMMAS, THOUSANDS_COMMAS))
    return decimal > thousands and not texts.str.contains(r"^[+-]?\d+\.(?:\d{1,2}|\d{4,})$").any()


def _page_table(read: str, number: int, frame: Any, pd: Any) -> dict[str, Any]:
    """A table of a page; its call has several rows of a header as one, and leaves out a title above it."""
    calls = [f"pl.from_pandas({read})[{number}])"]
    names = [each if isinstance(each, tuple) else (each,) for each in frame.columns]
    if isinstance(names[0][0], int):
        # No cell is marked as one of a header. What is one here may be none in the page's other tables.
        calls = [f"pl.from_pandas({read})[{number}].rename(columns=str))"]
        rows = [["" if pd.isna(each) else str(each) for each in row] for row in frame.head(60).to_numpy()]
        layout = Layout([[row[0]] if len(set(row)) == 1 else row for row in rows])
        if layout.has_header and not layout.more:
            calls.insert(0, f"pl.from_pandas({read}, header={layout.skipped})[{number}])")
    elif len(names[0]) > 1:
        first = next((at for at, level in enumerate(zip(*names, strict=True)) if len(set(level)) > 1), 0)
        joined = f"' '.join(dict.fromkeys(x for x in c[{first or ''}:] if 'Unnamed: ' not in x))"
        calls = [f"pl.from_pandas((t := {read})[{number}]).set_axis([{joined} for c in t.columns], axis=1))"]
    for call in calls:
        try:
            read_frame = eval(call, {"pl": pl, "pd": pd})  # noqa: S307 - made of reprs, in the sandbox
        except Exception:  # noqa: S112 - the next one may work
            continue
        return profiled([read_frame], call=call)
    raw = [brief(" | ".join(map(str, row))[:RAW_WIDTH]) for row in [names, *frame.head(RAW_LINES).to_numpy()]]
    return {"rows": len(frame), "columns": [], "raw": raw, "note": "no simple call reads it"}
