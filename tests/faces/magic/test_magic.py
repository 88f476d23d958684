"""`%agent` in real kernels: awaited at the beginning of a line, waiting elsewhere, headless under nbclient."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from program import replies

CELL = 'print(df.shape)\nresult = df.filter(pl.col("a") > 1)\nresult'
Run = Callable[..., list[Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs cells in an ordinary kernel under nbclient; returns them with their outputs."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NBAGENT_ENGINE", "bubblewrap")
    clients = []

    def work(*cells: str, model: list[Any]) -> list[Any]:
        file = tmp_path / "replies.jsonl"
        replies(file, *model)
        first = f"%load_ext nbagent\n%config NbAgent.model = 'replay:{file}'"
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in (first, *cells, "%agent reset")])
        client = NotebookClient(book, kernel_name="python3", timeout=120, allow_errors=True)
        clients.append(client)
        client.execute(cwd=str(tmp_path), env=dict(os.environ))
        return book.cells[1:]

    yield work


def text(cell: Any) -> str:
    """All text of a cell's outputs."""
    return "\n".join(
        each.get("text") or each.get("data", {}).get("text/plain") or "\n".join(each.get("traceback", ())) for each in cell.outputs
    )
