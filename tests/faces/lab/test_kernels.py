"""Sessions in a kernel of the Jupyter server's, such as that of the open notebook."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from faces.lab.conftest import Server

from nbagent.faces.lab.offered import offered


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


async def test_an_engine_that_cannot_start_is_offered_once_it_can(tmp_path: Path) -> None:
    """Docker's kernel is in JupyterLab's list while a daemon answers: by its address, not by a file it has left."""
    address = tmp_path / "docker.sock"
    server = Server(tmp_path, DOCKER_HOST=f"unix://{address}")

    async def names() -> set[str]:
        return set(json.loads((await server.fetch("GET", "/api/kernelspecs")).body)["kernelspecs"])

    assert {"nbagent-bubblewrap", "nbagent-docker", "python3"} - await names() == {"nbagent-docker"}
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(address))
        daemon.listen()
        assert "nbagent-docker" in await names()
    assert "nbagent-docker" not in await names()
    found = await server.fetch("POST", "/api/kernels", {"name": "nbagent-docker"})
    assert (found.code, b"Docker daemon" in found.body) == (500, True)
    server.stop()


def test_sandboxed_kernels_stay_if_none_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that JupyterLab gives their notebooks no kernel without a sandbox by itself."""
    monkeypatch.setenv("PATH", "/nowhere")
    program, daemon = {"program": "bwrap"}, {"socket": "/nowhere/docker.sock"}
    specs = {
        name: {"spec": {"metadata": {"nbagent": {"needs": needs}} if needs else {}}}
        for name, needs in (("python3", None), ("nbagent-bubblewrap", program), ("nbagent-docker", daemon))
    }
    assert offered(specs) == specs
    specs["nbagent-docker"]["spec"]["metadata"]["nbagent"]["needs"] = {"program": "/bin/sh"}
    assert offered(specs).keys() == {"python3", "nbagent-docker"}
