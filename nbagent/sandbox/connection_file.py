"""How a kernel is reached whose connection is known, also by the connection file of one that somebody else started.

Whoever can write the file, or read its key, can run code as the person. So it must be the person's own, and of a kernel
on this machine whose messages are signed.
"""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from nbagent.core.errors import UsageError
from nbagent.sandbox.channels.channel import SocketChannel
from nbagent.sandbox.channels.endpoint import CHANNELS, KINDS, ChannelName
from nbagent.sandbox.untrusted import UnreadableError, parse

MAX_BYTES: Final = 64 * 1024
"""Bytes of a connection file; Jupyter's have 400."""
MEND: Final = "Name the file that `jupyter --runtime-dir` has of it, such as kernel-1234.json."
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection file says, as Jupyter writes it; nbagent's own kernels have no file.

    Attributes:
        transport: `tcp`, or `ipc` for Unix sockets.
        ip: The address, or the beginning of the sockets' paths.
        key: Signs messages.
        signature_scheme: How it does that.
        curve_publickey: The key of a kernel that encrypts, which nbagent can't reach.
    """

    transport: Literal["tcp", "ipc"] = "tcp"
    ip: str
    shell_port: Port
    iopub_port: Port
    stdin_port: Port
    control_port: Port
    hb_port: Port
    key: str
    signature_scheme: str = "hmac-sha256"
    curve_publickey: str = ""


def find(name: str) -> Path:
    """The connection file that a person names: a path, or the name of a file in Jupyter's runtime folder.

    Raises:
        UsageError: There is none.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    given = Path(name).expanduser()
    runtime = Path(jupyter_runtime_dir())
    for each in (given, runtime / given, runtime / f"kernel-{name}.json"):
        try:
            if each.is_file():
                return each.absolute()
        except (OSError, ValueError):
            continue
    raise UsageError(f"There is no connection file {name[:120]!r}.", mend=MEND)


def read(path: Path) -> Connection:
    """Read a connection file.

    Raises:
        UsageError: It isn't there, isn't the person's own, or is none of a kernel that nbagent can reach.
    """
    try:
        # Nothing that waits, such as a pipe, is opened for long.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UsageError(f"{path} is no plain file.", mend=MEND)
            if found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise UsageError(
                    f"The connection file {path} can be read or changed by others than you.",
                    mend=f"If the kernel is yours, and nobody else may use it: chmod 600 {path}",
                )
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The connection file {path} can't be read: {error.strerror}.", mend=MEND) from error
    try:
        connection = parse(text, Connection, limit=MAX_BYTES)
    except UnreadableError as error:
        raise UsageError(f"{path} is no connection file of a kernel: {error}.", mend=MEND) from None
    _check(connection, path)
    return connection


def _check(connection: Connection, path: Path) -> None:
    """Refuse a kernel that can't be reached safely."""
    if not connection.key or connection.signature_scheme != "hmac-sha256":
        raise UsageError(
            f"The kernel of {path} doesn't sign its messages with HMAC-SHA256.",
            mend="Start it with a key: anybody on this machine could speak for it.",
        )
    if connection.curve_publickey:
        raise UsageError(
            f"The kernel of {path} encrypts its connection (CurveZMQ), which nbagent can't do.",
            mend="Start it with c.KernelManager.transport = 'ipc', which needs no encryption.",
        )
    if connection.transport == "tcp" and not _is_here(connection.ip):
        raise UsageError(
            f"The kernel of {path} is at {connection.ip[:80]!r}, and what goes there is not encrypted.",
            mend="Use a kernel of this machine, or lead its ports here by `ssh -L`.",
        )


def _is_here(address: str) -> bool:
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class ConnectionEndpoint:
    """How the kernel of a connection is reached.

    Attributes:
        connection: What its file says, or would say.
    """

    connection: Connection = field(repr=False)

    @property
    def key(self) -> bytes:
        return self.connection.key.encode()

    @property
    def connection_info(self) -> dict[str, Any]:
        """What other clients need."""
        said = self.connection
        ports = {f"{name}_port": getattr(said, f"{name}_port") for name in CHANNELS}
        info = {"transport": said.transport, "ip": said.ip, "key": self.key, "signature_scheme": said.signature_scheme}
        return info | ports

    def open(self, name: ChannelName, *, limit: int) -> SocketChannel:
        return self._open(name, kind=KINDS[name], limit=limit)

    def beat(self) -> SocketChannel:
        """Open a channel to the heartbeat, which the kernel closes when it ends and at no other time."""
        return self._open("hb", kind="DEALER", limit=MAX_BYTES)

    def _open(self, name: str, *, kind: str, limit: int) -> SocketChannel:
        said, port = self.connection, getattr(self.connection, f"{name}_port")
        if said.transport == "ipc":
            return SocketChannel(f"{said.ip}-{port}", kind=kind, limit=limit)
        family = socket.AF_INET6 if ":" in said.ip else socket.AF_INET
        return SocketChannel((said.ip, port), kind=kind, limit=limit, family=family)
