"""How a table in a text file is parted into fields."""

from __future__ import annotations

import pytest

from nbagent.kernel.inside.text_tables_inside import TextTable


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
