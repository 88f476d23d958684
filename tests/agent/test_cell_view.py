"""What the model sees of a cell."""

from __future__ import annotations

import base64
import struct
from typing import Any

import machine
import pytest
from agent.stub import PNG, Cell

from nbagent.agent.cell_view import cut_blocks, cut_middle, installed, render, traceback_of, warned_once
from nbagent.agent.readable import text_of_html
from nbagent.core.events import Output, Package

JPEG = base64.b64encode(
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + bytes(10)
).decode()


def stream(text: str, name: str = "stdout") -> Output:
    """A stream output."""
    return {"output_type": "stream", "name": name, "text": text}


def shown(data: dict[str, Any], kind: str = "display_data") -> Output:
    """A display or a result."""
    return {"output_type": kind, "data": data, "metadata": {}}


def text(cell: Cell, *, images: bool = False) -> str:
    """The text of a cell that shows only text."""
    content = render(cell, images=images)
    assert isinstance(content, str)
    return content


def test_streams_and_result() -> None:
    """Each part stands under its name; a stream is joined, a result is its plain text."""
    outputs = [stream("a\n"), stream("warn\n", "stderr"), stream("b\n")]
    outputs.append(shown({"text/plain": ["4", "2"], "text/html": "<b>42</b>"}, "execute_result"))
    assert text(Cell(outputs=outputs)) == "[stdout]\na\nb\n[stderr]\nwarn\n[result]\n42"


def test_no_output() -> None:
    """Silence is told as such, with what to do about it."""
    assert text(Cell()) == (
        "(no output) The cell ran without an error. End it with an expression, or print, to see a value."
    )
    assert "without an error" not in text(Cell(status="timeout"))


def test_collected_files_are_named() -> None:
    """What the person gets is told, so that nobody has to look; of many files the first, in one line each."""
    assert text(Cell(files=["a.csv", "b\nc.csv"])).endswith("\nCollected for the person: a.csv, b c.csv.")
    assert text(Cell(files=[f"{at}.csv" for at in range(9)])).endswith("4.csv and 4 more.")


def test_a_long_stream_keeps_both_ends() -> None:
    """10 KB stay; the marker's count and what stays add up to what there was, and the section is flagged."""
    lines = "".join(f"line {number}\n" for number in range(100_000))
    seen = text(Cell(outputs=[stream(lines)]))
    assert seen.startswith("[stdout, truncated]\nline 0\n")
    assert seen.endswith("line 99999")
    head, marker, tail = seen.removeprefix("[stdout, truncated]\n").partition("\n[… ")
    count, tail = tail.split(" of ", 1)[0], tail.split("…]\n", 1)[1]
    kept = len(head.encode()) + len(tail.encode())
    assert marker
    assert int(count.replace(",", "")) + kept == len(lines.strip("\n").encode())
    assert kept == 10 * 1024


@pytest.mark.parametrize("character", ["é", "漢", "😀", "\ud800"])
def test_cutting_never_splits_a_character(character: str) -> None:
    """The counts are of bytes that are really missing, at any offset."""
    for offset in range(4):
        whole = "x" * offset + character * 1000
        seen, truncated = cut_middle(whole, limit=101)
        head, _, rest = seen.partition("\n[… ")
        count, tail = int(rest.split(" of ")[0].replace(",", "")), rest.split("…]\n")[1]
        assert truncated
        assert "\ufffd" not in seen
        assert count + len((head + tail).encode()) == len(whole.encode("utf-8", "replace"))


def test_what_fits_is_not_touched() -> None:
    """A text of exactly the limit is whole."""
    assert cut_middle("a" * 100, limit=100) == ("a" * 100, False)


def test_the_whole_cell_is_bounded() -> None:
    """A thousand displays can't exceed the total, and the remarks behind them stay."""
    outputs = [shown({"text/plain": "x" * 9000}) for _ in range(1000)] + [
        stream("y" * 90_000, f"s{n}") for n in range(9)
    ]
    seen = text(Cell(outputs=outputs, status="timeout", note="Interrupted."))
    assert len(seen.encode()) < 42 * 1024
    assert seen.endswith("Interrupted.")


def frame(where: str, source: str = "code") -> str:
    """A frame as IPython writes it, with its colours."""
    return f"\x1b[36m{where}\x1b[39m\n\x1b[32m----> 1\x1b[39m {source}\n"


