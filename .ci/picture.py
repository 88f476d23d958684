"""Photographs the notebook that `nbagent demo` has written, for README.md: `make picture`.

    python .ci/picture.py NOTEBOOK PICTURE

nbconvert makes the page, Chromium draws it. Of the notebook it shows the question, the cell of the test, the figure and
the answer. Nothing is fetched.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from PIL import Image
from playwright.sync_api import sync_playwright
from traitlets.config import Config

WIDTH = 900
NO_CODE = "no-code"
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"]
STYLE = """<style>
    body { font-family: sans-serif }
    details { display: none }
    .jp-Cell { padding: 2px 8px }
    img { width: 520px }
</style>"""


def chosen(path: Path) -> nbformat.NotebookNode:
    """The notebook with the cells that are shown: code of the one that draws the figure is left out."""
    notebook = nbformat.read(path, as_version=4)
    role = {id(cell): cell.metadata.get("nbagent", {}).get("role") for cell in notebook.cells}
    tests = next(number for number, cell in enumerate(notebook.cells) if "ttest" in cell.source)
    drawn = next(cell for cell in notebook.cells[tests + 1 :] if cell.cell_type == "code")
    drawn.metadata["tags"] = [NO_CODE]
    ends = [cell for cell in notebook.cells if role[id(cell)] in ("question", "answer")]
    notebook.cells = [ends[0], *notebook.cells[tests - 1 : tests + 1], drawn, ends[-1]]
    return notebook


def photograph(page: str) -> bytes:
    """The page as a PNG."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=FLAGS)
        tab = browser.new_page(viewport={"width": WIDTH, "height": 800})
        tab.route("**/*", lambda route: route.abort())
        tab.set_content(page, wait_until="load")
        taken = tab.locator("main").screenshot()
        browser.close()
    return taken


def main(notebook: Path, picture: Path) -> None:
    """Write the picture, in few colours: it is looked at on a page, not measured."""
    removing = {"enabled": True, "remove_input_tags": [NO_CODE]}
    exporter = HTMLExporter(config=Config({"TagRemovePreprocessor": removing}), exclude_anchor_links=True)
    page, _ = exporter.from_notebook_node(chosen(notebook))
    taken = Image.open(io.BytesIO(photograph(page.replace("</head>", f"{STYLE}</head>"))))
    taken.convert("RGB").quantize(128).save(picture, optimize=True)
    print(f"{picture}: {picture.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
