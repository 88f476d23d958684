"""A real Jupyter server with the extension, and what speaks to it as a page does."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import pytest
from program import KEYS, end_server
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.websocket import WebSocketClientConnection, websocket_connect

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of a server that only a test has


class Page:
    """The channel of one page.

    Attributes:
        records: The records so far.
        states: What was told of the session.
        words: The words of the reply that isn't whole yet.
        all_words: Those of the replies that are whole, as they had come by then.
    """

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.records: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.words = ""
        self.all_words: list[str] = []
        self._ends: dict[int, dict[str, Any]] = {}
        self._number = 0

    async def next(self) -> dict[str, Any]:
        """The next message."""
        data = await self.socket.read_message()
        assert data is not None, f"the channel was closed: {self.socket.close_code}"
        message: dict[str, Any] = json.loads(data)
        if "records" in message:
            self.records += message["records"]
            for each in message["records"]:
                if each["event"]["type"] == "ModelReplied":
                    self.all_words.append(self.words)
                    self.words = ""
        elif "words" in message:
            self.words += message["words"]["text"]
        elif "state" in message:
            self.states.append(message)
        elif "returned" in message:
            self._ends[message["returned"]] = message
        return message

    async def until(self, wanted: Callable[[], object]) -> None:
        """Read on until this is so."""
        while not wanted():
            await self.next()

    async def state(self, state: str) -> None:
        """Read on until the session is in this state."""
        await self.until(lambda: self.states and self.states[-1]["state"] == state)

    async def event(self, kind: str) -> dict[str, Any]:
        """Read on until there is an event of this kind; the last one."""
        await self.until(lambda: self.events(kind))
        return self.events(kind)[-1]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind so far."""
        return [each["event"] for each in self.records if each["event"]["type"] == kind]

    async def begin(self, name: str, /, **arguments: Any) -> int:
        """Make a call, and return its number."""
        self._number += 1
        await self.socket.write_message(json.dumps({"call": self._number, "name": name, "arguments": arguments}))
        return self._number

    async def end(self, number: int) -> dict[str, Any]:
        """Read on until this call has ended."""
        await self.until(lambda: number in self._ends)
        return self._ends[number]

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Make a call, and return what it returned."""
        end = await self.end(await self.begin(name, **arguments))
        assert "failure" not in end, end
        return end.get("value")


class Server:
    """A Jupyter server whose root folder is `root`."""

    def __init__(self, folder: Path, *options: str, **more: str) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.base = f"127.0.0.1:{self.port}/base"
        self._options = options
        self._more = more
        self.start()

    def start(self) -> None:
        """Start it, again if it was stopped."""
        options = [f"--port={self.port}", "--port-retries=0", "--allow-root", "--no-browser"]
        options += [f"--ServerApp.root_dir={self.root}", f"--IdentityProvider.token={TOKEN}"]
        options += ["--ServerApp.base_url=/base/", f"--NbagentApp.state_dir={self.folder / 'state'}"]
        kept = {name: value for name, value in os.environ.items() if name not in KEYS}
        with (self.folder / "server.log").open("a") as log:
            command = [sys.executable, "-m", "jupyter_server", *options, *self._options]
            variables = {**kept, "NBAGENT_ENGINE": "bubblewrap", **self._more}
            self.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        end = time.monotonic() + machine.WAIT
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if time.monotonic() > end or self.process.poll() is not None:
                self.stop()
                pytest.fail(self.log)
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """What it printed."""
        return (self.folder / "server.log").read_text()

    def stop(self) -> None:
        """End it."""
        end_server(self.process)

    async def fetch(
        self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN, **headers: str
    ) -> HTTPResponse:
        """Make a request; `path` is below the extension's, or begins with a slash."""
        place = path if path.startswith("/") else f"/nbagent/api/{path}"
        sent = {"Authorization": f"token {token}"} if token else {}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = HTTPRequest(
            f"http://{self.base}{place}",
            method,
            body=data,
            headers={**sent, **headers},
            allow_nonstandard_methods=True,
            follow_redirects=False,
            request_timeout=120,
            # The server refuses a large body by its length, and may close the connection before all of it is sent.
            expect_100_continue=len(data or b"") > 1_000_000,
        )
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    async def cookies(self) -> str:
        """The cookies of a browser in which a person has logged in."""
        found = await self.fetch("GET", f"/lab?token={TOKEN}", token=None)
        cookies = [each.partition(";")[0] for each in found.headers.get_list("Set-Cookie")]
        assert any(each.startswith("username-") for each in cookies), cookies
        return "; ".join(cookies)

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request, and return what was replied, which is no refusal."""
        found = await self.fetch(method, path, body)
        assert found.code < 300, (found.code, found.body)
        return json.loads(found.body or b"null")

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str]]:
        """Make a request that is refused; its status and the refusal."""
        found = await self.fetch(method, path, body)
        assert found.code >= 400, (found.code, found.body)
        return found.code, json.loads(found.body)

    @contextlib.asynccontextmanager
    async def page(self, id: str, *, since: int = 0, token: str | None = TOKEN, **headers: str) -> AsyncIterator[Page]:
        """A page on a session."""
        sent = {"Authorization": f"token {token}"} if token else {}
        place = f"ws://{self.base}/nbagent/api/sessions/{id}/channel?since={since}"
        found = await websocket_connect(HTTPRequest(place, headers={**sent, **headers}), max_message_size=2**30)
        try:
            yield Page(found)
        finally:
            found.close()

    async def session(self, **options: Any) -> str:
        """Start a session."""
        return str((await self.json("POST", "sessions", options))["id"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Jupyter server with the extension, for the tests of a file."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()
