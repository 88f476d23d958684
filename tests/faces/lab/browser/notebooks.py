"""Notebooks that are open beside the panel."""

from __future__ import annotations

from typing import Any

import nbformat
from faces.lab.browser.conftest import Lab, Panel

CELLS = "window.jupyterapp.shell.currentWidget?.content.model?.sharedModel.cells.map(each => each.toJSON())"
IDLE = "() => window.jupyterapp.shell.currentWidget?.sessionContext.session?.kernel?.status === 'idle'"
"""Whether the kernel of the notebook in front has started."""


def beside(lab: Lab, panel: Panel, name: str, *sources: str, kernel: str = "python3") -> None:
    """Open a notebook with these cells, and make the first one active."""
    spec = {"kernelspec": {"name": kernel, "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources], metadata=spec)
    nbformat.write(made, lab.root / name)
    panel.command("docmanager:open", path=name, factory="Notebook")
    panel.page.wait_for_function(f"() => {CELLS}?.length === {len(sources)}")
    panel.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")


def cells(panel: Panel) -> list[dict[str, Any]]:
    """The cells of the notebook in front, as the document has them."""
    found: list[dict[str, Any]] = panel.page.evaluate(CELLS)
    return found


def sources(panel: Panel) -> list[str]:
    """Their sources."""
    return [each["source"] for each in cells(panel)]
