"""A script's or a notebook's cells: where they come from, and when they end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.errors import UsageError
from nbagent.core.events import Cell, CellStatus
from nbagent.notebook.run import MAX_SOURCE, Run, Source, parse, read


def notebook(*cells: dict[str, Any], **more: Any) -> str:
    """A notebook of these cells."""
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})


def code(source: str | list[str], *tags: str) -> dict[str, Any]:
    """A code cell."""
    return {
        "cell_type": "code",
        "id": "x",
        "source": source,
        "metadata": {"tags": list(tags)},
        "outputs": [],
        "execution_count": None,
    }


def test_a_script_is_read_as_utf8(tmp_path: Path) -> None:
    """With or without a byte order mark, whatever its name."""
    (tmp_path / "-odd name").write_bytes(b"\xef\xbb\xbfx = '\xc3\xa9'\n")
    assert read(tmp_path / "-odd name") == [Source("x = 'é'\n", may_exit=True)]


def test_what_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    """The limit is told, and where large data goes."""
    with pytest.raises(UsageError, match=r"more than 20 MB.*--data"):
        parse(b"#" * (MAX_SOURCE + 1), name="standard input")
    (tmp_path / "x.py").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read(tmp_path / "x.py")
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "nothing.py")


def test_a_notebook_that_parses_to_gigabytes_is_refused() -> None:
    """20 MB of empty tables took 3.6 GB and 40 s."""
    metadata = f'{{"x": [{",".join(["{}"] * 1_000_000)}]}}'
    with pytest.raises(UsageError, match="too large for a notebook"):
        parse(notebook().replace('"metadata": {}', f'"metadata": {metadata}').encode(), name="n.ipynb")


def test_a_notebooks_code_cells_are_taken_in_order(tmp_path: Path) -> None:
    """Text and empty cells are passed over, and those whose tag says so are named; equal ids don't matter."""
    text = {"cell_type": "markdown", "id": "m", "source": "text", "metadata": {}}
    path = tmp_path / "n.ipynb"
    cells = [code(["a = 1\n", "a"]), text, code("  "), code("!rm x", "skip-execution")]
    path.write_text(notebook(*cells, code("1/0", "raises-exception", "x")))
    found = read(path)
    skipped = Source("!rm x", skipped="code cell 3")
    assert found == [Source("a = 1\na"), skipped, Source("1/0", may_fail=True)]
    assert Run(found).skipped == ["code cell 3"]


def test_metadata_that_says_how_a_notebook_runs_is_heeded() -> None:
    """Errors that MyST allows; another language than Python is refused; the oldest form is read."""
    allowing = notebook(code("1/0"), metadata={"execution": {"allow_errors": True}})
    assert parse(allowing.encode(), name="n.ipynb") == [Source("1/0", may_fail=True)]
    with pytest.raises(UsageError, match=r"n\.ipynb is in R, and nbagent runs Python only\."):
        parse(notebook(code("1"), metadata={"kernelspec": {"name": "ir", "language": "R"}}).encode(), name="n.ipynb")
    cell = {"cell_type": "code", "language": "python", "input": "6 * 7", "outputs": [], "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell]}]}
    assert parse(json.dumps(old).encode(), name="n.ipynb") == [Source("6 * 7")]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", '{"cells": 1}', "null", "x = 1"),
        *(notebook({"cell_type": "code"}), notebook(nbformat=99), notebook({**code("1"), "metadata": {"tags": 1}})),
    ],
)
def test_what_is_no_notebook_is_refused(content: str) -> None:
    """A broken notebook is a sentence, not half of its cells."""
    with pytest.raises(UsageError, match="is not a notebook"):
        parse(content.encode(), name="n.ipynb")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe that nobody writes to would keep the program for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        read(tmp_path / "pipe")


class Scripted:
    """Runs a cell as its code says: `ok`, `error`, `timeout`, or is stopped; what follows on that is lost."""

    async def run(self, code: str) -> Cell:
        """As `Session.run`."""
        if code == "stop":
            raise asyncio.CancelledError
        name, _, lost = code.partition(" ")
        status: CellStatus = name  # type: ignore[assignment]
        return Cell(cell=1, code=code, status=status, outputs=[], state_lost=lost)


@pytest.mark.parametrize(
    ("sources", "ran", "status"),
    [
        ([Source("ok"), Source("ok")], 2, "ok"),
        ([Source("ok"), Source("error"), Source("ok")], 2, "error"),
        ([Source("error", may_fail=True), Source("ok")], 2, "ok"),
        ([Source("timeout", may_fail=True), Source("ok")], 2, "ok"),
        ([Source("timeout variables", may_fail=True), Source("ok")], 1, "timeout"),
        ([Source("died", may_fail=True), Source("ok")], 1, "died"),
        ([], 0, "ok"),
    ],
)
async def test_the_first_failure_ends_all(sources: list[Source], ran: int, status: str) -> None:
    """Unless the cell may fail: then an error of its code, or an interrupt after its time that its kernel survived."""
    run = Run(sources)
    await run.on(Scripted())
    assert (len(run.cells), run.status) == (ran, status)


async def test_what_ran_before_a_stop_is_kept() -> None:
    """Who is stopped has the cells so far."""
    run = Run([Source("ok"), Source("stop"), Source("ok")])
    with pytest.raises(asyncio.CancelledError):
        await run.on(Scripted())
    assert (len(run.cells), run.status) == (1, "interrupted")
