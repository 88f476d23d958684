"""One client's connection to a running kernel: requests out, parsed messages in, nothing else.

Messages are taken off the sockets as they come and without copying them around; how many wait on this side is bounded,
what a slow reader has not taken yet waits in the sandbox's own memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import zmq
import zmq.asyncio
from jupyter_client import AsyncKernelClient, AsyncKernelManager

Channel = Literal["iopub", "shell"]
WAITING = 32
"""Messages that may wait unread on each socket of this side; a kernel of ours sends none of more than 0.5 MB."""
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of one part of a message; who sends a larger one loses the connection, and with it what was under way."""
BATCH = 64
"""Messages that are read before other tasks get a turn."""


class Connection:
    """Connected channels of one kernel process; a restarted kernel gets a new one.

    Attributes:
        rejected: Messages that were dropped because they were unsigned, replayed or not messages at all.
        kept: Names of nbagent's own modules that this kernel has been sent, see `probe.py`.
    """

    def __init__(self, manager: AsyncKernelManager) -> None:
        self.rejected = 0
        self.kept: set[str] = set()
        self._context = zmq.asyncio.Context()
        self._context.setsockopt(zmq.RCVHWM, WAITING)
        self._context.setsockopt(zmq.LINGER, 0)
        self._context.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME)
        self.client: AsyncKernelClient = manager.client(context=self._context)
        self.client.start_channels(stdin=False, hb=False)
        self._poller = zmq.asyncio.Poller()
        self._sockets: list[tuple[Channel, Any]] = []
        for name, channel in (("iopub", self.client.iopub_channel), ("shell", self.client.shell_channel)):
            self._poller.register(channel.socket, zmq.POLLIN)
            self._sockets.append((name, zmq.Socket.shadow(channel.socket.underlying)))  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the channels at once."""
        self.client.stop_channels()
        self._context.destroy(linger=0)

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        expressions: dict[str, str] | None = None,
        buffers: Sequence[bytes] = (),
    ) -> str:
        """Send an execute request; returns its message id, by which its messages are known."""
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": expressions or {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        # `client.execute` would do, but for the buffers.
        message = self.client.session.msg("execute_request", content)
        message["buffers"] = list(buffers)
        self.client.shell_channel.send(message)
        msg_id: str = message["header"]["msg_id"]
        return msg_id

    def interrupt(self) -> None:
        """Ask the kernel to interrupt what it runs; its control thread takes it while code runs."""
        channel = self.client.control_channel
        channel.send(self.client.session.msg("interrupt_request", {}))

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to read, at most this long."""
        # A zmq socket tells of a message once: what is there already must be looked for first.
        if any(socket.getsockopt(zmq.EVENTS) & zmq.POLLIN for _, socket in self._sockets):
            await asyncio.sleep(0)
            return True
        return bool(await self._poller.poll(max(0, int(seconds * 1000))))

    def read(self) -> Iterator[tuple[Channel, dict[str, Any]]]:
        """The messages that are there now, at most a batch of each channel, IOPub first."""
        for channel, socket in self._sockets:
            for _ in range(BATCH):
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                message = self._parse(frames)
                if message is not None:
                    yield channel, message

    def _parse(self, frames: list[bytes]) -> dict[str, Any] | None:
        session = self.client.session
        try:
            _, parts = session.feed_identities(frames)
            message = session.deserialize(parts)
        except Exception:
            self.rejected += 1
            return None
        if not _is_message(message):
            self.rejected += 1
            return None
        return dict(message)


def _is_message(message: Any) -> bool:
    header, parent, content = (message.get(part) for part in ("header", "parent_header", "content"))
    if not isinstance(header, dict) or not isinstance(parent, dict) or not isinstance(content, dict):
        return False
    return isinstance(header.get("msg_type"), str) and isinstance(parent.get("msg_id", ""), str)
