"""The scores of a run, and what it took."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evals.report import done, scores, show, show_beside, used
from evals.results import Result
from evals.tasks import Task

TASKS = [
    Task(id=0, prompt="", data=Path(), expected={"a": "1", "b": "No"}, level="easy", concepts=("Counting",)),
    Task(id=1, prompt="", data=Path(), expected={"a": "1"}, level="hard", concepts=("Counting", "Trends")),
    Task(id=2, prompt="", data=Path(), expected={"a": "1"}, level="hard", concepts=("Trends",)),
]


def result(name: int, answer: str, right: dict[str, bool], **more: Any) -> Result:
    """What came of a task."""
    usage = {"input_tokens": 1000, "output_tokens": 50, "calls": 2, "cost_usd": 0.0125, "note": "none", "free": False}
    given: dict[str, Any] = {"notebook": None, "cells": 3, "wall_s": 2.0, "installs": [], "model": "replay:x"}
    return Result(task_id=name, answer=answer, correct=all(right.values()), right=right, usage=usage, **(given | more))


RESULTS = {
    0: result(0, "@a[1] @b[no]", {"a": True, "b": False}, installs=["humanize==4"]),
    1: result(1, "@a[1]", {"a": True}, cells=0),
}


def test_scores_in_the_three_ways_of_the_benchmark() -> None:
    """By question, by subquestion, in proportion; and how it would be if spelling didn't matter."""
    found = scores(done(TASKS, RESULTS))
    assert found.tasks == 2
    assert found.questions == pytest.approx(1 / 2)
    assert found.fields == pytest.approx(2 / 3)
    assert found.shares == pytest.approx(3 / 4)
    assert found.meaning == pytest.approx(1)


def test_whatever_the_answers_count_is_summed() -> None:
    """Tokens and calls, and what they cost where that is known; what is no number is left out."""
    total = used(RESULTS.values())
    assert total == {"input_tokens": 2000, "output_tokens": 100, "calls": 4, "cost_usd": 0.025}


def test_the_summary_as_people_see_it() -> None:
    """By level and by concept, with what it took, and what is left to do."""
    text = io.StringIO()
    show(TASKS, RESULTS, console=Console(file=text, width=80))
    rows = {
        cells[0]: cells[1:] for line in text.getvalue().splitlines() if len(cells := re.split(r"  +", line.strip())) > 1
    }
    assert rows["all"] == ["2", "50.0%", "66.7%", "75.0%", "100.0%"]
    assert rows["easy"] == ["1", "0.0%", "50.0%", "50.0%", "100.0%"]
    assert rows["hard"][:2] == rows["Trends"][:2] == ["1", "100.0%"]
    assert rows["Counting"][:2] == ["2", "50.0%"]
    assert (rows["cells"], rows["cells a task"], rows["packages installed"]) == (["3"], ["1.5"], ["1"])
    assert (rows["tasks not done"], rows["input tokens"], rows["cost usd"]) == (["1"], ["2,000"], ["0.0250"])


def test_nothing_to_sum_up() -> None:
    """Before the first task is done."""
    text = io.StringIO()
    show(TASKS, {}, console=Console(file=text))
    assert text.getvalue() == "No task is done.\n"


def test_two_models_side_by_side() -> None:
    """By level, over the tasks that both have done, and which of them only one could do."""
    other = {
        0: result(0, "@a[1] @b[No]", {"a": True, "b": True}, model="replay:y"),
        1: result(1, "", {"a": False}, model="replay:y"),
        2: result(2, "@a[1]", {"a": True}, model="replay:y"),
    }
    text = io.StringIO()
    show_beside(TASKS, [RESULTS, other], console=Console(file=text, width=80))
    rows = [re.split(r"  +", line.strip()) for line in text.getvalue().splitlines()]
    assert ["all", "2", "50.0% (75.0%)", "50.0% (50.0%)"] in rows
    assert ["hard", "1", "100.0% (100.0%)", "0.0% (0.0%)"] in rows
    assert "Right by replay:x alone: 1\nRight by replay:y alone: 0\n" in text.getvalue()
