"""What the extension costs the Jupyter server, which belongs to somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import machine
import psutil
from faces.lab.conftest import Server
from faces.lab.test_sessions import written
from program import call, replies

REPORT = """
import atexit, json, sys
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.application import ExtensionApp
class Modules(APIHandler):
    def get(self):
        self.finish(json.dumps(sorted(sys.modules)))
class App(ExtensionApp):
    name = "modules"
    def initialize_handlers(self):
        self.handlers.append(("/modules", Modules))
def _jupyter_server_extension_points():
    return [{"module": "tell_modules", "app": App}]
"""
FOREIGN = {"langchain", "langchain_core", "langgraph", "polars", "pandas", "numpy", "docker", "ipykernel", "openai"}
ROOMS = ("agent", "kernel", "notebook", "state", "forge", "mcp", "egress", "packages", "observability")


async def test_a_server_that_shows_sessions_imports_neither_models_nor_kernels(tmp_path: Path) -> None:
    """Neither when it starts, nor after it has listed sessions, started one and relayed it."""
    (tmp_path / "tell_modules.py").write_text(REPORT)
    extension = "--ServerApp.jpserver_extensions={'tell_modules': True}"
    server = Server(tmp_path, extension, PYTHONPATH=str(tmp_path))
    replies(server.root / "r.jsonl", call("6 * 7"), "It is 42.")
    unwanted = [await _unwanted(server)]
    id = await server.session(model="replay:r.jsonl", approvals="never-ask")
    await server.json("GET", "sessions")
    await server.json("GET", "sessions?search=a")
    async with server.page(id) as page:
        await page.call("ask", question="What is it?")
        unwanted.append(await _unwanted(server))
    await server.fetch("DELETE", f"sessions/{id}")
    server.stop()
    assert unwanted == [set(), set()]


async def _unwanted(server: Server) -> set[str]:
    names = json.loads((await server.fetch("GET", "/modules")).body)
    assert "nbagent.faces.lab.channel" in names
    rooms = {f"nbagent.{room}" for room in ROOMS}
    return {each for each in names if each.partition(".")[0] in FOREIGN or ".".join(each.split(".")[:2]) in rooms}


async def test_idle_pages_cost_next_to_nothing(server: Server) -> None:
    """Pages on sessions that nobody runs, and many sessions beside: what is looked at doesn't grow with those."""
    for number in range(200):
        written(server, f"many{number}")
    async with contextlib.AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(server.page(f"many{number}")) for number in range(50)]
        for page in pages:
            await page.state("ended")
        await asyncio.sleep(1)
        process = psutil.Process(server.process.pid)
        for _ in range(5):
            before = process.cpu_times()
            await asyncio.sleep(4)
            after = process.cpu_times()
            used = after.user + after.system - before.user - before.system
            if used < 4 * machine.pace():
                break
        assert used < 4 * machine.pace(), "a quarter of a second, of 4, in the best of five: 50 pages"
        await server.json("PATCH", "sessions/many7", {"title": "Mine"})
        assert (await pages[7].event("Renamed"))["title"] == "Mine"


async def test_hundred_idle_sessions_cost_nothing(server: Server) -> None:
    """Neither processor time nor open files; a list of them is there at once."""
    for number in range(100):
        written(server, f"idle{number}")
    await server.json("GET", "sessions")
    process = psutil.Process(server.process.pid)
    files, before = process.num_fds(), process.cpu_times()
    await asyncio.sleep(2)
    after = process.cpu_times()
    assert after.user + after.system - before.user - before.system < 0.1
    listed = await server.json("GET", "sessions")
    assert listed["total"] >= 100
    assert process.num_fds() <= files + 2
