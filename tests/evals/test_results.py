"""The file of results: it survives a kill, is one model's, and belongs to one run at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from machine import no_room

from evals.results import Result, Results
from nbagent.core.errors import StoreError, UsageError

MODEL = "openai:gpt-5"


def result(name: int = 0, **changed: Any) -> Result:
    """A right one."""
    given: dict[str, Any] = {
        "answer": "@rows[344]",
        "correct": True,
        "right": {"rows": True},
        "notebook": "results/notebooks/0.ipynb",
        "cells": 2,
        "wall_s": 3.5,
        "installs": ["humanize==4.17.0"],
        "usage": {"input_tokens": 200, "output_tokens": 20, "calls": 2},
        "model": MODEL,
    }
    return Result(task_id=name, **(given | changed))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder that isn't there yet."""
    return tmp_path / "runs" / "results.jsonl"


def test_a_line_has_what_was_promised(path: Path) -> None:
    """The fields by their names, and more behind them."""
    with Results(path, model=MODEL) as results:
        results.add(result())
    line = json.loads(path.read_text())
    promised = "task_id answer correct notebook cells wall_s installs usage".split()
    assert [name for name in line if name in promised] == promised
    assert line["usage"] == {"input_tokens": 200, "output_tokens": 20, "calls": 2}


def test_a_run_goes_on(path: Path) -> None:
    """With all that is in the file; of a task that was tried again, with its last result."""
    with Results(path, model=MODEL) as results:
        results.add(result(0, error="It took more than 15 minutes.", correct=False))
        results.add(result(1))
    with Results(path, model=MODEL) as results:
        results.add(result(0))
    with Results(path, model=MODEL) as results:
        assert results.done == {0: result(0), 1: result(1)}
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize("torn", ['{"task_id": 1, "answ', "{", '{"task_id": 1, "answer": "\\ud83d'])
def test_a_line_that_was_cut_off_is_dropped(path: Path, torn: str) -> None:
    """And the next one begins where it began."""
    with Results(path, model=MODEL) as results:
        results.add(result(0))
    with path.open("a") as file:
        file.write(torn)
    with Results(path, model=MODEL) as results:
        assert list(results.done) == [0]
        results.add(result(1))
    assert [json.loads(line)["task_id"] for line in path.read_text().splitlines()] == [0, 1]


@pytest.mark.parametrize("line", ["no result", "{}", '{"task_id": 1}', "\udcff".encode("utf-8", "surrogateescape")])
def test_a_line_that_is_no_result(path: Path, line: str | bytes) -> None:
    """Its number is told, and nothing is changed."""
    with Results(path, model=MODEL) as results:
        results.add(result(0))
    before = path.read_bytes() + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    path.write_bytes(before)
    with pytest.raises(UsageError, match=r"Line 2 of .*results.jsonl is no result: .*name another file\."):
        Results(path, model=MODEL)
    assert path.read_bytes() == before


def test_results_of_two_models_are_not_mixed(path: Path) -> None:
    """A file is one model's."""
    with Results(path, model=MODEL) as results:
        results.add(result(0))
    with pytest.raises(UsageError, match="has results of openai:gpt-5, not of openai:gpt-4"):
        Results(path, model="openai:gpt-4")


def test_one_run_at_a_time(path: Path) -> None:
    """The other one is told, and can begin once the first has ended."""
    with Results(path, model=MODEL), pytest.raises(StoreError, match="being written by another run"):
        Results(path, model=MODEL)
    Results(path, model=MODEL).__exit__(None, None, None)


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A folder, a device, a file that isn't ours to write."""
    for path in (tmp_path, Path("/dev/full")):
        with pytest.raises(StoreError, match="is no plain file"):
            Results(path, model=MODEL)
    with pytest.raises(StoreError, match="can't be written: File exists"):
        Results(Path("/dev/null/results.jsonl"), model=MODEL)


def test_a_full_disk_leaves_no_half_of_a_line(path: Path) -> None:
    """The bound on a file's size stands in for the disk's end."""
    with Results(path, model=MODEL) as results:
        results.add(result(0))
        whole = path.read_bytes()
        with no_room(len(whole) + 10), pytest.raises(StoreError, match="can't be written: the disk is full"):
            results.add(result(1))
        assert (path.read_bytes(), list(results.done)) == (whole, [0])
