"""Finds columns of secrets in tables that are shown as text: any value in a column `password` is a secret. Pure.

It reads CSV and Markdown tables, those that Polars and pandas print, and nbagent's own description of data. A column
called `token` has words more often than secrets, so its values must look like secrets too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NAME = re.compile(
    r"""["'`]?(?:[\w.]+[_.-])?(?:user)?(?:password|passwd|passphrase|passwort|pwd|secret|client[_ -]?secret"""
    r"""|(?:api|access|secret|private|account)[_ -]?key|(?:auth|access|refresh|api|bearer)[_ -]?token)s?\d?["'`]?""",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"passw|passphrase|pwd|secret|key|token", re.IGNORECASE)
_DESCRIBED = re.compile(r'\s*("[^"\n]{1,80}"): ([^,\n]{1,60}), e\.g\. (.+)')
_GLIMPSED = re.compile(r"\$ ([^<\n]{1,80})<([^<>\n]{1,60})> +(.+)")
_SERIES = re.compile(r"Series: '([^'\n]{1,80})' \[([^]\n]{1,60})\]")
_DIVIDERS = re.compile(r"[│┆]|[|]|\t|\\t|;|,")
_LINE_ENDS = re.compile(r'\r?\n|(?:\\r)?\\n|": "')
"""Ends of lines in text and in JSON strings, and what comes before the first line of a JSON string."""
_STRING_ENDS = re.compile(r'"[,}\]]')
"""The end of a JSON string, which ends its last line."""
_NO_VALUE = re.compile(
    r"\W*|str|string|object|null|none|nan|<na>|…|\[redacted.*|true|false|yes|no|bool|[iu](?:8|16|32|64)|f(?:32|64)",
    re.IGNORECASE,
)
"""Values that are no secret even in a column of secrets: a column `has_password` has yes and no."""
_CUT = re.compile(r"\[(?:…|\\u2026) [\d,]+ (?:of [\d,]+ bytes \(|characters left out )")
"""The mark that nbagent leaves where it cut the middle out of a text; a table goes on behind it.

See `cut` in `agent/cell_view.py` and `left_out` in `sandbox/inside/message_sizes_inside.py`.
"""
_WORD = re.compile(r"\S+")
MAX_LINE_CHARACTERS = 2_000
"""Characters of the longest line that is read; nobody prints wider tables."""

Span = tuple[int, int]


