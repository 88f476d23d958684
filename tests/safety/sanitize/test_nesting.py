"""Elements end where HTML's rules say, and a parser makes no more of them than there are."""

from __future__ import annotations

import html
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.safety.sanitize import clean_html
from nbagent.safety.sanitize.markup import nested
from nbagent.safety.sanitize.nesting import MAX_DEPTH, SVG

FORMATTING = "a b big code em font i s small strike strong tt u".split()
OTHERS = """p div span h1 h2 ul ol li dl dt dd table caption colgroup col thead tbody tr td th ruby rp rt hr br img
blockquote details summary pre""".split()
TAGS = [*FORMATTING, *OTHERS, *sorted(SVG)]


def elements(markup: str) -> int:
    return len(re.findall(r"<[a-zA-Z]", markup))


@pytest.mark.parametrize("tag", FORMATTING)
@pytest.mark.parametrize(
    "around", ["<p>{}<p>x", "<p>{}</p>|<p>x</p>", "<div>{}</div>|<div>x</div>", "<ul><li>{}|<li>x", "<dl><dd>{}|<dt>x",
               "<table>{}|<tr></tr>x", "<table><tr><td>{}|<td>x", "<svg>{}|<p>x", "<p><td>{}|<p>x", "{}|<h1>x<h2>y"]
)  # fmt: skip
def test_formatting_that_is_not_ended_is_not_repeated(tag: str, around: str) -> None:
    """A parser opens it anew in each block: 200 of them by 2,000 paragraphs took a gigabyte."""
    before, _, block = around.partition("|")
    opened = "".join(f"<{tag} title=t{number}>" for number in range(MAX_DEPTH - 5))
    markup = before.format(opened) + (block or "<p>x") * 300
    assert elements(clean_html(markup)) <= 3 * elements(markup) + 10


tags = st.sampled_from(TAGS)
pieces = st.one_of(tags.map("<{} color=red title=x>".format), tags.map("</{}>".format), tags.map("<{}/>".format))


@given(st.lists(pieces, max_size=40), st.lists(st.one_of(pieces, st.just("x")), min_size=1, max_size=5))
def test_no_markup_makes_more_elements_than_it_has(before: list[str], repeated: list[str]) -> None:
    """But for the parts of a table that its rows and cells need, two at most."""
    markup = "".join(before) + "".join(repeated) * 50
    assert elements(clean_html(markup)) <= 3 * elements(markup) + 10


@pytest.mark.parametrize(
    "markup",
    [
        '<a href="#x"><div>a card <b>in <i>a</i></b> link</div></a>',
        "<b><p>one</p><p>two</p></b>",
        '<font color="red"><table><tbody><tr><td>x</td></tr></tbody></table></font>',
        "<ul><li>a<ul><li>b</li></ul></li><li><p>c</p><div><p>d</p></div></li></ul>",
        "<table><caption><b>c</b></caption><tbody><tr><th><p>h</p></th><td><table><tbody><tr><td>in</td></tr>"
        "</tbody></table></td></tr></tbody></table>",
        "<dl><dt>t</dt><dd><dl><dt>u</dt><dd>v</dd></dl></dd></dl>",
        '<svg viewBox="0 0 9 9"><g><text>a<tspan>b</tspan></text></g></svg><p>after</p>',
        "<ruby>a<rp>(</rp><rt>b</rt><rp>)</rp></ruby>",
        '<details open=""><summary>s</summary><p>t</p></details>',
    ],
)
def test_markup_whose_elements_are_ended_stays(markup: str) -> None:
    """What is well nested is passed on as it is."""
    assert nested(markup) == (markup, True)