def error(*frames: str, last: str = "ValueError: bad") -> Output:
    """An error output with IPython's head and last line."""
    head = ["\x1b[31m-----------\x1b[39m", "ValueError    Traceback (most recent call last)"]
    return {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": [*head, *frames, last]}


LIBRARY = "File /opt/venv/lib/python3.12/site-packages/polars/x.py:{}, in f()"


def test_a_traceback_keeps_the_persons_frames() -> None:
    """Cells and the person's own files stay; of a library the first and last frame, a line each, with the count."""
    library = [frame(LIBRARY.format(number)) for number in range(5)]
    seen = traceback_of(error(frame("Cell In[3], line 2"), frame("File ~/own.py:1, in g()"), *library))
    assert "\x1b" not in seen
    assert "Cell In[3], line 2\n----> 1 code" in seen
    assert "File ~/own.py:1, in g()\n----> 1 code" in seen
    assert "x.py:0" in seen
    assert "[… 3 library frames left out here …]" in seen
    assert "x.py:2" not in seen
    assert seen.endswith("x.py:4, in f()\nValueError: bad")


def test_libraries_between_the_persons_frames() -> None:
    """Each run of library frames is shortened by itself, as with a callback."""
    library = [frame(LIBRARY.format(number)) for number in range(3)]
    seen = traceback_of(error(frame("Cell In[1], line 1"), *library, frame("Cell In[1], line 9"), *library))
    assert seen.count("[… 1 library frame left out here …]") == 2
    assert "line 9" in seen


def test_a_package_installed_below_tmp_is_no_own_file() -> None:
    """Site folders are libraries wherever they lie."""
    library = [frame(f"File /tmp/site-packages/lib.py:{number}, in f()") for number in range(3)]
    assert "1 library frame left" in traceback_of(error(frame("Cell In[1], line 1"), *library))


def test_recursion_is_shortened() -> None:
    """A thousand frames of the person's own are six, and the count."""
    seen = traceback_of(error(*[frame(f"Cell In[1], line {number}") for number in range(1000)]))
    assert "[… 994 frames left out here …]" in seen
    assert "line 999" in seen


def test_a_chained_error_keeps_its_cause() -> None:
    """Both errors of a `raise … from` are seen."""
    between = "\nThe above exception was the direct cause of the following exception:\n"
    output = error(frame("Cell In[1], line 1"), "KeyError: 'k'", between, frame("Cell In[1], line 3"))
    seen = traceback_of(output)
    assert "KeyError: 'k'" in seen
    assert "direct cause" in seen
    assert seen.endswith("ValueError: bad")


def test_a_syntax_error_is_whole() -> None:
    """It comes as one piece, with its caret."""
    raw = "  \x1b[36mCell In[2], line 1\x1b[39m\n    1 +\n       ^\n\x1b[31mSyntaxError\x1b[39m: invalid syntax\n"
    output = {"output_type": "error", "ename": "SyntaxError", "evalue": "x", "traceback": [raw]}
    assert traceback_of(output) == "  Cell In[2], line 1\n    1 +\n       ^\nSyntaxError: invalid syntax"


def test_an_error_without_a_traceback() -> None:
    """Its name and value are what there is."""
    assert (
        text(Cell(status="error", outputs=[{"output_type": "error", "ename": "E", "evalue": "v"}])) == "[error]\nE: v"
    )


def test_figures_as_sentences() -> None:
    """Without eyes, a figure is its number, format and size; its repr says nothing more."""
    outputs = [
        shown({"image/png": f"{PNG[:20]}\n{PNG[20:]}\n", "text/plain": "<Figure size 640x480 with 1 Axes>"}),
        shown({"image/jpeg": JPEG}),
        shown({"image/svg+xml": "<svg/>", "text/plain": "<SVG>"}),
        shown({"image/png": "bm90IGFuIGltYWdl"}),
    ]
    assert text(Cell(outputs=outputs)).splitlines() == [
        "[figures]",
        "[figure 1: PNG, 2×3]",
        "[figure 2: JPEG, 640×480]",
        "[figure 3: SVG]",
        "[figure 4: PNG]",
    ]


def test_figures_as_images() -> None:
    """With eyes, up to four real images are attached; what isn't one, or is too large, is told."""
    outputs = [shown({"image/png": PNG}) for _ in range(5)] + [shown({"image/png": "x" * 3_000_000})]
    content = render(Cell(outputs=[stream("hi"), *outputs]), images=True)
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image", "image", "image", "image"]
    assert content[1] == {"type": "image", "base64": PNG, "mime_type": "image/png"}
    assert content[0]["text"].splitlines()[2:] == [
        "[figures]",
        *[f"[figure {number}: PNG, 2×3, attached]" for number in range(1, 5)],
        "[figure 5: PNG, 2×3]",
        "[figure 6: PNG]",
    ]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"text/markdown": "# T", "text/html": "<h1>T</h1>"}, "# T"),
        ({"text/html": "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"}, "a | b\n1 | 2"),
        ({"text/html": "<script>evil()</script>"}, "[HTML without text]"),
        ({"application/json": {"a": "ü"}}, '{"a": "ü"}'),
        ({"application/vnd.plotly.v1+json": {}}, "[application/vnd.plotly.v1+json: no text form]"),
    ],
)
def test_fallbacks(data: dict[str, Any], seen: str) -> None:
    """A result without plain text is shown in the most readable form that it has."""
    assert text(Cell(outputs=[shown(data, "execute_result")])) == f"[result]\n{seen}"


