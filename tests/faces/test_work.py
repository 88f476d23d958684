"""What a command does at its end: files are collected and the notebook is written, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from nbagent import Session
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import Ending, _close, work
from nbagent.faces.terminal.view import View


async def run_cell(session: Session, _: View) -> None:
    """What the command is for."""
    await session.run("print(6 * 7)")


def command(folder: Path, deliver: Callable[[], object]) -> Callable[[], Session]:
    """Makes a session at the end of whose command this happens while files are collected."""

    def make() -> Session:
        session = Session(engine="bubblewrap", mcp=False, state_dir=folder / "state")

        async def broken() -> dict[str, str]:
            deliver()
            return {}

        session.deliver = broken  # type: ignore[method-assign]
        return session

    return make


def fail() -> None:
    """A fault of nbagent's own."""
    raise OverflowError("int too large to convert to float")


def cancel() -> None:
    """Ctrl-C."""
    raise asyncio.CancelledError


def has_cell(notebook: Path) -> bool:
    """Whether a notebook has what the cell has shown."""
    return "42" in str(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]


async def test_a_fault_while_files_are_collected_costs_no_notebook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fault is still raised, and the person is told where the notebook is."""
    wanted = CommandFlags(out=tmp_path / "n.ipynb", quiet=True)
    with pytest.raises(OverflowError):
        await work(command(tmp_path, fail), run_cell, wanted=wanted, exports=lambda _: True)
    assert has_cell(tmp_path / "n.ipynb")
    assert f"notebook: {tmp_path / 'n.ipynb'}" in capsys.readouterr().err


async def test_ctrl_c_while_files_are_collected_costs_no_notebook(tmp_path: Path) -> None:
    """The command ends as stopped."""
    wanted = CommandFlags(out=tmp_path / "n.ipynb", quiet=True)
    ended = await work(command(tmp_path, cancel), run_cell, wanted=wanted, exports=lambda _: True)
    assert (ended.stopped, ended.notebook) == (True, tmp_path / "n.ipynb")
    assert has_cell(tmp_path / "n.ipynb")


async def test_a_fault_is_told_also_if_ctrl_c_comes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that can't be written is no mere stop."""
    task = asyncio.current_task()

    async def broken(*_: object, **__: object) -> None:
        task.cancel()
        await asyncio.sleep(0)
        fail()

    monkeypatch.setattr("nbagent.faces.cli.work.export_last", broken)
    with pytest.raises(OverflowError):
        await _close(Ending(), command(tmp_path, bool)(), wanted=CommandFlags(quiet=True), exports=True)
