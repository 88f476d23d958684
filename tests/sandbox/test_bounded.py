"""What stands between Jupyter's clients and a sandbox's sockets, against ZeroMQ's own sockets and hostile ones."""

from __future__ import annotations

import contextlib
import resource
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from nbagent.core.policy import MIB
from nbagent.sandbox import bounded
from nbagent.sandbox.bounded import CREDIT_BYTES, DELIMITER, RATE, RENEWED_SECONDS, BoundedSockets, Credit
from nbagent.sandbox.channels.endpoint import PORTS
from nbagent.sandbox.channels.zmtp import hello
from nbagent.sandbox.connection_file import KernelAddress

MESSAGE = [b"topic", DELIMITER, b"signature", b"{}", b"{}", b"{}", b"{}"]


@pytest.fixture
def between() -> Iterator[BoundedSockets]:
    """The sockets beside those of a kernel that isn't there yet."""
    with tempfile.TemporaryDirectory() as folder:
        said = {"transport": "ipc", "ip": f"{folder}/k", "key": "x", **PORTS}
        made = BoundedSockets(msgspec.convert(said, KernelAddress))
        yield made
        made.close()
        assert list(Path(folder).glob("c-*")) == []


def paths(between: BoundedSockets, name: str) -> tuple[str, str]:
    """The kernel's end of a channel, and the client's."""
    ip, port = between.connection_info["ip"], PORTS[f"{name}_port"]
    return f"{Path(ip).with_name('k')}-{port}", f"{ip}-{port}"


@contextlib.contextmanager
def ends(between: BoundedSockets, name: str, kernel: int, client: int) -> Iterator[list[zmq.Socket[bytes]]]:
    """ZeroMQ's sockets at both ends of a channel."""
    with zmq.Context() as context, context.socket(kernel) as there, context.socket(client) as here:
        for each in (there, here):
            each.linger, each.rcvtimeo = 0, 60_000
        if client == zmq.SUB:
            here.subscribe(b"")
        places = paths(between, name)
        there.bind(f"ipc://{places[0]}")
        here.connect(f"ipc://{places[1]}")
        yield [there, here]


def test_requests_replies_and_beats_pass(between: BoundedSockets) -> None:
    """In both directions, small and large, for the identity of the client; and again, once the kernel is a new one."""
    for _ in range(2):
        with ends(between, "shell", zmq.ROUTER, zmq.DEALER) as (kernel, client):
            client.send_multipart([*MESSAGE[1:], b"x" * 3_000_000])
            identity, *got = kernel.recv_multipart()
            assert got == [*MESSAGE[1:], b"x" * 3_000_000]
            kernel.send_multipart([identity, *got])
            assert client.recv_multipart() == got
        with ends(between, "hb", zmq.REP, zmq.REQ) as (kernel, client):
            client.send(b"ping")
            kernel.send(kernel.recv())
            assert client.recv() == b"ping"
        for name in ("shell", "hb"):
            Path(paths(between, name)[0]).unlink()


def test_what_a_client_can_t_bear_is_left_out(between: BoundedSockets) -> None:
    """What is published comes in order, but for what is no message, or would take much memory once it is parsed."""
    heavy = b"[" + b"[]," * MIB + b"0]"
    with ends(between, "iopub", zmq.XPUB, zmq.SUB) as (kernel, client):
        kernel.recv()  # the subscription
        for content in (b"{}", heavy, b"x" * (41 * MIB), b'{"a": "' + b"[" * 30 * MIB + b'"}'):
            kernel.send_multipart([*MESSAGE[:-1], content])
        for message in (
            [b"junk"],
            [b"a" * 2000, *MESSAGE[1:]],
            MESSAGE[:-2],
            [*MESSAGE[:3], b"1" * 65_537, *MESSAGE[4:]],
            # A Jupyter server keeps this, and sends it to each page every few seconds.
            [
                *MESSAGE[:3],
                b'{"msg_type": "st\\u0061tus"}',
                *MESSAGE[4:6],
                b'{"execution_state": "%s"}' % (b"x" * 9_999),
            ],
            [*MESSAGE[:3], b'{"msg_type": "status", "x": NaN}', *MESSAGE[4:6], b"x" * 9_999],
        ):
            kernel.send_multipart(message)
        kernel.send_multipart([*MESSAGE, b"last"])
        got = [client.recv_multipart() for _ in range(3)]
    assert [(len(each), len(each[6])) for each in got] == [(7, 2), (7, 30 * MIB + 9), (8, 2)]


