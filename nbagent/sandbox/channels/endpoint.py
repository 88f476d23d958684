"""Where a running kernel is reached, and by what: Unix sockets, or what an engine brings, such as a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from nbagent.sandbox.channels.channel import SocketChannel

ChannelName = Literal["shell", "iopub", "control"]
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
PORTS = {f"{channel}_port": number for number, channel in enumerate(CHANNELS, start=1)}
KINDS: Final = {"shell": "DEALER", "iopub": "SUB", "control": "DEALER"}
"""What the client's end of a channel is, in ZeroMQ's terms."""


class Channel(Protocol):
    """One of a kernel's channels, which never waits. Its one caller is `Connection`, on one event loop.

    A message is the frames that Jupyter's protocol sends by ZeroMQ, signed with the endpoint's key. A transport that
    has no signatures of its own, such as a gateway's WebSocket, makes up a key and signs what comes with it.
    """

    @property
    def is_open(self) -> bool:
        """Whether more can come; not after either end closed it."""

    @property
    def is_ready(self) -> bool:
        """Whether the other end takes messages yet; until then they are kept."""

    @property
    def is_unsent(self) -> bool:
        """Whether something waits that could be sent when `fileno` is writable."""

    def fileno(self) -> int:
        """A descriptor of its own that is readable when `fill` has something to read."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message, or what of it can be sent now; nothing happens if it is closed."""

    def flush(self) -> None:
        """Send what waits, as far as that goes."""

    def fill(self) -> bool:
        """Read what is there, at most a chunk; returns whether anything was."""

    def messages(self) -> Iterator[list[bytes]]:
        """The messages that were read whole, each as its frames.

        Raises:
            BreachError: The other end broke the protocol or a bound, and is not to be heard any more.
        """

    def close(self) -> None:
        """Close it at once."""


class Endpoint(Protocol):
    """Where a running kernel is reached; as old as the kernel's process."""

    @property
    def key(self) -> bytes:
        """What messages are signed with (HMAC-SHA256)."""

    @property
    def connection_info(self) -> dict[str, Any] | None:
        """What one of Jupyter's clients connects by; None where only nbagent can."""

    def open(self, name: ChannelName, *, limit: int) -> Channel:
        """Open a channel; the kernel may not be up yet, and may be gone, which the channel tells.

        Args:
            name: Which; `iopub` hears everything that is published.
            limit: Bytes of one message that comes.
        """


@dataclass(frozen=True)
class UnixEndpoint:
    """Where a kernel is reached whose channels are Unix sockets on this machine.

    Attributes:
        prefix: Of the sockets' paths: `k` for `k-1` … `k-5`.
        key: What messages are signed with.
    """

    prefix: Path
    key: bytes = field(repr=False)

    @property
    def connection_info(self) -> dict[str, Any]:
        """What a client of Jupyter's needs to connect: paths on the host."""
        return {
            "transport": "ipc",
            "ip": str(self.prefix),
            "key": self.key,
            "signature_scheme": "hmac-sha256",
            **PORTS,
        }

    def open(self, name: ChannelName, *, limit: int) -> SocketChannel:
        """Open a channel."""
        return SocketChannel(f"{self.prefix}-{PORTS[f'{name}_port']}", kind=KINDS[name], limit=limit)
