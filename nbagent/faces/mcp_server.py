"""nbagent as an MCP server: any MCP client gets the sandboxed kernel, and the notebook of what it did in there.

No model and no key on this side: the client's model writes the code. What it can reach is the sandbox alone; of the
host it neither reads nor writes a file by a path of its choosing. Data is given when the server is started (`--data`),
files go in and out by their contents, and the notebook goes where the person who started the server said.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import inspect
import json
import mimetypes
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationError

from nbagent import __version__
from nbagent.agent.cell_view import cut_middle, installed, render
from nbagent.agent.tools import scripts
from nbagent.core.errors import NbagentError, TransferLimit, UsageError
from nbagent.session.exports import export_last
from nbagent.session.protocol import AnySession

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from nbagent.agent.ports import KernelPort

MAX_TEXT = 100 * 1024
"""Bytes of a file that is handed over as text; a longer one is cut, and says so."""
MAX_FILE = 10 * 1024 * 1024
"""Bytes of a file that goes in or out."""
INSTRUCTIONS = """\
A sandboxed Jupyter kernel with {network}, for data analysis in Python. Variables, imports and files stay between \
calls. {data} Results that the person should keep go to /tmp/output; /workspace and /tmp are scratch. A missing \
package is installed when it is imported. Every call becomes a cell of a notebook; export_notebook writes it."""
MAX_NAMED_FILES = 20
"""Data files and hosts that the instructions name."""
READING_TOOLS = ("download", "list_files")
"""Tools that change nothing, so that a client need not ask a person about them."""


class Server:
    """The tools, over one session, which is started by the first of them unless it runs already.

    A session that was attached to goes on at the end. The notebook goes into the session's folder, or to `out`.
    """

    def __init__(self, session: AnySession, *, out: Path | None = None, force: bool = False) -> None:
        self._session = session
        self._out, self._force = out, force
        self._is_guest = session.is_running
        self._starting = asyncio.Lock()

    async def runs(self) -> KernelPort:
        """What runs cells in the session, which is started if it wasn't."""
        async with self._starting:
            if not (self._session.is_running or self._is_guest):
                await self._session.start()
        return self._session.runs

    async def stop(self) -> Path | None:
        """Write the notebook, if anything ran, and end the sandbox, or leave it to its owner."""
        written = None
        if self._session.is_running:
            with contextlib.suppress(NbagentError):
                written = await self._export()
        await (self._session.detach() if self._is_guest else self._session.stop())
        return written

    async def _export(self) -> Path:
        return (await export_last(self._session, self._out, force=self._force))[0]

    async def run_cell(self, code: str, timeout: float | None = None) -> list[Any]:  # noqa: ASYNC109 - the kernel's own
        """Run Python as one cell of a Jupyter notebook and see its outputs, figures included.

        Variables, imports and files stay between cells. The value of the last expression is shown, like in a notebook;
        use print for more. Figures that matplotlib draws are shown without saving them.

        Args:
            code: Plain Python source, without Markdown fences.
            timeout: Seconds that it may run; 60 by default.
        """
        cell = await (await self.runs()).run_cell(code, timeout=timeout)
        return _contents(render(cell, images=True))

    async def sandbox_exec(
        self,
        command: Annotated[list[str], BeforeValidator(scripts.words_of)],
        timeout: int = scripts.RUN_SECONDS,  # noqa: ASYNC109
    ) -> dict[str, Any]:
        """Run a program in the sandbox: a script that was written there, or a Unix command such as head, grep or ls.

        Args:
            command: The program and its words; no shell reads them. For pipes: ['sh', '-c', '…'].
            timeout: Seconds that it may run, at most 300.
        """
        return await scripts.execute(await self.runs(), command, timeout=timeout)

    async def sandbox_write_file(self, file_path: str, content: str) -> dict[str, Any]:
        """Create or overwrite a text file in the sandbox.

        Args:
            file_path: An absolute path below /tmp or /workspace.
            content: All of its text, at most 5 MB.
        """
        return await scripts.write_file(await self.runs(), file_path, content)

    async def sandbox_edit_file(self, file_path: str, old_string: str, new_string: str) -> dict[str, Any]:
        """Change a file in the sandbox by replacing a text that stands exactly once in it.

        Args:
            file_path: An absolute path below /tmp or /workspace.
            old_string: What stands there now, exactly.
            new_string: What is to stand there.
        """
        return await scripts.edit_file(await self.runs(), file_path, old_string, new_string)

    async def install(self, packages: list[str]) -> str:
        """Install Python packages from PyPI into the sandbox; importing a missing one in a cell does it too.

        Args:
            packages: Names on PyPI, with a version if it matters: ['humanize>=4'].
        """
        added = await (await self.runs()).install(packages)
        return installed(added) if added else "Nothing to do: all of this is installed."

    async def upload(
        self, name: str, content: str, encoding: Literal["text", "base64"] = "text", folder: str = "/workspace"
    ) -> str:
        """Put a file into the sandbox by its contents.

        Args:
            name: Its name there.
            content: The text, or the bytes in base64; at most 10 MB.
            encoding: Which of the two.
            folder: Below /workspace or /tmp.
        """
        try:
            data = content.encode() if encoding == "text" else base64.b64decode(content, validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise UsageError("The content is not base64." if encoding == "base64" else "It is no text.") from None
        if len(data) > MAX_FILE:
            raise UsageError(f"The file has {len(data):,} bytes; at most {MAX_FILE:,} go in.")
        await self.runs()
        uploaded = await self._session.upload(data, name, to=folder)
        return f"{uploaded.path} ({uploaded.size:,} bytes)"

    async def download(self, path: str) -> list[Any]:
        """Fetch a file from the sandbox: text as text, a picture as a picture, anything else as base64.

        Args:
            path: Where it is, below /workspace or /tmp.
        """
        await self.runs()
        try:
            data = await self._session.download(path, bound=MAX_FILE)
        except TransferLimit as error:
            raise UsageError(error.message) from None  # its mend is for those who have the host's files
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        if kind in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            return _contents([{"type": "image", "base64": base64.b64encode(data).decode(), "mime_type": kind}])
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode()
            return _contents(cut_middle(text, limit=MAX_TEXT)[0])
        return _contents(f"{kind}, base64:\n{base64.b64encode(data).decode()}")

    async def list_files(self, folder: str | None = None) -> list[dict[str, Any]]:
        """List the files in the sandbox's /workspace and /tmp, or in one folder.

        Args:
            folder: Below /workspace or /tmp; both by default.
        """
        await self.runs()
        listing = await self._session.files(folder, limit=500)
        return [{"path": each.path, "kind": each.kind, "size": each.size} for each in listing]

    async def export_notebook(self) -> str:
        """Write the notebook of all that was run, for the person, and say where it is."""
        await self.runs()
        return f"Written to {await self._export()}."

    def instructions(self) -> str:
        """What the client's model must know of the sandbox, its network and its data."""
        hosts, data = self._session.hosts, self._session.data
        listed = f"HTTP and HTTPS to {_names(hosts)} alone" if hosts else "no network"
        network = "the network" if hosts is None else listed
        about = f"The person's data, read-only: {_names(data)}." if data else "There is no data of the person's."
        return INSTRUCTIONS.format(network=network, data=about)

    def tools(self) -> list[Any]:
        """The methods that are offered as tools."""
        return [
            *(self.run_cell, self.sandbox_exec, self.sandbox_write_file, self.sandbox_edit_file),
            *(self.install, self.upload, self.download, self.list_files, self.export_notebook),
        ]


def make(server: Server) -> MCPServer:
    """The SDK's server with these tools."""
    if util.find_spec("mcp") is None:
        raise UsageError("This needs a package that is not installed.", mend="Run: pip install 'nbagent[mcp]'")
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    class Served(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                if isinstance(wrong := error.__cause__, ValidationError):
                    raise ToolError(_wrong_arguments(name, wrong)) from wrong
                raise

    app = Served("nbagent", version=__version__, instructions=server.instructions(), log_level="ERROR")
    for each in server.tools():
        name = each.__name__
        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False) if name in READING_TOOLS else None
        app.add_tool(
            _with_failures_as_results(each),
            name=name,
            description=inspect.getdoc(each),
            annotations=hints,
            structured_output=False,
        )
    return app


async def serve(
    session: AnySession,
    *,
    out: Path | None,
    http: str | None,
    origins: Sequence[str] = (),
    say: Callable[[str], object],
    force: bool = False,
) -> None:
    """Serve a session by stdio, or over HTTP, until the client is gone, or somebody interrupts.

    `say` is told what a client over HTTP needs (see `mcp_http.address`), and where the notebook is, if anything ran.
    """
    server = Server(session, out=out, force=force)
    app = make(server)
    try:
        if out is not None:
            await session.check_export(out, force=force)
        if http is None:
            await app.run_stdio_async()
        else:
            from nbagent.core import settings
            from nbagent.faces import mcp_http

            token = settings.load().mcp_token
            await mcp_http.serve(app, at=http, token=token, origins=origins, say=say)
    finally:
        stopping = asyncio.create_task(server.stop())
        while not stopping.done():
            # The HTTP server hands on the interrupt that has ended it, and nothing may be left half stopped by that.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([stopping])
        if (written := stopping.result()) is not None:
            say(f"notebook: {written}")


_RUNNING: set[asyncio.Future[Any]] = set()
"""What must not be forgotten while it goes on."""


def _with_failures_as_results(tool: Any) -> Any:
    """A tool whose errors reach the client's model as results."""

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> Any:
        from mcp.server.mcpserver.exceptions import ToolError

        # In a task of its own: the SDK cancels at every step, also those by which a cell is interrupted, and a kernel
        # that isn't interrupted is ended.
        running = asyncio.ensure_future(tool(*args, **kwargs))
        _RUNNING.add(running)
        running.add_done_callback(_RUNNING.discard)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            raise
        except NbagentError as error:
            raise ToolError(str(error)) from None

    return call


def _wrong_arguments(tool: str, error: ValidationError) -> str:
    """What is wrong with a call's arguments, as a sentence."""
    found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)]
    return f"These are no arguments of {tool}: {'; '.join(found)}."


def _names(names: Sequence[str]) -> str:
    """Names for a sentence, quoted as JSON, so that a hostile name can't pass for a part of the sentence."""
    more = f" and {len(names) - MAX_NAMED_FILES:,} more" if len(names) > MAX_NAMED_FILES else ""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:MAX_NAMED_FILES]) + more


def _contents(shown: str | list[dict[str, Any]]) -> list[Any]:
    """The model's view of a cell, or a text, in the protocol's form."""
    from mcp.types import ImageContent, TextContent

    blocks = [{"type": "text", "text": shown}] if isinstance(shown, str) else shown
    return [
        TextContent(type="text", text=each["text"])
        if each["type"] == "text"
        else ImageContent(type="image", data=each["base64"], mime_type=each["mime_type"])
        for each in blocks
    ]
