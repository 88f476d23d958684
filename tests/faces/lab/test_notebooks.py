"""Notebooks that a page has exported and verified."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import psutil
from faces.lab.conftest import Server
from program import call, replies

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nprint(6 * 7)"


async def finished(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for a job."""
    while (found := await server.json("GET", f"jobs/{job['job']}"))["state"] == "running":
        await asyncio.sleep(0.2)
    return dict(found)


async def test_a_session_is_exported_and_its_notebook_verified(server: Server) -> None:
    """Also when it has ended; a figure that differs comes as pictures."""
    replies(server.root / "nb.jsonl", call(PLOT), "It is 42.")
    id = await server.session(model="replay:nb.jsonl", approvals="never-ask")
    async with server.page(id) as page:
        await page.call("ask", question="What is it?")
        await page.call("stop")
    (server.root / "sub").mkdir(exist_ok=True)
    job = await server.json("POST", f"sessions/{id}/export", {"path": "sub/a.ipynb", "keep_attempts": True})
    done = await finished(server, job)
    assert (done["state"], done["exported"]["path"]) == ("done", "sub/a.ipynb")
    place = server.root / "sub" / "a.ipynb"
    done = await finished(server, await server.json("POST", "verify", {"path": "sub/a.ipynb"}))
    verified = done["verified"]
    assert (verified["notebook"], verified["result"], verified["engine"]) == ("sub/a.ipynb", "same", "bubblewrap")
    assert [each["result"] for each in verified["cells"]] == ["same"] * len(verified["cells"])

    before = place.read_text()
    place.write_text(before.replace("[1, 2, 3]", "[1, 3, 2]").replace("print(6 * 7)", "print(6 * 8)"))
    done = await finished(server, await server.json("POST", "verify", {"path": "sub/a.ipynb"}))
    assert done["verified"]["result"] == "differs"
    differences = [each for cell in done["verified"]["cells"] for each in cell["differences"]]
    assert {("'42'", "'48'")} <= {(each["stored"], each["fresh"]) for each in differences}
    picture = await server.fetch("GET", f"jobs/{done['job']}/pictures/{done['pictures'][0]}")
    assert picture.body.startswith(b"\x89PNG")
    assert picture.headers["Content-Disposition"].startswith("attachment")
    assert (await server.refused("GET", f"jobs/{done['job']}/pictures/..%2Fa.png"))[0] == 404
    assert (await server.fetch("DELETE", f"jobs/{done['job']}")).code == 204
    assert (await server.refused("GET", f"jobs/{done['job']}"))[0] == 404

    job = await server.json("POST", f"sessions/{id}/export", {"path": "sub/a.ipynb", "keep_attempts": True})
    done = await finished(server, job)
    assert (done["state"], done["refusal"]["message"] != "") == ("failed", True)
    assert json.loads(place.read_text())
    await server.fetch("DELETE", f"sessions/{id}")


async def test_what_is_no_notebook_is_said(server: Server) -> None:
    """And no path leads out of the server's folder, or to a hidden file."""
    (server.root / "bad.ipynb").write_text("{")
    done = await finished(server, await server.json("POST", "verify", {"path": "bad.ipynb"}))
    assert done["verified"]["result"] == "not run"
    assert done["verified"]["error"].startswith("bad.ipynb")
    for path in ("../a.ipynb", "", "a/.hidden/b.ipynb"):
        assert (await server.refused("POST", "verify", {"path": path}))[0] == 400
    id = await server.session()
    for path in ("../a.ipynb", ".a.ipynb"):
        assert (await server.refused("POST", f"sessions/{id}/export", {"path": path}))[0] == 400
    done = await finished(server, await server.json("POST", f"sessions/{id}/export", {"path": "a.txt"}))
    assert done["state"] == "failed"
    await server.fetch("DELETE", f"sessions/{id}")


async def test_a_job_that_is_stopped_leaves_nothing(server: Server) -> None:
    """Its process ends, and with it the sandbox in which cells run."""
    code = "import time; time.sleep(60)"
    book = {
        "cells": [
            {"cell_type": "code", "id": "a", "source": code, "metadata": {}, "execution_count": 1, "outputs": [
                {"output_type": "stream", "name": "stdout", "text": "a"}
            ]}
        ],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    (server.root / "slow.ipynb").write_text(json.dumps(book))
    job = await server.json("POST", "verify", {"path": "slow.ipynb"})
    process = psutil.Process(server.process.pid)
    while not any("verify" in each.cmdline() for each in process.children()):
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    assert (await server.fetch("DELETE", f"jobs/{job['job']}")).code == 204
    assert not any("verify" in each.cmdline() for each in process.children())


async def test_the_servers_own_export_runs_nothing_that_code_has_saved(tmp_path: Path) -> None:
    """Nbconvert imports what a notebook names to make a script of it; what is installed for that still works."""
    server = Server(tmp_path, PYTHONPATH=str(tmp_path / "root"))
    try:
        ran = tmp_path / "ran"
        (server.root / "planted.py").write_text(f"open({str(ran)!r}, 'w')\nRun = None\n")
        for exporter, status in (("planted.Run", 500), ("nbconvert.exporters.PythonExporter", 200), ("python", 200)):
            language = {"name": "python", "nbconvert_exporter": exporter}
            cells = [nbformat.v4.new_code_cell("6 * 7")]
            made = nbformat.v4.new_notebook(cells=cells, metadata={"language_info": language})
            nbformat.write(made, server.root / "made.ipynb")
            reply = await server.fetch("GET", "/nbconvert/script/made.ipynb?download=true")
            assert (reply.code, b"6 * 7" in reply.body) == (status, status == 200), reply.body
        assert not ran.exists()
        assert "not installed as an exporter" in server.log
    finally:
        server.stop()
