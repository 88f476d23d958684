"""A session's notebook is exported from the File menu, and verified there."""

from __future__ import annotations

from pathlib import Path

import nbformat
from faces.lab.browser.conftest import started
from playwright.sync_api import Browser
from program import call, replies

TWO = (
    "import matplotlib.pyplot as plt\nfor heights in ([1, 3, 2], [3, 1, 4]):\n    plt.plot(heights)\n    plt.show()\n"
    "print('the total is', 14)"
)


def test_a_session_is_exported(tmp_path: Path, chromium: Browser) -> None:
    """A person names the file; it is written by the server, and opened. A refused name is there to be mended."""
    name = replies(tmp_path / "replies.jsonl", call(TWO), "The total is 14.")
    words = ("--NbagentApp.approvals=never-ask",)
    with started(tmp_path / "home", *words, NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap") as lab:
        panel = lab.open(chromium, workspace="files")
        page = panel.page
        panel.ask("Draw two, and total")
        panel.place.get_by_text("The total is 14.").wait_for()

        def choose(item: str) -> None:
            page.get_by_role("menuitem", name="File", exact=True).click()
            page.get_by_role("menuitem", name=item).click()

        choose("Export Reproducible Notebook…")
        dialog = page.get_by_role("dialog")
        assert dialog.get_by_role("textbox").input_value() == "Draw two and total.ipynb"
        dialog.get_by_role("textbox").fill("drawn.pdf")
        dialog.get_by_role("button", name="Export").click()
        dialog.get_by_text("A notebook can't be called 'drawn.pdf'.").wait_for()
        assert dialog.get_by_role("textbox").input_value() == "drawn.pdf"
        dialog.get_by_role("textbox").fill("drawn")
        dialog.get_by_role("button", name="Export").click()
        page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.path === 'drawn.ipynb'")
        page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.isReady")
        made = nbformat.read(lab.root / "drawn.ipynb", 4)
        assert any(each["source"] == TWO for each in made["cells"])
        # Notebook 7 shows one document, and takes no other one.
        page.evaluate("() => { window.jupyterapp.shell.add = () => undefined }")
        choose("Verify Notebook")
        dialog.get_by_role("heading", name="drawn.ipynb", exact=True).wait_for()
        dialog.get_by_role("table").wait_for()
        panel.picture("verify-dialog")
        dialog.get_by_role("button", name="Close").click()
        panel.close()