@pytest.mark.parametrize(
    ("markup", "read"),
    [
        ("<p>a<p>b", "<p>a</p><p>b"),
        ("<p>a<b>b<div>c", "<p>a<b>b</b></p><div>c"),
        ("<ul><li>a<li>b</ul>c", "<ul><li>a</li><li>b</li></ul>c"),
        ("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>", "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>"),
        ("<dl><dt>a<dd>b<dt>c", "<dl><dt>a</dt><dd>b</dd><dt>c"),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d"),
        ("<table><thead><tr><th>a<tbody><tr><td>b", "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>b"),
        ("<div><table><tr><td>a</div>b</table>", "<div><table><tr><td>ab</td></tr></table>"),
        ("<table><tr><td>a<table><td>b</table>c", "<table><tr><td>a<table><td>b</td></table>c"),
        ("<tr><td>no table", "no table"),
        ("<table>a<p>b</p><tr><b>c</b><td><b>d</b></table>", "<table>ab<tr>c<td><b>d</b></td></tr></table>"),
        ("a</p>b</td>c", "abc"),
        ("<b><i>a</b>b</i>", "<b><i>a</i></b>b"),
        ("<a>a<a>b</a>", "<a>a</a><a>b</a>"),
        ("<svg><g><p>a", "<svg><g></g></svg><p>a"),
        ("<h1>a<h2>b", "<h1>a</h1><h2>b"),
    ],
)
def test_what_ends_without_a_tag_is_ended(markup: str, read: str) -> None:
    """As HTML's rules say; what ends because of something around it is not opened again."""
    assert nested(markup)[0] == read


@pytest.mark.parametrize("between", ["<!-- -->", "<script>1</script>", "<x-y>", "</b>", "<body>"])
@pytest.mark.parametrize(("before", "behind"), [("&#5", "7;"), ("&#x4", "1"), ("&", "lt;b"), ("&l", "t;b")])
def test_a_reference_does_not_go_on_behind_a_tag_that_is_left_out(before: str, between: str, behind: str) -> None:
    """A reader sees two pieces of text: 7 would become 9."""
    assert html.unescape(before + behind) not in clean_html(f"{before}{between}{behind}")
    assert html.unescape(before + behind) not in html.unescape(nested(f"{before}{between}{behind}")[0])


@pytest.mark.parametrize("inside", ["<b>x</b>", "<p>x", "x<tr>", "<tr></tr><i>x</i>", "<img>"])
def test_what_stands_in_a_table_beside_its_cells_takes_a_time_by_its_size(inside: str) -> None:
    """Parsers move such elements out of the table, past all that they moved before: megabytes took minutes."""
    begun = time.process_time()
    written = clean_html(f"<table>{inside * 80_000}</table>")
    assert time.process_time() - begun < 10
    assert "picture left out" not in written


@pytest.mark.parametrize(
    "markup",
    [
        "<!-->5", "<!--->5", "<!-- a --!>5-->", "<!x<b>5", "<p a\"b>5\">", "<p a='>'>5", "a</br>b", "a</p>b",
        "<b><p>a</b>b", "<main-x>a</main-x>", "<textarea><b></textarea>", "<style>a{}</style>", "a\x01",
        "<p id=b1\" data-x=\">5 and \"q>6</p>", "<p><font style='display:none'>1<p>2", "<g/>a",
        "<text>a <b>5</b></text>", "<p\xa0hidden>5", "<p =hidden>5", "<li><s>a<li>b", "<table>a<b>b</b></table>",
        "<span><p>a</span>b", "a < b", "<td>a", "<p" + "<", "<?x 5>", "<![CDATA[5]]>",
    ],
)  # fmt: skip
def test_markup_that_a_browser_may_read_otherwise_is_told_apart(markup: str) -> None:
    """Who compares what it shows has to look at it as it stands."""
    assert not nested(markup)[1]
    assert nested("<!doctype html><p>a<p class='x' title=\"y\">b<br/><!-- c -->")[1]


def test_text_in_a_part_of_a_drawing_outside_of_one_stays() -> None:
    """It is said; nh3 would remove the text with its element."""
    written = clean_html("<text>Result: <b>5</b></text>")
    assert "Result: <b>5</b>" in written
    assert "a part of a drawing (text) outside of one" in written
