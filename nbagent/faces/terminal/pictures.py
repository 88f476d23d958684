"""Figures inside the terminal: which of the three protocols it takes, and a figure in each of them.

A figure is text of a sandbox's. So it is only passed on to a terminal that decodes pictures itself, or its pixels are
read here, by zlib alone, within bounds: `MAX_PIXELS`, `MAX_ROW`, `MAX_CHUNKS`, and the seconds that whoever shows it
has for it.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import itertools
import os
import re
import select
import struct
import sys
import termios
import time
import tty
import zlib
from typing import Literal

Protocol = Literal["iterm", "kitty", "sixel", ""]
PNG = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = 4_000_000
MAX_CHUNKS = 10_000
MAX_ROW = 20_000
"""Pixels of a row, each of which is read at once."""
MAX_WIDTH = 900
"""Pixels of a figure's width in a terminal that doesn't say how wide it is."""
ANSWER_SECONDS = 1.0
"""Seconds for the answer of a terminal, which may be far away: one that comes later stands in the next prompt."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Bytes of a pixel by PNG's colour type, at eight bits a channel."""


def protocol() -> Protocol:
    """How this terminal takes pictures; empty if it takes none, or is not known to.

    Known by their variables, as the programs that show pictures know them; else the terminal is asked whether it has
    sixels. What runs in tmux inherits the variables of the terminal outside, to which only sixels pass.
    """
    term, program = os.environ.get("TERM", ""), os.environ.get("TERM_PROGRAM", "")
    if not (os.environ.get("TMUX") or term.startswith(("screen", "tmux"))):
        if program in ("iTerm.app", "WezTerm"):
            return "iterm"
        if os.environ.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
            return "kitty"
    return "sixel" if term not in ("", "dumb") and _has_sixels() else ""


def drawn(figure: bytes, by: Protocol, *, seconds: float) -> str:
    """What a terminal is sent for a figure; empty if it can't be shown, or if that takes more of this thread's time."""
    if by == "sixel":
        try:
            return _sixels(figure, width=_pixels_across() or MAX_WIDTH, until=time.thread_time() + seconds)
        except (ValueError, IndexError, TimeoutError, struct.error, zlib.error):
            return ""
    # Encoded again: what the sandbox sent as base64 may hold more than that.
    data = base64.b64encode(figure).decode()
    if by == "iterm":
        return f"\x1b]1337;File=inline=1;width=60%:{data}\x07\n"
    if by == "kitty" and figure.startswith(PNG):
        pieces = [data[start : start + 4096] for start in range(0, len(data), 4096)]
        heads = ["a=T,f=100,", *[""] * (len(pieces) - 1)]
        more = [*["1"] * (len(pieces) - 1), "0"]
        return "".join(f"\x1b_G{h}m={m};{p}\x1b\\" for h, m, p in zip(heads, more, pieces, strict=True)) + "\n"
    return ""


def _has_sixels() -> bool:
    """Ask the terminal what it is (DA1); one that draws sixels has a 4 in its answer."""
    try:
        terminal = sys.stdin.fileno()
        if not (sys.stdin.isatty() and os.tcgetpgrp(terminal) == os.getpgrp()):
            return False
        before = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal, termios.TCSANOW)
            if select.select([terminal], [], [], 0)[0]:
                return False  # what was typed before the answer would be read with it
            os.write(terminal, b"\x1b[c")
            found, answer, end = None, b"", time.monotonic() + ANSWER_SECONDS
            while not found and select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
                answer += os.read(terminal, 64)
                found = re.search(rb"\x1b\[\?([\d;]+)c", answer)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, ValueError, termios.error):
        return False
    return found is not None and b"4" in found[1].split(b";")[1:]


def _pixels_across() -> int:
    try:
        return int(struct.unpack("HHHH", fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(8)))[2])
    except OSError:
        return 0


