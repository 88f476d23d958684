"""`%agent` in JupyterLab, in a browser: seen at work, approved and stopped by its buttons, readable when saved."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import nbformat
import pytest
from playwright.sync_api import Page, sync_playwright
from program import call, end_server, replies

PLOT = "import matplotlib.pyplot as plt\nplt.plot(df['a'])\nplt.show()\nprint('rows:', df.height)\ndf"
ON = "import time\nfor step in range(10_000):\n    print('step', step, flush=True)\n    time.sleep(0.1)"
IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
PICTURES = "NBAGENT_TEST_PICTURES"
"""The folder into which a person who runs this by hand has it save what it sees."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab in a folder with the notebook `ask.ipynb`."""
    name = replies(
        tmp_path / "replies.jsonl", call("print('loaded')"), call(PLOT), "There are **3** rows.", call(ON), "never said"
    )
    cells = [
        f"%load_ext nbagent\n%config NbAgent.model = {name!r}",
        "import polars as pl\ndf = pl.DataFrame({'a': [1, 3, 2]})",
        "%agent What is in @df?",
        "%agent insert",
        "%agent --approve ask Run on",
        "%agent reset",
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells], metadata=kernel)
    nbformat.write(book, tmp_path / "ask.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token="]
    options += [f"--ServerApp.root_dir={tmp_path}", "--LabApp.expose_app_in_browser=True"]
    more = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "NBAGENT_ENGINE": "bubblewrap"}
    with (tmp_path / "lab.log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)
    end = time.monotonic() + machine.WAIT
    while True:
        assert time.monotonic() < end, (tmp_path / "lab.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.2)
    yield f"http://127.0.0.1:{port}/lab/tree"
    end_server(server)


def test_it_is_used_in_a_browser(lab: str, tmp_path: Path) -> None:
    wait = 1000 * machine.WAIT  # milliseconds

    def command(name: str, *, awaited: bool = True, **arguments: str) -> None:
        call = "window.jupyterapp.commands.execute(name, given)"
        body = f"return {call}.then(() => null)" if awaited else call
        page.evaluate(f"([name, given]) => {{ {body} }}", [name, arguments])

    def picture(name: str) -> None:
        if folder := os.environ.get(PICTURES):
            page.screenshot(path=f"{folder}/{name}.png", full_page=True)

    def seen(text: str) -> None:
        page.get_by_text(text).last.wait_for()

    with sync_playwright() as playwright:
        browser = machine.chromium(playwright)
        page = _opened(browser.new_page, f"{lab}/ask.ipynb", wait)
        page.wait_for_function(IDLE)
        for _ in range(3):
            command("notebook:run-cell-and-select-next")
        seen("There are 3 rows.")
        assert page.locator("img[src^='data:image/png']").count() == 1
        command("notebook:run-cell")
        cells = "[...window.jupyterapp.shell.currentWidget.content.model.cells]"
        sources = f"() => {cells}.map(each => each.sharedModel.getSource())"
        before = page.evaluate(sources)
        assert before[4:6] == ["print('loaded')", PLOT], "below, each as a cell"
        seen("question 1, cell 3")  # each says whose it is
        facts = page.evaluate(f"() => {cells}.slice(4, 6).map(each => each.sharedModel.getMetadata('nbagent'))")
        assert [each["cell"] for each in facts] == [2, 3]
        assert {(each["turn"], each["tool"], each["model"]) for each in facts} == {(1, "python", facts[0]["model"])}
        assert all(each["source_sha256"] and each["time"] and each["approver"] for each in facts)
        command("notebook:undo-cell-action")
        assert page.evaluate(sources) == before[:4] + before[6:], "both are taken out at once"
        page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 4 }")
        command("notebook:run-cell-and-select-next", awaited=False)
        page.get_by_role("button", name="Approve").click()
        seen("step 3")  # the output of the cell that runs
        picture("running")
        began = time.monotonic()
        page.get_by_role("button", name="Stop").last.click()
        page.get_by_text("nbagent: Stopped.").wait_for()
        took = time.monotonic() - began
        assert took < 30, "a second where nothing else runs"
        page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 5 }")
        command("notebook:run-cell")
        seen("The session has ended")
        picture("light")
        command("apputils:change-theme", theme="JupyterLab Dark")
        page.locator("[data-jp-theme-light='false']").wait_for(state="attached")
        picture("dark")
        command("docmanager:save")

        saved = (tmp_path / "ask.ipynb").read_bytes()
        assert len(saved) < 150_000
        book = json.loads(saved)
        # One more cell, so that nobody has signed it: it is shown as a stranger's, and there is no kernel of its name.
        book["cells"].insert(0, nbformat.v4.new_markdown_cell("one more"))
        book["metadata"]["kernelspec"]["name"] = "gone"
        (tmp_path / "again.ipynb").write_text(json.dumps(book))
        # In a workspace of its own, into which the first notebook isn't brought back.
        page = _opened(browser.new_page, f"{lab.replace('tree', 'workspaces/again/tree')}/again.ipynb", wait)
        seen("There are 3 rows.")
        seen("one more")
        assert page.get_by_text("Loading widget").count() == 0
        assert page.locator("img[src^='data:image/png']").count() == 1
        picture("again")
        browser.close()


def _opened(make: Callable[[], Page], address: str, wait: float) -> Page:
    page = make()
    page.set_default_timeout(wait)
    page.goto(address)
    page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(state="attached")
    return page
