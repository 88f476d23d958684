"""What pages of a real Jupyter server hear of a sandboxed kernel, and read of what it has made."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from faces.lab.conftest import TOKEN, Server
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from nbagent.core.folders import RESULTS
from nbagent.faces.lab import distrust
from nbagent.faces.lab.kernel_messages import SETTING

CHART = "application/vnd.vegalite.v5+json"
SHOW = (
    "from comm import create_comm\ncreate_comm(target_name='jupyter.widget')\n"
    "from IPython.display import display\n"
    f"display({{'text/html': '<b onclick=a()>x</b>' + 'y' * %d, '{CHART}': {{}}}}, raw=True)\n"
    "print('sent', 'all')"
)


class Kernel:
    """A kernel of the server, and one page's connection to it."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket

    async def run(self, code: str) -> list[dict[str, Any]]:
        """What the page hears of a cell, until the kernel is idle."""
        asked = uuid.uuid4().hex
        header = {"msg_id": asked, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.4"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        await self._socket.write_message(json.dumps(message))
        heard: list[dict[str, Any]] = []
        ends: set[str] = set()
        while not {"execute_reply", "idle"} <= ends:
            data = await self._socket.read_message()
            assert isinstance(data, str)
            if (found := json.loads(data))["parent_header"].get("msg_id") == asked:
                heard.append(found)
                ends |= {found["msg_type"], found["content"].get("execution_state", "")}
        return heard


@contextlib.asynccontextmanager
async def kernel(server: Server, name: str, path: str = "a.ipynb") -> AsyncIterator[Kernel]:
    """A kernel and a connection to it."""
    id = (await server.json("POST", "/api/kernels", {"name": name, "path": path}))["id"]
    place = f"ws://{server.base}/api/kernels/{id}/channels?session_id=s"
    socket = await websocket_connect(HTTPRequest(place, headers={"Authorization": f"token {TOKEN}"}))
    try:
        yield Kernel(socket)
    finally:
        socket.close()
        await server.fetch("DELETE", f"/api/kernels/{id}")


def shown(heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bundles that were shown."""
    return [each["content"]["data"] for each in heard if each["msg_type"] == "display_data"]


@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_sandboxed_kernel_is_heard_and_does_nothing(server: Server, size: int) -> None:
    """In the order in which it said it, also where large messages are made harmless in a thread."""
    async with kernel(server, "nbagent-bubblewrap") as made:
        heard = await made.run(SHOW % size)
    kinds = [each["msg_type"] for each in heard if each["channel"] == "iopub"]
    assert kinds == ["status", "execute_input", "display_data", "stream", "status"]
    (bundle,) = shown(heard)
    assert "onclick" not in bundle["text/html"]
    assert SETTING in bundle["text/plain"]
    assert CHART not in bundle


async def test_another_kernel_is_heard_as_it_is(server: Server) -> None:
    """It is not nbagent's business."""
    async with kernel(server, "python3") as made:
        heard = await made.run(SHOW % 10)
    assert "comm_open" in [each["msg_type"] for each in heard]
    assert [set(each) for each in shown(heard)] == [{"text/html", CHART}]
    assert "onclick" in shown(heard)[0]["text/html"]


@pytest.mark.parametrize(
    ("place", "spec"), [(f"{RESULTS}/made.ipynb", "python3"), ("drawn.ipynb", "nbagent-bubblewrap")]
)
async def test_a_notebook_of_sandboxed_code_is_read_as_what_does_nothing(server: Server, place: str, spec: str) -> None:
    """By the page that opens it, and by the server's own exports; its file stays as it is."""
    bundle = {CHART: {"data": {"url": "http://a.invalid"}}, "text/html": "<img src=http://a.invalid>"}
    cell = nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("display_data", data=bundle)])
    raw = nbformat.v4.new_raw_cell("<img src=http://b.invalid>", metadata={"raw_mimetype": "text/html"})
    text = nbformat.v4.new_markdown_cell("![](http://b.invalid)", attachments={"a": {"text/html": "x"}})
    facts = {"kernelspec": {"name": spec, "display_name": "x"}, "jupytext": {"formats": "ipynb,py"}}
    facts["language_info"] = {"name": "python", "nbconvert_exporter": "evil.Run"}
    file = server.root / place
    file.parent.mkdir(exist_ok=True)
    made = json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=[cell, raw, text], metadata=facts)))
    # The format has no such output, and JupyterLab draws it.
    made["cells"][0]["outputs"].append(made["cells"][0]["outputs"][0] | {"output_type": "update_display_data"})
    file.write_text(json.dumps(made))
    before = file.read_bytes()
    model = await server.json("GET", f"/api/contents/{place}")
    page = (await server.fetch("GET", f"/nbconvert/html/{place}")).body.decode()
    is_result = place.startswith(RESULTS)
    assert model["content"]["metadata"]["language_info"]["nbconvert_exporter"] == "python"
    assert ("jupytext" in model["content"]["metadata"]) is not is_result
    assert ("kernelspec" in model["content"]["metadata"]) is not is_result  # nobody has chosen where it may run
    assert "update_display_data" not in json.dumps(model["content"])
    shown = model["content"]["cells"][0]["outputs"][0]["data"]
    assert CHART not in shown
    assert SETTING in shown["text/plain"]
    assert not re.search("src=.?http://a.invalid", page)
    # What a person wrote beside it stays theirs.
    assert bool(re.search("src=.?http://b.invalid", page)) is not is_result
    assert ("![](http://b.invalid)" in model["content"]["cells"][2]["source"]) is not is_result
    assert file.read_bytes() == before


