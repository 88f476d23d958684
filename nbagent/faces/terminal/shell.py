"""A terminal inside a running sandbox: `nbagent shell`.

The shell runs where the session's code runs: same user, same limits, same filters; process 1 of the sandbox starts it
(`sandbox/inside/supervisor_inside.py`). What it prints goes to the person's terminal without the sequences that would
do more than draw there: set the clipboard, rename the window, open links.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import selectors
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

from nbagent.sandbox.machine import supervisor

_CHUNK_BYTES = 65536
_STRINGS = re.compile(
    rb"(?<![\x1b\xc2])(?P<start>[\x1b\xc2]++(?:(?<=\x1b)[\]PX^_]|(?<=\xc2)[\x90\x98\x9d-\x9f]|\Z))"
    rb"(?>(?:[^\x07\x1b\xc2]|\x1b(?!\\)|\xc2(?!\x9c))*)(?:(?P<end>\x07|\x1b\\|\xc2\x9c)|\Z)"
)
"""Control strings of ECMA-48, section 5.6: operating system command, device control, start of string, and so on; each
begins with ESC or with one character of its own, here in UTF-8. No ESC may be left before one: with what follows, it
would begin another. The last one may not have ended yet, or hardly begun."""
MAX_STRING = 8192
"""Bytes of a control string that may be waited for; a longer one is thrown away as it comes."""


def attach(sandbox: Path) -> int:
    """Open a shell in a sandbox on this process's terminal, or on pipes; returns its exit code as shells tell it."""
    given = sys.stdin.fileno()
    if not os.isatty(given):
        # A terminal would turn the end of a file into a key that is pressed, which programs take as they like.
        ours, theirs = (each.detach() for each in socket.socketpair())
    else:
        ours, theirs = os.openpty()
        _copy_size(given, theirs)
    try:
        connection = supervisor.open_shell(sandbox, theirs)
        os.close(theirs)
        with connection, _raw(given), _resizing(ours):
            _pump(ours, connection)
            connection.settimeout(supervisor.ANSWER_SECONDS)
            code = supervisor.shell_exit(connection)
    finally:
        os.close(ours)
    return code if code >= 0 else 128 - code


def _pump(shell: int, connection: socket.socket) -> None:
    """Carry bytes between the person and the shell until the shell has ended."""
    given, shown = sys.stdin.fileno(), sys.stdout.fileno()
    screen = Screen()
    threading.Thread(target=_feed, args=(given, shell), name="nbagent-shell-input", daemon=True).start()
    with selectors.DefaultSelector() as selector:
        for each in (shell, connection.fileno()):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if shell in ready and (printed := _read(shell)) is not None:
                os.write(shown, screen.clean(printed))
            else:
                # It ended and has nothing more to say, or something that it started still has its output.
                return


def _feed(given: int, shell: int) -> None:
    """Carry what is typed, or comes through a pipe, to the shell, up to its end."""
    with contextlib.suppress(OSError):
        while data := os.read(given, _CHUNK_BYTES):
            while data:
                data = data[os.write(shell, data) :]
        if not os.isatty(shell):
            with socket.socket(fileno=os.dup(shell)) as end:
                end.shutdown(socket.SHUT_WR)


def _read(shell: int) -> bytes | None:
    """What the shell has printed; None once nothing has its end open any more."""
    try:
        return os.read(shell, _CHUNK_BYTES) or None
    except OSError:
        return None


class Screen:
    """Takes control strings out of what goes to a terminal, however the bytes are cut."""

    def __init__(self) -> None:
        self._held = b""

    def clean(self, data: bytes) -> bytes:
        """The bytes that may be shown now; the beginning of a control string waits for its end."""
        data, self._held = self._held + data, b""

        def hold(found: re.Match[bytes]) -> bytes:
            if found["end"] is None:
                self._held = found[0] if len(found[0]) <= MAX_STRING else found["start"][-2:]
            return b""

        return _STRINGS.sub(hold, data)


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """A terminal that hands on each key as it is pressed, Ctrl-C too; nothing happens where there is none."""
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


@contextlib.contextmanager
def _resizing(terminal: int) -> Iterator[None]:
    """The shell's terminal has the size of the person's, also when that changes."""
    before = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(sys.stdin.fileno(), terminal))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _copy_size(source: int, target: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)
