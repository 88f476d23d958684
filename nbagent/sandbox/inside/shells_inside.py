"""Starts shells for process 1 of a sandbox (`supervisor_inside.py`); standard library only."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from collections.abc import Callable
from typing import NoReturn


class ShellError(Exception):
    """No shell can be started; the message says why."""


def start_shell(terminal: int, become: Callable[[], NoReturn], report: Callable[[], None] | None) -> int:
    """Start a process that becomes a shell on a terminal, and have it reported what that executes; returns its number.

    Raises:
        ShellError: It can't be started.
    """
    try:
        pid = os.fork()
    except OSError as error:
        # Code inside may have used up all processes that the sandbox may have.
        raise ShellError(f"A shell can't be started: {error.strerror}.") from error
    if pid:
        return pid
    try:
        if report is not None:
            report()
        become_session_leader(terminal)
        become()
    finally:
        os._exit(126)


def become_session_leader(terminal: int) -> None:
    """Take the terminal, or what stands in for one, as standard streams; reset signals, and close all else."""
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_DFL)
    os.setsid()
    if os.isatty(terminal):
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(terminal, number)
    os.closerange(3, 65536)
