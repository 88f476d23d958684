"""How a running kernel is reached: through Unix sockets, or a transport that an engine brings, such as a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol

ChannelName = Literal["shell", "iopub", "control"]
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
PORTS = {f"{channel}_port": number for number, channel in enumerate(CHANNELS, start=1)}
KINDS: Final = {"shell": "DEALER", "iopub": "SUB", "control": "DEALER"}
"""The ZeroMQ socket type of the client's end of each channel."""


class KernelChannel(Protocol):
    """One of a kernel's channels; no call waits. Only `KernelConnection` calls it, on one event loop.

    A message is the frames that Jupyter's protocol sends by ZeroMQ, signed with the endpoint's key. A transport that
    has no signatures of its own, such as a gateway's WebSocket, makes up a key and signs what comes with it.
    """

    @property
    def is_open(self) -> bool:
        """Whether more messages can come; False once either end has closed."""

    @property
    def is_ready(self) -> bool:
        """Whether the other end takes messages yet; until then they are kept."""

    @property
    def is_unsent(self) -> bool:
        """Whether a part of a message still waits to be sent, once `fileno` is writable."""

    def fileno(self) -> int:
        """A descriptor of its own that is readable when `fill` has something to read."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message, as far as it can be sent now; nothing happens if the channel is closed."""

    def flush(self) -> None:
        """Send what still waits, as far as it can be sent now."""

    def fill(self) -> bool:
        """Read at most a chunk of what has arrived; returns whether anything had."""

    def messages(self) -> Iterator[list[bytes]]:
        """The complete messages, each as its frames.

        Raises:
            BreachError: The other end broke the protocol or a bound; the caller closes the channel.
        """

    def close(self) -> None:
        """Close it at once."""


class Endpoint(Protocol):
    """How a running kernel is reached. Each start of a kernel makes a new one."""

    @property
    def key(self) -> bytes:
        """The key that signs messages (HMAC-SHA256)."""

    @property
    def connection_info(self) -> dict[str, Any] | None:
        """Jupyter's connection info for other clients, its `key` as bytes; None if only nbagent can connect."""

    def open(self, name: ChannelName, *, limit: int) -> KernelChannel:
        """Open a channel. The kernel may not be up yet; if it is gone, the channel is not open.

        Args:
            name: The channel; `iopub` receives everything that is published.
            limit: The most bytes of one incoming message.
        """
