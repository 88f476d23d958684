"""Reads lines from the terminal on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator


class Keyboard:
    """Hands typed lines to whoever waits for one; of several, the latest gets the next line.

    A thread in `input()` could neither be stopped by Ctrl-C, nor give way to a more urgent question.
    """

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[str | None]] = []
        self._begun = b""

    @property
    def is_there(self) -> bool:
        """Whether somebody can be asked: a terminal to write to and read from, and this program in its foreground."""
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
            return False
        return _in_foreground(sys.stdin.fileno())

    async def line(self, *, fresh: bool = False) -> str | None:
        """Wait for the next line, without its end; None at the end of input, which is Ctrl-D.

        A `fresh` one drops what was typed before now: nobody had seen the question yet.
        """
        loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
        if fresh:
            self._begun = b""
            termios.tcflush(terminal, termios.TCIFLUSH)
        wanted: asyncio.Future[str | None] = loop.create_future()
        self._waiting.append(wanted)
        # What is typed while nobody waits here is left to the next program that reads the terminal.
        loop.add_reader(terminal, self._read, terminal)
        try:
            return await wanted
        finally:
            self._waiting.remove(wanted)
            if not self._waiting:
                loop.remove_reader(terminal)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Let another program read the terminal; whoever waits for a line goes on waiting afterwards."""
        loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
        loop.remove_reader(terminal)
        try:
            yield
        finally:
            if self._waiting:
                loop.add_reader(terminal, self._read, terminal)

    def _read(self, terminal: int) -> None:
        open_ones = [each for each in self._waiting if not each.done()]
        if not open_ones or not _in_foreground(terminal):
            asyncio.get_running_loop().remove_reader(terminal)
            return
        try:
            typed = os.read(terminal, 65536)
        except OSError:
            typed = b""  # it was closed
        self._begun += typed
        # Ctrl-D hands over the letters that were typed before it; without any, it is the end of input.
        if typed and not typed.endswith(b"\n"):
            return
        line, self._begun = self._begun, b""
        open_ones[-1].set_result(line.decode(errors="replace").rstrip("\r\n") if line else None)


def _in_foreground(terminal: int) -> bool:
    try:
        # Linux stops a process that reads the terminal from the background.
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return True  # a terminal that isn't the process's own has no such rule
