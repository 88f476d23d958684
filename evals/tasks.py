"""Reads task files in the forms of three benchmarks, known by what is in them.

InfiAgent-DABench: questions, labels, and a folder of tables, of which each question is about one.

    questions.jsonl   {"id": 0, "question": …, "constraints": …, "format": "@name[value] …", "file_name": …,
                       "level": …, "concepts": […]}
    labels.jsonl      {"id": 0, "common_answers": [["name", "value"], …]}

KramaBench: a JSON list of tasks; each is about the whole folder of the data, and its level stands in its id.

    [{"id": "legal-hard-1", "query": …, "answer": …, "answer_type": "numeric_exact" …, "accepted_answers": […]}, …]

DABstep: tasks, each about the whole folder; the right answers stand in them or in a file of labels.

    tasks.jsonl       {"task_id": "5", "question": …, "guidelines": …, "level": …, "answer": …}
    labels.jsonl      {"task_id": "5", "answer": …}

Sources of the forms: the README of `examples/DA-Agent` in github.com/InfiAgent/InfiAgent and Hu et al.,
"InfiAgent-DABench: Evaluating Agents on Data Analysis Tasks", ICML 2024 (arXiv:2401.05507); `workload/` in
github.com/mitdbg/Kramabench; the data set adyen/DABstep on Hugging Face.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from evals.folder_scoring import dabstep, kramabench
from evals.scoring import score
from nbagent.core.errors import DataError

TaskId = int | str
_NAME = re.compile(r"\w[\w.-]{0,63}")

PROMPT = """\
{question}

Constraints: {constraints}

End the answer in the form that follows, each field with its own value in the brackets and nothing else there:
{format}"""


ON_A_FOLDER = """\
End the answer with a line of its own that has the value alone, a list as JSON:
Answer: …"""


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


class KramaTask(msgspec.Struct, frozen=True):
    """A task of KramaBench."""

    id: str
    query: str
    answer: Any
    answer_type: Literal[
        "numeric_exact", "numeric_approximate", "string_exact", "string_approximate", "list_exact", "list_approximate"
    ]
    accepted_answers: list[Any] = []


class DabTask(msgspec.Struct, frozen=True):
    """A line of DABstep's tasks."""

    id: str = msgspec.field(name="task_id")
    question: str
    guidelines: str = ""
    level: str = ""
    answer: str = ""


class DabAnswer(msgspec.Struct, frozen=True):
    """A line of DABstep's right answers."""

    id: str = msgspec.field(name="task_id")
    answer: str


Line = TypeVar("Line", Question, Label, DabTask, DabAnswer)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One question, with the answers that are right.

    Attributes:
        id: Its id in the files.
        prompt: What the model is asked.
        data: The file or the folder that it is about.
        expected: Right answers by the names of the fields, or what else `grade` knows them by.
        grade: Grades an answer, given what is expected: a share, or whether it is right, by the names of the fields.
        level: How hard it is said to be.
        concepts: What it is said to take.
    """

    id: TaskId
    prompt: str
    data: Path
    expected: Mapping[str, Any]
    grade: Callable[[str, Mapping[str, Any]], Mapping[str, float]] = score
    level: str = ""
    concepts: Sequence[str] = ()


def read(questions: Path, *, labels: Path | None, tables: Path) -> list[Task]:
    """The tasks, in the order of the questions.

    Args:
        questions: The tasks, in one of the forms above.
        labels: JSON Lines, the right answers of a question each; there may be more than are asked for.
        tables: The folder of the files.

    Raises:
        DataError: A file can't be read, a line is none of its kind, or something that is named isn't there.
    """
    first = next((line for _, line in _lines(questions)), "")
    if not first:
        raise DataError(f"{questions} has no questions.")
    if not tables.is_dir():
        raise DataError(f"{tables} is no folder.", mend="Name the folder of the data with --tables.")
    if first.lstrip().startswith("[") and first.strip() != "[]":
        return [_krama(task, tables) for task in _krama_tasks(questions)]
    if '"task_id"' in first:
        return _dab_tasks(questions, labels, tables)
    if labels is None:
        raise DataError(f"{questions} has no answers.", mend="Name the file that has them with --labels.")
    asked = _by_id(questions, Question)
    known = _by_id(labels, Label)
    if unknown := [each for each in asked if each not in known]:
        raise DataError(f"{labels} has no answers to {_some(unknown)}.")
    tasks = [_task(question, known[name], tables=tables) for name, question in asked.items()]
    if missing := sorted({task.data.name for task in tasks if not task.data.is_file()}):
        raise DataError(f"{tables} has no file {_some(missing)}.", mend="Name the folder of the tables with --tables.")
    return tasks


def _krama_tasks(path: Path) -> list[KramaTask]:
    try:
        tasks = msgspec.json.decode("\n".join(line for _, line in _lines(path)), type=list[KramaTask])
    except msgspec.DecodeError as error:
        raise DataError(f"{path} is no list of tasks: {error}.") from None
    for task in tasks:
        _check_id(task.id, f"In {path}", [each.id for each in tasks].count(task.id) > 1)
    return tasks


def _krama(task: KramaTask, tables: Path) -> Task:
    return Task(
        id=task.id,
        prompt=_on_a_folder(task.query),
        data=tables,
        expected={"type": task.answer_type, "accepted": [task.answer, *task.accepted_answers]},
        grade=kramabench,
        level=next((level for level in ("easy", "hard") if f"-{level}-" in task.id), ""),
    )


def _dab_tasks(questions: Path, labels: Path | None, tables: Path) -> list[Task]:
    known = {name: each.answer for name, each in _by_id(labels, DabAnswer).items()} if labels else {}
    asked = _by_id(questions, DabTask)
    if unknown := [name for name, each in asked.items() if not (known.get(name) or each.answer)]:
        raise DataError(f"{labels or questions} has no answers to {_some(unknown)}.", mend="Name them with --labels.")
    return [
        Task(
            id=name,
            prompt=_on_a_folder(each.question, each.guidelines),
            data=tables,
            expected={"answer": known.get(name) or each.answer},
            grade=dabstep,
            level=each.level,
        )
        for name, each in asked.items()
    ]


def _on_a_folder(*parts: str) -> str:
    return "\n\n".join(each for each in (*map(str.strip, parts), ON_A_FOLDER) if each)


def _by_id(path: Path, kind: type[Line]) -> dict[TaskId, Line]:
    found: dict[TaskId, Line] = {}
    for number, line in _lines(path):
        try:
            made = msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise DataError(f"Line {number} of {path} is no {kind.__name__.lower()}: {error}.") from None
        _check_id(made.id, f"Line {number} of {path}", made.id in found)
        found[made.id] = made
    return found


def _check_id(name: TaskId, where: str, was_there: bool) -> None:
    if not _NAME.fullmatch(str(name)):
        raise DataError(f"{where}: an id can't be {str(name)[:80]!r}.", mend="Use a number.")
    if was_there:
        raise DataError(f"{where}: the id {name} was there before.")


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
        data=tables / question.file_name,
        # The later one holds where a name stands twice, as in the benchmark's own scoring.
        expected={name: str(value) for name, value in label.common_answers},
        level=question.level,
        concepts=tuple(question.concepts),
    )


def _some(names: Sequence[object]) -> str:
    """Names for a sentence, however many there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(str(name) for name in names[:3]) + more
