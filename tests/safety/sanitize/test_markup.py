"""HTML, SVG and CSS that load nothing, and still look as they did."""

from __future__ import annotations

import re
import time

import machine
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safety.sanitize import cases

from nbagent.safety.sanitize.left_out import LeftOut
from nbagent.safety.sanitize.markup import clean_html, clean_svg

PANDAS = """<div>
<style scoped>
    .dataframe tbody tr th:only-of-type { vertical-align: middle; }
    .dataframe thead th { text-align: right; }
</style>
<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th><th>a</th></tr></thead>
<tbody><tr><th>0</th><td>1</td></tr></tbody></table></div>"""
ADDRESS = re.compile(
    r"""(?:src|href|srcset|poster|background|action|data|style)="[^"]*(?:h\.invalid|x1x)""", re.IGNORECASE
)


@pytest.mark.parametrize("case", cases.HTML.strip().split("\n"))
def test_nothing_that_loads_is_left(case: str) -> None:
    """No attribute and no rule of a style sheet holds the address, but for a link's and a picture's own data."""
    given = cases.fill(case, h="h.invalid", n="x1x")
    written = re.sub(r'src="data:image/svg[^"]*"', "", clean_html(given))
    assert not re.search(
        r"<(?:script|iframe|object|embed|link|meta|base|form|input|video|audio|source|portal)", written
    )
    for tag in re.findall(r"<[a-zA-Z][^<>]*>", written):
        assert tag.startswith("<a ") or not ADDRESS.search(tag), tag
    for sheet in re.findall(r"<style>(.*?)</style>", written, re.DOTALL):
        assert "h.invalid" not in sheet


@pytest.mark.parametrize(
    "tag", ["img alt", "img title", "p title", "a href='http://h.invalid' title", "svg aria-label"]
)
def test_no_attribute_holds_signs_of_a_tag(tag: str) -> None:
    """Whether nh3 writes them as references depends on its version, and a tag would seem to end at them."""
    given = f'<{tag}="a&gt;&lt;/a&gt;&lt;script&gt;alert(1)&lt;/script&gt;">'
    for written in (clean_html(given), clean_svg(f"<svg>{given}</svg>", LeftOut()), clean_svg(given, LeftOut())):
        assert "lt;script" not in written
        assert "<script" not in written
    assert "\u2039script\u203a" in clean_html(given) or tag.startswith("img")


def test_a_table_of_pandas_looks_as_it_did() -> None:
    """Its table and its style stay; the style holds for this output alone."""
    written = clean_html(PANDAS)
    assert "@scope {\n.dataframe tbody tr th:only-of-type { vertical-align: middle; }" in written
    assert '<table border="1" class="dataframe">' in written
    assert '<tr style="text-align: right;">' in written
    assert "Left out" not in written


def test_what_was_left_out_is_said() -> None:
    """With its kind and the host, at the place of a picture and at the end."""
    written = clean_html("a<img src='http://h.invalid/x?d=SECRET'>b<script src='//j.invalid'></script>")
    assert "a<em>[picture left out]</em>b" in written
    assert "a picture from h.invalid" in written
    assert "a script element from j.invalid" in written
    assert "SECRET" not in written


def test_a_link_says_where_it_leads() -> None:
    """Its address stands behind it, and it opens without a way back; one that leads into the server has none."""
    written = clean_html('<a href="https://x.example/?d=1" onclick="x()">click</a> <a href="/api/shutdown">no</a>')
    assert '<a href="https://x.example/?d=1" rel="noopener noreferrer nofollow">click</a>' in written
    assert "<small>[https://x.example/?d=1]</small>" in written
    assert "/api/shutdown" not in written


def test_a_picture_of_its_own_stays() -> None:
    """In HTML and in SVG."""
    picture = '<img src="data:image/png;base64,AAAA" alt="x">'
    assert clean_html(picture) == picture
    drawing = '<svg viewBox="0 0 9 9"><defs><path id="a" d="M0 0"/></defs><use xlink:href="#a" fill="url(#b)"/></svg>'
    written = clean_svg(drawing, LeftOut())
    assert written.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" ')
    assert '<use xlink:href="#a" fill="url(#b)">' in written


