"""Reads task files in the form of InfiAgent-DABench: questions, labels, and a folder of tables.

    questions.jsonl   {"id": 0, "question": …, "constraints": …, "format": "@name[value] …", "file_name": …,
                       "level": …, "concepts": […]}
    labels.jsonl      {"id": 0, "common_answers": [["name", "value"], …]}

Source of the form: the README of `examples/DA-Agent` in github.com/InfiAgent/InfiAgent; Hu et al., "InfiAgent-DABench:
Evaluating Agents on Data Analysis Tasks", ICML 2024 (arXiv:2401.05507).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from nbagent.core.errors import DataError

TaskId = int | str
_NAME = re.compile(r"\w[\w.-]{0,63}")

PROMPT = """\
{question}

Constraints: {constraints}

End the answer in the form that follows, each field with its own value in the brackets and nothing else there:
{format}"""


class Question(msgspec.Struct, frozen=True):
    """A line of the questions' file."""

    id: TaskId
    question: str
    file_name: str
    constraints: str = ""
    format: str = ""
    level: str = ""
    concepts: list[str] = []


class Label(msgspec.Struct, frozen=True):
    """A line of the labels' file."""

    id: TaskId
    common_answers: list[tuple[str, str | int | float | bool]]


Line = TypeVar("Line", Question, Label)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One question of one table, with the answers that are right.

    Attributes:
        id: Its id in the files.
        prompt: What the model is asked.
        table: The file that it is about.
        expected: Right answers by the names of the fields.
        level: How hard it is said to be.
        concepts: What it is said to take.
    """

    id: TaskId
    prompt: str
    table: Path
    expected: Mapping[str, str]
    level: str = ""
    concepts: Sequence[str] = ()


def read(questions: Path, *, labels: Path, tables: Path) -> list[Task]:
    """The tasks, in the order of the questions.

    Args:
        questions: JSON Lines, a question each.
        labels: JSON Lines, the right answers of a question each; there may be more than are asked for.
        tables: The folder of the files that the questions name.

    Raises:
        DataError: A file can't be read, a line is none of its kind, or something that is named isn't there.
    """
    asked = _by_id(questions, Question)
    known = _by_id(labels, Label)
    if not asked:
        raise DataError(f"{questions} has no questions.")
    if unknown := [each for each in asked if each not in known]:
        raise DataError(f"{labels} has no answers to {_some(unknown)}.")
    tasks = [_task(question, known[name], tables=tables) for name, question in asked.items()]
    if missing := sorted({task.table.name for task in tasks if not task.table.is_file()}):
        raise DataError(f"{tables} has no file {_some(missing)}.", mend="Name the folder of the tables with --tables.")
    return tasks


def _by_id(path: Path, kind: type[Line]) -> dict[TaskId, Line]:
    found: dict[TaskId, Line] = {}
    for number, line in _lines(path):
        try:
            made = msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise DataError(f"Line {number} of {path} is no {kind.__name__.lower()}: {error}.") from None
        if not _NAME.fullmatch(str(made.id)):
            raise DataError(f"Line {number} of {path}: an id can't be {str(made.id)[:80]!r}.", mend="Use a number.")
        if made.id in found:
            raise DataError(f"Line {number} of {path}: the id {made.id} was there before.")
        found[made.id] = made
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers from 1."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text.") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _task(question: Question, label: Label, *, tables: Path) -> Task:
    if not label.common_answers:
        raise DataError(f"The question {question.id} has a label without answers.")
    if Path(question.file_name).name != question.file_name:
        raise DataError(f"The question {question.id} names no file of the tables: {question.file_name[:80]!r}.")
    return Task(
        id=question.id,
        prompt=PROMPT.format(
            question=question.question.strip(),
            constraints=question.constraints.strip() or "none",
            format=question.format.strip() or " ".join(f"@{name}[value]" for name, _ in label.common_answers),
        ),
        table=tables / question.file_name,
        # The later one holds where a name stands twice, as in the benchmark's own scoring.
        expected={name: str(value) for name, value in label.common_answers},
        level=question.level,
        concepts=tuple(question.concepts),
    )


def _some(names: Sequence[object]) -> str:
    """Names for a sentence, however many there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(str(name) for name in names[:3]) + more
