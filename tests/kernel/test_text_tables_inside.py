"""How a table in a text file is parted into fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbagent.kernel.inside.text_tables_inside import Clock, TextTable, text_table


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b;c\n1,5;2,5;3,5\n4,5;5,5;6,5\n", ";"),
        ("land;1964;1965\nTogo;6,52;6,55\nMali;6,97;7,01\n", ";"),
        ("Report\n\nland;1964\nTogo;6,52\nMali;6,97\n", ";"),
        ("a,b\n1;5,2;5\n", ","),
        ("a\tb\n1,5\t2,5\n2,5\t3,5\n", "\t"),
    ],
)
def test_decimal_commas_are_no_separators(text: str, separator: str) -> None:
    """They part as many fields as the separator or more, but not those of the header."""
    assert TextTable("x.csv", text.encode()).separator == separator


@pytest.mark.parametrize(
    ("line", "has_header"), [("DC,11001,4.5", False), ("state,2020,2021", True), ("name,code,rate", True)]
)
def test_a_file_of_one_line_is_a_row_if_it_has_numbers(line: str, has_header: bool) -> None:
    """But for years, which are names of columns too."""
    assert TextTable("x.csv", f"{line}\n".encode()).layout.has_header is has_header


@pytest.mark.parametrize(("rows", "is_cut"), [(10, False), (1_000_000, True)])
def test_a_file_that_was_read_to_its_end_is_read_whole(tmp_path: Path, rows: int, is_cut: bool) -> None:
    """Also if the time is over by then."""
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "123\n" * rows)
    found = text_table(str(path), path.stat().st_size, Clock(0.0, 2**20))
    assert found.get("sampled", False) is is_cut
    assert is_cut or found["rows"] == rows


def test_negatives_in_parentheses_are_numbers(tmp_path: Path) -> None:
    """As bookkeepers write them; the range has them."""
    path = tmp_path / "x.csv"
    path.write_text("profit\n" + "12.5\n" * 5 + '"(1,018.25)"\n(3)\n')
    (column,) = text_table(str(path), 99, Clock(float("inf"), 2**20))["columns"]
    assert (column["dtype"], column["form"]) == ("String", "numbers")
    assert (column["low"], column["high"]) == (-1018.25, 12.5)
    assert column["others"] == {"negatives in parentheses, (1.5)": 2}
