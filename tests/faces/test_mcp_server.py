"""nbagent as an MCP server, with the official client: as a program by stdio, and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import nbformat
import pytest
import pytest_asyncio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from nbagent import Session, attach
from nbagent.core.errors import UsageError
from nbagent.faces.mcp_server import Server, _with_failures_as_results, make, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")
FIGURE = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


class Called:
    """What came of a call."""

    def __init__(self, result: Any) -> None:
        self.is_error = result.is_error
        self.kinds = [each.type for each in result.content]
        self.text = "\n".join(each.text for each in result.content if each.type == "text")
        self.content = result.content


class Client:
    """A client that is connected."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, /, **arguments: Any) -> Called:
        """Call a tool."""
        return Called(await self.session.call_tool(tool, arguments))


def words(folder: Path) -> list[str]:
    """The program and its arguments."""
    data = folder / "sales.csv"
    data.write_text("region,amount\nnorth,3\nsouth,4\n")
    program = ["-c", "from nbagent.faces.cli.app import main; main()", "mcp"]
    return [*program, "-e", "bubblewrap", "-d", str(data), "-o", str(folder / "n.ipynb")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """The official client, and the program by stdio."""
    folder = tmp_path_factory.mktemp("mcp")
    parameters = StdioServerParameters(command=sys.executable, args=words(folder), env=dict(os.environ), cwd=folder)
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()

    async def hold() -> None:
        # In one task from beginning to end, as the client wants it.
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            connected.set_result(Client(session))
            await enough.wait()

    holding = asyncio.create_task(hold())
    await asyncio.wait([connected, holding], return_when=asyncio.FIRST_COMPLETED)
    yield await connected
    enough.set()
    await holding


async def test_what_is_offered(client: Client) -> None:
    """Each tool has a description, and each argument a type; nothing takes a path of the host."""
    tools = {each.name: each for each in (await client.session.list_tools()).tools}
    assert set(tools) == {
        *("run_cell", "sandbox_exec", "sandbox_write_file", "sandbox_edit_file"),
        *("install", "upload", "download", "list_files", "export_notebook"),
    }
    assert all(tool.description and len(tool.description) > 40 for tool in tools.values())
    reading = [name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint]
    assert reading == ["download", "list_files"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, ["with no network,", "There is no data of the person's."]),
        ({"data": ["{0}/sales.csv"]}, ['The person\'s data, read-only: "/tmp/data/sales.csv".']),
        ({"trust": "trusted"}, ["with the network,"]),
        ({"security": {"allowed_hosts": ["example.org"]}}, ['HTTP and HTTPS to "example.org" alone,']),
    ],
)
async def test_what_the_clients_model_is_told(tmp_path: Path, options: dict[str, Any], told: list[str]) -> None:
    """Where its data is, and what it can reach: it need not spend a call to find out."""
    (tmp_path / "sales.csv").write_text("region\n")
    if "data" in options:
        options = {"data": [each.format(tmp_path) for each in options["data"]]}
    instructions = make(Server(Session(engine="bubblewrap", mcp=False, **options))).instructions or ""
    assert all(each in instructions for each in told), instructions


async def test_arguments_that_are_none(client: Client) -> None:
    """One sentence; a command in one line is taken as it was meant."""
    wrong = await client.call("run_cell", timeout="soon")
    assert wrong.is_error
    assert wrong.text.startswith("These are no arguments of run_cell: code: Field required; timeout: Input should be a")
    assert "\n" not in wrong.text
    found = json.loads((await client.call("sandbox_exec", command="ls /tmp/data | head -1")).text)
    assert found["stdout"] == "sales.csv\n"


async def test_cells_share_their_variables(client: Client) -> None:
    """Text as text, figures as images, errors as what the cell said."""
    await client.call("run_cell", code="x = 20")
    assert (await client.call("run_cell", code="x + 1")).text == "[result]\n21"
    shown = await client.call("run_cell", code=FIGURE)
    assert shown.kinds == ["text", "image"]
    assert base64.b64decode(shown.content[1].data).startswith(b"\x89PNG")
    failed = await client.call("run_cell", code="1 / 0")
    assert not failed.is_error
    assert "ZeroDivisionError" in failed.text


async def test_data_is_there_and_the_host_is_not(client: Client) -> None:
    """What the person gave is read-only in /tmp/data; other files of the host can't be named."""
    assert "north,3" in (await client.call("run_cell", code="print(open('/tmp/data/sales.csv').read())")).text
    refused = await client.call("download", path="/etc/passwd")
    assert refused.is_error
    assert "Invalid path" in refused.text
    refused = await client.call("upload", name="../../x", content="x")
    assert refused.is_error


