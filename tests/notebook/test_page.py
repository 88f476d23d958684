"""An export as a page: all that a notebook shows, and nothing that runs or loads."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from nbagent.notebook.nodes import new_code_cell, new_markdown_cell, new_notebook
from nbagent.notebook.page import page
from nbagent.safety.sanitize import clean_output

PIXEL = "iVBORw0KGgo="
EVIL = '<script src="https://evil.example/x.js">alert(1)</script><img src=x onerror=alert(2)><b>bold</b>'


class Reader(HTMLParser):
    """Notes the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def shown(**data: Any) -> dict[str, Any]:
    """An output as exports have it."""
    bundle = {name.replace("_", "/"): value for name, value in data.items()}
    return clean_output({"output_type": "display_data", "data": bundle, "metadata": {}})


def made(*outputs: dict[str, Any], text: str = "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |") -> str:
    """The page of a text and of a cell with these outputs."""
    cells = [
        new_markdown_cell(text, id="t", metadata={}),
        new_code_cell("# hidden", id="h", metadata={"jupyter": {"source_hidden": True}}),
        new_code_cell("print('<b>')", id="cell-1", metadata={}, outputs=list(outputs), execution_count=1),
    ]
    return page(new_notebook(cells, {}), title="A <title>")


def test_a_page_has_text_code_tables_and_figures() -> None:
    """Each output in the form that says most; a cell's place is what links of an answer lead to."""
    stream = {"output_type": "stream", "name": "stdout", "text": "\x1b[31mred\x1b[0m <i>\n"}
    failed = {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["\x1b[0;31mTraceback", "E: x"]}
    table = shown(text_html="<table><tr><td>46.1</td></tr></table>", text_plain="46.1")
    text = made(stream, table, shown(image_png=PIXEL, text_plain="<Figure>"), failed)
    assert "<h1>Title</h1>" in text
    assert "<td>46.1</td>" in text
    assert "red &lt;i&gt;" in text
    assert "Traceback\nE: x" in text
    assert f"data:image/png;base64,{PIXEL}" in text
    assert "<Figure>" not in text
    assert "# hidden" not in text
    assert 'id="cell-id=cell-1"' in text
    assert "<title>A &lt;title&gt;</title>" in text


def test_a_page_runs_and_loads_nothing() -> None:
    """Whatever code and text put into it; and browsers are told not to, should anything be left."""
    text = made(
        shown(text_html=EVIL, text_plain="x"),
        shown(text_markdown=EVIL),
        shown(**{"image_svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'>{EVIL}<rect width='1'/></svg>"}),
        text=f"{EVIL}\n\n![x](https://evil.example/x.png) [link](javascript:alert(3))",
    )
    assert "bold" in text
    for tag, attributes in Reader(text).found:
        assert tag not in ("script", "iframe", "object", "link", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("src") or "data:").startswith("data:")
        assert re.match(r"https?:|mailto:|#|$", attributes.get("href") or "")
    assert "Content-Security-Policy\" content=\"default-src 'none'; img-src data:;" in text
