"""What code or a model wrote, as it may be opened elsewhere: it loads nothing. Pure: text in, text out.

A notebook is opened with a person's network, by programs that fetch whatever it names. So of pictures only those stay
that are in it, whole (`data:`); links stay, and say where they lead. What is taken out is said at its place; the
session's log has it.

    outputs.py    one nbformat output: which MIME types and which metadata stay
    markup.py     HTML and SVG; nh3 has the last word
    styles.py     CSS
    text.py       Markdown and LaTeX, of which no renderer can make more than text and links
    specs.py      JSON that is drawn: Plotly, Vega
    widgets.py    the state of widgets
"""

from nbagent.safety.sanitize.markup import clean_html
from nbagent.safety.sanitize.outputs import clean_output
from nbagent.safety.sanitize.text import clean_latex, clean_markdown
from nbagent.safety.sanitize.widgets import clean_widgets

__all__ = ["clean_html", "clean_latex", "clean_markdown", "clean_output", "clean_widgets"]
