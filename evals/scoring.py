"""Compares answers in the form `@name[value]` with the right ones. Pure.

The rule is that of the benchmark's own scoring, so that scores can be compared: a field's value reaches to the first
closing bracket on its line, the last one of a name counts, and it is right if it is the label's text or a number that
differs from the label's by less than a millionth.

Source of the rule: `examples/DA-Agent/eval_closed_form.py` in github.com/InfiAgent/InfiAgent, "closed-form" evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

TOLERANCE = 1e-6
"""Numbers that are closer than this are the same."""
_FIELD = re.compile(r"@(\w+)\[([^\]\n]*)\]")
_MARKS = re.compile(r"""[\s"'`_%-]|,(?=\d{3}\b)""")

Equal = Callable[[str, str], bool]


def fields(answer: str) -> dict[str, str]:
    """The fields of an answer, by name."""
    return dict(_FIELD.findall(answer))


def equal(given: str, expected: str) -> bool:
    """Whether a value is the right one."""
    return given == expected or _same_number(given, expected)


def alike(given: str, expected: str) -> bool:
    """Whether a value is right but for capitals, quotes, spaces, dashes, per cent signs and commas of thousands."""
    return equal(given, expected) or equal(_plain(given), _plain(expected))


def score(answer: str, expected: Mapping[str, str], *, same: Equal = equal) -> dict[str, bool]:
    """Which fields of an answer are right; one that isn't there is not.

    Args:
        answer: The model's words.
        expected: Right values by name.
        same: How values are compared.
    """
    given = fields(answer)
    return {name: name in given and same(given[name], value) for name, value in expected.items()}


def _same_number(given: str, expected: str) -> bool:
    try:
        return abs(float(given) - float(expected)) < TOLERANCE
    except ValueError:
        return False


def _plain(value: str) -> str:
    sign = "-" if value.strip().startswith("-") else ""
    return sign + _MARKS.sub("", value).casefold()
