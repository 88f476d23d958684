"""`%agent` in a notebook of a sandboxed kernel: the panel asks, and the assistant's cells run in that very kernel."""

from __future__ import annotations

from pathlib import Path

from faces.lab.browser.conftest import started
from faces.lab.browser.notebooks import IDLE, beside
from playwright.sync_api import Browser
from program import call, replies


def test_a_cells_question_is_asked_in_the_panel(tmp_path: Path, chromium: Browser) -> None:
    name = replies(tmp_path / "replies.jsonl", call("mine += 1\nprint('now', mine)"), "It is 42.", "Still 42.")
    words = ("--NbagentApp.approvals=never-ask",)
    with started(tmp_path / "home", *words, NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap") as lab:
        panel = lab.open(chromium, workspace="sandboxed")
        cells = (
            "mine = 41",
            "%%agent -i mine\nAdd one\nto it",
            "%agent status\nprint('mine is', mine)",
            "%agent And now?",
        )
        beside(lab, panel, "own.ipynb", *cells, kernel="nbagent-bubblewrap")
        panel.page.wait_for_function(IDLE)
        panel.command("notebook:run-cell-and-select-next")
        panel.command("notebook:run-cell-and-select-next")
        panel.place.get_by_text("It is 42.").wait_for()
        panel.place.locator(".nba-Facts").get_by_text("in a sandbox of the bubblewrap engine").wait_for()
        panel.picture("sandboxed-magic")
        panel.command("notebook:run-cell-and-select-next")
        panel.page.locator(".jp-OutputArea-output").get_by_text("mine is 42").wait_for()
        panel.command("notebook:run-cell")
        panel.place.get_by_text("Still 42.").wait_for()
        (session,) = (tmp_path / "home" / "state" / "sessions").iterdir()
        assert session.is_dir(), "the conversation went on"
        panel.close()
