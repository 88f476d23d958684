"""The outputs of a cell against those it had before, piece by piece: HTML, JSON, drawings and errors."""

from __future__ import annotations

import base64
import time
from array import array
from dataclasses import replace
from typing import Any

import machine
import pytest
from notebook.compare.shared import MOMENTS, result, stream

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.notes import CHANGED, WIDGET_CHANGED, mark
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import Context, Strictness
from nbagent.safety.sanitize.outputs import VIEW_MIME


def test_each_error_of_a_cell_is_compared() -> None:
    """Programs that IPython calls after a cell show theirs, too."""
    one, other, last = ({"output_type": "error", "ename": "E", "evalue": value, "traceback": []} for value in "abc")
    (found,) = compare([one, last], [other, last], Context(moments=MOMENTS)).differences
    assert str(found) == "error, line 1: 'a' → 'b'"


def test_a_value_is_told_once_of_html_and_plain_text() -> None:
    """The plain text of the same output says the same; what only it shows is told, and each cell has its own name."""
    html = "<table><tr><th></th><th>id</th><th>x</th></tr><tr><td>{0}</td><td>{0}</td><td>{1}</td></tr></table>"
    context = Context(moments=MOMENTS)

    def shown(number: int, x: str, last: str = "") -> list[dict[str, Any]]:
        return [result(text_html=html.format(number, x), text_plain=f"{number} {number} {x} {last}")]

    found = compare(shown(7, "1.5"), shown(8, "1.5"), context).differences
    assert [(each.what, each.where) for each in found] == [
        ("output 1, text/html", "row 1, column 1"),
        ("output 1, text/html", "row 1, column id"),
    ]
    (found_x, only) = compare(shown(7, "1.5", "a"), shown(7, "2.5", "b"), context).differences
    assert (found_x.where, only.what, only.fresh) == ("row 1, column x", "output 1, text/plain", "'b'")


def test_packed_numbers_of_a_figure_are_compared_one_by_one() -> None:
    """Durations in it are those of the run; a result beside them is none."""

    def figure(*numbers: float, shape: str = "2") -> list[Any]:
        packed = base64.b64encode(array("d", numbers).tobytes()).decode()
        data = [{"y": {"dtype": "f8", "bdata": packed, "shape": shape}}]
        return [result(**{"application_vnd.plotly.v1+json": {"data": data}})]

    context = Context(moments=MOMENTS, reads=Code().take("fig = px.bar(y=[5, time.time() - t])"))
    runs = [figure(5, 0.01 + n / 1000) for n in range(3)]
    assert compare(runs[0], runs[1], context, again=[runs[2]]).excused == {"timing"}
    assert compare(figure(6, 0.01), runs[1], context, again=[runs[2]]).differences
    assert not compare(figure(0.1 + 0.2), figure(0.3), context).differences
    assert compare(figure(1, 2, shape="1, 2"), figure(1, 2, shape="2, 1"), context).differences


def test_json_that_is_nested_too_deep_for_python_to_write_is_compared() -> None:
    """By its values and its signs."""

    def nested(value: Any) -> list[Any]:
        for _ in range(1_100):
            value = [value, {"a": "["}]
        return [result(application_json=value)]

    for other, differs in ((5, False), (6, True), ([5], True), ("5", True), ({"a": 5}, True), ("[", True)):
        assert bool(compare(nested(5), nested(other), Context(moments=MOMENTS)).differences) is differs
    assert compare(nested("["), nested("{"), Context(moments=MOMENTS)).differences


