"""A kernel's sockets for clients that bound nothing of what it says: Jupyter's own, whose messages libzmq receives.

libzmq takes the frames of one message without end, and a thousand messages of any size. A Jupyter server keeps what a
page has not read yet, and all that comes while there is no page. So a thread stands between such a client and a
sandbox: what the client says passes as it comes, what the kernel says as whole messages within bounds, and no more of
them than a client can hold that does not read.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from nbagent.core.fileio import refuse_files
from nbagent.core.policy import MIB
from nbagent.sandbox.channels.endpoint import PORTS
from nbagent.sandbox.channels.zmtp import GREETING_BYTES, BreachError, Decoder, encode
from nbagent.sandbox.connection_file import KernelAddress
from nbagent.sandbox.inside.message_sizes_inside import MAX_WEIGHT, is_too_long, weight
from nbagent.sandbox.untrusted import UnreadableError, parse

CREDIT_BYTES: Final = 256 * MIB
"""What a kernel may say without hearing anything."""
RATE: Final = 32 * 1024
"""Bytes a second that it may say beyond that, so that a long cell can still show a figure of 2 MB each minute."""
RENEWED_SECONDS: Final = 10.0
"""Seconds after which it may say all of that again, if the client has said something meanwhile."""
MESSAGE_BYTES: Final = 1024
"""What a message counts beside its own bytes: the client's work for it."""
FRAME_BYTES: Final = 64
"""The same for each of its frames."""
MAX_BUFFERS: Final = 1024
MAX_HEADER: Final = 64 * 1024
MAX_METADATA: Final = MIB
MAX_STATUS: Final = 1024
"""Bytes of what a kernel says of its state, of which a Jupyter server tells each page every few seconds."""
MAX_BEAT: Final = 64 * 1024
"""Bytes of a heartbeat."""
ASKING_BYTES: Final = 64 * 1024
ASKING_SECONDS = 70.0
"""How much, and for how long, a server may say on a connection by which it only asks whether the kernel is there."""
HELLO_BYTES: Final = 1024
"""The most bytes that a client sends before it says anything."""
CHUNK_BYTES: Final = 256 * 1024
DELIMITER: Final = b"<IDS|MSG>"
MAX_ADDRESSES: Final = 16
"""Frames before the delimiter, of at most `HELLO_BYTES` each."""
PAUSE_SECONDS: Final = 0.05
"""The pause after a connection that couldn't be taken."""
WAIT_SECONDS: Final = 1.0
"""Seconds between two looks whether a kernel that has said too much may go on."""
log = logging.getLogger(__name__)


class _Header(msgspec.Struct):
    msg_type: str = ""


class Credit:
    """How many bytes a kernel may say now, by a clock that tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: float = CREDIT_BYTES
        self._at = self._renewed = clock()
        self._heard = False

    def spend(self, size: int) -> None:
        """Count bytes."""
        self._left -= size

    def hear(self) -> None:
        """The client has said something, so it is there and reads."""
        self._heard = True

    def is_left(self) -> bool:
        """Whether the kernel may say more."""
        now = self._clock()
        self._left = min(CREDIT_BYTES, self._left + (now - self._at) * RATE)
        self._at = now
        if self._heard and now - self._renewed >= RENEWED_SECONDS:
            self._left, self._renewed, self._heard = CREDIT_BYTES, now, False
        return self._left > 0


def is_bearable(frames: list[bytes]) -> bool:
    """Whether a client can read a message without taking much more memory than its bytes."""
    try:
        at = frames.index(DELIMITER, 0, MAX_ADDRESSES)
        signature, header, parent, metadata, content, *buffers = frames[at + 1 :]
    except ValueError:
        return False
    heads = (*frames[:at], signature)
    if len(content) > MAX_STATUS and _may_be_status(header):
        return False
    return (
        max(map(len, heads)) <= HELLO_BYTES
        and len(buffers) <= MAX_BUFFERS
        and max(len(header), len(parent)) <= MAX_HEADER
        and len(metadata) <= MAX_METADATA
        and not is_too_long(content)
        and weight(metadata) + weight(content) <= MAX_WEIGHT
    )


def _may_be_status(header: bytes) -> bool:
    """Whether a message says how the kernel is, as far as can be read here: clients may read more."""
    try:
        return parse(header, _Header, limit=MAX_HEADER).msg_type == "status"
    except UnreadableError:
        return True


class _Pair:
    """The connection of a client to one of the kernel's sockets."""

    def __init__(self, client: socket.socket, kernel: socket.socket, *, channel: str, credit: Credit) -> None:
        self.client, self.kernel = client, kernel
        self._credit = credit
        self._channel = channel
        self._up, self._down = bytearray(), bytearray()
        self._decoder = Decoder(MAX_BEAT) if channel == "hb" else Decoder()
        self._greeted = self._said = 0
        self._begun_at = time.monotonic()
        self._told = False

    def wanted(self) -> tuple[int, int]:
        """What to wait for at the client's and at the kernel's end."""
        reads, writes = selectors.EVENT_READ, selectors.EVENT_WRITE
        return (
            (0 if self._up else reads) | (writes if self._down else 0),
            (0 if self._down or not self._credit.is_left() else reads) | (writes if self._up else 0),
        )

    def turn(self) -> None:
        """Pass on what can be passed on now.

        Raises:
            BreachError: The kernel broke the protocol or a bound.
            OSError: One end has closed.
        """
        _send(self.client, self._down)
        _send(self.kernel, self._up)
        if not self._up and (data := _receive(self.client)):
            self._up += data
            self._said += len(data)
            if self._is_more_than_asking() and self._channel in ("shell", "control", "stdin"):
                self._credit.hear()
            _send(self.kernel, self._up)
        if not self._down and self._credit.is_left() and (data := _receive(self.kernel)):
            self._hear(data)
            _send(self.client, self._down)

    def _is_more_than_asking(self) -> bool:
        is_old = time.monotonic() - self._begun_at > ASKING_SECONDS
        return self._said > (HELLO_BYTES if is_old else ASKING_BYTES)

    def _hear(self, data: bytes) -> None:
        # Each end waits for the other's greeting, piece by piece.
        greeting = data[: max(0, GREETING_BYTES - self._greeted)]
        self._greeted += len(greeting)
        self._down += greeting
        was_ready = self._decoder.is_ready
        self._credit.spend(len(data))  # also of messages that never end
        self._decoder.feed(data)
        for frames in self._decoder.messages():
            self._credit.spend(MESSAGE_BYTES + FRAME_BYTES * len(frames))
            if not was_ready:
                self._down += self._decoder.ready
                was_ready = True
            if self._channel == "hb" or is_bearable(frames):
                self._down += encode(frames)
            elif not self._told:  # nbagent's kernels send no such message, so this is hostile code
                self._told = True
                log.warning("nbagent: a kernel sends messages that are too large to be shown, or none at all")
        if not was_ready:
            self._down += self._decoder.ready

    def close(self) -> None:
        """Close both ends."""
        self.client.close()
        self.kernel.close()


