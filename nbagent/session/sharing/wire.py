"""What goes over the socket between the process that owns a session and those that are attached to it.

`CALLS` is the one table of what can be called: `server.py` serves it, `attach.py` calls it, and a face that relays
calls for another program, such as a page in a browser, may check them against it.

Each message is a JSON object behind its length in four bytes. Events are not sent: whoever is attached reads them from
the session's log, and is told only how far that has come. So a slow reader costs the owner nothing, and loses nothing.
The words of a reply that isn't whole yet are in no log, and are sent.
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
from nbagent.core.events import Answer, Cell, Package, to_json
from nbagent.session.files.sandbox_files import Listing, Pulled, Uploaded

SOCKET_FILE = "socket"
"""The socket's name in the session's folder, which only its owner can enter."""
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Bytes of one message."""


class CallRule(msgspec.Struct, frozen=True):
    """How one call is treated.

    Attributes:
        returns: The type of what it returns, as JSON has it.
        is_urgent: Whether it is heard however many others wait for their end.
        ends_with_caller: Whether the owner stops it when its caller is cancelled; any other one goes on to its end.
    """

    returns: Any = None
    is_urgent: bool = False
    ends_with_caller: bool = False


CALLS: dict[str, CallRule] = {
    "ask": CallRule(Answer, ends_with_caller=True),
    "run": CallRule(Cell, ends_with_caller=True),
    "interrupt": CallRule(is_urgent=True),
    "interrupt_cell": CallRule(bool, is_urgent=True),
    "system_prompt": CallRule(str),
    "install": CallRule(list[Package]),
    "upload": CallRule(Uploaded),
    "download": CallRule(Path),
    "pull": CallRule(Pulled),
    "files": CallRule(Listing),
    "deliver": CallRule(dict[str, str]),
    "variables": CallRule(list[str]),
    "check_export": CallRule(),
    "export": CallRule(Path),
    "rename": CallRule(),
    "use_model": CallRule(),
    "undo_turn": CallRule(),
    "set_approvals": CallRule(),
    "attend": CallRule(is_urgent=True),
    "approve": CallRule(bool, is_urgent=True),
    "approve_host": CallRule(bool, is_urgent=True),
    "allow_host": CallRule(),
    "stop": CallRule(is_urgent=True),
    # For agents that aren't the session's own: `AnySession.runs`.
    "runs.run_cell": CallRule(Cell, ends_with_caller=True),
    "runs.install": CallRule(list[Package]),
    "runs.install_module": CallRule(list[Package]),
    "runs.output_files": CallRule(tuple[list[str], int]),
    "runs.count_in_file": CallRule(int),
    # Stops another call of the same caller, be it that it runs or that it waits: `cancel(call=NUMBER)`.
    "cancel": CallRule(bool, is_urgent=True),
}
"""What can be called through a session's server: methods of `AnySession`, and `cancel`."""


class RemoteCall(msgspec.Struct, frozen=True, tag=True):
    """A call of the session's that somebody attached wants.

    Attributes:
        number: By which the answer is known.
        name: One of `CALLS`.
    """

    number: int
    name: str
    arguments: dict[str, Any]


class Failure(msgspec.Struct, frozen=True):
    """An error of the owner's, as it goes over the socket.

    Attributes:
        kind: Its class in `nbagent.core.errors`.
        mend: What can be done about it.
    """

    kind: str
    message: str
    mend: str = ""

    @classmethod
    def of(cls, error: NbagentError) -> Failure:
        """The form of an error for the socket."""
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
        value: What the call returned, as JSON.
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


class SpokenWords(msgspec.Struct, frozen=True, tag=True):
    """Words of a reply that a model is writing.

    Attributes:
        after: The number of the log's last record at the time.
    """

    turn: int
    text: str
    after: int


FROM_OWNER = msgspec.json.Decoder(Returned | Grown | SpokenWords)
FROM_CALLER = msgspec.json.Decoder(RemoteCall)


def framed(message: RemoteCall | Returned | Grown | SpokenWords) -> bytes:
    """A message as it goes over the socket."""
    data = to_json(message)
    return len(data).to_bytes(4, "big") + data


async def receive(reader: asyncio.StreamReader) -> bytes | None:
    """The next message, not yet decoded; None at the end, also one that comes in the middle of a message."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size) if size <= MAX_MESSAGE_BYTES else None
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
        yield f"/proc/self/fd/{descriptor}/{SOCKET_FILE}"
    finally:
        os.close(descriptor)


def is_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is this person's, or root's."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user in (os.geteuid(), 0)