@pytest.mark.parametrize(
    "drawing",
    ["<g id='{0}'/><use xlink:href='#{0}'/><p style='clip-path: url(#{0})'/><g id='{1}'/>",
     "<g id='{1}'/><style>#{0}{{fill: red}}</style><g id='{0}'/>",
     "<animate begin='{0}.end'/><g id='{1}'/><g id='{0}'/>",
     "<g id='{1}'/><foreignObject><textarea><b id='{0}'></textarea></foreignObject><g id='{0}'/>"],
)  # fmt: skip
def test_names_within_a_drawing_are_made_up(drawing: str) -> None:
    """As each fresh run makes others up; by one that belongs to another element, that one is moved or coloured."""
    made = [("d02020a", "b12345"), ("2020d0a", "c23456"), ("e02020a", "d34567")]
    one, two, three = ([result(**{"image_svg+xml": f"<svg>{drawing.format(*each)}</svg>"})] for each in made)
    assert compare(one, two, Context(moments=MOMENTS), again=[three]).differences == []
    assert compare(one, two, Context(moments=MOMENTS), again=[two]).differences
    (output,) = one
    text = output["data"]["image/svg+xml"]
    output["data"]["image/svg+xml"] = text[::-1].replace("d02020a"[::-1], "b12345"[::-1], 1)[::-1]
    assert compare(one, two, Context(moments=MOMENTS), again=[three]).differences


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [("<rect width='9'><animate attributeName='width' to='{}'/></rect>", ("50", "5")),
     ("<text><![CDATA[{}]]></text>", ("a profit", "a loss")),
     ("<set attributeName='visibility' to='{}'/>", ("hidden", "visible")),
     ("<foreignObject><p>{}</p></foreignObject>", ("a profit", "a loss")),
     ("<script>{}</script>", ("5", "6")), ("</svg><svg><text>{}</text>", ("a profit", "a loss")),
     ("<path d='M 0 0" + " L 5 5" * 800_000 + "'/></svg><svg><text>{}</text>", ("a profit", "a loss"))],
)  # fmt: skip
def test_all_of_a_drawing_is_compared(stored: str, fresh: tuple[str, str]) -> None:
    """What moves, what stands in CDATA, and what an export would leave out, however long it is."""
    runs = [[result(**{"image_svg+xml": f"<svg>{stored.replace('{}', each)}</svg>"})] for each in fresh]
    assert compare(*runs, Context(moments=MOMENTS)).differences


def test_a_drawing_tells_when_it_was_made() -> None:
    """As Matplotlib's do, by whose moments two runs are the same."""
    drawing = "<metadata><dc:date>{}</dc:date></metadata><clipPath id='p{}'/><g clip-path='url(#p{})'/>"
    at = [("2026-10-14T14:03:22.512", "ab12"), ("2026-11-23T14:03:23.000412", "cd34")]
    at.append((at[1][0], "ef56"))
    runs = [[result(**{"image_svg+xml": f"<svg>{drawing.format(*each, each[1])}</svg>"})] for each in at]
    found = compare(*runs[:2], Context(moments=MOMENTS), again=runs[2:])
    assert (found.differences, found.excused) == ([], {"date", "id"})


