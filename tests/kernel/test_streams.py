"""The text of stream outputs: folding, head and tail, order."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import machine
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbagent.core.text import ends
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.streams import CellStreams, HeadTail, LineFold, Stream, clean_text
from nbagent.sandbox.inside.message_sizes_inside import left_out

tokens = ["a", "b", "cdefg", "\u00e9\u6f22\U0001f600", "\r", "\r", "\b", "\b\b\b", "\n", "\r\n", "\x1b[32m", " "]
terminal_text = st.lists(st.sampled_from(tokens), max_size=25).map("".join)


def as_jupyterlab(text: str) -> str:
    """What JupyterLab 4.6 shows for a text, character by character: the reference that is too slow to use."""
    shown, cursor = "", 0
    for char in text:
        if char == "\n":
            shown += "\n"
            cursor = len(shown)
        elif char == "\r":
            cursor = shown.rfind("\n") + 1
        elif char == "\b":
            if cursor > 0 and shown[cursor - 1] != "\n":
                shown = shown[: cursor - 1] + shown[cursor + 1 :]
                cursor -= 1
        else:
            shown = shown[:cursor] + char + shown[cursor + 1 :]
            cursor += 1
    return shown


def fold(*chunks: str, width: int = 8192, edits: int = 10**6) -> str:
    """What these chunks, one after the other, fold to."""
    folder = LineFold(width=width, edits=edits)
    return "".join(folder.feed(chunk) for chunk in chunks) + folder.flush()


def pieces(text: str, cuts: list[int]) -> list[str]:
    """A text cut at these places."""
    borders = [0, *sorted(min(place, len(text)) for place in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(borders)]


# Each was run through `processText` of @jupyterlab/outputarea 4.6.6.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r20%\r30%\n", "30%\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("long line\rshort", "shortline"),
        ("done\r", "done"),
        ("a\n\rb", "a\nb"),
        ("abc\b\bX", "aX"),
        ("a\n\b\bb", "a\nb"),
        ("abc\rd\b", "c"),
        ("12345\r67\n89", "67345\n89"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ],
)
def test_fold_shows_what_jupyterlab_shows(text: str, shown: str) -> None:
    """Carriage return overwrites, backspace deletes, and a shorter overwrite leaves the rest of the line."""
    assert fold(text) == shown


@given(text=terminal_text, cuts=st.lists(st.integers(0, 60), max_size=8))
@example(text="50%\r\n60%", cuts=[4])
@example(text="50%\r60%", cuts=[4])
def test_fold_does_not_depend_on_chunks(text: str, cuts: list[int]) -> None:
    """However the kernel cuts a text into messages, it folds to what JupyterLab shows for the whole."""
    assert fold(*pieces(text, cuts)) == as_jupyterlab(text)


@given(text=terminal_text, cuts=st.lists(st.integers(0, 60), max_size=8), width=st.integers(1, 9))
@example(text="abc\rX", cuts=[], width=2)
def test_fold_of_long_lines_does_not_depend_on_chunks(text: str, cuts: list[int], width: int) -> None:
    """A line longer than the width folds in rows of that width, wherever messages begin."""
    assert fold(*pieces(text, cuts), width=width) == fold(*text, width=width)


def test_fold_goes_back_to_the_start_of_the_row() -> None:
    """Carriage return and backspace reach no further than the row, as in a terminal of that width."""
    assert fold("abc\rX\b\b\b", width=2) == "ab"


@given(text=st.text("ab\u00e9\n", max_size=60), cuts=st.lists(st.integers(0, 60)), width=st.integers(1, 9))
def test_fold_keeps_text_without_cursor_movement(text: str, cuts: list[int], width: int) -> None:
    """Text without carriage return and backspace stays as it is, however long its lines."""
    assert fold(*pieces(text, cuts), width=width) == text


def test_fold_stops_obeying_after_its_edits() -> None:
    """Past its bound, a carriage return is a line break and a backspace is dropped, which costs next to nothing."""
    assert fold("a\rb", "c\rd\b", edits=1) == "bc\nd"


def test_line_breaks_of_windows_cost_no_edits() -> None:
    """Text whose lines end with carriage return and line feed keeps its lines, however many."""
    assert fold("one\r\ntwo\r\n", edits=0) == "one\ntwo\n"


def test_fold_of_a_progress_bar_keeps_one_line() -> None:
    """A progress bar takes the memory of one line, however often it moves."""
    folder = LineFold()
    tracemalloc.start()
    try:
        for count in range(100_000):
            assert folder.feed(f"\r{count:>6}/100000") == ""
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()
    assert folder.flush() == " 99999/100000"


@pytest.mark.parametrize("pattern", ["\rx", "x\b", "x\ry\n", "\bx\n", "\rx\b", "w" * 8000 + "\rx" * 100])
def test_hostile_cursor_movement_is_bounded(pattern: str) -> None:
    """Text that is nothing but cursor movement takes seconds at worst, then the bound on edits ends that."""
    text = pattern * (10_000_000 // len(pattern))
    machine.within(60, lambda: LineFold(edits=100_000).feed(text))


@given(chunks=st.lists(st.text("ab\u6f22\n", max_size=12), max_size=12), head=st.integers(0, 9), tail=st.integers(0, 9))
def test_head_tail_and_spill_are_the_whole(chunks: list[str], head: int, tail: int) -> None:
    """Head, spilled text and tail are the text that came; the marker counts exactly what was spilled."""
    spilled: list[str] = []
    kept = HeadTail(head=head, tail=tail, spill=spilled.append)
    for chunk in chunks:
        kept.append(chunk)
    early = kept.text()
    kept.close()
    text, missing = "".join(chunks), "".join(spilled)
    assert kept.text() == early == ends(text, head=head, tail=tail, mark=left_out)
    assert kept.left_out == len(missing) == max(0, len(text) - head - tail)
    if missing:
        before, after = kept.text().split(left_out(len(missing)))
        assert before + missing + after == text


def test_marker_names_the_exact_count() -> None:
    """The line between head and tail says how many characters are missing."""
    assert ends("a" * 10 + "b" * 95_123_456 + "c" * 10, head=10, tail=10, mark=left_out) == (
        "a" * 10 + "\n[… 95,123,456 characters left out …]\n" + "c" * 10
    )


@given(text=st.text(st.characters()))
def test_clean_text_can_be_written(text: str) -> None:
    """Any text can be encoded after cleaning; only lone surrogates change, each into U+FFFD."""
    cleaned = clean_text(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
    assert all(
        new == ("\ufffd" if "\ud800" <= old <= "\udfff" else old) for old, new in zip(text, cleaned, strict=True)
    )


def test_clean_text_does_not_copy() -> None:
    """Text without surrogates comes back as the same object."""
    for text in ("plain" * 1000, "caf\u00e9" * 1000, "\U0001f600" * 1000):
        assert clean_text(text) is text


def test_stream_tells_its_head_only() -> None:
    """Live text ends where the head ends; the tail is still kept."""
    stream = Stream("stdout", head=4, tail=3, edits=0)
    assert [stream.add(text) for text in ("ab", "cdef", "gh", "ijk")] == ["ab", "cd", "", ""]
    stream.close()
    assert stream.output()["text"] == "abcd" + left_out(4) + "ijk"
    assert (stream.left_out, stream.size) == (4, 7)


@given(st.lists(st.text("ab\r\b\n", max_size=9), max_size=9))
def test_stream_knows_what_is_missing_before_it_is_closed(texts: list[str]) -> None:
    """The count of missing characters includes the line that is still open."""
    stream = Stream("stdout", head=4, tail=3, edits=100)
    for text in texts:
        stream.add(text)
    count = stream.left_out
    stream.close()
    assert stream.left_out == count
    assert stream.output()["text"] == ends(fold(*texts), head=4, tail=3, mark=left_out)


def test_text_of_100_mb_leaves_memory_flat() -> None:
    """100 MB in messages of 128 KiB take well under a second and a few megabytes."""
    chunk = ("x" * 79 + "\n") * 1638

    def add() -> None:
        stream = Stream("stdout", head=1 << 20, tail=1 << 20, edits=0)
        for _ in range(800):
            stream.add(chunk)

    machine.within(30, add)
    stream = Stream("stdout", head=1 << 20, tail=1 << 20, edits=0)
    tracemalloc.start()
    try:
        for _ in range(800):
            stream.add(chunk)
        stream.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert stream.left_out == 800 * len(chunk) - (2 << 20)


def streams(*, head: int = 100, tail: int = 10, total: int = 1000, count: int = 100) -> CellStreams:
    """The streams of a cell with small bounds."""
    return CellStreams(OutputLimits(stream_head=head, stream_tail=tail, stream_total=total, streams=count, edits=1000))


def write(cell: CellStreams, *texts: tuple[str, str]) -> list[tuple[str, str]]:
    """Write texts to streams by name; return the names and texts of the outputs."""
    for name, text in texts:
        stream, _ = cell.pick(name, cell.all[-1] if cell.all else None)
        stream.add(text)
    cell.close()
    return [(stream.name, stream.output()["text"]) for stream in cell.all]


def test_adjacent_text_of_a_stream_is_one_output() -> None:
    """Text of the same stream merges; another stream between begins a new output."""
    written = write(streams(), ("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d"))
    assert written == [("stdout", "ab"), ("stderr", "c"), ("stdout", "d")]


def test_too_many_switches_give_up_the_order() -> None:
    """After so many outputs, all text goes into a last one of each stream, and nothing of it is lost."""
    cell = streams(count=2)
    written = write(cell, *[("stdout", f"o{n}") if n % 2 else ("stderr", f"e{n}") for n in range(8)])
    assert written == [("stderr", "e0"), ("stdout", "o1"), ("stderr", "e2e4e6"), ("stdout", "o3o5o7")]
    assert cell.apart
    assert cell.left_out == {}


def test_all_streams_together_are_bounded() -> None:
    """Whatever alternates, what is kept stays under the total and two tails; what isn't is counted exactly."""
    cell = streams(head=100, tail=10, total=300)
    written = write(cell, *[(("stdout", "stderr")[n % 2], "x" * 90) for n in range(1000)])
    kept = sum(text.count("x") for _, text in written)
    assert kept <= 300 + 2 * 10
    assert sum(cell.left_out.values()) == 90_000 - kept
    assert len(written) < 10
    assert all(text.endswith("]\n" + "x" * 10) for _, text in written[-2:])


@pytest.mark.parametrize("count", [0, 1])
def test_clear_gives_the_room_back(count: int) -> None:
    """After a clear, as much can be kept as before; the edits that were spent stay spent."""
    cell = CellStreams(OutputLimits(stream_head=5, stream_tail=5, stream_total=10, streams=count, edits=1))
    write(cell, ("stdout", "a\rb"), ("stderr", "x" * 100), ("stdout", "y"))
    assert cell.apart
    cell.clear()
    assert write(cell, ("stdout", "a\rb")) == [("stdout", "a\nb")]
    assert cell.left_out == {}
