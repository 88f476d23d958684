"""Compares answers to questions on folders with the right ones, by the rules of two benchmarks. Pure.

Both have one value as the answer: what stands behind `Answer:` in its last line. A grade is a share from 0 to 1.

Sources of the rules: KramaBench, `benchmark/metrics.py` and `evaluate.py` in github.com/mitdbg/Kramabench; DABstep,
`evaluation/scorer.py` of its leaderboard (huggingface.co/spaces/adyen/DABstep).
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

ENOUGH = 1 / (1 + 1e-4)
"""The grade from which an answer is right: a number may differ by a ten-thousandth."""
_FINAL = re.compile(r"(?im)^[\s>*_#-]*answer[*_]*\s*:[*_]*[^\S\n]*(.*?)[*_\s]*$")
_DECIMAL = re.compile(r"\$?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+[.,]\d+)")
_FIRST = re.compile(r"\d*\.\d+|\d+\.?\d*")


def final(answer: str) -> str:
    """The value of an answer: what stands behind the last `Answer:`; empty if there is none."""
    found = _FINAL.findall(answer)
    return found[-1].strip("`") if found else ""


# -- KramaBench -----------------------------------------------------------------------------------------------------


def kramabench(answer: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """The grade of an answer; of several accepted ones, the best counts.

    Texts that may be paraphrased are compared as exact ones are: no other model judges them.

    Args:
        answer: The model's words.
        expected: `type` is the task's type of answer, `accepted` has the right ones.
    """
    given = final(answer)
    return {"answer": max(_krama(given, each, expected["type"]) for each in expected["accepted"])}


def _krama(given: str, right: Any, kind: str) -> float:
    if kind.startswith("list"):
        wanted = right if isinstance(right, list) else [right]
        return _f1(_items(given), wanted, within=1e-6 if kind == "list_exact" else 0.01)
    if kind == "numeric_approximate":
        number, other = _number(given, percent=100), _number(right, percent=100)
        return 1 / (1 + abs(number - other) / abs(other)) if number is not None and other else 0.0
    number, other = _number(given), _number(right)
    if number is None or other is None:
        return float(given.strip().casefold() == str(right).strip().casefold())
    return float(abs(number - other) < max(1e-6, 1e-4 * abs(other), 1e-4 * abs(number)))


def _f1(given: Sequence[Any], right: Sequence[Any], *, within: float) -> float:
    if not right:
        return float(not given)
    matches = [[_same(one, each, within=within) for one in given] for each in right]
    recall = sum(map(any, matches)) / len(right)
    # An element counts once for the first right one that it is.
    hit = {row.index(True) for row in matches if any(row)}
    precision = len(hit) / len(given) if given else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _same(given: Any, right: Any, *, within: float) -> bool:
    if isinstance(right, str):
        return str(given).strip().casefold() == right.strip().casefold()
    number = _number(given, percent=100)
    return number is not None and abs(number - right) / max(abs(right), 1e-12) <= within


def _items(text: str) -> list[Any]:
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = read(text)
            return list(found) if isinstance(found, list | tuple | set) else [found]
    return [each.strip() for each in text.split(",") if each.strip()]


def _number(value: Any, *, percent: int = 1) -> float | None:
    """A finite number; if it is followed by a sign for per cent, divided by `percent`."""
    text = str(value).strip()
    with contextlib.suppress(ValueError):
        number = float(text.removesuffix("%")) / (percent if text.endswith("%") else 1)
        return number if math.isfinite(number) else None
    return None


# -- DABstep --------------------------------------------------------------------------------------------------------


def dabstep(answer: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Whether an answer is right: as a number, as a list in any order, or as words."""
    return {"answer": float(_equal(final(answer).strip().lower(), str(expected["answer"]).strip().lower()))}


def _equal(given: str, right: str) -> bool:
    has_decimal = any(_DECIMAL.fullmatch(each) for each in (given, right))
    if not has_decimal and re.search("[,;]", given + right):
        return _equal_lists(_split(given), _split(right))
    one, other = _first_number(given), _first_number(right)
    if one is not None and other is not None:
        return _equal_numbers(one, other)
    return not has_decimal and _equal_words(given, right)


def _split(text: str) -> list[str]:
    text = text.removeprefix("[").removesuffix("]")
    return sorted(each.strip() for each in re.split("[,;]", text) if each.strip())


def _equal_lists(given: Sequence[str], right: Sequence[str]) -> bool:
    return len(given) == len(right) and all(itertools.starmap(_equal, zip(given, right, strict=True)))


def _first_number(text: str) -> float | None:
    found = _FIRST.search(text.replace(",", "").replace("$", ""))
    return float(found[0]) if found else None


def _equal_numbers(one: float, other: float) -> bool:
    if math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4):
        return True
    # The one with fewer decimals may be the other one, rounded; not of numbers below one.
    decimals = min(len(str(each).partition(".")[2]) for each in (one, other))
    return max(one, other) >= 1 and round(one, decimals) == round(other, decimals)


def _equal_words(given: str, right: str) -> bool:
    one, other = (re.findall(r"\w+", each) for each in (given, right))
    if "".join(one) == "".join(other):
        return True
    if one and other and 1 in (len(one), len(other)):
        return set(one) <= set(other) or set(other) <= set(one)
    return difflib.SequenceMatcher(None, given, right).ratio() > 0.95