def test_names_in_markup_are_made_up_if_fresh_runs_make_up_others() -> None:
    """Names in it that a library makes up differ with every run; a drawing that differs is found."""
    context = Context(moments=MOMENTS)

    def html(text: str) -> list[dict[str, Any]]:
        return [result(text_html=text)]

    one, two, three = (html(f'<b class="a{n}">1</b>') for n in range(3))
    assert compare(one, two, context, again=[three]).differences == []
    assert compare(one, two, context, again=[two]).differences
    assert compare(html("<b>1</b>"), html("<i>1</i>"), context).differences
    timed = Context(moments=MOMENTS, reads=Code().take("print(time.time() - t)"))
    took = [html(f"<p>Elapsed: <b>{each}</b> s <b style='color: red'>late</b></p>") for each in ("1.25", "2.5", "1.5")]
    assert compare(took[0], took[1], timed, again=[took[2]]).differences == []
    one, two, three = (html(f"<svg><path id='p{name}' d='M 0 0 L 5 5'/></svg>") for name in ("ab12", "cd34", "ef56"))
    assert compare(one, two, context, again=[three]).differences == []
    other = html("<svg><path id='pab12' d='M 0 0 L 5 9'/></svg>")
    assert compare(other, two, context, again=[three]).differences
    red, blue = (html(f"<b id='a{colour}1' style='color: {colour}'>1</b>") for colour in ("red", "blue"))
    assert compare(red, blue, context).differences[0].where == "markup"
    links = [result(text_html=f"<p><a href='https://example.org/{each}'>data</a></p>") for each in "ab"]
    assert compare(links[:1], links[1:], context).differences[0].where == "markup"


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("10<sup>2</sup> rows", "102 rows"),
        ("<div>5</div><div>0</div>", "<div>50</div>"),
        ("1<br>2", "12"),
        ("<del>5</del> 7", "5 7"),
        ("<object data='data:text/html,7'></object>5", "5"),
        ("5<progress max='9'></progress>", "5<progress max='3'></progress>"),
        ("<bdo dir='rtl'>12</bdo>", "<bdo>12</bdo>"),
        ("<p title='>' hidden>not</p> 5", "<p title='>'>not</p> 5"),
        ("<p class='x lm-mod-hidden'>not</p> 5", "<p class='x'>not</p> 5"),
        ("<ol start='1000'><li>a</li></ol>", "<ol><li>a</li></ol>"),
        ("<strike>5</strike> 7", "5 7"),
        ("<textarea>5</textarea>", "<textarea>7</textarea>"),
        ("loss <!-->but profit<!---->", "loss "),
        ("loss<scr\x01ipt> but profit</scr\x01ipt>", "loss"),
        ('loss <b " id=">not </b><b "">profit</b>', "loss <b>not </b><b>profit</b>"),
        ("<frameset>5</frameset>", "<frameset>7</frameset>"),
        ("5<span style='display:none'>7</span>", "<span style='display:none'>5</span>7"),
        ("<p class='hidden'>not</p> 5", "<p>not</p> 5"),
        ("<span hidden>5<b>6</b></span>", "<span hidden>5</span><b>6</b>"),
        ("<span hidden><b>5</b></span>", "<span hidden></span><b>5</b>"),
        ("<i dir='rtl'>5<b>5</b></i><b>5</b>", "<i dir='rtl'>5</i><b>5</b><b>5</b>"),
        ("<p id='jp-top-panel'>not</p> 5", "<p>not</p> 5"),
        ("<p id='moon1'>not</p> 5", "<p id='7'>not</p> 5"),
        ("<p id='anybodys'>not</p> 5", "<p>not</p> 5"),
        ("<span hidden><b>5</b></span>6", "<span hidden></span><b>5</b>6"),
        ("<details><b>5</b></details>", "<b>5</b><details></details>"),
        ("<rp><b>5</b></rp>", "<b>5</b><rp></rp>"),
        ("&#5<!-- -->7", "&#57"),
        ("&#5<body>7", "&#57"),
        ("&l<!-- -->t;", "&lt;"),
    ],
)
def test_what_html_says_beside_its_words_is_compared(stored: str, fresh: str) -> None:
    """What is raised, struck out, drawn, or in another line."""
    pages = [result(text_html=each, text_plain="<HTML>") for each in (stored, fresh)]
    assert compare(pages[:1], pages[1:], Context(moments=MOMENTS)).differences


def test_styled_html_that_only_measures_is_the_same() -> None:
    """A time within what is styled is excused there as it is in the text."""
    reads = Code().take("import time\nprint(time.time() - started)")
    pages = [
        result(text_html=f"<div style='color: red'><b{mark}>Done</b><p>It took {each} s.</div>")
        for each, mark in (("0.52", " class='a3'"), ("1.73", " class='a1'"), ("0.91", " class='a2'"))
    ]
    context = Context(moments=MOMENTS, reads=reads)
    assert compare(pages[:1], pages[1:2], context, again=[pages[2:]]).differences == []


def test_a_number_behind_a_pages_mark_is_compared_as_one() -> None:
    """Digits beyond those that a float has are no difference there either."""
    pages = [
        result(text_html=f"<body id='main'>{each} <sup>2</sup>", text_plain="<HTML>")
        for each in ("0.3", "0.30000000000000004", "0.4")
    ]
    assert compare(pages[:1], pages[1:2], Context(moments=MOMENTS)).differences == []
    assert compare(pages[:1], pages[2:], Context(moments=MOMENTS)).differences


@pytest.mark.parametrize("tag", ["<div>", "<br-x>"])
def test_deep_html_is_compared_in_a_time_by_its_size(tag: str) -> None:
    """A parser's time grows with the square of the depth."""
    pages = [result(text_html=f"{tag * 30_000}{each}") for each in ("5", "7")]
    found = machine.within(100, lambda: compare(pages[:1], pages[1:], Context(moments=MOMENTS)))
    assert [each.stored for each in found.differences] == ["'5'"]


