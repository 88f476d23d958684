"""What `describe` and `find` say of data; with a real kernel they are in tests/session/test_hard_questions.py."""

from __future__ import annotations

from collections.abc import Collection

from nbagent.agent.dataset.section import DataView
from nbagent.agent.tools.data_tools import described, found, make_data_tools
from nbagent.kernel.describe import Profiles
from nbagent.kernel.find_text import Hit, Hits
from nbagent.kernel.profile import Column, FileProfile, Table

LATE_TOO = FileProfile("/tmp/data/other.csv", note="took too long to read")
LATE = FileProfile("/tmp/data/late.csv", size=10, note="not profiled: there was no time left")


def read(*columns: Column) -> FileProfile:
    """The file when it was read."""
    return FileProfile("/tmp/data/late.csv", kind="CSV", tables=[Table(rows=3, width=len(columns), columns=[*columns])])


async def test_a_file_for_which_there_was_no_time_is_read_when_it_is_asked_for() -> None:
    """Once: what can't be read then either is not tried with each call."""
    calls = []

    async def again(first: Collection[str]) -> Profiles:
        calls.append({*first})
        return Profiles([read(Column("n", dtype="Int64", low=1, high=9)), LATE_TOO])

    async def nothing(*_: object) -> Hits:
        return Hits()

    describe, _ = make_data_tools(DataView(Profiles([LATE, LATE_TOO])), nothing, again)
    assert '"n": Int64, 1 to 9' in await describe.ainvoke({"file": "late.csv"})
    assert "took too long" in await describe.ainvoke({"file": "other.csv"})
    await describe.ainvoke({"file": "other.csv"})
    assert calls == [{LATE.path}, {LATE_TOO.path}]


def test_whole_words_are_told_before_parts_of_words() -> None:
    """Parts of words are only counted where there are whole ones."""
    view = DataView(Profiles([read(Column("NTP code", values={"NTP": 2, "ALNTPX": 1}, distinct=2))]))
    hits = Hits([Hit("/tmp/data/a.txt", 7, 0, 1, "XNTPX"), Hit("/tmp/data/b.txt", 9, 2, 4, "by the NTP")], 2, True)
    told = found(view, "NTP", hits)
    assert told == [
        'columns named so: "NTP code" of "late.csv"',
        'values: "NTP code" of "late.csv": "NTP" ×2',
        '- "/tmp/data/b.txt": 2 times, first in line 4: "by the NTP"',
        "In 2 more of these it is only a part of a word.",
        "Searched: the contents of all 2 files of text, workbooks and archives that could be read.",
    ]
    assert '"ALNTPX" ×1' in found(view, "LNT", Hits())[0]


def test_sheets_without_a_description_are_found_and_named() -> None:
    """Where there was no time for them."""
    sheets = [Table(name="Cover", rows=1, width=1, columns=[Column("n", dtype="Int64", low=1, high=2)])]
    sheets.append(Table(name="20 Onshore turbines", note="not profiled: there was no time for this sheet"))
    view = DataView(Profiles([FileProfile("/tmp/data/el.xlsx", kind="Excel", tables=sheets)]))
    assert found(view, "onshore", Hits())[0] == 'tables named so: "el.xlsx, 20 Onshore turbines"'
    assert '- "/tmp/data/el.xlsx" also has "20 Onshore turbines"' in described(view, "el.xlsx")
    assert '- "/tmp/data/el.xlsx" also has "20 Onshore turbines"' in view.section()
