"""The file of results: one JSON line a task, appended as it is done, and read again by the run that goes on."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from evals.tasks import TaskId
from nbagent.core.errors import StoreError, UsageError


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task."""

    task_id: TaskId
    answer: str
    correct: bool
    """Whether all fields are right."""
    right: dict[str, bool | float]
    """The same for each field, or its grade, a share."""
    notebook: str | None
    """Where it is, seen from the folder of this file."""
    cells: int
    wall_s: float
    """Seconds, the start of the sandbox included."""
    installs: list[str]
    """What was installed for it, as `name==version`."""
    usage: dict[str, Any]
    """Tokens and calls of the model."""
    model: str
    error: str = ""
    """Why there is no answer; empty if there is one."""


def read(path: Path, *, model: str = "") -> tuple[dict[TaskId, Result], bytes]:
    """The results in a file, by task, and what a killed process left half written at its end.

    Args:
        path: The file.
        model: Whose results they must be; any model's if it is empty.

    Raises:
        UsageError: A line is no result, or one of another model.
        StoreError: It can't be read.
    """
    done: dict[TaskId, Result] = {}
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror or error}.", mend="Name a file of results.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = msgspec.json.decode(line, type=Result)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"Line {number} of {path} is no result: {error}.", mend="Mend it, or name another file."
            ) from None
        if model and found.model != model:
            raise UsageError(
                f"{path} has results of {found.model}, not of {model}.", mend="Name another file in --out."
            )
        done[found.task_id] = found
    return done, torn


class Results:
    """A file of results, held by one process at a time.

    Args:
        path: Made if it isn't there. A last line that a killed process left half written is dropped.
        model: Whose results they are.

    Attributes:
        done: The results so far, by task: of one that was tried again, the last.

    Raises:
        UsageError: A line is no result, or one of another model.
        StoreError: It can't be written, or another process writes it.
    """

    def __init__(self, path: Path, *, model: str) -> None:
        self.path = path
        self.done: dict[TaskId, Result] = {}
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is no plain file.", mend="Name another file in --out.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("ab+", buffering=0)
        except OSError as error:
            raise _cannot_write(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.done, torn = read(path, model=model)
            if torn and not self.done and not torn.startswith(b'{"task_id":'):
                raise UsageError(f"{path} has no results.", mend="Name another file in --out.")
            if torn:
                self._file.truncate(os.fstat(self._file.fileno()).st_size - len(torn))
        except BlockingIOError:
            self._file.close()
            raise StoreError(f"{path} is being written by another run.", mend="Name another file in --out.") from None
        except BaseException:
            self._file.close()
            raise

    def add(self, result: Result) -> None:
        """Write a result, whole or not at all.

        Raises:
            StoreError: It can't be written.
        """
        line = msgspec.json.encode(result) + b"\n"
        try:
            end = os.fstat(self._file.fileno()).st_size
            if self._file.write(line) != len(line):
                self._file.truncate(end)
                raise OSError("the disk is full")
        except OSError as error:
            raise _cannot_write(self.path, error) from error
        self.done[result.task_id] = result

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def _cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} can't be written: {error.strerror or error}.", mend="Make room, or name another file.")
