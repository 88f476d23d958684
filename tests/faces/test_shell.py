"""What a shell in a sandbox may do to the person's terminal."""

from __future__ import annotations

import machine
import pytest

from nbagent.faces.terminal.shell import MAX_STRING, Screen

CLIPBOARD = b"\x1b]52;c;aGVsbG8=\x07"
LINK = b"\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain\r\n", b"plain\r\n"),
        (b"\x1b[1;31mred\x1b[0m\x1b[2J\x1b[H", b"\x1b[1;31mred\x1b[0m\x1b[2J\x1b[H"),
        (b"a" + CLIPBOARD + b"b", b"ab"),
        (LINK, b"here"),
        (b"\x1bP1$r\x1b\\x\x1b_app\x1b\\y\x1b^pm\x1b\\z", b"xyz"),
        ("a\x9d52;c;aGVsbG8=\x07b\x90q\x9cc".encode(), b"abc"),
        ("\u00e9\u4e2d\u00a3\x9b1m".encode(), "\u00e9\u4e2d\u00a3\x9b1m".encode()),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_only_what_draws_is_shown(data: bytes, shown: bytes, size: int) -> None:
    """Colours and the cursor, but no clipboard, links, titles or device strings; however the bytes are cut."""
    screen = Screen()
    assert b"".join(screen.clean(data[at : at + size]) for at in range(0, len(data), size)) == shown


def test_an_endless_string_takes_no_memory() -> None:
    """What never ends is thrown away as it comes."""
    screen = Screen()
    assert screen.clean(b"\x1b]0;") == b""
    for _ in range(100):
        assert screen.clean(b"x" * 1000) == b""
    assert len(screen._held) <= MAX_STRING + 1000
    assert screen.clean(b"\x07shown") == b"shown"


def test_what_is_left_around_a_string_makes_no_other_one() -> None:
    """An ESC before a string that is taken out would begin a new one with what follows it."""
    assert Screen().clean(b"a\x1b\x1b]x\x07]52;c;aGVsbG8=\x07b") == b"a]52;c;aGVsbG8=\x07b"


def test_many_strings_that_never_end_take_no_time() -> None:
    """Each is looked for once, in what was printed together."""
    machine.within(2, lambda: Screen().clean(b"\x1b]" * 32_768))