def test_a_message_that_never_ends_takes_little_memory(between: BoundedSockets) -> None:
    """ZeroMQ would take its frames until the machine has no memory left: the connection ends, each time it is made."""
    kernel_end, client_end = paths(between, "shell")
    ended = []

    def flood(connection: socket.socket) -> None:
        sent = 0
        with connection, contextlib.suppress(OSError):
            connection.sendall(hello("ROUTER"))
            frame = bytes((1 | 2,)) + MIB.to_bytes(8, "big") + bytes(MIB)
            while sent < 1_000:
                connection.sendall(frame)
                sent += 1
        ended.append(sent)

    def listen(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                flood(listening.accept()[0])

    with socket.socket(socket.AF_UNIX) as listening, zmq.Context() as context, context.socket(zmq.DEALER) as client:
        client.linger, client.rcvtimeo = 0, 3_000
        listening.bind(kernel_end)
        listening.listen()
        threading.Thread(target=listen, args=(listening,), daemon=True).start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        client.connect(f"ipc://{client_end}")
        with pytest.raises(zmq.Again):
            client.recv()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        listening.shutdown(socket.SHUT_RDWR)
    assert ended
    assert max(ended) <= 65
    assert grown / 1024 < 300


def test_a_client_that_says_nothing_hears_no_more_than_it_can_hold(
    between: BoundedSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else the kernel says stays with the kernel, until the client says something: a page is there then."""
    monkeypatch.setattr(bounded, "RENEWED_SECONDS", 0.5)
    monkeypatch.setattr(bounded, "ASKING_SECONDS", 0)
    part, got = 20 * MIB, 0
    many = CREDIT_BYTES // part + 3
    with ends(between, "shell", zmq.ROUTER, zmq.DEALER) as (kernel, client):
        client.send(b"who I am")
        identity = kernel.recv_multipart()[0]
        for _ in range(many):
            kernel.send_multipart([identity, *MESSAGE[1:], bytes(part)])
        client.rcvtimeo = 3_000
        with contextlib.suppress(zmq.Again):
            while True:
                client.recv_multipart()
                got += 1
        assert got <= CREDIT_BYTES // part + 1
        client.rcvtimeo = 60_000
        client.send(bytes(2_000))
        for _ in range(many - got):
            assert len(client.recv_multipart()[-1]) == part


def test_a_message_of_many_empty_frames_is_none() -> None:
    """A client takes more memory for each frame than it has bytes."""
    assert bounded.is_bearable([*MESSAGE, *[b""] * bounded.MAX_BUFFERS])
    assert not bounded.is_bearable([*MESSAGE, *[b""] * (bounded.MAX_BUFFERS + 1)])


def test_credit() -> None:
    """It is renewed by what the client says, and not too often; without that, slowly."""
    now = [0.0]
    credit = Credit(lambda: now[0])
    credit.spend(CREDIT_BYTES)
    assert not credit.is_left()
    credit.hear()
    now[0] = RENEWED_SECONDS - 1
    credit.spend(int(RATE * now[0]))
    assert not credit.is_left()
    now[0] = RENEWED_SECONDS
    assert credit.is_left()
    credit.spend(CREDIT_BYTES)
    assert not credit.is_left()
    now[0] += 3600
    credit.spend(RATE * 3599)
    assert credit.is_left()
    credit.spend(RATE + 1)
    assert not credit.is_left()
