"""The panel beside a notebook: cells of answers go into it, and cells of it into questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from faces.lab.browser.conftest import Lab, Panel, started
from faces.lab.browser.notebooks import CELLS, IDLE, beside, cells, sources
from playwright.sync_api import Browser
from program import call, replies

LOADING = "from IPython.display import HTML\nHTML('<b>bold</b><img src=\"http://127.0.0.1:9/pixel.png\">')"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab whose new sessions have recorded replies, each the same ones."""
    home = tmp_path_factory.mktemp("notebook")
    broken, works = call("1 / 0"), call("total = 41 + 1\nprint('total', total)")
    name = replies(
        home / "replies.jsonl", broken, works, call(LOADING), "It is **42**.", call("print('more')"), "More."
    )
    with started(home, "--NbagentApp.approvals=never-ask", NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


def settings(panel: Panel, **given: Any) -> None:
    """Set what the person's settings of notebooks say."""
    panel.page.evaluate(
        """given => Promise.all(Object.entries(given).map(([name, value]) =>
            window.jupyterapp.serviceManager.settings.save('@nbagent/panel:notebook', JSON.stringify({[name]: value}))))
            .then(() => null)""",
        given,
    )
    panel.page.reload()
    panel.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")


def test_cells_go_into_the_notebook_where_it_was_asked(lab: Lab, panel: Panel) -> None:
    """They go in behind the cell that was active, whatever is in front later, and one undo takes all of them out."""
    beside(lab, panel, "asked.ipynb", "first = 1", "last = 2")
    panel.ask("How much?")
    panel.place.get_by_text("It is 42.").wait_for()
    beside(lab, panel, "other.ipynb", "other = 3")
    panel.place.get_by_role("button", name="Insert 2 cells into asked.ipynb").click()
    panel.place.get_by_text("Its cells are in asked.ipynb").wait_for()
    assert sources(panel) == ["other = 3"], "the notebook in front"
    panel.command("docmanager:open", path="asked.ipynb")
    first, total, shown, last = cells(panel)
    assert (first["source"], last["source"]) == ("first = 1", "last = 2")
    assert total["source"].startswith("total = 41")
    assert total["outputs"][0]["text"] == "total 42\n"
    facts = total["metadata"]["nbagent"]
    assert {name: facts[name] for name in ("role", "turn", "cell", "engine", "trust")} == {
        "role": "cell", "turn": 1, "cell": 2, "engine": "bubblewrap", "trust": "isolated",
    }  # fmt: skip
    html = shown["outputs"][0]["data"]["text/html"]
    assert "<b>bold</b>" in html
    assert "pixel.png" not in html, "a picture's address is a way out of a sandbox"
    badges = panel.page.locator(".nba-Badge")
    assert badges.count() == 2
    assert badges.first.inner_text() == "nbagent · question 1, cell 2 · bubblewrap, isolated"
    panel.page.evaluate(f"{CELLS[: CELLS.index('.map')]}[1].setSource('total = 43')")
    badges.first.get_by_text("edited since").wait_for()
    panel.picture("inserted")
    assert nbformat.read(lab.root / "asked.ipynb", 4)["cells"][1]["source"] == "last = 2", "saving is the person's"
    panel.command("notebook:undo-cell-action")
    assert sources(panel) == ["first = 1", "last = 2"]
    panel.place.get_by_role("button", name="Insert 2 cells into asked.ipynb").wait_for()
    panel.command("notebook:redo-cell-action")
    panel.place.get_by_text("Its cells are in asked.ipynb").wait_for()
    # What the question did in the kernel is undone too; a cell that was edited stays.
    panel.place.get_by_role("button", name="Undo this question").click()
    panel.place.get_by_text("Undone: the kernel is as if it had not been asked.").wait_for()
    panel.page.wait_for_function(f"() => {CELLS}.length === 3")
    panel.place.get_by_text("Cells that you have edited stay in asked.ipynb.").wait_for()
    panel.picture("undone")
    assert sources(panel) == ["first = 1", "total = 43", "last = 2"]
    panel.place.get_by_role("button", name="Bring it back").click()
    panel.page.wait_for_function(f"() => {CELLS}.length === 4")
    # No click is lost while the other cells still run again.
    panel.place.get_by_role("button", name="Undo this question").click()
    panel.page.wait_for_function(f"() => {CELLS}.length === 3")
    panel.place.get_by_role("button", name="Bring it back").click()
    panel.page.wait_for_function(f"() => {CELLS}.length === 4")


def test_a_notebook_that_was_closed_is_named(lab: Lab, panel: Panel) -> None:
    """A sentence says that it is closed; opened again, it takes the cells."""
    beside(lab, panel, "closed.ipynb", "")
    panel.ask("How much?")
    panel.place.get_by_label("Cell 1: failed").wait_for()
    panel.command("docmanager:save")
    panel.command("application:close")
    panel.place.get_by_text("closed.ipynb is closed.").wait_for()
    panel.place.get_by_role("button", name="Open it").click()
    panel.place.get_by_role("button", name="Insert 2 cells into closed.ipynb").click()
    panel.place.get_by_text("Its cells are in closed.ipynb").wait_for()
    assert sources(panel)[0].startswith("total"), "before the empty cell"
    assert len(cells(panel)) == 3


def test_a_read_only_notebook_stays_as_it_is(lab: Lab, panel: Panel) -> None:
    """A sentence says why, and what to do."""
    beside(lab, panel, "fixed.ipynb", "fixed = 1")
    panel.page.evaluate("window.jupyterapp.shell.currentWidget.content.model.readOnly = true")
    panel.ask("How much?")
    panel.place.get_by_text("fixed.ipynb is read-only.").wait_for()
    assert len(cells(panel)) == 1


@pytest.mark.parametrize("mode", ["auto", "ask"])
def test_cells_go_in_by_themselves_or_are_shown_first(lab: Lab, chromium: Browser, mode: str) -> None:
    """With `auto` they go in after the answer; with `ask` a person sees them first, and rejects or accepts them."""
    panel = lab.open(chromium, workspace=mode)
    settings(panel, insertCells=mode)
    panel.command("nbagent:focus")
    beside(lab, panel, f"{mode}.ipynb", "first = 1")
    panel.ask("How much?")
    if mode == "ask":
        shown = panel.place.get_by_label("Cells for the notebook")
        shown.get_by_text("total = 41 + 1").wait_for()
        panel.picture("shown-first")
        assert len(cells(panel)) == 1
        shown.get_by_role("button", name="Reject").click()
        shown.wait_for(state="detached")
        assert len(cells(panel)) == 1
        panel.place.get_by_role("button", name="Insert 2 cells").click()
        shown.get_by_role("button", name="Accept").click()
    panel.place.get_by_text(f"Its cells are in {mode}.ipynb").wait_for()
    assert len(cells(panel)) == 3
    panel.ask("And more?")
    if mode == "ask":
        panel.place.get_by_role("button", name="Accept").click()
    panel.page.wait_for_function(f"() => {CELLS}.length === 4")
    assert cells(panel)[3]["source"] == "print('more')", "behind those of the answer before"
    panel.command("notebook:undo-cell-action")
    assert len(cells(panel)) == 3
    settings(panel, insertCells="click")
    panel.close()


def test_a_cell_that_took_its_kernel_with_it_says_so(lab: Lab, panel: Panel) -> None:
    """The one that ran, and not those that waited behind it; JupyterLab alone says that a kernel has died."""
    code = ("1 + 1", "import os, time\ntime.sleep(1)\nos.kill(os.getpid(), 9)", "2 + 2")
    beside(lab, panel, "dies.ipynb", *code, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    panel.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    panel.page.locator(".jp-OutputArea-output").get_by_text("the kernel was killed by SIGKILL").wait_for()
    assert [len(each["outputs"]) for each in cells(panel)] == [1, 1, 0]


def test_out_of_memory_is_told_once(lab: Lab, panel: Panel) -> None:
    """In the cell that took it, and not by the next one, too."""
    beside(lab, panel, "full.ipynb", "x = bytearray(5 * 10**9)", "2 + 2", kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell-and-select-next")
    panel.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    panel.page.locator(".jp-OutputArea-output").get_by_text("the kernel ran out of memory").wait_for()
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.wait_for_function(f"() => {CELLS}[1].outputs.length")
    assert ["out of memory" in str(each["outputs"]) for each in cells(panel)] == [True, False]