@pytest.mark.parametrize("opened", ["<p>{}</p>", "<div>{}", "<div>{}<textarea></font></textarea></div>"])
@pytest.mark.parametrize("font", ["<font color=c{}>", "<font color=c{}><table><tr><td></font></td></tr></table>"])
def test_formatting_that_is_not_ended_is_compared_in_a_time_by_its_size(opened: str, font: str) -> None:
    """A parser opens it anew in each block; and passes over end tags that stand in a cell of a table, or are text."""
    before = opened.format("".join(font.format(number) for number in range(450)))
    pages = [result(text_html=f"{before}{'<p>x</p>' * 5_000} {each}") for each in ("5", "7")]
    begun = time.process_time()
    found = compare(pages[:1], pages[1:], Context(moments=MOMENTS))
    assert time.process_time() - begun < 5
    assert [each.stored for each in found.differences] == ["'5'"]


@pytest.mark.parametrize("tag", ['<div title="</div>">', "<div><!-- </div> -->", "<div><title></div></title>"])
def test_end_tags_that_are_none_hide_no_depth(tag: str) -> None:
    """They stand in attributes, comments and elements that hold text."""
    pages = [result(text_html=f"{tag * 40_000}{each}") for each in ("5", "7")]
    begun = time.process_time()
    assert compare(pages[:1], pages[1:], Context(moments=MOMENTS)).differences
    assert time.process_time() - begun < 10


def test_errors_and_missing_outputs_are_found() -> None:
    """An error by its type and message, and by its traceback if the same programs ran; an output by its MIME type."""
    context = Context(moments=MOMENTS)

    def error(name: str, value: str, *trace: str) -> dict[str, Any]:
        return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(trace)}

    assert compare([error("E", "x", "a")], [error("E", "x", "b")], context).differences == []
    exact = replace(context, same_programs=True)
    assert compare([error("E", "x", "a")], [error("E", "x", "b")], exact).differences[0].what == "traceback"
    again = compare([error("E", "x", "a")], [error("E", "x", "b")], exact, again=[[error("E", "x", "c")]])
    assert (again.differences, again.excused) == ([], {"traceback"})
    assert compare([error("E", "y")], [error("E", "x", "b")], exact, again=[[error("E", "x", "c")]]).differences
    traces = [f"\x1b[31mCell \x1b[32mIn[{count}]\x1b[39m, line 2" for count in (3, 17)]
    assert compare([error("E", "x", traces[0])], [error("E", "x", traces[1])], exact).differences == []
    assert compare([error("E", "x")], [error("E", "y")], context).differences
    assert compare([error("E", "x")], [error("F", "x")], context).differences
    assert compare([result(text_plain="1")], [], context).differences[0].where == "missing"
    assert compare([], [result(text_plain="1")], context).differences[0].where == "new"
    two = [stream("a"), stream("w", "stderr"), stream("b")]
    assert compare(two, [stream("ab"), stream("w", "stderr")], context).differences == []
    (pair,) = compare([result(image_png="aa")], [result(image_png="bb")], context).pictures
    assert (pair.stored, pair.fresh, pair.again) == ("aa", "bb", ())


def test_what_nbagent_says_of_outputs_is_no_output() -> None:
    """A re-run has other cells beside a late output; what stands beside such a sentence is compared in its place."""
    told, context = mark(CHANGED, 3), Context(moments=MOMENTS, reads=Code().take(""), strictness=Strictness())
    assert compare([told, result(text_plain="5")], [result(text_plain="5")], context).differences == []
    assert compare([told, result(text_plain="5")], [result(text_plain="6")], context).differences


