"""One client's connection to a running kernel: requests out, parsed messages in, nothing else.

Who sends the messages may be hostile code. So nothing is read that nobody asked for, no message grows beyond its
bounds, what breaks them ends the connection, and a reader of much lets the others of this process have their turns.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jupyter_client.session import DELIM, Session

from nbagent.kernel.channels.messages import MAX_SHELL, ChannelName, check, parsed
from nbagent.kernel.channels.turns import SLICE, Turns
from nbagent.sandbox.channels.endpoint import Channel, Endpoint
from nbagent.sandbox.channels.zmtp import MAX_MESSAGE, BreachError

TICK = 0.05
"""Seconds between two looks at the clock and at the kernel's process while nothing is heard of it."""
CLOSED = 5.0
"""Seconds for a kernel that closed its connection to be found dead, which tells more about it: Linux first clears away
the files that it had in memory."""


class Connection:
    """Connected channels of one kernel process; a restarted kernel gets a new one.

    Args:
        endpoint: Where the kernel is reached.

    Attributes:
        session: What signs and checks messages.
        rejected: Messages that were dropped because they were unsigned, replayed, out of bounds or no messages at all.
        kept: Names of nbagent's own modules that this kernel has been sent, see `inside_calls.py`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.rejected = 0
        self.kept: set[str] = set()
        self.session = Session(key=endpoint.key)
        self._iopub = endpoint.open("iopub", limit=MAX_MESSAGE)
        self._shell = endpoint.open("shell", limit=MAX_SHELL)
        # Its replies are of no interest, and stay in its socket.
        self._control = endpoint.open("control", limit=MAX_SHELL)
        self._read_by_name: dict[ChannelName, Channel] = {"iopub": self._iopub, "shell": self._shell}
        self._turns = Turns()
        self._more = False
        self._breach = ""
        self._closed_at: float | None = None
        self._stop_waiting: Callable[[], None] = _nothing

    @property
    def is_behind(self) -> bool:
        """Whether there was more to read than the last turn had time for."""
        return self._more and not self._breach

    @property
    def lost(self) -> str:
        """Why the kernel can't be heard any more, as what it did; empty while it can."""
        if self._breach:
            return self._breach
        if self._closed_at is not None and time.monotonic() - self._closed_at > CLOSED:
            return "closed its connection and was killed"
        return ""

    def close(self) -> None:
        """Close the channels at once."""
        self._stop_waiting()
        self._turns.end()
        for channel in (self._iopub, self._shell, self._control):
            channel.close()

    def kernel_info(self) -> str:
        """Ask the kernel what it is, which any kernel that is up answers; returns the message id."""
        return self._request(self._shell, "kernel_info_request", {})

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        expressions: dict[str, str] | None = None,
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
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
        return self._request(self._shell, "execute_request", content, buffers=buffers, metadata=metadata)

    def interrupt(self) -> None:
        """Ask the kernel to interrupt what it runs; its control thread takes it while code runs."""
        self._request(self._control, "interrupt_request", {})

    def _request(
        self,
        channel: Channel,
        kind: str,
        content: dict[str, Any],
        *,
        buffers: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
    ) -> str:
        message = self.session.msg(kind, content, metadata=metadata)
        channel.send([*self.session.serialize(message), *buffers])
        return str(message["header"]["msg_id"])

    async def receive(self, seconds: float) -> Iterable[tuple[ChannelName, dict[str, Any]]]:
        """Wait at most this long for something to read, and return what there is then; see `read`."""
        return self.read() if await self.wait(seconds) else ()

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to read, at most this long."""
        end = time.monotonic() + seconds
        if pause := self._turns.pause():
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

        # Of the control channel only its beginning is heard.
        reading = [each for each in (self._iopub, self._shell) if each.is_open]
        reading += [self._control] if self._control.is_open and not self._control.is_ready else []
        writing = [each for each in (self._shell, self._control) if each.is_unsent]
        timer = loop.call_later(seconds, wake, False)

        def stop() -> None:
            # Before a socket is closed: its number may be another one's a moment later.
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

    def read(self) -> Iterator[tuple[ChannelName, dict[str, Any]]]:
        """The messages that are there now, IOPub first, as many of each channel as one turn has time for.

        The time is that of whoever takes them, too.
        """
        started = time.thread_time()
        self._more = False
        try:
            self._begin_control()
            for name, channel in self._read_by_name.items():
                for frames in self._take_turn(channel):
                    message = self._parse(name, frames)
                    if message is not None:
                        yield name, message
        except BreachError as error:
            self._breach = f"{error} and was killed"
            self.close()
        finally:
            # Time on a core, not on the clock: that others are busy is not this kernel's doing.
            self._turns.took(time.thread_time() - started)
            if self._closed_at is None and not (self._iopub.is_open and self._shell.is_open):
                self._closed_at = time.monotonic()

    def _begin_control(self) -> None:
        if not self._control.is_ready and self._control.fill():
            for _ in self._control.messages():
                pass
        self._control.flush()

    def _take_turn(self, channel: Channel) -> Iterator[list[bytes]]:
        end = time.monotonic() + SLICE
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
                # A message that comes in many pieces is no reason to keep the others waiting.
                self._more = True
                return

    def _parse(self, channel: ChannelName, frames: list[bytes]) -> dict[str, Any] | None:
        try:
            parts = frames[frames.index(DELIM) + 1 :]
            check(channel, parts)
            self._authenticate(*parts[:5])
            return parsed(channel, parts)
        except ValueError:
            self.rejected += 1
            return None

    def _authenticate(self, signature: bytes, *signed: bytes) -> None:
        """Hold a message against its signature, which counts once.

        Raises:
            ValueError: It is not signed with the kernel's key, or was heard before.
        """
        known = self.session.digest_history
        if signature in known:
            raise ValueError("the message is replayed")
        known.add(signature)
        if len(known) > self.session.digest_history_size:
            known.pop()
        if not hmac.compare_digest(signature, self.session.sign(list(signed))):
            raise ValueError("the signature is wrong")


def _nothing() -> None:
    """Nobody waits."""