async def test_the_three_tools(client: Client) -> None:
    """In the same sandbox, with their responses as JSON."""
    written = json.loads(
        (await client.call("sandbox_write_file", file_path="/tmp/a.py", content="print('n_clusters=3')\n")).text
    )
    assert written["success"]
    await client.call("sandbox_edit_file", file_path="/tmp/a.py", old_string="=3", new_string="=5")
    found = json.loads((await client.call("sandbox_exec", command=["python", "/tmp/a.py"])).text)
    assert (found["exit_code"], found["stdout"]) == (0, "n_clusters=5\n")


async def test_files_in_and_out(client: Client) -> None:
    """By their contents: text, pictures and anything else."""
    assert "/workspace/a.txt" in (await client.call("upload", name="a.txt", content="täxt")).text
    assert (await client.call("download", path="/workspace/a.txt")).text == "täxt"
    blob = base64.b64encode(b"\xff\x00\xfe").decode()
    await client.call("upload", name="b.bin", content=blob, encoding="base64")
    assert blob in (await client.call("download", path="/workspace/b.bin")).text
    await client.call("run_cell", code=f"{FIGURE[:-12]}; plt.savefig('/workspace/p.png')")
    assert (await client.call("download", path="/workspace/p.png")).kinds == ["image"]
    assert "/workspace/b.bin" in (await client.call("list_files", folder="/workspace")).text
    await client.call("run_cell", code="open('/tmp/large', 'wb').truncate(11_000_000)")
    large = await client.call("download", path="/tmp/large")
    assert (large.is_error, "10,485,760 is the limit" in large.text) == (True, True), large.text
    wrong = await client.call("upload", name="c", content="no base64!", encoding="base64")
    assert (wrong.is_error, "not base64" in wrong.text) == (True, True)


async def test_the_notebook(client: Client) -> None:
    """All that was run is in it, where the person wanted it."""
    told = (await client.call("export_notebook")).text
    path = Path(told.removeprefix("Written to ").removesuffix("."))
    assert path.name == "n.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "x + 1" in [cell.source for cell in notebook.cells]


async def test_a_running_session_is_served_and_goes_on(tmp_path: Path) -> None:
    """The client works in the kernel that others use; at the end the notebook is there, and the session runs on."""
    async with Session(engine="bubblewrap", state_dir=tmp_path, mcp=False) as owner:
        await owner.run("x = 41")
        guest = attach(owner.id, state_dir=tmp_path)
        await guest.start()
        server = Server(guest, out=tmp_path / "n.ipynb")
        assert "no network" in server.instructions()
        (shown,) = await server.run_cell("x + 1")
        assert shown.text.endswith("42")
        assert await server.stop() == tmp_path / "n.ipynb"
        assert (owner.is_running, (await owner.run("x")).text) == (True, "41")


async def test_over_http(tmp_path: Path) -> None:
    """The same by streamable HTTP on loopback; an interrupt writes the notebook and ends the sandbox."""
    token = "a-token-of-this-test"  # noqa: S105 - no secret
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = subprocess.Popen(
        [sys.executable, *words(tmp_path), "--http", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NBAGENT_MCP_TOKEN": token},
    )
    try:
        end = time.monotonic() + 60
        while True:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
            streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http) as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            assert (await Client(session).call("run_cell", code="6 * 7")).text == "[result]\n42"
    finally:
        program.send_signal(2)
        _, told = program.communicate(timeout=60)
    assert "notebook:" in told
    assert (tmp_path / "n.ipynb").is_file()


async def test_the_notebook_never_goes_over_a_file_of_the_persons(tmp_path: Path) -> None:
    """That is told when the server is started, before a client has anything run."""
    (tmp_path / "table.csv").write_text("a\n1\n")
    session = Session(mcp=False, data=[tmp_path / "table.csv"])
    with pytest.raises(UsageError, match=r"can't be called 'table\.csv'"):
        await serve(session, out=tmp_path / "table.csv", http=None, say=print)
    assert (tmp_path / "table.csv").read_text() == "a\n1\n"


async def test_a_call_that_is_cancelled_is_interrupted_once() -> None:
    """The SDK cancels at every step: a cell that is being interrupted would cost the kernel its variables."""
    done = asyncio.Event()

    async def tool() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # as an interrupt takes
            done.set()
            raise

    with anyio.move_on_after(0.1):
        await _with_failures_as_results(tool)()
    await asyncio.wait_for(done.wait(), 20)