class BoundedSockets:
    """The sockets `c-1` … `c-5` beside those of a kernel at `address`, and the thread that serves them until `close`.

    The folder of the address can be entered by this person only.
    """

    def __init__(self, address: KernelAddress) -> None:
        self._ip = address.ip
        self.connection_info: dict[str, Any] = address.connection_info
        self.connection_info["ip"] = str(Path(address.ip).with_name("c"))
        self._credit = Credit()
        self._pairs: dict[socket.socket, _Pair] = {}
        self._masks: dict[socket.socket, int] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        for name, port in PORTS.items():
            self._selector.register(self._listen(port), selectors.EVENT_READ, (name.removesuffix("_port"), port))
        self._thread = threading.Thread(target=self._serve, name="nbagent-bounded", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections, and remove the sockets."""
        self._wake.close()
        self._thread.join(timeout=2)

    def _listen(self, port: int) -> socket.socket:
        path = Path(f"{self.connection_info['ip']}-{port}")
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(64)
        listening.setblocking(False)
        return listening

    def _serve(self) -> None:
        try:
            self._pass_on()
        except Exception:
            log.exception("nbagent: the connections of a kernel can't be served")
            self._end()  # so that its clients hear of it

    def _pass_on(self) -> None:
        had_credit = True
        with contextlib.closing(self._selector):
            while True:
                touched: set[_Pair] = set()
                for key, _ in (events := self._selector.select(WAIT_SECONDS if self._pairs else None)):
                    if key.fileobj is self._woken:
                        self._end()
                        return
                    if isinstance(key.data, _Pair):
                        self._turn(key.data)
                        touched.add(key.data)
                    else:
                        touched |= self._accept(key.fileobj, *key.data)  # type: ignore[arg-type]
                # Without credit nothing is read of the kernel, and all is again once there is some.
                has_credit = self._credit.is_left()
                if had_credit and not has_credit:
                    log.warning("nbagent: a kernel has said too much that nobody asked for: the rest comes slowly")
                self._watch(touched if events and has_credit == had_credit else set(self._pairs.values()))
                had_credit = has_credit

    def _watch(self, pairs: set[_Pair]) -> None:
        for pair in pairs & set(self._pairs.values()):
            for end, mask in zip((pair.client, pair.kernel), pair.wanted(), strict=True):
                if mask == (before := self._masks.get(end, 0)):
                    continue
                self._masks[end] = mask
                if not mask:
                    self._selector.unregister(end)
                elif before:
                    self._selector.modify(end, mask, pair)
                else:
                    self._selector.register(end, mask, pair)

    def _accept(self, listening: socket.socket, channel: str, port: int) -> set[_Pair]:
        try:
            client, _ = listening.accept()
        except OSError:  # it is gone, or too many files are open: the next moment it may be taken
            time.sleep(PAUSE_SECONDS)
            return set()
        else:
            kernel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                refuse_files(kernel)
                kernel.setblocking(False)
                kernel.connect(f"{self._ip}-{port}")
                client.setblocking(False)
            except OSError:  # the kernel has ended, or takes no more; the client comes again
                client.close()
                kernel.close()
                return set()
            pair = _Pair(client, kernel, channel=channel, credit=self._credit)
            self._pairs[client] = self._pairs[kernel] = pair
            return {pair}

    def _turn(self, pair: _Pair) -> None:
        try:
            pair.turn()
        except (BreachError, OSError) as error:
            if isinstance(error, BreachError):
                log.warning("nbagent: the kernel %s", error)
            for end in (pair.client, pair.kernel):
                if self._masks.pop(end, 0):
                    self._selector.unregister(end)
                self._pairs.pop(end, None)
            pair.close()

    def _end(self) -> None:
        for pair in set(self._pairs.values()):
            pair.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        for port in PORTS.values():
            Path(f"{self.connection_info['ip']}-{port}").unlink(missing_ok=True)


def _send(target: socket.socket, unsent: bytearray) -> None:
    with contextlib.suppress(BlockingIOError):
        while unsent:
            del unsent[: target.send(unsent)]


def _receive(source: socket.socket) -> bytes:
    """What has come; empty if nothing has."""
    try:
        data = source.recv(CHUNK_BYTES)
    except BlockingIOError:
        return b""
    if not data:
        raise ConnectionError
    return data
