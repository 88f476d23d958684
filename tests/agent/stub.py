"""Stand-ins for the two ends of the agent: a provider that speaks OpenAI's chat completions, and a kernel."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import http.server
import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nbagent.events import Output, Package

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
"""2 by 3 pixels."""


@dataclass(frozen=True, kw_only=True)
class Say:
    """One answer of the stub: a reply of the model, or an HTTP error."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool names with their arguments as they go over the wire."""
    ids: tuple[str, ...] = ()
    finish: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cut: Literal["", "closed", "broken"] = ""
    """`closed` ends the stream as if it were complete, `broken` breaks its transfer encoding."""
    pause: float = 0.0


def python(code: str) -> tuple[str, str]:
    """A call of the tool `python`."""
    return "python", json.dumps({"code": code})


class Provider:
    """A server on loopback that answers each request with the next `Say`, and keeps the requests."""

    def __init__(self) -> None:
        self.script: list[Say] = []
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.requests.append(body)
                provider.times.append(time.monotonic())
                say = provider.script.pop(0) if provider.script else Say(status=418)
                time.sleep(say.pause)
                # Whoever asked may have been cancelled meanwhile.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    _answer(self, say, stream=bool(body.get("stream")))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def say(self, *script: Say) -> None:
        """What to answer, in order."""
        self.script.extend(script)

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of a request, without the system's."""
        return [message for message in self.requests[number]["messages"] if message["role"] != "system"]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answer(handler: http.server.BaseHTTPRequestHandler, say: Say, *, stream: bool) -> None:
    if say.status != 200:
        data = json.dumps({"error": {"message": f"stub says {say.status}", "type": "stub"}}).encode()
    elif not stream:
        data = json.dumps(_whole(say)).encode()
    else:
        _stream(handler, say)
        return
    handler.send_response(say.status)
    for name, value in (*say.headers, ("Content-Type", "application/json"), ("Content-Length", str(len(data)))):
        handler.send_header(name, value)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(data)


def _stream(handler: http.server.BaseHTTPRequestHandler, say: Say) -> None:
    """Server-sent events in HTTP/1.1 chunks, or until the connection closes."""
    chunked = say.cut != "closed"
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    if chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    events = [f"data: {json.dumps(event)}\n\n".encode() for event in _pieces(say)]
    for event in events[: len(events) // 2] if say.cut else [*events, b"data: [DONE]\n\n"]:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event) if chunked else event)
    if say.cut:
        handler.close_connection = True
    else:
        handler.wfile.write(b"0\r\n\r\n")


def _calls(say: Say) -> list[dict[str, Any]]:
    ids = say.ids or tuple(f"call_{id(say)}_{number}" for number in range(len(say.calls)))
    return [
        {"index": number, "id": ids[number], "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(say.calls)
    ]


def _finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.calls else "stop")


USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _whole(say: Say) -> dict[str, Any]:
    message = {"role": "assistant", "content": say.text or None, "tool_calls": _calls(say) or None}
    choice = {"index": 0, "message": message, "finish_reason": _finish(say)}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}


def _pieces(say: Say) -> Iterator[dict[str, Any]]:
    def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}

    yield piece({"role": "assistant", "content": ""})
    for word in say.text.split(" ") if say.text else []:
        yield piece({"content": f"{word} "})
    for call in _calls(say):
        function = call["function"]
        yield piece({"tool_calls": [{**call, "function": {"name": function["name"], "arguments": ""}}]})
        half = len(function["arguments"]) // 2
        for part in (function["arguments"][:half], function["arguments"][half:]):
            yield piece({"tool_calls": [{"index": call["index"], "function": {"arguments": part}}]})
    yield piece({}, _finish(say))
    yield {**piece({}), "choices": [], "usage": USAGE}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a kernel returns of a cell."""

    cell: int = 1
    status: str = "ok"
    outputs: Sequence[Output] = ()
    duration: float = 0.1
    note: str = ""
    installed: list[Package] = field(default_factory=list)
    state_lost: str = ""
    restored: str = ""


class Kernel:
    """Runs Python in this process, with variables that stay; tests of this floor need no more of a kernel."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.hanging = asyncio.Event()
        self.running = 0
        self.overlapped = False
        self.raises: BaseException | None = None
        self.pause = 0.0
        self.hangs = ""
        """A cell that contains this never ends by itself."""
        self.extra: list[Output] = []
        self.names: dict[str, Any] = {}
        self.asked: list[list[str]] = []

    async def run_cell(self, code: str, *, timeout: float | None = None, tool: str = "python") -> Cell:  # noqa: ARG002, ASYNC109 - Runs'
        """Run a cell."""
        self.overlapped |= self.running > 0
        self.running += 1
        self.codes.append(code)
        try:
            if self.hangs and self.hangs in code:
                self.hanging.set()
                await asyncio.sleep(60)
            await asyncio.sleep(self.pause)
            if self.raises:
                raise self.raises
            status, outputs = self._execute(code)
            return Cell(cell=len(self.codes), status=status, outputs=[*outputs, *self.extra])
        finally:
            self.running -= 1

    async def install(self, requirements: list[str]) -> list[Package]:
        """Pretend to install."""
        self.asked.append(requirements)
        if self.raises:
            raise self.raises
        return [Package(name=name, version="1.0", sha256="0" * 64) for name in requirements]

    async def install_module(self, module: str) -> list[Package]:
        """Pretend to install."""
        return await self.install([module])

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:  # noqa: ARG002 - Runs'
        """None."""
        return [], 0

    async def count_in_file(self, path: str, text: str) -> int:
        """Of this process's own files."""
        return Path(path).read_text().count(text)

    def _execute(self, code: str) -> tuple[str, list[Output]]:
        printed = io.StringIO()
        outputs: list[Output] = []
        status = "ok"
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(printed):
                exec(compile(tree, "cell", "exec"), self.names)  # noqa: S102 - the test's own code
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), "cell", "eval"), self.names)  # noqa: S307
                    if value is not None:
                        outputs.append({"output_type": "execute_result", "data": {"text/plain": repr(value)}})
        except Exception as error:
            status = "error"
            name = type(error).__name__
            frame = f"Cell In[{len(self.codes)}], line 1"
            outputs.append({"output_type": "error", "ename": name, "evalue": str(error), "traceback": [frame, name]})
        if text := printed.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text})
        return status, outputs
