"""Task files: what is read of them, and one sentence for what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from task_files import LABELS, QUESTIONS, lines

from evals.tasks import Task, read
from nbagent.core.errors import DataError


def tasks(files: Path) -> list[Task]:
    """Read what the fixture has written."""
    return read(files / "questions.jsonl", labels=files / "labels.jsonl", tables=files / "tables")


def test_tasks_are_in_the_order_of_the_questions(files: Path) -> None:
    """With labels in another order, and of questions that nobody asks."""
    lines(files / "labels.jsonl", {"id": 9, "common_answers": [["x", "1"]]}, *reversed(LABELS))
    first, second, _ = found = tasks(files)
    assert [task.id for task in found] == [0, 1, 2]
    assert first.data == files / "tables" / "penguins.csv"
    assert first.expected == {"rows": "344", "species": "3"}
    assert (second.level, second.concepts) == ("hard", ("Summary Statistics", "Feature Engineering"))


def test_the_model_is_told_all_that_the_question_says(files: Path) -> None:
    """The question, its constraints, and the form of the answer; none of the labels."""
    first, _, last = tasks(files)
    for told in ("How many penguins are there", "Count every row.", '@rows[n] @species[n] where "n" is'):
        assert told in first.prompt
    assert "344" not in first.prompt
    assert "Constraints: none\n" in last.prompt


def test_other_files_of_this_form(files: Path) -> None:
    """Without what can be missing, with values that are no strings, empty lines and a byte order mark."""
    line = json.dumps({"id": "a-1", "question": "How many?", "file_name": "penguins.csv", "more": [1]})
    (files / "questions.jsonl").write_text(f"\n{line}\n\n", encoding="utf-8-sig")
    lines(files / "labels.jsonl", {"id": "a-1", "common_answers": [["rows", 344], ["share", 0.5], ["any", True]]})
    (task,) = tasks(files)
    assert task.expected == {"rows": "344", "share": "0.5", "any": "True"}
    assert task.prompt.endswith("@rows[value] @share[value] @any[value]")


FIRST: dict[str, Any] = QUESTIONS[0]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["{"], "Line 1 of .*questions.jsonl is no question: "),
        (["[]"], "Line 1 of .*questions.jsonl is no question: Expected `object`, got `array`"),
        ([FIRST, {"id": 1}], "Line 2 .* is no question: Object missing required field `question`"),
        ([{**FIRST, "concepts": "Statistics"}], r"Expected `array`, got `str` - at `\$.concepts`"),
        ([FIRST, FIRST], "Line 2 .*: the id 0 was there before"),
        ([{**FIRST, "id": "../../x"}], "Line 1 .*: an id can't be '../../x'"),
        ([{**FIRST, "id": 77}], "labels.jsonl has no answers to 77"),
        ([{**FIRST, "file_name": "../labels.jsonl"}], "names no file of the tables: '../labels.jsonl'"),
        ([{**FIRST, "file_name": "none.csv"}], "tables has no file none.csv.*--tables"),
        ([], "has no questions"),
    ],
)
def test_questions_that_are_none(files: Path, rows: list[Any], said: str) -> None:
    """The file, the line and the reason are named."""
    lines(files / "questions.jsonl", *rows)
    with pytest.raises(DataError, match=said):
        tasks(files)


def test_labels_that_are_none(files: Path) -> None:
    """Likewise; many that are missing are counted."""
    lines(files / "labels.jsonl", {"id": 0, "common_answers": ["rows", "344"]})
    with pytest.raises(DataError, match=r"Line 1 of .*labels.jsonl is no label: Expected `array`"):
        tasks(files)
    lines(files / "labels.jsonl", {"id": 0, "common_answers": []}, *LABELS[1:])
    with pytest.raises(DataError, match="The question 0 has a label without answers"):
        tasks(files)
    lines(files / "questions.jsonl", *({**FIRST, "id": number} for number in range(5)))
    lines(files / "labels.jsonl")
    with pytest.raises(DataError, match="no answers to 0, 1, 2 and 2 more"):
        tasks(files)


def test_files_that_can_not_be_read(files: Path) -> None:
    """Missing, a folder, or no text."""
    with pytest.raises(DataError, match=r"none.jsonl can't be read: No such file or directory\."):
        read(files / "none.jsonl", labels=files / "labels.jsonl", tables=files / "tables")
    with pytest.raises(DataError, match=r"tables can't be read: Is a directory\."):
        read(files / "tables", labels=files / "labels.jsonl", tables=files / "tables")
    (files / "questions.jsonl").write_bytes(b'{"id": "\xff"}')
    with pytest.raises(DataError, match="is not UTF-8 text"):
        tasks(files)


def test_tasks_of_kramabench_are_about_a_folder(files: Path) -> None:
    """The level stands in the id; a grade is a share, and of several accepted answers the best counts."""
    asked = {"query": "Which?", "data_sources": ["penguins.csv"], "subtasks": []}
    rows = [
        asked | {"id": "birds-hard-1", "answer": ["Adelie", "Gentoo"], "answer_type": "list_exact"},
        asked | {"id": "birds-easy-2", "answer": 12.5, "answer_type": "numeric_exact", "accepted_answers": [50]},
    ]
    (files / "birds.json").write_text(json.dumps(rows, indent=4))
    first, second = read(files / "birds.json", labels=None, tables=files / "tables")
    assert (first.id, first.level, first.data, second.level) == ("birds-hard-1", "hard", files / "tables", "easy")
    assert first.prompt.endswith("Answer: …")
    assert "Gentoo" not in first.prompt
    assert first.grade('So:\n**Answer:** ["gentoo", "Adelie"]', first.expected) == {"answer": 1.0}
    assert first.grade("Answer: Gentoo", first.expected)["answer"] == pytest.approx(2 / 3)
    assert [second.grade(f"Answer: {each}", second.expected)["answer"] for each in ("50", "12.5001", "13")] == [1, 1, 0]
    (files / "birds.json").write_text(json.dumps([rows[0] | {"answer_type": "poem"}]))
    with pytest.raises(DataError, match=r"birds\.json is no list of tasks: Invalid enum value 'poem'"):
        read(files / "birds.json", labels=None, tables=files / "tables")


def test_tasks_of_dabstep_are_about_a_folder(files: Path) -> None:
    """The right answers stand in the tasks or apart; a task without one is named."""
    row = {"task_id": "5", "question": "Which country?", "guidelines": "Its code.", "level": "easy", "answer": "NL"}
    lines(files / "tasks.jsonl", row, {**row, "task_id": "6", "answer": ""})
    lines(files / "answers.jsonl", {"task_id": "6", "answer": "1, 2"})
    first, second = read(files / "tasks.jsonl", labels=files / "answers.jsonl", tables=files / "tables")
    assert "Its code." in first.prompt
    assert first.grade("answer: nl.", first.expected) == {"answer": 1.0}
    assert second.grade("Answer: [2, 1]", second.expected) == {"answer": 1.0}
    with pytest.raises(DataError, match=r"tasks\.jsonl has no answers to 6"):
        read(files / "tasks.jsonl", labels=None, tables=files / "tables")