def _sixels(figure: bytes, *, width: int, until: float) -> str:
    """A PNG as sixels of 216 colours; of a wider one, every second, third … pixel.

    Raises:
        TimeoutError: This thread has used more time than `until`; other errors mean that the figure can't be read.
    """
    rows = _rows(figure, until=until)
    step = -(-len(rows[0]) // width)
    rows = [row[::step] for row in rows[::step]]
    across = len(rows[0])
    out = [f'\x1bP0;1q"1;1;{across};{len(rows)}']
    out += [f"#{n};2;{n // 36 * 20};{n // 6 % 6 * 20};{n % 6 * 20}" for n in sorted(set().union(*rows) - {_CLEAR})]
    for top in range(0, len(rows), 6):
        for colour in sorted(set().union(*rows[top : top + 6]) - {_CLEAR}):
            _look_at_clock(until)
            band = 0
            for bit, row in enumerate(rows[top : top + 6]):
                band += int.from_bytes(row.translate(_only(colour, 1 << bit)))
            signs = bytes(63 + each for each in band.to_bytes(across)).decode()
            runs = re.sub(r"(.)\1{3,}", lambda run: f"!{len(run[0])}{run[1]}", signs)
            out.append(f"#{colour}{runs}$")
        out.append("-")
    return "".join(out) + "\x1b\\\n"


_CLEAR = 255
"""Stands for a pixel that isn't painted, among the numbers of colours."""


@functools.cache
def _only(colour: int, value: int) -> bytes:
    """The table that makes a value of one colour, and nothing of all others."""
    return bytes(value if each == colour else 0 for each in range(256))


@functools.cache
def _scaled(weight: int) -> bytes:
    return bytes(weight * round(each / 51) for each in range(256))


def _look_at_clock(until: float) -> None:
    if time.thread_time() > until:
        raise TimeoutError


def _rows(figure: bytes, *, until: float) -> list[bytes]:
    """The pixels of a PNG, by rows, each as the number of its colour."""
    chunks = _chunks(figure)
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or interlaced or kind not in _CHANNELS or not 0 < width * height <= MAX_PIXELS or width > MAX_ROW:
        raise ValueError
    size, line = _CHANNELS[kind], width * _CHANNELS[kind]
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    data = zlib.decompressobj().decompress(packed, (line + 1) * height)
    if len(data) != (line + 1) * height:
        raise ValueError
    palette = next((body for name, body in chunks if name == b"PLTE"), b"")
    rows, above = [], bytes(line)
    for start in range(0, len(data), line + 1):
        _look_at_clock(until)
        above = _unfiltered(data[start], data[start + 1 : start + 1 + line], above, size)
        rows.append(_numbers(above, kind, palette))
    return rows


def _chunks(figure: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    at = len(PNG)
    if not figure.startswith(PNG):
        raise ValueError
    while at + 8 <= len(figure):
        if len(found) >= MAX_CHUNKS:
            raise ValueError
        length, name = struct.unpack_from(">I4s", figure, at)
        found.append((name, figure[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def _unfiltered(kind: int, line: bytes, above: bytes, size: int) -> bytes:
    """A row of a PNG as it was before its filter."""
    if kind == 0:
        return line
    if kind == 2:
        return bytes((value + up) & 255 for value, up in zip(line, above, strict=True))
    row = bytearray(line)
    if kind == 1:
        for each in range(size):
            row[each::size] = bytes(sum_ & 255 for sum_ in itertools.accumulate(line[each::size]))
        return bytes(row)
    if kind == 3:
        for at, value in enumerate(line):
            row[at] = (value + ((row[at - size] if at >= size else 0) + above[at]) // 2) & 255
        return bytes(row)
    if kind != 4:
        raise ValueError
    for at, value in enumerate(line):
        left, up, corner = (row[at - size], above[at], above[at - size]) if at >= size else (0, above[at], 0)
        if left == up == corner:  # as nearly everywhere in a figure
            row[at] = (value + left) & 255
            continue
        to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        guess = left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
        row[at] = (value + guess) & 255
    return bytes(row)


def _numbers(row: bytes, kind: int, palette: bytes) -> bytes:
    """The number of each pixel's colour: six steps each of red, green and blue; `_CLEAR` where it shows through."""
    if kind == 3:
        red, green, blue = (row.translate(palette[each::3].ljust(256, b"\0")) for each in range(3))
    else:
        size = _CHANNELS[kind]
        red, green, blue = (row[each if kind in (2, 6) else 0 :: size] for each in range(3))
    parts = [red.translate(_scaled(36)), green.translate(_scaled(6)), blue.translate(_scaled(1))]
    # Added as long numbers: no sum is over 255, so none reaches the next byte.
    found = sum(map(int.from_bytes, parts)).to_bytes(len(red))
    if kind not in (4, 6):
        return found
    alpha = row[_CHANNELS[kind] - 1 :: _CHANNELS[kind]]
    return bytes(_CLEAR if opaque < 128 else number for number, opaque in zip(found, alpha, strict=True))
