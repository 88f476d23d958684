"""What goes over the socket between the process that owns a session and those that are attached to it.

Each message is a JSON object behind its length, four bytes. Events don't travel: whoever is attached reads them from
the session's log, and is told only how far that has come. So a slow reader costs the owner nothing, and loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import errors
from nbagent.core.errors import NbagentError
from nbagent.core.events import to_json

NAME = "socket"
"""The socket's name in the session's folder, which only its owner can enter."""
LIMIT = 256 * 1024 * 1024
"""Bytes of one message."""


class Call(msgspec.Struct, frozen=True, tag=True):
    """One method of the session is to be called.

    Attributes:
        number: By which the answer is known.
        name: The method's.
        arguments: By their names.
    """

    number: int
    name: str
    arguments: dict[str, Any]


class Failure(msgspec.Struct, frozen=True):
    """An error of the owner's.

    Attributes:
        kind: Its class in `nbagent.core.errors`.
        message: What happened.
        mend: What can be done about it.
    """

    kind: str
    message: str
    mend: str = ""

    @classmethod
    def of(cls, error: NbagentError) -> Failure:
        """An error as it goes over the socket."""
        return cls(type(error).__name__, error.message, error.mend)

    def as_error(self) -> NbagentError:
        """The error as it is raised on the other side."""
        kind = getattr(errors, self.kind, NbagentError)
        known = isinstance(kind, type) and issubclass(kind, NbagentError)
        found: NbagentError = (kind if known else NbagentError)(self.message, mend=self.mend)
        return found


class Returned(msgspec.Struct, frozen=True, tag=True):
    """What a call returned, or raised.

    Attributes:
        number: The call's.
        value: As JSON.
        failure: What it raised, if it did.
    """

    number: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    failure: Failure | None = None


class Grown(msgspec.Struct, frozen=True, tag=True):
    """The log has grown.

    Attributes:
        last: The number of its last record.
    """

    last: int


FROM_OWNER = msgspec.json.Decoder(Returned | Grown)
FROM_CALLER = msgspec.json.Decoder(Call)


def framed(message: Call | Returned | Grown) -> bytes:
    """A message as it goes over the socket."""
    data = to_json(message)
    return len(data).to_bytes(4, "big") + data


async def receive(reader: asyncio.StreamReader) -> bytes | None:
    """The next message, not yet decoded; None at the end, also one that comes in the middle of a message."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size) if size <= LIMIT else None
    except (asyncio.IncompleteReadError, OSError):
        return None


@contextlib.contextmanager
def address(folder: Path) -> Iterator[str]:
    """The address of the socket in a folder, however long the folder's path is: Linux takes 107 bytes.

    Raises:
        OSError: There is no such folder, it is a link, or somebody else's.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is somebody else's", str(folder))
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


def is_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is this person's, or root's."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user in (os.geteuid(), 0)
