"""`%agent` in real kernels: awaited at the beginning of a line, waiting elsewhere, headless under nbclient."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from program import replies

CELL = 'print(df.shape)\nresult = df.filter(pl.col("a") > 1)\nresult'
Run = Callable[..., list[Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs cells in an ordinary kernel under nbclient; returns them with their outputs."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NBAGENT_ENGINE", "bubblewrap")

    def work(*cells: str, model: list[Any]) -> list[Any]:
        name = replies(tmp_path / "replies.jsonl", *model)
        sources = [f"%load_ext nbagent\n%config NbAgent.model = {name!r}", *cells, "%agent reset"]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources])
        client = NotebookClient(book, kernel_name="python3", timeout=120, allow_errors=True)
        client.execute(cwd=str(tmp_path), env=dict(os.environ))
        cells_run: list[Any] = book.cells[1:-1]
        return cells_run

    return work


def python(code: str) -> dict[str, Any]:
    """A reply that runs code."""
    return {"content": "", "tool_calls": [{"name": "python", "args": {"code": code}}]}


def text(cell: Any) -> str:
    """All text of a cell's outputs."""
    parts = []
    for output in cell.outputs:
        said = output.get("text") or output.get("data", {}).get("text/plain")
        parts.append(said or "\n".join(output.get("traceback", ())))
    return "\n".join(parts)


def test_a_question_takes_variables_along_and_brings_one_back(run: Run) -> None:
    frame = "import polars as pl\ndf = pl.DataFrame({'a': [1, 2, 3]})\nlimit = 1"
    _, asked, after, status, exported = run(
        frame,
        "%%agent -i limit -o result\nWhich rows of @df are above it?",
        "print(type(result), result['a'].to_list())",
        "%agent status",
        "%agent export report.ipynb",
        model=[python("print(df.shape)\nresult = df.filter(pl.col('a') > limit)"), "There are **2** rows."],
    )
    assert len(asked.outputs) == 1
    forms = asked.outputs[0]["data"]
    assert "There are **2** rows." in forms["text/plain"]
    assert "<strong>2</strong> rows" in forms["text/html"]
    assert "script" not in forms["text/html"]
    assert "(3, 1)" in forms["text/markdown"]
    assert "polars.dataframe.frame.DataFrame" in text(after)
    assert "[2, 3]" in text(after)
    assert "bubblewrap, isolated" in text(status)
    assert "report.ipynb" in text(exported)


def test_the_answer_is_the_value_of_an_assignment(run: Run) -> None:
    cells = run(
        "reply = %agent How many?",
        "print(reply.text, reply.success)",
        "def ask():\n    %agent And twice that?\nfor _ in range(1):\n    ask()",
        model=[python("print(21)"), "It is 21.", python("print(42)"), "It is 42."],
    )
    assert "It is 21. True" in text(cells[1])
    assert "It is 42." in text(cells[2])


def test_what_goes_wrong_is_one_sentence_and_the_notebook_goes_on(run: Run) -> None:
    cells = run(
        "%agent -i nothing What is it?",
        "%agent --modle x What?",
        "%%agent\n",
        "thing = object()",
        "%agent -i thing What is it?",
        "%agent -o missing Make it.",
        "print('on')",
        model=[python("x = 1"), "Done."],
    )
    all_told = ("no variable nothing", "--modle", "is empty", "", "can't go", "no such variable")
    for cell, told in zip(cells, all_told, strict=False):
        assert told in text(cell)
        assert len(text(cell).splitlines()) < 20
    assert text(cells[-1]).strip() == "on"


def test_a_failed_cell_is_fixed_and_an_output_explained(run: Run) -> None:
    fixed = "The list is short.\n\n```python\nnumbers = [1, 2]\nprint(numbers[1])\n```"
    _, fix, _, explained, nothing = run(
        "numbers = [1, 2]\nprint(numbers[2])",
        "%agent fix",
        "6 * 7",
        "%agent explain",
        "%agent fix",
        model=[fixed, "It is the answer."],
    )
    assert "IndexError" not in text(fix)
    assert "-print(numbers[2])\n+print(numbers[1])" in text(fix)
    assert "It is the answer." in text(explained)
    assert "did not fail" in text(nothing)


def test_cells_that_worked_are_put_below(run: Run) -> None:
    _, one, all_of_them, wrong = run(
        "%agent Count.",
        "%agent insert 2",
        "%agent insert",
        "%agent insert 1",
        model=[python("count = 1 / 0"), python("count = 2"), python("print(count)"), "Two: 2."],
    )
    assert "one cell at a time" not in text(one)
    assert "2 cells are in one below" in text(all_of_them)
    assert "no cell 1 that ran" in text(wrong)
