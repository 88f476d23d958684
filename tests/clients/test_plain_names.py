"""A notebook in JupyterLab reads what lies beside it by its plain name, as it is at the moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients.test_results import run, said
from jupyter_client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

SEEN_SECONDS = 20.0
"""On a busy machine; otherwise it takes less than one."""


@pytest.fixture
def client(kernel_name: str) -> Iterator[BlockingKernelClient]:
    """The client of a kernel that was started for this folder."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def wait_for(client: BlockingKernelClient, code: str, wanted: str) -> None:
    """Run a cell until it shows something."""
    end = time.monotonic() + SEEN_SECONDS
    while (found := said(run(client, code))) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.05)


def test_by_plain_name(client: BlockingKernelClient, folder: Path) -> None:
    """What is there at the start, what is replaced, what is added, and what is taken away."""
    assert said(run(client, "import polars; polars.read_csv('numbers.csv')['a'].sum()")) == "3"
    (folder / "new.csv").write_text("a\n5\n")
    (folder / "numbers.csv").write_text("a\n7\n")
    wait_for(client, "import os; os.path.exists('new.csv') and open('new.csv').read().split()", "['a', '5']")
    wait_for(client, "open('numbers.csv').read().split()", "['a', '7']")
    (folder / "new.csv").unlink()
    wait_for(client, "os.path.lexists('new.csv')", "False")


def test_what_comes_later_is_filtered_too(client: BlockingKernelClient, folder: Path, tmp_path: Path) -> None:
    """No link that leads out, and no name that begins with a dot."""
    (tmp_path / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / ".env").write_text("secret")
    (folder / "seen").write_text("1")
    wait_for(client, "import os; os.path.exists('seen')", "True")
    assert said(run(client, "sorted(os.listdir())")) == "['numbers.csv', 'seen']"


def test_a_file_of_the_same_name_takes_the_links_place(client: BlockingKernelClient, folder: Path) -> None:
    """The data stays as it is; what was written lands beside the notebook, and stays inside when the data changes."""
    found = run(client, "_ = open('numbers.csv', 'w').write('mine')")
    assert said(found) == "nbagent: saved in nbagent-output: numbers.csv"
    assert (folder / "numbers.csv").read_text() == "a\n1\n2\n"
    assert (folder / "nbagent-output" / "numbers.csv").read_text() == "mine"
    (folder / "seen").write_text("1")
    wait_for(client, "import os; os.path.exists('seen')", "True")
    assert said(run(client, "open('numbers.csv').read()")) == "'mine'"


def test_a_link_that_code_removed_stays_away(client: BlockingKernelClient, folder: Path) -> None:
    """Whoever tidies up is not contradicted."""
    run(client, "import os; os.remove('numbers.csv')")
    (folder / "seen").write_text("1")
    wait_for(client, "os.path.exists('seen')", "True")
    assert said(run(client, "os.path.lexists('numbers.csv')")) == "False"
