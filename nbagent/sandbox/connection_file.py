"""How a kernel is reached whose connection is known, also by the connection file of one that somebody else started.

Whoever can write the file, or read its key, can run code as the person. So it must be the person's own, and of a kernel
on this machine whose messages are signed.
"""

from __future__ import annotations

import os
import socket
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from nbagent.core.errors import UsageError
from nbagent.sandbox.channels.endpoint import CHANNELS, KINDS, ChannelName
from nbagent.sandbox.channels.socket_channel import SocketChannel
from nbagent.sandbox.untrusted import UnreadableError, parse

MAX_BYTES: Final = 64 * 1024
"""Bytes of a connection file; Jupyter's have 400."""
MEND: Final = "Name the file that `jupyter --runtime-dir` has of it, such as kernel-1234.json."
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class KernelAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kernel is reached, in the form of Jupyter's connection files; the `Endpoint` of such a kernel.

    nbagent's own kernels have an address, and no file.

    Attributes:
        transport: `tcp`, or `ipc` for Unix sockets.
        ip: The address, or the beginning of the sockets' paths.
        secret: The key in the file, which signs messages.
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
    secret: str = msgspec.field(name="key")
    signature_scheme: str = "hmac-sha256"
    curve_publickey: str = ""

    def __repr__(self) -> str:
        return f"KernelAddress({self.transport}, {self.ip})"

    @property
    def key(self) -> bytes:
        return self.secret.encode()

    @property
    def connection_info(self) -> dict[str, Any]:
        """What other clients need."""
        ports = {f"{name}_port": getattr(self, f"{name}_port") for name in CHANNELS}
        info = {"transport": self.transport, "ip": self.ip, "key": self.key, "signature_scheme": self.signature_scheme}
        return info | ports

    def open(self, name: ChannelName, *, limit: int) -> SocketChannel:
        return self._open(name, kind=KINDS[name], limit=limit)

    def beat(self) -> SocketChannel:
        """Open a channel to the heartbeat, which the kernel closes when it ends and at no other time."""
        return self._open("hb", kind="DEALER", limit=MAX_BYTES)

    def _open(self, name: str, *, kind: str, limit: int) -> SocketChannel:
        port = getattr(self, f"{name}_port")
        if self.transport == "ipc":
            return SocketChannel(f"{self.ip}-{port}", kind=kind, limit=limit)
        family = socket.AF_INET6 if ":" in self.ip else socket.AF_INET
        return SocketChannel((self.ip, port), kind=kind, limit=limit, family=family)


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


def read(path: Path) -> KernelAddress:
    """Read a connection file."""
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
        address = parse(text, KernelAddress, limit=MAX_BYTES)
    except UnreadableError as error:
        raise UsageError(f"{path} is no connection file of a kernel: {error}.", mend=MEND) from None
    _check(address, path)
    return address


def _check(address: KernelAddress, path: Path) -> None:
    """Refuse a kernel that can't be reached safely."""
    if not address.secret or address.signature_scheme != "hmac-sha256":
        raise UsageError(
            f"The kernel of {path} doesn't sign its messages with HMAC-SHA256.",
            mend="Start it with a key: anybody on this machine could speak for it.",
        )
    if address.curve_publickey:
        raise UsageError(
            f"The kernel of {path} encrypts its connection (CurveZMQ), which nbagent can't do.",
            mend="Start it with c.KernelManager.transport = 'ipc', which needs no encryption.",
        )
    if address.transport == "tcp" and not _is_here(address.ip):
        raise UsageError(
            f"The kernel of {path} is at {address.ip[:80]!r}, and what goes there is not encrypted.",
            mend="Use a kernel of this machine, or lead its ports here by `ssh -L`.",
        )


def _is_here(address: str) -> bool:
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False
