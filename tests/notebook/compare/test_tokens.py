"""Numbers, words and lines of two texts: every change among them is found, and soon."""

from __future__ import annotations

import machine
import pytest
from notebook.compare.shared import compared

from nbagent.notebook.compare.tokens import MOST, changes, tokens


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("12", "13"), ("1,234,567", "1,234,568"), ("0.500", "0.501"), ("1e-5", "2e-5"), ("a b", "a c"), ("x", ""),
        ("a\nb", "a\nb\nc"), ("-1", "1"), ("0x10", "0x11"), ("sha256 ab12cd34", "sha256 ab12cd35"), ("1 h", "2 h"),
        ("v1.2.3", "v1.2.4"), ("[1, 2]", "[2, 1]"), ("True", "False"), ("3 seconds", "4 seconds"),
        ("0.000", "-0.000"), ("-0.0", "0.0"), ("a\n---\nb", "a\nb"), ("a\n+--+--+\nb", "a\nb\n+--+--+"),
    ],
)  # fmt: skip
def test_every_other_change_is_found(stored: str, fresh: str) -> None:
    """Whole numbers exactly; both ways; also with a second run that agrees with the first."""
    for left, right in ((stored, fresh), (fresh, stored)):
        assert compared(left, right).differences
        assert compared(left, right, right).differences


def test_lines_of_tables_are_as_wide_as_their_values() -> None:
    """That they are there counts, and how wide they are doesn't."""
    one, other = (f"a\n{sign * width}\nb\n" for sign, width in (("─", 5), ("─", 9)))
    assert not compared(one, other).differences


def test_long_texts_take_time_in_proportion() -> None:
    """Hostile or not: alignment, which takes the square, is bounded."""
    one, other = ("\n".join(f"{word} {number}" for number in range(4 * MOST)) for word in ("left", "right of"))
    assert len(machine.within(100, lambda: changes(tokens(one), tokens(other)))) == 1
