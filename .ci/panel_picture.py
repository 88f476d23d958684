"""Photographs JupyterLab with the panel in light and dark, for README.md and docs/jupyterlab.md: `make picture`.

    PYTHONPATH=tests python .ci/panel_picture.py FOLDER

The demo is asked beside an empty notebook, and its cells are put into it.
"""

import io
import sys
import tempfile
from pathlib import Path

import machine
from faces.lab.browser.conftest import Lab, started
from faces.lab.browser.notebooks import IDLE, beside
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

SIZE = {"width": 1200, "height": 820}
TO_FIGURE = (
    "place.scrollBy(0, [...place.querySelectorAll('img')].pop().getBoundingClientRect().top"
    " - place.getBoundingClientRect().top - 8)"
)


def photograph(lab: Lab, browser: Browser, look: str) -> bytes:
    """JupyterLab as PNG, after the demo."""
    panel = lab.open(browser, workspace=look)
    page, place = panel.page, panel.place
    page.set_viewport_size(SIZE)
    panel.command("apputils:change-theme", theme=f"JupyterLab {look.title()}")
    beside(lab, panel, "penguins.ipynb", "")
    page.wait_for_function(IDLE)
    panel.command("application:toggle-left-area")
    place.get_by_role("button", name="New session").click()
    place.get_by_role("button", name="Try the demo").click()
    place.get_by_label("Answer").wait_for()
    place.get_by_role("button", name="Ask", exact=True).wait_for()
    place.get_by_role("button", name="Insert").click()
    place.get_by_text("Its cells are in penguins.ipynb").wait_for()
    panel.question.fill("And is it so for both sexes?")
    cells = page.locator(".jp-WindowedPanel-outer")
    for scroll in ("place.scrollTo(0, place.scrollHeight)", TO_FIGURE):
        cells.evaluate(f"place => {scroll}")
        page.wait_for_timeout(2_000)  # what comes into sight is drawn then
    taken = page.screenshot()
    panel.close()
    return taken


def main(folder: Path) -> None:
    """Write the pictures, in few colours: they are looked at on a page, not measured."""
    words = ("--NbagentApp.approvals=never-ask",)
    with (
        tempfile.TemporaryDirectory() as home,
        started(Path(home), *words, NBAGENT_ENGINE="bubblewrap") as lab,
        sync_playwright() as playwright,
    ):
        browser = machine.chromium(playwright)
        for look in ("light", "dark"):
            picture = folder / f"panel-{look}.png"
            taken = Image.open(io.BytesIO(photograph(lab, browser, look)))
            taken.convert("RGB").quantize(128).save(picture, optimize=True)
            print(f"{picture}: {picture.stat().st_size // 1024} KB")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
