"""The tool forge as a whole, without a session: seeds' examples, made in real sandboxes, and the library."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import pytest
from forge.shared import CODE, TESTS, draft, keep, made

from nbagent.core.errors import ForgeError, StoreError
from nbagent.core.events import ToolStageEntered
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.forge import Stage, Tool, ToolForge
from nbagent.forge.library import Library
from nbagent.forge.porting import draft_of
from nbagent.forge.workshop import Progress
from nbagent.sandbox.spec import SandboxSpec

WEATHER = '''\
"""The weather of a city."""

import httpx


def weather(city: str, source: str = "https://wttr.in") -> dict[str, object]:
    """The weather of a city now.

    Args:
        city: Its name.
        source: Where it is asked for.
    """
    reply = httpx.get(f"{source}/{city}", params={"format": "j1"}, timeout=5, trust_env=False)
    reply.raise_for_status()
    now = reply.json()["current_condition"][0]
    return {"city": city, "celsius": int(now["temp_C"]), "sky": now["weatherDesc"][0]["value"]}
'''
WEATHER_TESTS = """\
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from weather import weather

ANSWER = {"current_condition": [{"temp_C": "7", "weatherDesc": [{"value": "Mist"}]}]}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/Oslo?format=j1"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def source():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_city(source):
    assert weather("Oslo", source) == {"city": "Oslo", "celsius": 7, "sky": "Mist"}


def test_no_city(source):
    with pytest.raises(httpx.HTTPStatusError):
        weather("Atlantis", source)
"""
WEATHER_TOOL: dict[str, Any] = {
    "description": "The weather of a city now.",
    "code": WEATHER,
    "tests": WEATHER_TESTS,
    "dependencies": ["httpx"],
}


async def test_the_weather_tool(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """Made, and kept with exactly what it was tested with; another forge has it too; exported and removed."""
    told: list[Any] = []
    forge = ToolForge(tmp_path, engine="bubblewrap", notify=keep(told))
    tool = await forge.create("weather", **WEATHER_TOOL)
    assert [each.stage for each in told] == ["creating", "installing", "testing", "active"]
    assert (told[0].code, told[0].tests, told[0].dependencies) == (WEATHER, WEATHER_TESTS, ["httpx"])
    assert (tool.version, tool.tested, tool.doc) == (1, ("test_a_city", "test_no_city"), "The weather of a city now.")
    assert tool.schema["properties"] == {
        "city": {"type": "string"},
        "source": {"type": "string", "default": "https://wttr.in"},
    }
    names = {each.name for each in tool.packages}
    assert names >= {"httpx", "httpcore", "h11"}
    assert "pytest" not in names
    other = ToolForge(tmp_path, engine="bubblewrap")
    assert await other.get("weather") == tool
    assert [(each.name, each.version) for each in await other.list()] == [("weather", 1)]
    archive = await other.export("weather", tmp_path / "weather.zip")
    told.clear()
    await forge.remove("weather")
    assert [(each.stage, each.reason) for each in told] == [("cleanup", "It was removed."), ("dormant", "")]
    assert await forge.list() == []
    assert draft_of(archive).code == WEATHER
    assert leftovers() == []


async def test_a_function_of_a_package_is_a_tool(tmp_path: Path) -> None:
    """The package is installed, or there from the start; a name that isn't in it is no tool."""
    forge = ToolForge(tmp_path, engine="bubblewrap")
    (tool,) = await forge.pypi_install("beautifulsoup4", ["bs4.BeautifulSoup"])
    assert (tool.name, tool.adapts, tool.dependencies) == (
        "bs4_beautifulsoup",
        "bs4.BeautifulSoup",
        ("beautifulsoup4",),
    )
    assert list(tool.schema["properties"])[:2] == ["markup", "features"]
    (tool,) = await forge.pypi_install("python-slugify", ["slugify.slugify"])
    assert {each.name for each in tool.packages} >= {"python-slugify", "text-unidecode"}
    with pytest.raises(ForgeError, match="can't be a tool: The code can't be loaded: ImportError"):
        await forge.pypi_install("beautifulsoup4", ["bs4.NoSuchSoup"])


