"""Times as people write and read them."""

from __future__ import annotations

import time

import pytest

from nbagent.core.errors import UsageError
from nbagent.faces.cli.durations import age, seconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "just now"), (59, "just now"), (61, "1 minute ago"), (7300, "2 hours ago"), (86400 * 3, "3 days ago")],
)
def test_a_time_is_told_in_words(seconds: float, told: str) -> None:
    """In the largest unit that fits."""
    assert age(time.time() - seconds) == told


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("1.5h", 5400), ("2d", 172800), ("10m", 600), ("0", 0)])
def test_a_time_has_a_unit(text: str, value: float) -> None:
    """Seconds, minutes, hours or days."""
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "m", "-1", "1w", "nan", "inf"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """Rather than taken for none."""
    with pytest.raises(UsageError):
        seconds(text)
