"""Lines that are typed reach who waits for them."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.faces.terminal.keyboard import Keyboard


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The person's end of a terminal that is this process's standard input and error."""
    ours, theirs = pty.openpty()
    with os.fdopen(os.dup(theirs)) as read, os.fdopen(theirs, "w") as write:
        monkeypatch.setattr(sys, "stdin", read)
        monkeypatch.setattr(sys, "stderr", write)
        assert Keyboard().is_there
        yield ours
    os.close(ours)


async def test_the_latest_who_waits_gets_the_line(typed: int) -> None:
    """The one who waited before gets the next; what is typed while nobody waits stays for the next reader."""
    keyboard = Keyboard()
    first = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0)
    second = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0)
    os.write(typed, "für s\nzweite\nthird\n".encode())
    assert await second == "für s"
    assert await first == "zweite"
    await asyncio.sleep(0.05)
    assert await keyboard.line() == "third"


async def test_a_fresh_answer_is_typed_after_the_question(typed: int) -> None:
    """Keys that were pressed ahead are no consent to what nobody had seen."""
    keyboard = Keyboard()
    os.write(typed, b"s\nhalf")
    await asyncio.sleep(0.05)
    waiting = asyncio.create_task(keyboard.line(fresh=True))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    os.write(typed, b"d\n")
    assert await waiting == "d"


async def test_the_end_of_input_is_no_line(typed: int) -> None:
    """Ctrl-D on an empty line; after a few letters it only hands these over."""
    keyboard = Keyboard()
    waiting = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0.05)
    os.write(typed, b"ab\x04")
    await asyncio.sleep(0.05)
    assert not waiting.done()
    os.write(typed, b"c\n")
    assert await waiting == "abc"
    waiting = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0.05)
    os.write(typed, b"\x04")
    assert await waiting is None


async def test_who_gives_up_takes_no_line(typed: int) -> None:
    """A question that was withdrawn leaves the line to who waits on."""
    keyboard = Keyboard()
    first = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0)
    second = asyncio.create_task(keyboard.line())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    os.write(typed, b"x\n")
    assert await first == "x"


def test_a_pipe_is_no_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is nothing at all: then nobody is asked."""
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert not Keyboard().is_there
    monkeypatch.setattr(sys, "stdin", None)
    assert not Keyboard().is_there