async def test_no_result_holds_up_the_server_that_opens_it(server: Server) -> None:
    """One of 9 MB took half a gigabyte, and for seconds all other turns; as a file it can be read."""
    many = ",".join(['{"output_type":"display_data","metadata":{},"data":{}}'] * 30_000)
    text = '{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"cell_type":"code","id":"a","metadata":{},'
    text += f'"execution_count":null,"source":"","outputs":[{many}]}}]}}'
    file = server.root / RESULTS / "large.ipynb"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    for given in ("", "?type=notebook"):
        answer = await server.fetch("GET", f"/api/contents/{RESULTS}/large.ipynb{given}")
        assert answer.code == 400
        assert "too large for a notebook" in answer.body.decode()
    assert (await server.fetch("GET", f"/api/contents/{RESULTS}/large.ipynb?content=0")).code == 200
    assert (await server.fetch("GET", f"/files/{RESULTS}/large.ipynb")).body.decode() == text


async def test_what_is_no_file_among_results_holds_up_nobody(server: Server) -> None:
    """A pipe that nobody writes to, and in a cloned repository a link to a device that never ends."""
    folder = server.root / RESULTS
    folder.mkdir(exist_ok=True)
    os.mkfifo(pipe := folder / "pipe.ipynb")
    (folder / "link.ipynb").symlink_to(pipe)
    try:
        for name in ("pipe", "link"):
            async with asyncio.timeout(30):
                assert (await server.fetch("GET", f"/api/contents/{RESULTS}/{name}.ipynb")).code == 400
        assert not distrust._is_heavy(Path("/dev/zero"))
        assert distrust._is_heavy(Path("/proc/self/pagemap"))
    finally:
        with contextlib.suppress(OSError):
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


async def test_no_kernel_begins_among_results_that_nothing_isolates(server: Server) -> None:
    """It would import modules from there before any cell runs; a sandboxed one sees them as its data."""
    folder = server.root / "sub" / RESULTS / "more"
    folder.mkdir(parents=True)
    (server.root / "elsewhere").symlink_to(folder)
    where = "import os\nprint(os.getcwd())"
    for place in (f"sub/{RESULTS}/more/a.ipynb", f"sub/{RESULTS}/a.ipynb", "elsewhere/a.ipynb"):
        async with kernel(server, "python3", place) as made:
            (said,) = [each["content"]["text"] for each in await made.run(where) if each["msg_type"] == "stream"]
        assert Path(said.strip()) == server.root / "sub"
    (folder / "a.csv").write_text("x")
    async with kernel(server, "nbagent-bubblewrap", f"sub/{RESULTS}/more/a.ipynb") as made:
        heard = await made.run("print(open('a.csv').read())")
    assert [each["content"]["text"] for each in heard if each["msg_type"] == "stream"] == ["x\n"]


async def test_a_person_can_trust_them(tmp_path: Path) -> None:
    """By the setting of the page, from the next message on."""
    server = Server(tmp_path, JUPYTERLAB_SETTINGS_DIR=str(tmp_path))
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        async with kernel(server, "nbagent-bubblewrap") as made:
            assert CHART not in shown(await made.run(SHOW % 10))[0]
            for is_trusted in (True, False):
                raw = {"raw": json.dumps({"trustSandboxes": is_trusted})}
                found = await server.fetch("PUT", "/lab/api/settings/@nbagent/panel:notebook", raw)
                assert found.code < 300
                heard = await made.run(SHOW % 10)
                assert (CHART in shown(heard)[0]) is is_trusted
                assert ("comm_open" in [each["msg_type"] for each in heard]) is is_trusted