def test_a_sentence_on_a_late_output_says_what_its_metadata_does_and_stands_before_it() -> None:
    """With another number, with more words, behind its output or before another one, it is an output."""
    view, context = result(**{VIEW_MIME: {"model_id": "a"}}, text_plain="Output()"), Context(moments=MOMENTS)
    told = mark(WIDGET_CHANGED, 16)
    text = told["data"]["text/plain"]
    assert compare([told, view], [view], context).differences == []
    for other in (text.replace("16", "86"), f"{text} 5", text.replace("cell 16", "revenue was 5 million"), "16"):
        assert compare([{**told, "data": {"text/plain": other}}, view], [view], context).differences
    for metadata in ({}, {"nbagent": {}}, {"nbagent": {"late": {"during": 15}}}):
        assert compare([{**told, "metadata": metadata}, view], [view], context).differences
    assert compare([{**told, "data": told["data"] | {"text/html": "5"}}, view], [view], context).differences
    assert compare([view, told], [view], context).differences
    text = result(text_plain="1")
    assert compare([told, text, view], [text, view], context).differences
    left_out = {**text, "metadata": {"nbagent": {"left_out": "Left out: interactive output of type x"}}}
    assert compare([told, left_out], [text], context).differences == []


def test_what_differs_is_called_on_one_line() -> None:
    """By a MIME type, a stream or a column whose names steer a terminal, or look like another line of the findings."""
    odd = "a\x1b[2J\r\nall.ipynb: same \u202e\x9b"
    columns = "<table><tr><th>\x9b2J&#27;[2J\u202e</th></tr><tr><td>{}</td></tr></table>"
    for outputs in (
        ([result(**{odd: "5"})], [result(**{odd: "6"})]),
        ([result(**{odd: "5"})], []),
        ([stream("5", odd)], [stream("6", odd)]),
        ([result(text_html=columns.format(5))], [result(text_html=columns.format(6))]),
    ):
        (found,) = compare(*outputs, Context(moments=MOMENTS)).differences
        assert str(found).isprintable()
        assert all(each.isprintable() for each in found)


def test_a_picture_is_shown_in_its_size() -> None:
    """That of a pixel would hide it; one that is as wide as other letters make it is the same."""
    context = Context(moments=MOMENTS)

    def shown(**size: float) -> list[dict[str, Any]]:
        return [{"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {"image/png": size}}]

    assert compare(shown(width=547, height=413), shown(width=549, height=410), context).differences == []
    for one, other in (({"width": 1, "height": 1}, {}), ({"width": 1}, {"width": 500}), ({}, {"width": 500})):
        (found,) = compare(shown(**one), shown(**other), context).differences
        assert found.what == "output 1, size of image/png"
    top = [{**shown()[0], "metadata": {"width": 1, "height": 1}}]
    assert compare(top, shown(), context).differences


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        ("<b class='xterm'><b class='xterm-screen'>not </b></b>good", "<b><b>not </b></b>good"),
        ("<pre>a   b\n5    </pre>", "<pre>a   b\n    5</pre>"),
        ("<pre><b>a</b>   b\n5    </pre><svg></svg>", "<pre><b>a</b>   b\n    5</pre><svg></svg>"),
    ],
)
def test_classes_of_pages_and_places_in_lines_are_compared(stored: str, fresh: str) -> None:
    """A page has rules of style for words that no library made up; in `<pre>`, spaces lay out a table."""
    assert compare([result(text_html=stored)], [result(text_html=fresh)], Context(moments=MOMENTS)).differences


def test_only_a_traceback_that_differs_is_excused() -> None:
    """Not one beside text that differs with every run."""
    error = {"output_type": "error", "ename": "E", "evalue": "x"}
    runs = [[stream(f"{n}\n"), {**error, "traceback": [told]}] for n, told in (("x1", "a"), ("y2", "b"), ("z3", "b"))]
    found = compare(*runs[:2], Context(moments=MOMENTS, same_programs=True), again=runs[2:])
    assert ([each.what for each in found.differences], found.excused) == (["stdout", "traceback"], set())


def test_what_stands_beside_a_table_keeps_its_order() -> None:
    """Where threads give rows in any order; rows of tables come in any."""
    table, reads = "<table><tr><td>1</td></tr><tr><td>2</td></tr></table>", Code().take("list(as_completed(futures))")

    def apart(stored: str, fresh: str) -> bool:
        runs = [[result(text_html=each)] for each in (stored, fresh)]
        return bool(compare(*runs, Context(moments=MOMENTS, reads=reads), again=runs[1:]).differences)

    assert apart(f"<p>best: A 1, worst: B 2</p>{table}", f"<p>best: B 1, worst: A 2</p>{table}")
    assert not apart("<table><tr><td>2</td></tr><tr><td>1</td></tr></table>", table)
