"""A notebook as a page of HTML that any browser shows, without a network and without running anything. Pure.

All that came from code, a model or a person has been cleaned before (`nbagent.safety.sanitize`), and is once more
where it is made HTML here. Beside that the page's own policy forbids browsers to run or load anything for it.
"""

from __future__ import annotations

import base64
import functools
import html
from collections.abc import Iterator, Mapping
from typing import Any

from nbagent.core.text import joined, plain
from nbagent.kernel.outputs.streams import clean_text
from nbagent.safety.sanitize import clean_html

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do: draw pictures that the page contains."""
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
COLOURED = 100_000
"""Characters of a cell's code that are read for its colours."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem }
pre { font: 13px/1.45 ui-monospace, monospace; padding: .6rem .8rem; margin: .4rem 0; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere }
.count { font: 12px ui-monospace, monospace; color: #6a7280; margin: .8rem 0 -.2rem }
.code, pre:has(> code) { background: #f5f6f8; border-left: 3px solid #4a72b0 }
.error { background: #fdf0f0 }
.output { overflow-x: auto; contain: content }
table { border-collapse: collapse; font-size: 14px; margin: .4rem 0 }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
img { max-width: 100%; height: auto }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="nbagent">
<title>{title}</title>
<style>{style}{colours}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(notebook: Any, *, title: str) -> str:
    """Make the page."""
    sections = [
        f'<section id="cell-id={html.escape(cell["id"])}">\n{"".join(_cell(cell))}</section>'
        for cell in notebook["cells"]
        if not cell["metadata"].get("jupyter", {}).get("source_hidden")
    ]
    colours = _formatter().get_style_defs(".code")
    made = _PAGE.format(policy=POLICY, title=html.escape(title), style=STYLE, colours=colours, body="\n".join(sections))
    return clean_text(made)


def _cell(cell: Any) -> Iterator[str]:
    if cell["cell_type"] != "code":
        yield _markdown(cell["source"])
        return
    if cell["execution_count"] is not None:
        yield f'<p class="count">[{cell["execution_count"]}]</p>\n'
    yield _code(cell["source"])
    for output in cell["outputs"]:
        yield f'<div class="output">{_output(output)}</div>\n'


def _output(output: Mapping[str, Any]) -> str:
    """An output in the form that says most."""
    kind, data = output["output_type"], output.get("data", {})
    if kind == "stream":
        return _text(joined(output["text"]))
    if kind == "error":
        traceback = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
        return _text(traceback, "error")
    if "text/html" in data:
        return joined(data["text/html"])
    if "text/markdown" in data:
        return _markdown(joined(data["text/markdown"]))
    if found := next((mime for mime in PICTURES if mime in data), None):
        return _picture(found, "".join(joined(data[found]).split()), output)
    if "image/svg+xml" in data:
        encoded = base64.b64encode(joined(data["image/svg+xml"]).encode()).decode()
        return _picture("image/svg+xml", encoded, output)
    return _text(joined(data.get("text/latex") or data.get("text/plain") or ""))


def _picture(mime: str, encoded: str, output: Mapping[str, Any]) -> str:
    """A picture, in the size that its code gave it."""
    given = output.get("metadata", {}).get(mime, {})
    size = "".join(
        f' {name}="{given[name]:g}"' for name in ("width", "height") if isinstance(given.get(name), int | float)
    )
    alt = html.escape(str(given.get("alt") or ""))
    return f'<img alt="{alt}" src="data:{mime};base64,{html.escape(encoded)}"{size}>'


def _markdown(text: str) -> str:
    # The text of an answer has been cleaned, and nbagent's own list of sources is HTML in it.
    return f"{clean_html(_renderer().render(clean_text(text)))}\n"


def _code(source: str) -> str:
    from pygments import highlight
    from pygments.lexers.python import PythonLexer

    if len(source) > COLOURED:
        return f'<pre class="code">{html.escape(source)}</pre>\n'
    return f'<pre class="code">{highlight(source, PythonLexer(), _formatter())}</pre>\n'


def _text(text: str, kind: str = "text") -> str:
    return f'<pre class="{kind}">{html.escape(plain(text))}</pre>'


@functools.cache
def _formatter() -> Any:
    from pygments.formatters.html import HtmlFormatter

    return HtmlFormatter(nowrap=True)


@functools.cache
def _renderer() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
