"""Durations and ages, as people write and read them."""

from __future__ import annotations

import time

from nbagent.core.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def age(seconds: float) -> str:
    """How long ago a time was, given in seconds since the epoch: `3 minutes ago`."""
    passed = max(0.0, time.time() - seconds)
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if passed >= length:
            count = int(passed // length)
            return f"{count} {name}{'s' if count != 1 else ''} ago"
    return "just now"


def seconds(text: str) -> float:
    """A time such as `90`, `30m`, `12h` or `2d`, in seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:].lower() in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit.lower()]
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e12:
        raise UsageError(f"{text!r} is no time.", mend="Write 90, 30m, 12h or 2d.")
    return value
