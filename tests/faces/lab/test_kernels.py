"""Sessions in a kernel of the Jupyter server's, such as that of the open notebook."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from faces.lab.conftest import Server

from nbagent.faces.lab.kernelspecs import marked


async def kernel(server: Server, name: str) -> str:
    """Start a kernel, as JupyterLab does for a notebook."""
    found = await server.fetch("POST", "/api/kernels", {"name": name})
    assert found.code == 201, found.body
    return str(json.loads(found.body)["id"])


@pytest.mark.parametrize(("name", "words"), [("python3", "not isolated"), ("nbagent-bubblewrap", "bubblewrap")])
async def test_a_session_joins_a_kernel_and_leaves_it_running(server: Server, name: str, words: str) -> None:
    """With the variables in it; what isolates it is told first."""
    id = await kernel(server, name)
    first = await server.session(kernel=id)
    async with server.page(first) as page:
        assert words in (await page.event("SessionStarted"))["isolation"]
        await page.call("run", code="x = 41")
        await page.call("stop")
    second = await server.session(kernel=id)
    async with server.page(second) as page:
        await page.call("run", code="x + 1")
        assert page.events("CellFinished")[-1]["outputs"][0]["data"]["text/plain"] == "42"
    for each in (first, second):
        await server.fetch("DELETE", f"sessions/{each}")
    found: dict[str, Any] = json.loads((await server.fetch("GET", f"/api/kernels/{id}")).body)
    assert found["execution_state"] in ("idle", "busy")
    assert (await server.fetch("DELETE", f"/api/kernels/{id}")).code == 204


async def test_a_kernel_that_cannot_be_joined_is_refused(server: Server) -> None:
    """One that there isn't, and one that isolates less than the level that was named."""
    status, refusal = await server.refused("POST", "sessions", {"kernel": "none"})
    assert (status, refusal["message"]) == (400, "This server has no kernel 'none'.")
    id = await kernel(server, "python3")
    status, refusal = await server.refused("POST", "sessions", {"kernel": id, "trust": "sandboxed"})
    assert status in (400, 503)
    assert refusal["mend"]
    await server.fetch("DELETE", f"/api/kernels/{id}")


async def test_an_engine_that_cannot_start_says_so_until_it_can(tmp_path: Path) -> None:
    """Docker's kernel, while no daemon answers at its address, where it may have left a file; it stays in the list."""
    address = tmp_path / "docker.sock"
    server = Server(tmp_path, DOCKER_HOST=f"unix://{address}")

    async def absent() -> list[str]:
        specs = json.loads((await server.fetch("GET", "/api/kernelspecs")).body)["kernelspecs"]
        assert specs.keys() >= {"nbagent-bubblewrap", "nbagent-docker", "python3"}
        told = [name for name, each in specs.items() if "can't start here" in each["spec"]["display_name"]]
        marks = {name: each["spec"]["metadata"].get("nbagent", {}) for name, each in specs.items()}
        assert told == [name for name, each in marks.items() if each.get("absent")]
        return told

    assert await absent() == ["nbagent-docker"]
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(address))
        daemon.listen()
        assert await absent() == []
    assert await absent() == ["nbagent-docker"]
    found = await server.fetch("POST", "/api/kernels", {"name": "nbagent-docker"})
    assert (found.code, b"Docker daemon" in found.body) == (500, True)
    server.stop()


def test_a_program_that_is_not_there_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bubblewrap's kernel needs one; a daemon far away is not waited for; other kernels are as they were."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    daemon = {"socket": "/no", "variable": "DOCKER_HOST"}
    needs = {"python3": None, "bubblewrap": {"program": "bwrap"}, "docker": daemon}
    specs = {
        name: {"spec": {"display_name": name, "metadata": {"nbagent": {"needs": each}} if each else {}}}
        for name, each in needs.items()
    }
    assert [name for name, each in marked(specs).items() if each != specs[name]] == ["bubblewrap"]


def test_a_kernelspec_with_needs_of_another_version_costs_no_list() -> None:
    """It can't start here as far as one knows, and what else it says of nbagent stays."""
    said = {"needs": {"other": 1}, "more": 2}
    specs = {"nbagent-x": {"spec": {"display_name": "X", "metadata": {"nbagent": said}}}}
    assert marked(specs)["nbagent-x"]["spec"]["metadata"]["nbagent"] == {**said, "absent": True}