@pytest.mark.parametrize(
    "piece",
    [
        *("<div>", "<b><p>", "<a x='", "<font size=1><p>", "<table>", "<svg><g>", "<style>", "<!-", "<i></i></b>"),
        *("<script>", "<b><i><p>x</b></i>y</p>", "<p =\"='", "<a href=x>"),
    ],
)
def test_hostile_markup_costs_time_by_its_size(piece: str) -> None:
    """Depth, tags that are never closed or closed by others: an HTML parser alone needs minutes for some of these."""
    machine.within(200, lambda: clean_html(piece * (300_000 // len(piece))))


@pytest.mark.parametrize(
    "active",
    [
        *(
            "<script>steal()</script>",
            "<img src=x onerror=steal()>",
            "<svg onload=steal()><script>steal()</script></svg>",
        ),
        *("<form action=steal><input name=steal><button>x</button></form>", "<iframe srcdoc='<p onclick=steal()>'>"),
        *(
            "<a href='javascript:steal()'>x</a>",
            "<a href='java&#10;script:steal()'>x</a>",
            "<a href='vbscript:steal'>x</a>",
        ),
        *("<p data-commandlinker-command='steal' data-commandlinker-args='{}'>x</p>", "<b contenteditable=steal>x</b>"),
        *("<a href='data:text/html,steal'>x</a>", "<details open ontoggle=steal()>x</details>", "<base href='steal:'>"),
    ],
)
def test_nothing_acts(active: str) -> None:
    """Neither scripts nor what a click would run, send, or have JupyterLab do."""
    assert "steal" not in clean_html(active)


def test_thousands_of_small_outputs_cost_little() -> None:
    """As many as hostile code may leave are cleaned in one go, while nobody else in the process is served."""
    machine.within(20, lambda: [clean_html('<b style="color: red">x</b>') for _ in range(1000)])


def test_a_host_with_many_marks_is_named_in_a_moment() -> None:
    """Python's `urlsplit` sorts the marks on a letter in squared time: 80,000 of them took 8 s."""
    marked, started = "a" + "\u0301" * 40_000 + "\u0323" * 40_000, time.thread_time()
    assert "a picture from a." in clean_html(f'<p style="background: url(http://{marked}/a)">x</p>')
    assert time.thread_time() - started < 2


@given(text=st.text(alphabet="<>/\"'= abpsg!-&#;:()[]{}@\\\x00\n", max_size=200))
def test_any_text_is_taken(text: str) -> None:
    """Nothing raises, and what comes out comes out the same again, links and notes aside."""
    clean_html(text)
    clean_html(f'<style>{text}</style><b style="{text}">')


@pytest.mark.parametrize("name", ["jp-Dialog", "jp-mod-active lm-Menu", "modal fixed-top", "p-Widget", "JP-Dialog"])
def test_classes_of_the_programs_that_show_it_are_not_its_own(name: str) -> None:
    """JupyterLab's rule for `jp-Dialog` would lay an output over the whole window."""
    written = clean_html(f'<div class="{name} mine">x</div>')
    assert 'class="mine"' in written
    assert written.startswith('<div style="contain: paint;')


def test_no_element_has_the_address_of_a_cell() -> None:
    """A link to a cell leads to it, not to what an earlier output made look like it."""
    assert clean_html('<p id="cell-id=cell-3">x</p><p id="own">y</p>') == '<p>x</p><p id="own">y</p>'
    for own in ("jp-top-panel", "jupyterlab-splash", "galaxy", "moon1", "main"):
        assert clean_html(f'<p id="{own}">x</p><p id="{own}s-1">y</p>').startswith("<p>x</p>")


def test_a_style_sheet_reaches_nothing_that_holds_an_output_in_its_box() -> None:
    """What it calls its root is a box within the one that is bounded."""
    written = clean_html("<style>:root { position: fixed; contain: none !important }</style><b>x</b>")
    assert written.startswith('<div style="contain: paint; overflow: auto"><div>\n<style>@scope {\n:scope {')


@pytest.mark.parametrize(
    "drawing",
    [
        "<svg style='position:fixed;inset:0' class='jp-Dialog' overflow='visible'><rect/></svg>",
        "<svg><style>:root { position: fixed; overflow: visible !important }</style><rect/></svg>",
        "<svg><svg></svg></svg><p style='position:fixed;inset:0'>after</p>",
        "<svg><p style='position:fixed;inset:0'>after</p></svg>",
    ],
)
def test_a_drawing_stays_in_its_box(drawing: str) -> None:
    """Its root is placed and cut off by us; its styles are a group's, and nothing follows it."""
    written = clean_svg(drawing, LeftOut())
    root, _, rest = written.partition("><g")
    assert root == '<svg xmlns="http://www.w3.org/2000/svg" style="contain: paint; overflow: hidden"'
    assert rest.endswith("</g></svg>")
    assert "after" not in rest
