"""What a person has done with a cell of a notebook: its error fixed, the cell explained, a question asked about it."""

from __future__ import annotations

from pathlib import Path

from faces.lab.browser.conftest import started
from faces.lab.browser.notebooks import CELLS, IDLE, beside, sources
from playwright.sync_api import Browser, expect
from program import replies

FIXED = "It divides by zero.\n\n```python\ntotal = 42 / 1\nprint(total)\n```"


def test_a_cell_is_fixed_explained_and_asked_about(tmp_path: Path, chromium: Browser) -> None:
    """The cell and its traceback go along as data; a fix is shown as a diff, and is one undo in the cell."""
    name = replies(tmp_path / "replies.jsonl", FIXED, FIXED, "It prints a number.", "Since it is so.")
    with started(tmp_path / "home", NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap") as lab:
        panel = lab.open(chromium, workspace="cells")
        page, place = panel.page, panel.place
        beside(lab, panel, "broken.ipynb", "total = 42 / 0\nprint(total)", "fine = 1")
        fix = page.locator("[data-command='nbagent:fix-cell']")
        assert not fix.is_visible(), "it has not failed"
        page.wait_for_function(IDLE)
        panel.command("notebook:run-cell")
        page.wait_for_function(f"() => {CELLS}[0].outputs.some(each => each.output_type === 'error')")
        fix.first.click()
        change = place.get_by_label("Change of a cell")
        change.get_by_text("removed: total = 42 / 0").wait_for()
        change.get_by_text("added: total = 42 / 1").wait_for()
        title = "Fix: ZeroDivisionError in cell 1 of broken.ipynb"
        assert place.get_by_label("You asked").locator("p").inner_text() == title, "the rest is folded"
        panel.picture("fix")
        place.get_by_role("button", name="Show all").click()
        place.get_by_text("ZeroDivisionError: division by zero").wait_for()
        assert sources(panel)[0].startswith("total = 42 / 0"), "it is shown before it is changed"
        change.get_by_role("button", name="Reject").click()
        place.get_by_text("Rejected.").wait_for()
        assert sources(panel)[0].startswith("total = 42 / 0")
        panel.command("nbagent:fix-cell")
        page.locator(".jp-Cell").first.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("  # mine")
        change.get_by_text("removed: print(total) # mine").wait_for()
        change.get_by_role("button", name="Accept").click()
        assert sources(panel) == ["total = 42 / 1\nprint(total)", "fine = 1"]
        page.locator(".jp-Cell").first.locator(".cm-content").click()
        page.keyboard.press("Control+z")
        assert sources(panel)[0] == "total = 42 / 0\nprint(total)  # mine", "one undo, and nothing else with it"

        panel.command("nbagent:ask-about-cell")
        page.locator(".jp-Cell").first.click(button="right")
        page.get_by_role("menuitem", name="Explain This Cell").click()
        place.get_by_text("It prints a number.").wait_for()
        place.get_by_text("Explain: cell 1 of broken.ipynb").wait_for()
        place.get_by_text("Cell 1 of broken.ipynb", exact=True).wait_for()
        panel.ask("Why is it so?")
        place.get_by_text("Since it is so.").wait_for()
        asked = place.get_by_label("You asked").last
        asked.get_by_role("button", name="Show all").click()
        assert asked.inner_text().startswith("Why is it so?")
        assert "42 / 0" in asked.inner_text()
        assert not place.get_by_text("Cell 1 of broken.ipynb", exact=True).is_visible(), "it went along once"
        place.get_by_label("All sessions").click()
        expect(place.locator(".nba-Row button.nba-RowText")).to_contain_text(title)
        panel.close()
