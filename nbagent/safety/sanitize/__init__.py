"""Cleans outputs and answers for notebooks, so that opening a notebook loads nothing. Pure: text in, text out.

A notebook is opened with a person's network, by programs that fetch whatever it refers to. So only pictures that it
contains (`data:`) stay; links stay, with their addresses shown. A note says what was removed; the session's log has it
unchanged. Markdown and TeX are cleaned by `core/markdown.py`.

    notebook.py   a whole notebook that hostile code may have written
    outputs.py    an nbformat output: which MIME types and metadata stay
    markup.py     HTML and SVG, by nh3
    nesting.py    where the elements of markup end
    styles.py     CSS
    specs.py      JSON that renderers draw: Plotly's
    widgets.py    the state of widgets
    left_out.py   counts what was removed
"""

from nbagent.core.markdown import clean_latex, clean_markdown
from nbagent.safety.sanitize.markup import clean_html
from nbagent.safety.sanitize.notebook import clean_notebook, clean_shown, language_info
from nbagent.safety.sanitize.outputs import clean_for_page, clean_output
from nbagent.safety.sanitize.specs import PLOTLY
from nbagent.safety.sanitize.widgets import clean_widgets

__all__ = [
    "PLOTLY",
    "clean_for_page",
    "clean_html",
    "clean_latex",
    "clean_markdown",
    "clean_notebook",
    "clean_output",
    "clean_shown",
    "clean_widgets",
    "language_info",
]
