"""A provider on loopback: one HTTP server with the faults that real ones have, and a wire format that is plugged in.

    with Stub(anthropic) as stub:               # a module of this folder
        monkeypatch.setenv("ANTHROPIC_BASE_URL", stub.url)
        stub.say(Say(status=429, headers=(("Retry-After", "1"),)), Say(text="Hello"))

Each request takes the next `Say`; the requests are kept. Connections stay open between requests, as a provider's do,
unless a test whose models are never closed wants it otherwise.
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

_NUMBERS = itertools.count(1)
Cut = Literal["", "closed", "broken"]


@dataclass(frozen=True, kw_only=True)
class Say:
    """One answer of the stub: a reply of the model, or a failure."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool names with their arguments as they go over the wire."""
    ids: tuple[str, ...] = ()
    finish: str = ""
    """How it ended, in the provider's own words; empty for its ordinary end."""
    usage: tuple[int, int] = (100, 10)
    """Tokens in and out."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    message: str = ""
    """What an error says."""
    code: str = ""
    """Its name, as the provider has it."""
    details: tuple[dict[str, Any], ...] = ()
    """Of Google's errors."""

    pause: float = 0.0
    """Seconds before the first byte."""
    hang: float = 0.0
    """Seconds in the middle of the stream."""
    cut: Cut = ""
    """In the middle: `closed` ends the stream as if it were complete, `broken` breaks its transfer encoding."""
    garbage: bool = False
    """In the middle: an event that is not JSON."""
    error: str = ""
    """In the middle: the provider's own error event, with this message."""


def python(code: str) -> tuple[str, str]:
    """A call of the tool `python`."""
    return "python", json.dumps({"code": code})


class Format(Protocol):
    """What a module of this folder has: one provider's wire format."""

    BASE: str
    """What stands behind the host in the base URL that a person sets."""
    END: bytes
    """After the last event of a stream."""

    def pieces(self, say: Say, asked: dict[str, Any]) -> Iterator[bytes]:
        """The events of a streamed reply."""

    def whole(self, say: Say, asked: dict[str, Any]) -> Any:
        """The same reply in one piece."""

    def failed(self, say: Say) -> Any:
        """The body of an error."""

    def broken(self, say: Say) -> bytes:
        """An error in the middle of a stream."""

    def listed(self, names: list[str]) -> Any:
        """The list of models, the newest first."""

    def streamed(self, path: str, asked: dict[str, Any]) -> bool:
        """Whether a request wants a stream."""


class Stub:
    """A server on loopback that answers each request with the next `Say`, and keeps the requests.

    Attributes:
        url: The base URL, as a person would set it.
        script: What is still to be answered.
        requests: The bodies that came.
        headers: Their headers, in lower case.
        streams: Whether each wanted a stream.
        paths: All paths that were asked for, lists of models included.
        times: When they came, on the monotonic clock.
        models: What the list of models has.
        abilities: What an Ollama says that all of them can; one with none doesn't know the question.
    """

    def __init__(self, wire: Any, *, keeps_alive: bool = True) -> None:
        self.wire: Format = wire
        self.keeps_alive = keeps_alive
        self.script: list[Say] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.streams: list[bool] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.models: list[str] = []
        self.abilities: list[str] = ["completion", "tools", "vision"]
        self.refuses = 0
        """The status of every list of models, if not 200."""
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}{self.wire.BASE}"

    def say(self, *script: Say) -> None:
        """What to answer, in order."""
        self.script.extend(script)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handler(stub: Stub) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A reply's headers and body are two writes, which Nagle's algorithm would hold apart for 40 ms.
        disable_nagle_algorithm = True

        def end_headers(self) -> None:
            if not stub.keeps_alive:
                self.send_header("Connection", "close")
            super().end_headers()

        def handle_one_request(self) -> None:
            # Whoever asked may have been cancelled meanwhile.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                super().handle_one_request()

        def do_GET(self) -> None:
            stub.paths.append(self.path)
            if stub.refuses:
                _send(self, stub.wire.failed(Say(status=stub.refuses)), status=stub.refuses)
            else:
                _send(self, stub.wire.listed(stub.models))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.paths.append(self.path)
            if self.path == "/api/show":
                has = asked["model"] in stub.models and bool(stub.abilities)
                _send(self, {"capabilities": stub.abilities} if has else {"error": "no"}, status=200 if has else 404)
                return
            stub.requests.append(asked)
            stub.headers.append({name.lower(): value for name, value in self.headers.items()})
            stub.times.append(time.monotonic())
            stub.streams.append(stub.wire.streamed(self.path, asked))
            say = stub.script.pop(0) if stub.script else Say(status=418)
            time.sleep(say.pause)
            self._answer(say, asked)

        def _answer(self, say: Say, asked: dict[str, Any]) -> None:
            if say.status != 200:
                _send(self, stub.wire.failed(say), status=say.status, headers=say.headers)
            elif stub.streams[-1]:
                _stream(self, say, stub.wire, asked)
            else:
                _send(self, stub.wire.whole(say, asked))

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _send(
    handler: http.server.BaseHTTPRequestHandler,
    body: Any,
    *,
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in (*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(data)))):
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def _stream(handler: http.server.BaseHTTPRequestHandler, say: Say, wire: Format, asked: dict[str, Any]) -> None:
    """Events in HTTP/1.1 chunks, or until the connection closes."""
    chunked = say.cut != "closed"
    lines = getattr(wire, "LINES", False)
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-ndjson" if lines else "text/event-stream")
    handler.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Connection", "close")))
    handler.end_headers()

    def send(event: bytes) -> None:
        if event:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event) if chunked else event)

    events = list(wire.pieces(say, asked))
    half = max(1, len(events) // 2)
    for event in events[:half]:
        send(event)
    time.sleep(say.hang)
    if say.cut:
        handler.close_connection = True
        return
    if say.garbage:
        send(getattr(wire, "GARBAGE", b'data: {"oops: \n\n'))
    if say.error:
        send(wire.broken(say))
    else:
        for event in events[half:]:
            send(event)
        send(wire.END)
    handler.wfile.write(b"0\r\n\r\n")


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event."""
    return (f"event: {event}\n" if event else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def words(text: str) -> list[str]:
    """A text in the pieces in which it is streamed."""
    parts = text.split(" ") if text else []
    return [part + " " for part in parts[:-1]] + parts[-1:]


def parts(arguments: str, number: int = 3) -> list[str]:
    """A call's arguments in the pieces in which they are streamed."""
    size = len(arguments) // number + 1
    return [arguments[start : start + size] for start in range(0, len(arguments), size)]


def unique(prefix: str) -> str:
    """An id that nothing else has."""
    return f"{prefix}{next(_NUMBERS)}"


def ids(say: Say, prefix: str) -> tuple[str, ...]:
    """The ids of a reply's calls."""
    return say.ids or tuple(f"{prefix}{next(_NUMBERS)}" for _ in say.calls)
