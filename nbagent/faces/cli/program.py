"""The program around the commands: signals, standard streams, and errors as sentences and exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from nbagent.core.errors import NbagentError, SandboxError, StoreError, UsageError
from nbagent.faces.cli import EXIT_STOPPED, wrong_use

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
# Click's own error, which newer versions of Typer bring with them under another name.
_WrongUse: Any = typer.BadParameter.__mro__[2]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of writing to standard output; those of files with a name are `StoreError` already."""


def run(app: typer.Typer) -> NoReturn:
    """Run the command line: an `NbagentError` becomes a sentence and an exit code, with --json an object too."""
    _open_standard_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # By default these end a program at once, which would leave its sandbox behind.
        signal.signal(number, _end)
    debug = "--debug" in sys.argv
    arguments = [each for each in sys.argv[1:] if each != "--debug"]
    try:
        code = app(args=arguments, prog_name="nbagent", standalone_mode=False)
        sys.stdout.flush()
        # All is done and printed: a late Ctrl-C must not change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code == EXIT_STOPPED and arguments[:1] != ["shell"]:  # whose exit code is that of its last program
            print("Stopped.", file=sys.stderr)
        sys.exit(code)
    except _WrongUse as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(error.exit_code)
        _complain(arguments, wrong_use.in_a_sentence(error))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(EXIT_STOPPED)
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # so Click says that the reader went away
            sys.exit(0)
        raise
    except BrokenPipeError:
        # The reader went away, as `| head` does; there is nobody left to tell.
        _drop_output()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.errno in _FULL:
            _drop_output()
        _complain(arguments, error if isinstance(error, NbagentError) else _unforeseen(error))


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Do a command's work on an event loop of its own, and return what it returns."""
    import asyncio

    return asyncio.run(work)


def _end(number: int, _frame: object) -> None:
    """Unwind, so that sandboxes are ended; with the exit code that shells give for a signal."""
    sys.exit(128 + number)


def _complain(arguments: list[str], error: NbagentError) -> NoReturn:
    from nbagent.faces.terminal.console import complain

    if "--json" in arguments:
        from nbagent.faces.cli import json_output

        json_output.refused(arguments[0], error)
    complain(error)
    sys.exit(error.exit_code)


def _open_standard_streams() -> None:
    """Have a standard input, output and error also where the caller closed them, as `<&-` does.

    The next file or socket would take their numbers, and get what is meant for a person.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the terminal or the file can't hold is written as its number, as Python does on standard error.
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Throw away output that is still buffered: writing it would fail again at the end of Python."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _unforeseen(error: Exception) -> NbagentError:
    if isinstance(error, OSError) and error.errno in _FULL:
        return StoreError(f"The output can't be written: {error.strerror}.", mend="Send it elsewhere, or make room.")
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return SandboxError("This process may open no more files.", mend="Raise the limit, for example: ulimit -n 1024")
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_folder_gone():
        return UsageError("The folder in which you are was deleted.", mend="Go to another one, for example: cd")
    return NbagentError(
        f"nbagent itself failed: {type(error).__name__}: {error}", mend="Run it again with --debug, and report that."
    )
