"""Anybody's notebook is read, or refused with a reason: never is it nbagent that fails."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import NbagentError, StoreError, UsageError
from nbagent.faces.cli import log
from nbagent.notebook import document
from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.texts import Context
from nbagent.notebook.proof import Proof
from nbagent.notebook.report import junit, write_into

CODE = {
    "cell_type": "code", "id": "c", "metadata": {}, "source": "1", "execution_count": 1,
    "outputs": [
        {"output_type": "stream", "name": "stdout", "text": "1"},
        {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["E: x"]},
    ],
}  # fmt: skip
NOTEBOOK: dict[str, Any] = {
    "nbformat": 4, "nbformat_minor": 5, "metadata": {"nbagent": {"version": "1", "lock": {}}},
    "cells": [CODE, {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "text"}],
}  # fmt: skip
ODD: tuple[Any, ...] = (None, 5, "version", ["version"], {"version": 5}, [[]])
PLACES = (
    ("metadata",), ("metadata", "nbagent"), ("metadata", "nbagent", "lock"), ("metadata", "nbagent", "lock", "machine"),
    ("metadata", "nbagent", "lock", "packages"), ("metadata", "nbagent", "data"), ("metadata", "nbagent", "verified"),
    ("metadata", "nbagent", "cells"), ("metadata", "nbagent", "cells_sha256"), ("metadata", "x"), ("cells",),
    ("cells", 0), ("cells", 0, "metadata"),
    ("cells", 0, "metadata", "nbagent"), ("cells", 1, "metadata", "nbagent"), ("cells", 0, "metadata", "tags"),
    ("cells", 0, "metadata", "execution"), ("cells", 0, "source"), ("cells", 1, "source"), ("cells", 0, "outputs"),
    ("cells", 0, "outputs", 0), ("cells", 0, "outputs", 0, "text"), ("cells", 0, "outputs", 0, "data"),
    ("cells", 0, "outputs", 1, "traceback"), ("cells", 0, "outputs", 0, "output_type"),
    ("cells", 0, "execution_count"), ("cells", 0, "id"),
)  # fmt: skip


def changed(place: tuple[Any, ...], value: Any) -> str:
    """The notebook with another value in it, as a text."""
    made = copy.deepcopy(NOTEBOOK)
    at: Any = made
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return json.dumps(made)


def read_all(path: Path) -> None:
    """All that reads a notebook before and after its cells run."""
    found = document.parse(path.read_text(), name=path.name)
    assert isinstance(found.edits, list)
    context = Context(moments=Moments(stored=None, fresh=0.0, elapsed=1.0))
    for cell in found.cells:
        assert cell.may_fail in (True, False)
        compare(cell.outputs, [], context, again=[])
    proof = Proof(name=path.name)
    assert junit([proof])
    with contextlib.suppress(StoreError):
        write_into(found, path, proof)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_what_is_odd_in_a_notebook_is_refused_or_read(tmp_path: Path, place: tuple[Any, ...]) -> None:
    """Wherever it stands, by the commands that read notebooks."""
    path = tmp_path / "n.ipynb"
    readers: tuple[Callable[[Path], object], ...] = (read_all, log.show)
    for value in ODD:
        for read in readers:
            path.write_text(changed(place, value))
            with contextlib.suppress(NbagentError):
                read(path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "5", "[" * 100_000, '{"a":' * 100_000, "9" * 5_000])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    """Whatever it is, in a sentence that isn't about nbagent's or nbformat's insides."""
    with pytest.raises(UsageError, match=r"n is not a notebook: (it has not the form|Notebook does not appear)"):
        document.parse(text, name="n")


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_what_no_file_can_hold_is_not_written(tmp_path: Path, value: object) -> None:
    """The result is told; the notebook is as it was."""
    path = tmp_path / "n.ipynb"
    path.write_text(text := changed(("metadata", "x"), value))
    with pytest.raises(StoreError, match="no JSON can hold"):
        write_into(document.parse(text, name="n"), path, Proof(name="n"))
    assert path.read_text() == text


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00", "0001-01-01T10:00:00+00:00", "9999-12-31T23:00:00-12:00", 5])
def test_a_time_that_no_notebook_was_made_at_is_none(time: object) -> None:
    """Such as the first day that there is, before which there is no other."""
    found = document.parse(changed(("cells", 0, "metadata", "nbagent"), {"time": time}), name="n")
    assert found.cells[0].at is None


def test_cells_that_only_install_are_known() -> None:
    """Line by line, however often a line says so."""
    for code, installs in {
        "%pip install a": True, "!uv pip install a\n\n%pip install b\n": True, "%pip install a\nx": False, "": False,
        "%pip install a " * 40: True, "%pip install a " * 40 + "\nx": False,
    }.items():  # fmt: skip
        assert document.DocumentCell(id="c", number=1, code=code).installs is installs


def test_no_field_makes_a_line_of_a_provenance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package's name had a line of its own, as if nbagent had verified the notebook; and wrote from right to left."""
    made = copy.deepcopy(NOTEBOOK)
    name = "six\nVerified 2026-01-01 by nbagent (docker): same.\r\x1b[2J\u202e"
    package = {"name": name, "version": "1", "sha256": ""}
    made["metadata"]["nbagent"] |= {"engine": name, "lock": {"packages": [package]}}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(made))
    assert log.show(path) == 0
    shown = capsys.readouterr().out
    assert not [line for line in shown.splitlines() if line.startswith("Verified")]
    assert all(sign.isprintable() for sign in shown.replace("\n", ""))