@pytest.mark.parametrize(
    ("mime", "piece", "count"),
    [
        ("text/html", "<a", 1_000_000),
        ("text/html", "<!--", 1_000_000),
        ("text/html", "<![CDATA[", 1_000_000),
        ("text/html", "<td>x</td>", 1_000_000),
        ("text/html", "<a '\"", 1_000_000),
        ("text/html", "<script>", 1_000_000),
        ("text/html", "&#" + "1" * 10_000, 1_000),
        ("text/plain", "\0", 30_000_000),
        ("text/plain", "\x1b[m", 8_000_000),
        ("application/json", [0.5], 1_000_000),
        ("image/png", " \n", 15_000_000),
        ("image/jpeg", "/9j/////AAL//w==", 1),
        ("image/jpeg", "/9j/////" * 3, 1_000_000),
    ],
)
def test_hostile_outputs_take_no_time(mime: str, piece: Any, count: int) -> None:
    """Whatever a cell shows, the model's view of it is there before others notice, and short."""
    cell = Cell(outputs=[shown({mime: piece * count})])
    seen = machine.within(30, lambda: text(cell))
    assert len(seen) < 50_000


def test_the_middle_that_nobody_looked_at_is_counted() -> None:
    """What is left out of a very long text is counted in the marker like any other."""
    seen = text(Cell(outputs=[shown({"text/plain": "x\n" * 5_000_000})]))
    assert "of 9,999,999 bytes" in seen


def test_html_is_text() -> None:
    """Entities are resolved, styles dropped, lines kept."""
    assert text_of_html("<style>x{}</style><p>a &lt; b</p><p>c</p>") == "a < b\nc"


def test_what_was_installed_and_lost() -> None:
    """An install is told before the outputs, which came after it; a loss behind them, with what to do about it."""
    packages = [
        Package(name="humanize", version="4.17.0", sha256=""),
        Package(name="dep", version="1", sha256="", requested=False),
    ]
    assert installed(packages[:1]) == "Installed humanize 4.17.0."
    cell = Cell(outputs=[stream("x")], installed=packages, state_lost="The kernel ran out of memory.", note="Note.")
    assert text(cell).splitlines() == [
        "Installed humanize 4.17.0 (and 1 that it needs). The cell was then run again:",
        "[stdout]",
        "x",
        "Note.",
        "State lost: The kernel ran out of memory. Variables, imports and files under /workspace and /tmp are gone; "
        "run again what you still need.",
    ]


@pytest.mark.parametrize(
    ("status", "told"),
    [("timeout", "stopped after 60 s"), ("interrupted", "was interrupted"), ("died", "The kernel died")],
)
def test_how_a_cell_was_stopped(status: str, told: str) -> None:
    """It is said beside what the cell had shown."""
    seen = text(Cell(status=status, duration=60.2, outputs=[stream("half")], note="The kernel kept its state."))
    assert seen.startswith("[stdout]\nhalf\n")
    assert told in seen
    assert seen.endswith("The kernel kept its state.")


def test_each_printed_table_keeps_its_head() -> None:
    """Of long output, each block is cut by itself: its header and its last rows stay, and short blocks stay whole."""
    tables = [f"shape: (900, 2)\nheader {name}\n" + "\n".join(f"{name} row {n}" for n in range(900)) for name in "abc"]
    text, truncated = cut_blocks("first words\n\n" + "\n".join(tables) + "\n\nlast words")
    assert truncated
    assert len(text) < 11_000
    for name in "abc":
        assert f"shape: (900, 2)\nheader {name}\n{name} row 0\n" in text
        assert f"{name} row 899" in text
    assert text.startswith("first words\n")
    assert text.endswith("last words")
    assert text.count("left out here") == 3
    assert cut_blocks("short\n\ntext") == ("short\n\ntext", False)
    several = "\n\n".join("xyz"[at] * size for at, size in enumerate((1060, 1060, 3000)))
    assert cut_blocks(several, limit=3000)[0].count("left out here") == 1
    assert cut_blocks("x" * 107, limit=100) == ("x" * 107, False)
    assert cut_blocks("x" * 120, limit=100)[1]
    assert len(cut_blocks("\n\n".join("x" * 500 for _ in range(1000)))[0]) < 11_000


def test_a_warning_that_comes_often_is_shown_once() -> None:
    """With how often; what is no warning, or another one, stays where it is."""
    line = "/tmp/ipykernel/1.py:24: Pandas4Warning: parse is deprecated.\n  e = book.parse(name)\n"
    other = "/tmp/ipykernel/1.py:9: UserWarning: a sum of nothing\n  s()\n"
    text = f"{line * 7}begun\nbegun\n{other}{line * 7}"
    told = "/tmp/ipykernel/1.py:24: Pandas4Warning: parse is deprecated. ×14\n  e = book.parse(name)\n"
    assert warned_once(text) == f"{told}begun\nbegun\n{other}"
    assert warned_once(line) == line
