"""The connection to a running kernel: sends requests, and returns parsed messages.

The messages may be written by hostile code. So only channels that somebody needs are read, a message that exceeds its
bounds ends the connection, and a kernel that sends much must not delay the others of this process.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nbagent.kernel.channels.messages import MAX_SHELL, ReadChannel, check, parse_message
from nbagent.kernel.channels.reading_share import SLICE_SECONDS, ReadingShare
from nbagent.sandbox.channels.endpoint import Endpoint, KernelChannel
from nbagent.sandbox.channels.zmtp import MAX_MESSAGE, BreachError

LOOK_SECONDS = 0.05
"""Seconds between two looks at the clock and at the kernel's process while nothing is heard of it."""
FOUND_DEAD_SECONDS = 5.0
"""Seconds in which the process of a kernel that closed its connection should be found dead, which says more on why it
ended. It takes time, since Linux first removes the files that the kernel had in memory."""


class KernelConnection:
    """The connected channels of one kernel process; a restarted kernel gets a new connection.

    Attributes:
        session: Signs and checks messages.
        rejected: How many messages were dropped: unsigned, replayed, out of bounds, or no messages at all.
        kept: The keys of nbagent's own modules that this kernel was sent, see `inside_calls.py`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.rejected = 0
        self.kept: set[str] = set()
        # As long as this takes, a kernel that was just launched is busy with its own imports.
        from jupyter_client.session import DELIM, Session

        self.session = Session(key=endpoint.key)
        self._delimiter = DELIM
        self._iopub = endpoint.open("iopub", limit=MAX_MESSAGE)
        self._shell = endpoint.open("shell", limit=MAX_SHELL)
        # Nobody needs its replies, which stay in the socket.
        self._control = endpoint.open("control", limit=MAX_SHELL)
        self._read_by_name: dict[ReadChannel, KernelChannel] = {"iopub": self._iopub, "shell": self._shell}
        self._share = ReadingShare()
        self._more = False
        self._breach = ""
        self._closed_at: float | None = None
        self._stop_waiting: Callable[[], None] = _nothing

    @property
    def is_behind(self) -> bool:
        """Whether the last reading left messages that are there already."""
        return self._more and not self._breach

    @property
    def closed_for(self) -> float:
        """Seconds since the kernel closed the connection; 0 while it is open, or if it was closed from here."""
        return 0.0 if self._closed_at is None or self._breach else time.monotonic() - self._closed_at

    @property
    def lost(self) -> str:
        """What the kernel did to end the connection, as a clause; empty while that works."""
        if self._breach:
            return self._breach
        if self.closed_for > FOUND_DEAD_SECONDS:
            return "closed its connection"
        return ""

    def close(self) -> None:
        """Close the channels at once."""
        self._stop_waiting()
        self._share.end()
        for channel in (self._iopub, self._shell, self._control):
            channel.close()

    def kernel_info(self) -> str:
        """Send a request that every kernel answers once it runs; returns the message id."""
        return self._request(self._shell, "kernel_info_request", {})

    def probe(self) -> str:
        """Send the same where a kernel answers even while it runs a cell; what it publishes tells that it lives."""
        return self._request(self._control, "kernel_info_request", {})

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        expressions: dict[str, str] | None = None,
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
        stops_others: bool = True,
    ) -> str:
        """Send an execute request; returns its message id, which its messages name as their parent.

        With `stops_others`, the kernel drops the requests that wait behind one that fails.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": expressions or {},
            "allow_stdin": False,
            "stop_on_error": stops_others,
        }
        return self._request(self._shell, "execute_request", content, buffers=buffers, metadata=metadata)

    def interrupt(self) -> None:
        """Ask the kernel to interrupt its code; a thread of its own serves the control channel meanwhile."""
        self._request(self._control, "interrupt_request", {})

    def _request(
        self,
        channel: KernelChannel,
        kind: str,
        content: dict[str, Any],
        *,
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
    ) -> str:
        message = self.session.msg(kind, content, metadata=metadata)
        channel.send([*self.session.serialize(message), *buffers])
        return str(message["header"]["msg_id"])

    async def receive(self, seconds: float) -> Iterable[tuple[ReadChannel, dict[str, Any]]]:
        """Wait at most so many seconds for messages, and return those that are there; see `read`."""
        return self.read() if await self.wait(seconds) else ()

    async def wait(self, seconds: float) -> bool:
        """Wait at most so many seconds until there is something to read; returns whether there is."""
        end = time.monotonic() + seconds
        if pause := self._share.pause():
            await asyncio.sleep(min(pause, seconds))
            if pause > seconds:
                return False
        if self._more:
            await asyncio.sleep(0)
            return True
        return await self._wait_for_sockets(max(0.0, end - time.monotonic()))

    async def _wait_for_sockets(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bool] = loop.create_future()

        def wake(something: bool) -> None:
            if not found.done():
                found.set_result(something)

        # The control channel is read until its handshake is done, and not after it.
        reading = [each for each in (self._iopub, self._shell) if each.is_open]
        reading += [self._control] if self._control.is_open and not self._control.is_ready else []
        writing = [each for each in (self._shell, self._control) if each.is_unsent]
        timer = loop.call_later(seconds, wake, False)

        def stop() -> None:
            # This comes before a socket is closed, whose number may soon be another one's.
            self._stop_waiting = _nothing
            timer.cancel()
            wake(False)
            for channel in reading:
                loop.remove_reader(channel)
            for channel in writing:
                loop.remove_writer(channel)

        for channel in reading:
            loop.add_reader(channel, wake, True)
        for channel in writing:
            loop.add_writer(channel, wake, True)
        self._stop_waiting = stop
        try:
            return await found
        finally:
            self._stop_waiting()

    def read(self) -> Iterator[tuple[ReadChannel, dict[str, Any]]]:
        """The messages that are there now, IOPub first, for at most `SLICE_SECONDS` seconds of each channel.

        The time that the caller takes over each message counts, too.
        """
        started = time.thread_time()
        self._more = False
        try:
            self._begin_control()
            for name, channel in self._read_by_name.items():
                for frames in self._read_slice(channel):
                    message = self._parse(name, frames)
                    if message is not None:
                        yield name, message
        except BreachError as error:
            self._breach = str(error)
            self.close()
        finally:
            # Processor time, so that a busy machine isn't held against this kernel.
            self._share.took(time.thread_time() - started)
            if self._closed_at is None and not (self._iopub.is_open and self._shell.is_open):
                self._closed_at = time.monotonic()

    def _begin_control(self) -> None:
        if not self._control.is_ready and self._control.fill():
            for _ in self._control.messages():
                pass
        self._control.flush()

    def _read_slice(self, channel: KernelChannel) -> Iterator[list[bytes]]:
        end = time.monotonic() + SLICE_SECONDS
        while True:
            for frames in channel.messages():
                yield frames
                if time.monotonic() > end:
                    self._more = True
                    return
            channel.flush()
            if not channel.fill():
                return
            if time.monotonic() > end:
                # Others must not wait for a message that comes in many pieces.
                self._more = True
                return

    def _parse(self, channel: ReadChannel, frames: list[bytes]) -> dict[str, Any] | None:
        try:
            parts = frames[frames.index(self._delimiter) + 1 :]
            check(channel, parts)
            self._authenticate(*parts[:5])
            return parse_message(channel, parts)
        except ValueError:
            self.rejected += 1
            return None

    def _authenticate(self, signature: bytes, *signed: bytes) -> None:
        """Check the signature of a message."""
        known = self.session.digest_history
        if signature in known:
            raise ValueError("the message is replayed")
        known.add(signature)
        if len(known) > self.session.digest_history_size:
            known.pop()
        if not hmac.compare_digest(signature, self.session.sign(list(signed))):
            raise ValueError("the signature is wrong")


def _nothing() -> None:
    """Do nothing, since nobody waits."""
