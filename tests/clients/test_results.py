"""What is saved in a kernel of another client's reaches a folder beside the notebook, and the cell says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from clients.test_programs import Run, notebook
from jupyter_client import BlockingKernelClient, KernelManager
from jupyter_client.manager import start_new_kernel

from nbagent import Session
from nbagent.notebook.compare.notes import without_notes

Pair = tuple[KernelManager, BlockingKernelClient]


@pytest.fixture
def kernel(kernel_name: str) -> Iterator[Pair]:
    """A kernel as JupyterLab starts it for a notebook in this folder."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> list[dict[str, Any]]:
    """The outputs of a cell, as a notebook keeps them."""
    outputs: list[dict[str, Any]] = []

    def take(message: dict[str, Any]) -> None:
        if message["msg_type"] in ("stream", "display_data", "error", "execute_result"):
            outputs.append({"output_type": message["msg_type"], **message["content"]})

    client.execute_interactive(code, output_hook=take, timeout=60, allow_stdin=False)
    return outputs


def said(outputs: list[dict[str, Any]]) -> str:
    """All text of these outputs."""
    return "\n".join(each.get("text") or each["data"]["text/plain"] for each in outputs).strip()


def test_what_a_cell_saves_is_beside_the_notebook(kernel: Pair, folder: Path) -> None:
    """From the working folder and /tmp/output, sub-folders too, by whatever library; the cell says where it is."""
    _, client = kernel
    found = run(client, "import polars; polars.DataFrame({'a': [1]}).write_csv('out.csv')")
    assert said(found) == "nbagent: saved in nbagent-output: out.csv"
    found = run(
        client,
        "import os; os.makedirs('/tmp/output/deep'); open('empty', 'w').close()\n"
        "_ = open('/tmp/output/deep/a.txt', 'w').write('1')",
    )
    assert said(found) == "nbagent: saved in nbagent-output: deep/a.txt, empty"
    assert run(client, "x = 1") == []
    assert (folder / "nbagent-output" / "out.csv").read_text() == "a\n1\n"
    assert (folder / "nbagent-output" / "deep" / "a.txt").read_text() == "1"


def test_nothing_is_written_over(kernel: Pair, folder: Path) -> None:
    """A file of the person's keeps its name; the kernel's own is replaced, after a restart too."""
    manager, client = kernel
    (folder / "nbagent-output").mkdir()
    (folder / "nbagent-output" / "out.csv").write_text("mine")
    assert said(run(client, "_ = open('out.csv', 'w').write('1')")).endswith(": out.csv as out-1.csv")
    assert said(run(client, "_ = open('out.csv', 'w').write('2')")).endswith(": out.csv as out-1.csv")
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=60)
    run(client, "_ = open('out.csv', 'w').write('3')")
    found = {each.name: each.read_text() for each in (folder / "nbagent-output").iterdir()}
    assert found == {"out.csv": "mine", "out-1.csv": "3"}


def test_what_is_not_saved_is_said(kernel: Pair, folder: Path) -> None:
    """Links are not followed, names that other programs run unasked are changed, and all of many files come."""
    _, client = kernel
    found = run(client, "import os; os.symlink('/etc/passwd', 'users'); _ = open('conftest.py', 'w').write('1')")
    assert "nbagent: users was not delivered: it is a link" in said(found)
    assert "conftest.py as saved-conftest.py" in said(found)
    assert [each.name for each in (folder / "nbagent-output").iterdir()] == ["saved-conftest.py"]
    found = run(client, "for n in range(45): _ = open(f'{n:02}.txt', 'w').write('1')")
    assert said(found).endswith("09.txt and 35 more")
    assert len(list((folder / "nbagent-output").glob("*.txt"))) == 45


def test_a_folder_that_leads_elsewhere_gets_nothing(kernel: Pair, folder: Path, tmp_path: Path) -> None:
    """A cloned project may bring a link of that name."""
    (tmp_path / "elsewhere").mkdir()
    (folder / "nbagent-output").symlink_to(tmp_path / "elsewhere")
    found = run(kernel[1], "_ = open('out.csv', 'w').write('1')")
    assert said(found) == "nbagent: out.csv was not delivered: nbagent-output is a link here."
    assert not list((tmp_path / "elsewhere").iterdir())


def test_bounds(kernel_name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is too large, and one beyond the quota, are named with the limit; smaller ones still come."""
    monkeypatch.setenv("NBAGENT_RESULT_MB", "2")
    monkeypatch.setenv("NBAGENT_SESSION_MB", "3")
    manager, client = start_new_kernel(kernel_name=kernel_name)
    try:
        assert "(limit result_mb)" in said(run(client, "_ = open('a', 'wb').write(bytes(3_000_000))"))
        assert "saved in" in said(run(client, "_ = open('b', 'wb').write(bytes(2_000_000))"))
        assert "(limit session_mb)" in said(run(client, "_ = open('c', 'wb').write(bytes(2_000_000))"))
        assert "saved in" in said(run(client, "_ = open('d', 'wb').write(bytes(2_000))"))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert sorted(each.name for each in (folder / "nbagent-output").iterdir()) == ["b", "d"]


def test_it_can_be_turned_off(kernel_name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a setting, like any other."""
    monkeypatch.setenv("NBAGENT_CLIENT_OUTPUT", "false")
    manager, client = start_new_kernel(kernel_name=kernel_name)
    try:
        assert run(client, "_ = open('out.csv', 'w').write('1')") == []
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert not (folder / "nbagent-output").exists()


def test_what_a_thread_saves_later_comes_at_the_end(kernel_name: str, folder: Path) -> None:
    """A kernel that is asked to end looks once more."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    later = "import threading, time\ndef work():\n    time.sleep(.3)\n    open('late.txt', 'w').write('1')\n"
    run(client, later + "thread = threading.Thread(target=work); thread.start()")
    client.execute("", silent=True, user_expressions={"joined": "thread.join()"}, reply=True, timeout=60)
    client.stop_channels()
    manager.shutdown_kernel()
    assert (folder / "nbagent-output" / "late.txt").read_text() == "1"


async def test_a_sessions_cells_keep_their_files_to_the_session(kernel: Pair, folder: Path) -> None:
    """A session that joins the kernel fetches what its cells save; its notebook has no word of another folder."""
    manager, client = kernel
    async with Session(kernel=manager.connection_file) as session:
        cell = await session.run("_ = open('theirs.csv', 'w').write('1')")
        assert [Path(each).name for each in cell.files] == ["theirs.csv"]
    assert cell.outputs == []
    assert said(run(client, "_ = open('mine.csv', 'w').write('1')")).endswith(": mine.csv")
    assert [each.name for each in (folder / "nbagent-output").iterdir()] == ["mine.csv"]


def test_notebooks_that_programs_run(kernel_name: str, folder: Path, jupyter: Run) -> None:
    """The notebook says where the file is; that is no result, so verifying it elsewhere finds no difference."""
    nbformat.write(notebook(kernel_name, "_ = open('out.csv', 'w').write('1')\nprint('done')"), folder / "in.ipynb")
    done = jupyter("nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output", "out.ipynb")
    assert done.returncode == 0, done.stderr
    assert (folder / "nbagent-output" / "out.csv").read_text() == "1"
    stored = nbformat.read(folder / "out.ipynb", as_version=4).cells[0].outputs
    assert said(stored) == "done\n\nnbagent: saved in nbagent-output: out.csv"
    assert [*without_notes(stored, versions=(), saved=["out.csv"])] == stored[:1]
