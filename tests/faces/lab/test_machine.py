"""What a page is told of the machine it is on: engines, models, and the demo, which needs neither a key nor data."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from faces.lab.conftest import Server

MODELS = [{"id": f"acme-{number}", "created": 1_700_000_000 + number} for number in range(1500)]


class Provider(BaseHTTPRequestHandler):
    """Lists models as OpenAI does."""

    asked = 0

    def do_GET(self) -> None:
        """Answer any request."""
        type(self).asked += 1
        body = json.dumps({"data": MODELS}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def provider() -> Iterator[str]:
    """The address of a provider."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_engines_say_whether_they_would_start(server: Server) -> None:
    found = {each["name"]: each for each in (await server.json("GET", "engines"))["engines"]}
    assert (found["bubblewrap"]["starts"], found["bubblewrap"]["chosen"]) == (True, True)
    assert found["bubblewrap"]["kernel"] == "the host's kernel"
    assert (found["local"]["starts"], "isolates nothing" in found["local"]["why_not"]) == (False, True)


async def test_without_an_engine_each_says_why(tmp_path: Path) -> None:
    """It is asked again when the person has mended it."""
    server = Server(tmp_path, PATH="/nowhere", DOCKER_HOST="unix:///nowhere.sock")
    try:
        found = (await server.json("GET", "engines?again=1"))["engines"]
        assert not any(each["starts"] or each["chosen"] for each in found)
        assert all(each["why_not"] for each in found)
        assert not any(each["mend"] and each["mend"] in each["why_not"] for each in found), "said twice"
        status, refusal = await server.refused("POST", "sessions", {})
        assert (status, bool(refusal["mend"])) == (503, True)
    finally:
        server.stop()


async def test_models_are_searched_on_the_server(tmp_path: Path, provider: str) -> None:
    """A thousand and more; providers are asked once, and again when that is wanted."""
    server = Server(tmp_path, OPENAI_BASE_URL=provider)
    try:
        found = await server.json("GET", "models?limit=10")
        assert (len(found["models"]), found["total"]) == (10, 1500)
        assert found["models"][0] == "openai:acme-1499"
        found = await server.json("GET", "models?search=acme+149")
        assert found["total"] == len(found["models"]) == 12
        assert Provider.asked == 1
        await server.json("GET", "models?again=1")
        assert Provider.asked == 2
        problems = {each["name"]: each["problem"] for each in found["providers"]}
        assert problems["openai"] == ""
        assert problems["anthropic"] == "there is no key; set ANTHROPIC_API_KEY."
    finally:
        server.stop()


async def test_the_demo_runs_without_a_key(server: Server) -> None:
    made = await server.json("POST", "sessions", {"demo": True, "approvals": "never-ask"})
    async with server.page(made["id"]) as page:
        await page.call("ask", question=made["question"])
        assert page.events("Asked")[0]["replay"] is True
        assert page.events("Answered")[0]["success"] is True
        assert [each["path"] for each in page.events("SessionStarted")[0]["data"]] == ["/tmp/data/penguins.csv"]
    await server.fetch("DELETE", f"sessions/{made['id']}")
