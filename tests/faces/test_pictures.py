"""Figures inside the terminal: which protocol it takes, and what it is sent."""

from __future__ import annotations

import base64
import io
import os
import pty
import re
import struct
import threading
import time
import tty
import zlib
from pathlib import Path

import machine
import pytest

from nbagent.core.events import CellStarted, OutputAdded, Record
from nbagent.faces.terminal import pictures
from nbagent.faces.terminal.view import View


def png(width: int, rows: list[bytes], *, kind: int = 2, filters: bytes = b"") -> bytes:
    """A PNG with 8 bits a channel, of rows as they are after their filters."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    filters = filters or bytes(len(rows))
    body = b"".join(bytes([each]) + row for each, row in zip(filters, rows, strict=True))
    head = struct.pack(">IIBBBBB", width, len(rows), 8, kind, 0, 0, 0)
    return pictures.PNG + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def test_sixels_have_the_figures_pixels() -> None:
    """Six rows a band, each colour apart, runs counted; what shows through is not painted."""
    red, blue, clear = b"\xff\0\0\xff", b"\0\0\xff\xff", b"\0\0\0\0"
    drawn = pictures.drawn(png(5, [red * 5, blue * 4 + clear], kind=6), "sixel", seconds=9)
    assert drawn == '\x1bP0;1q"1;1;5;2#5;2;0;0;100#180;2;100;0;0#5!4A?$#180!5@$-\x1b\\\n'


def test_each_filter_of_a_png_is_undone() -> None:
    """A figure whose rows are filtered in all five ways is one colour."""
    grey = 0x33
    rows = [bytes([grey] * 4), bytes([grey, 0, 0, 0]), bytes(4), bytes([grey - grey // 2, 0, 0, 0]), bytes(4)]
    assert pictures._rows(png(4, rows, kind=0, filters=bytes([0, 1, 2, 3, 4])), until=9e9) == [bytes([43] * 4)] * 5


@pytest.mark.parametrize(
    "figure",
    [
        b"",
        b"\xff\xd8\xff a JPEG",
        png(2, [bytes(6)])[:-30],
        png(2, [bytes(6)], filters=b"\x09"),
        png(50_000, [bytes(150_000)]),
        png(3, [bytes(6)]),
    ],
    ids=["empty", "no PNG", "cut", "no such filter", "too wide", "too short"],
)
def test_a_figure_that_cannot_be_read_is_not_drawn(figure: bytes) -> None:
    """Nothing of it reaches the terminal, and nothing fails."""
    assert pictures.drawn(figure, "sixel", seconds=9) == ""


def test_the_figures_of_a_cell_take_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes are pixels for half a minute; such figures are kept, and no longer drawn."""
    slow = png(900, [bytes(range(225)) * 16] * 1000, kind=6, filters=b"\x04" * 1000)
    data = {"image/png": base64.b64encode(slow).decode()}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    kept, results = [], io.StringIO()
    view = View(keep_figure=lambda name, _: kept.append(name) or Path(name), results=results)
    view._draws = "sixel"
    monkeypatch.setattr("nbagent.faces.terminal.view.DRAWING_SECONDS", 0.1)
    started = time.thread_time()
    view.show(Record(1, 0.0, CellStarted(cell=1, turn=1, code="1")))
    for number in range(5):
        view.show(Record(number + 2, 0.0, OutputAdded(cell=1, output=output)))
    assert time.thread_time() - started < 100 * machine.pace()
    assert len(kept) == 5
    assert "\x1bP" not in results.getvalue()


def test_a_figure_of_very_many_pieces_is_not_drawn() -> None:
    """Each would be an object."""
    figure = png(1, [bytes(3)])
    assert pictures.drawn(figure, "sixel", seconds=9)
    assert not pictures.drawn(figure + b"\0\0\0\0abcd\0\0\0\0" * pictures.MAX_CHUNKS, "sixel", seconds=9)


def test_kitty_gets_a_figure_in_pieces() -> None:
    """Each of at most 4,096 characters, the last one marked; a JPEG is not sent, which it doesn't take."""
    drawn = pictures.drawn(pictures.PNG + bytes(5000), "kitty", seconds=9)
    assert re.fullmatch(r"\x1b_Ga=T,f=100,m=1;[\w+/=]{4096}\x1b\\\x1b_Gm=0;[\w+/=]{1,4096}\x1b\\\n", drawn)
    assert pictures.drawn(b"\xff\xd8\xff", "kitty", seconds=9) == ""


@pytest.mark.parametrize(
    ("variables", "answer", "found"),
    [
        ({"TERM": "xterm-kitty"}, b"", "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, b"", "iterm"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, b"\x1b[?1;2;4c", "sixel"),
        ({"TERM": "xterm"}, b"\x1b[?62;22;4c", "sixel"),
        ({"TERM": "xterm"}, b"c\x1b[?62;22;4c", "sixel"),
        ({"TERM": "xterm"}, b"\x1b[?64;1;2c", ""),
        ({"TERM": "xterm"}, b"", ""),
        ({"TERM": "dumb"}, b"", ""),
    ],
)
def test_the_terminal_is_known_or_asked(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], answer: bytes, found: str
) -> None:
    """Its variables tell, but not inside of tmux; then its answer to what it is, if one comes in time.

    What is typed meanwhile doesn't end the answer, and where something was typed before, that is left to be read.
    """
    for name in ("TERM", "TERM_PROGRAM", "KITTY_WINDOW_ID", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outside, inside = pty.openpty()
    tty.setraw(inside)

    def terminal() -> None:
        if os.read(outside, 16) == b"\x1b[c":
            os.write(outside, answer[:1])
            time.sleep(0.05)
            os.write(outside, answer[1:])

    thread = threading.Thread(target=terminal)
    thread.start()
    monkeypatch.setattr("os.tcgetpgrp", lambda _: os.getpgrp())
    with open(inside, closefd=False) as typed:
        monkeypatch.setattr("sys.stdin", typed)
        assert pictures.protocol() == found
        os.write(inside, b"end")  # for the thread, if it was not asked
        thread.join()
        if found == "sixel":
            os.write(outside, b"next")
            assert pictures.protocol() == ""
            os.set_blocking(inside, False)
            assert os.read(inside, 64) == b"next"
    os.close(inside)
    os.close(outside)