def secret_columns(text: str) -> Iterator[Span]:
    """The spans of the values in columns of secrets, in order."""
    if not _SIGNS.search(text):
        return
    ends = [match.span() for match in _LINE_ENDS.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    lines = [text[start:end] for start, end in zip(starts, [*(start for start, _ in ends), len(text)], strict=True)]
    at = 0
    while at < len(lines):
        line = lines[at]
        rows: list[list[Span]] = []
        if len(line) <= MAX_LINE_CHARACTERS and _SIGNS.search(line):
            rows = (
                _description_values(line)
                or _series_values(lines, at)
                or _divided_table(lines, at)
                or _aligned_table(lines, at)
            )
        for number, spans in enumerate(rows):
            yield from ((starts[at + number] + start, starts[at + number] + end) for start, end in spans)
        at += max(1, len(rows))


def _description_values(line: str) -> list[list[Span]]:
    """The values in a line of a data description or of Polars' `glimpse`: a column's name, its type, and examples."""
    match = _DESCRIBED.match(line) or _GLIMPSED.match(line)
    return [[match.span(3)]] if match is not None and _is_secret(match[1], match[2]) else []


def _series_values(lines: Sequence[str], at: int) -> list[list[Span]]:
    """The values of a Polars series, each on its own line."""
    match = _SERIES.match(lines[at])
    if match is None or not _is_secret(match[1], match[2]) or lines[at + 1 : at + 2] != ["["]:
        return []
    rows: list[list[Span]] = [[], []]
    for number in range(at + 2, len(lines)):
        line = lines[number]
        if not line.startswith(("\t", "\\t")) and not _CUT.match(line) and not _is_torn(lines, number):
            break
        value = (len(line) - len(line.lstrip()), len(line))
        rows.append([value] if _is_value(line, value) and not _CUT.match(line) else [])
    return rows


def _is_secret(name: str, kind: str) -> bool:
    """Whether a column of that name and type holds secrets."""
    return _NAME.fullmatch(name.strip()) is not None and not kind.lower().startswith("bool")


def _divided_table(lines: Sequence[str], at: int) -> list[list[Span]]:
    """The values in a table whose cells are divided by a sign, from its header on."""
    found = _DIVIDERS.search(lines[at])
    if found is None:
        return []
    divider = "[│┆]" if found[0] in "│┆" else re.escape(found[0])
    header = _split(lines[at], divider)
    columns = [each for each, (start, end) in enumerate(header) if _NAME.fullmatch(lines[at][start:end])]
    indented = bool(header) and header[0][0] == header[0][1] and found[0] in ("\t", "\\t")
    rows: list[list[Span]] = [[]]
    for number in range(at + 1, len(lines) if columns else 0):
        line = lines[number]
        if _STRING_ENDS.match(line):
            break
        cells = _split(line, divider)
        if indented and cells and cells[0][0] == cells[0][1]:
            break  # lines that all begin with a tab are a list, not a table with an index
        if _CUT.match(line):
            rows.append([])
        elif len(cells) == len(header):
            rows.append([cells[each] for each in columns if _is_value(line, cells[each])])
        elif len(cells) > len(header) and divider == ",":
            # A quoted cell contains the divider; hide too much rather than too little.
            rows.append([(cells[columns[0]][0], len(line))])
        elif _is_torn(lines, number):
            rows.append([(0, len(line))] if line else [])
        elif line[:1] in "╞├┌└|+" and line:
            rows.append([])
        else:
            break
    return rows if len(rows) > 1 else []


def _aligned_table(lines: Sequence[str], at: int) -> list[list[Span]]:
    """The values in a table of pandas, whose cells end below the end of their header's word."""
    words = [match.span() for match in _WORD.finditer(lines[at])] if lines[at][:1] == " " else []
    before = [0, *(end for _, end in words)]
    columns = [
        (before[number], end) for number, (start, end) in enumerate(words) if _NAME.fullmatch(lines[at], start, end)
    ]
    rows: list[list[Span]] = [[]]
    for number in range(at + 1, len(lines) if columns else 0):
        line = lines[number]
        if _CUT.match(line):
            rows.append([])
            continue
        if _is_torn(lines, number):
            rows.append([(0, len(line))] if line else [])
            continue
        if number == at + 1 and line.strip() and not any(line[start:end].strip() for start, end in columns if start):
            rows.append([])  # the index has a name, which pandas prints on a line of its own
            continue
        if line[:1] in ("", " ") or not all(
            line[end - 1 : end].strip() and not line[end : end + 1].strip() for _, end in columns
        ):
            break
        # The index stands before the first column.
        places = [(start or len(line.split(" ")[0]), end) for start, end in columns]
        cells = [(end - len(line[start:end].lstrip()), end) for start, end in places]
        rows.append([cell for cell in cells if _is_value(line, cell)])
    return rows if len(rows) > 1 else []


def _is_torn(lines: Sequence[str], number: int) -> bool:
    """Whether a line stands beside the mark of a cut, so that its cells can't be told apart."""
    around = (lines[each] for each in (number - 1, number + 1) if each < len(lines))
    return any(_CUT.match(line) for line in around)


def _split(line: str, divider: str) -> list[Span]:
    """The spans of a line's cells, without the spaces around them; empty if the line is no row."""
    if len(line) > MAX_LINE_CHARACTERS:
        return []
    spans: list[Span] = []
    start = 0
    for end, after in (*(match.span() for match in re.finditer(divider, line)), (len(line), len(line))):
        cell = line[start:end]
        left = len(cell) - len(cell.lstrip())
        spans.append((start + left, max(start + left, start + len(cell.rstrip()))))
        start = after
    return spans if len(spans) > 1 else []


def _is_value(line: str, cell: Span) -> bool:
    return _NO_VALUE.fullmatch(line[cell[0] : cell[1]]) is None
