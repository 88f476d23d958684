"""Imports libraries ahead, inside the sandbox: `pool/stock.py` sends this source there. Never imported on the host.

Whatever a library does only once it is used for the first time is done here too, off-screen. Cells must not see any of
it but by the time they take: nothing is put into the session's namespace, no figure is made known to pyplot, and the
backend that shows figures is still chosen by the first cell that makes one.
"""

from __future__ import annotations

import importlib
import io
import sys


def main(names: list[str]) -> list[str]:
    """Import modules and use them once; returns what went wrong, a sentence each."""
    wrong = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            wrong.append(f"The module {name!r} can't be imported ahead: {type(error).__name__}: {error}"[:300])
    for name, use in (("polars", use_polars), ("matplotlib.figure", use_matplotlib)):
        if name in sys.modules:
            try:
                use()
            except Exception as error:
                wrong.append(f"The module {name!r} can't be used ahead: {type(error).__name__}: {error}"[:300])
    return wrong


def use_polars() -> None:
    """Start its threads, and run its optimizer, its CSV reader and both forms that a notebook shows."""
    import polars

    table = polars.DataFrame({"group": ["a", "b", "a"], "value": [1.5, 2.5, None]})
    read = polars.read_csv(io.BytesIO(table.write_csv().encode()))
    found = read.lazy().group_by("group").agg(polars.col("value").mean()).sort("group").collect()
    repr(found)
    found._repr_html_()


def use_matplotlib() -> None:
    """Draw a figure as a notebook does: lays out text, loads the font, the renderer and the writer of PNG."""
    # Not matplotlib_inline: importing it already chooses it.
    import IPython.core.pylabtools  # noqa: F401 - what that imports in its turn
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([1, 2, 3], [2, 4, 3], label="line")
    axes.bar([1, 2, 3], [1, 2, 1])
    axes.scatter([1, 2], [1, 2])
    axes.set(title="title", xlabel="x", ylabel="y")
    axes.legend()
    canvas.print_figure(io.BytesIO(), format="png", bbox_inches="tight")