async def test_what_a_tool_imports_without_a_word_is_installed_too(tmp_path: Path) -> None:
    """It becomes one of its dependencies. What its docstring says is text, whatever stands in it."""
    forge = ToolForge(tmp_path, engine="bubblewrap")
    code = '"""M."""\nimport humanize\n\n\ndef commas(number: int) -> str:\n    """A \\x1b[31m\\ud800 b."""\n'
    tool = await forge.create(
        "commas",
        description="A number with commas.",
        code=f"{code}    return humanize.intcomma(number)\n",
        tests="from commas import commas\n\n\ndef test_it():\n    assert commas(12345) == '12,345'\n",
    )
    assert (tool.dependencies, [each.name for each in tool.packages]) == (("humanize",), ["humanize"])
    assert tool.doc == "A [31m\ufffd b."
    assert await forge.get("commas") == tool


@pytest.mark.needs("docker")
async def test_in_docker_where_nothing_is_trusted(tmp_path: Path, leftovers: Callable[[], list[str]]) -> None:
    """At the level that runs no programs and takes listed packages only, a tool is made like any other."""
    trust = trust_for(TrustLevel.UNTRUSTED, cpus=2.0)
    spec = SandboxSpec(trust=trust, install=trust.narrow(SandboxSpec().install))
    told: list[ToolStageEntered] = []
    forge = ToolForge(tmp_path, engine=machine.works("docker"), spec=spec, notify=keep(told))  # type: ignore[arg-type]
    tool = await forge.create("word_count", description="Counts words.", code=CODE, tests=TESTS)
    assert (tool.version, tool.tested) == (1, ("TestLeast.test_two", "test_words"))
    assert told[-1].stage == "active"
    with pytest.raises(ForgeError, match="The policy does not allow the package humanize"):
        await forge.create("word_count", description="x", code=CODE, tests=TESTS, dependencies=["humanize"])
    assert (await forge.get("word_count")).version == 1
    assert leftovers() == []


@pytest.mark.parametrize("works", [True, False])
async def test_a_stop_that_comes_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    """While the library is written: the events say what is in it afterwards."""
    begun, going_on = threading.Event(), threading.Event()
    add = Library.add

    async def make(progress: Progress, *_sandbox: Any, **_consent: Any) -> Tool:
        for stage in (Stage.CREATING, Stage.INSTALLING, Stage.TESTING):
            progress.enter(stage)
        return made()

    def slowly(library: Library, tool: Tool) -> None:
        begun.set()
        going_on.wait(10)
        if not works:
            raise StoreError("The disk is full.")
        add(library, tool)

    monkeypatch.setattr("nbagent.forge.workshop.make", make)
    monkeypatch.setattr(Library, "add", slowly)
    told: list[Any] = []
    forge = ToolForge(tmp_path, engine=machine.works("bubblewrap"), notify=keep(told))
    making = asyncio.create_task(forge.make(draft()))
    await asyncio.to_thread(begun.wait, 10)
    making.cancel()
    await asyncio.sleep(0)
    going_on.set()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert [each.stage for each in told[3:]] == (["active"] if works else ["cleanup", "dormant"])
    assert len(await forge.list()) == works


async def test_tools_that_are_not_used_go(tmp_path: Path) -> None:
    """By their age, counted from their last use."""
    told: list[Any] = []
    Library(tmp_path).add(made())
    forge = ToolForge(tmp_path, notify=keep(told))
    assert await forge.cleanup(max_age=3600) == []
    assert await forge.cleanup(max_age=0) == ["word_count"]
    assert await forge.list() == []
    assert [each.stage for each in told] == ["cleanup", "dormant"]
