"""The controller's calls to process 1 of a sandbox (`supervisor_inside.py`): own, interrupt, end it, open a shell."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
from pathlib import Path
from typing import Any

from nbagent.core.errors import SandboxError
from nbagent.sandbox.untrusted import parse

SOCKET = "s"
ANSWER_SECONDS = 5.0
"""Seconds to wait for an answer of process 1."""
MAX_ANSWER = 4096
"""Bytes of one answer, which is a line."""


def hold(folder: Path, *, keep: float | None = None) -> socket.socket:
    """Own a sandbox; it counts as owned for as long as the connection that is returned stays open.

    With `keep`, it shall live on for so many seconds without an owner; otherwise that stays as it is.

    Raises:
        SandboxError: It has ended.
    """
    request = {"do": "hold"} | ({} if keep is None else {"keep": keep})
    connection = _connect(folder)
    try:
        _ask(connection, request)
    except BaseException:
        connection.close()
        raise
    return connection


def end(folder: Path) -> None:
    """End a sandbox, at once; nothing happens if it has ended."""
    with contextlib.suppress(SandboxError), _connect(folder) as connection:
        _ask(connection, {"do": "end"})


def interrupt(folder: Path) -> bool:
    """Have the code of a sandbox's kernel interrupted, without waiting for it; returns whether that was asked for.

    The kernel itself reads no message while its code holds Python's lock, as a regular expression may for hours.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(str(folder / SOCKET))
            connection.send(json.dumps({"do": "interrupt"}).encode())
        except OSError:
            return False
    return True


def is_alive(folder: Path) -> bool:
    """Whether there is a process 1 of a sandbox: something listens, though it may be too busy to answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        return connection.connect_ex(str(folder / SOCKET)) in (0, errno.EAGAIN)


def open_shell(folder: Path, terminal: int) -> socket.socket:
    """Start a shell inside, whose controlling terminal becomes the one of this descriptor.

    Returns:
        A connection from which `shell_exit` reads when the shell has ended.

    Raises:
        SandboxError: The sandbox has ended.
    """
    connection = _connect(folder)
    try:
        socket.send_fds(connection, [json.dumps({"do": "shell"}).encode()], [terminal])
    except OSError as error:
        connection.close()
        raise SandboxError("The sandbox does not answer.") from error
    connection.settimeout(None)
    return connection


def shell_exit(connection: socket.socket) -> int:
    """Wait for a shell's end; returns its exit code, negative for a signal.

    Raises:
        SandboxError: There is no shell in this sandbox, or the sandbox ended with it.
    """
    answer = _read(connection)
    if "error" in answer:
        raise SandboxError(str(answer["error"]))
    if type(code := answer.get("exit")) is not int:
        raise SandboxError("The sandbox does not answer.")
    return code


def _connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    try:
        connection.connect(str(folder / SOCKET))
    except OSError as error:
        connection.close()
        raise SandboxError("The sandbox has ended.") from error
    return connection


def _ask(connection: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    try:
        connection.sendall(json.dumps(request).encode())
    except OSError as error:
        raise SandboxError("The sandbox has ended.") from error
    return _read(connection)


def _read(connection: socket.socket) -> dict[str, Any]:
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) <= MAX_ANSWER:
            # Byte by byte: what follows the line is read by whoever listens from then on.
            more = connection.recv(1)
            if not more:
                raise SandboxError("The sandbox has ended.")
            line += more
        answer = parse(line, limit=MAX_ANSWER)
    except (OSError, ValueError) as error:
        raise SandboxError("The sandbox does not answer.") from error
    return answer if isinstance(answer, dict) else {}
