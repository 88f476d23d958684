"""Markdown and LaTeX without pictures, HTML and commands that load."""

from __future__ import annotations

import re

import machine
import mistune
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from safety.sanitize import cases

from nbagent.core.markdown import DOLLAR, clean_latex, clean_markdown

PICTURE = "![](data:image/png;base64,AAAA)"
SIGNS = st.sampled_from(
    [
        *("![", "x", "](", ")", "http://h/", "<img src=x>", "<", "`", "```", "~~~", "\n", "$", "$$", "\\", "]: ", "["),
        *("]", "- ", "> ", "    ", "|", "!", "data:image/png;base64,AAAA", "a", "&lt;", "\x00", "\r", "*", ":::"),
        *("{image}", "\\href", "\\(", "\\)", "\\[", "\\]", DOLLAR, "5"),
    ]
)


@given(text=st.lists(SIGNS, max_size=30).map("".join))
def test_no_sign_of_a_picture_or_of_html_is_left(text: str) -> None:
    """Whatever was said: neither `![` nor `<` before what makes it a tag, but for whole pictures and dollars."""
    written = re.sub(r"!\[\]\(data:image/png;base64,A+\)", "", clean_markdown(text).replace(DOLLAR, ""))
    assert "![" not in written
    assert not re.search(r"<[A-Za-z/!?]", written)


@pytest.mark.parametrize("case", [*cases.MARKDOWN, *cases.HTML.strip().split("\n")])
def test_no_parser_makes_a_load_of_it(case: str) -> None:
    """Two parsers, with HTML on, find paragraphs, code and links."""
    written = clean_markdown(cases.fill(case, h="h.invalid", n="x1x"))
    parsers = (MarkdownIt("gfm-like", {"html": True, "linkify": False}).render, mistune.create_markdown(escape=False))
    for parse in parsers:
        found = set(re.findall(r"<(\w+)", str(parse(written))))
        assert found <= set(
            "p a code pre em strong ul ol li table thead tbody tr th td h1 blockquote br hr del span".split()
        )


@pytest.mark.parametrize(
    "text",
    [
        "Two.",
        "# A\n\n**b** *c* `d` ~~e~~\n\n- f\n- g\n\n> h\n\n| a | b |\n|---|--:|\n| 1 | 2 |",
        "```python\nif a < 3 and b[1]:\n    print('!')\n```",
        "$a < b$ and $$\\frac{1}{2}$$, 3 < 4, a -> b, x <= y",
        PICTURE,
        "[cell 1](#cell-id=cell-1) https://example.org/a?b=c",
    ],
)
def test_ordinary_markdown_stays_as_it_is(text: str) -> None:
    """Formatting, tables, code, mathematics, and pictures that are in it."""
    assert clean_markdown(text) == text


@pytest.mark.parametrize(("said", "written"), [
    ("from $1,200 in May to $1,500", f"from {DOLLAR}1,200 in May to {DOLLAR}1,500"),
    (r"\$5 or \$6", f"{DOLLAR}5 or {DOLLAR}6"),
    ("$5", "$5"),
    ("$5 for $x$, `$1 $2`", f"{DOLLAR}5 for $x$, `$1 $2`"),
    (r"\( x^2 \) and" + "\n\\[\na\n\\]\n", "$x^2$ and\n$$\na\n$$\n"),
    (r"\(  \) or $x$", r"\(  \) or $x$"),
    ("https://example.org/$1/$2", "https://example.org/$1/$2"),
])  # fmt: skip
def test_prices_are_no_formula(said: str, written: str) -> None:
    r"""Jupyter takes what is between two dollars for one, also if they are escaped, and knows no `\(`."""
    assert clean_markdown(said) == clean_markdown(written) == written


@pytest.mark.parametrize("piece", ["$", "$1 ", "$$a", "\\(a", "\\( ", "\\(" + 1500 * " ", "\n\\[a", "\\$", "https://$"])
def test_dollars_without_end_take_no_time(piece: str) -> None:
    """Each begins what could be a formula."""
    machine.within(20, lambda: clean_markdown(piece * (50_000 // len(piece))))


def test_a_link_says_where_it_leads() -> None:
    """Below the text, whatever kind of link; one whose text is its address says it already."""
    written = clean_markdown(
        "[a](https://one.example/?d=1) [b][r] [https://x.example](https://x.example)\n\n[r]: https://two.example"
    )
    assert "[a](https://one.example/?d=1)" in written
    assert written.endswith("*Links here lead to* `https://one.example/?d=1`, `https://two.example`")
    assert "](/api" not in clean_markdown("[a](/api/shutdown) [b](javascript:x) [c](file:///x)")


def test_latex_has_no_html() -> None:
    """`<` is TeX's own sign for it."""
    assert clean_latex("$a<b$ <img src=x>") == r"$a\lt b$ \lt img src=x>"
    assert r"\href" not in clean_latex(r"$\href{http://h}{x}$")


@pytest.mark.parametrize(
    "written",
    [
        *(r"\begin{input}/etc/passwd", r"\begin { input }x", r"\begin{in\empty put}x", r"\makeatletter\@input{x}"),
        *(r"\BVerbatimInput{x}", r"\tcbinputlisting{listing file=x}", r"\adjustimage{}{x}", r"\includepdf{x}"),
        *(r"\UseName{input}{x}", r"\ExpandArgs{c}{input}{x}", r"\filedump{x}", r"\XeTeXpdffile x", r"\scantokens{x}"),
    ],
)
def test_latex_reads_no_files(written: str) -> None:
    """However TeX lets the command be written: in a document made by LaTeX, it would read the person's files."""
    assert clean_latex(written).startswith("\\\N{WORD JOINER}")
    assert "\\\N{WORD JOINER}" in clean_markdown(f"${written}$")


@pytest.mark.parametrize("written", [r"\^^69nput{x}", r"\in^^70ut{x}", "^^5cinput{x}", "^^^5cinput{x}"])
def test_no_sign_of_latex_is_written_by_its_number(written: str) -> None:
    """TeX reads `^^5c` as a backslash, wherever it stands."""
    assert "^^" not in clean_latex(written) + clean_markdown(written)


def test_honest_latex_is_as_it_was() -> None:
    """Environments, powers and the usual commands."""
    honest = r"\begin{aligned} x^2 \end{aligned} \begin{align*} \frac{a}{b} \mathbb{R}^{n^2} \end{align*} \files"
    assert clean_latex(honest) == honest
