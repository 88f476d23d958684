"""Servers that are programs: messages over standard input and output, a JSON object a line.

Other than the SDK's transport, this one bounds messages, keeps the end of the program's standard error for the message
of a failure, and ends all that the program started when nbagent ends (`keeper.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nbagent.core import compat
from nbagent.core.errors import McpError
from nbagent.mcp.meter import FRAME_BYTES, Meter
from nbagent.sandbox.inside.message_sizes_inside import MAX_WEIGHT, weight

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from nbagent.core.compat import TransportStreams
    from nbagent.mcp.servers import ServerEntry

EXIT_SECONDS = 2.0
"""Seconds that a server gets to end by itself once its input has ended."""
KILL_SECONDS = 5.0
TAIL = 2000
"""Bytes of the end of standard error that are kept."""
KEEPER = Path(__file__).with_name("keeper.py")


class Program:
    """A started server.

    Attributes:
        process: The keeper's process; its exit code is the program's.
        meter: Counts what the program sends.
        tail: The last bytes of its standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int, meter: Meter) -> None:
        self.process = process
        self.meter = meter
        self.tail = b""
        self._lifeline = lifeline
        # For the type checker: `start` asks for pipes.
        self._stdin: Any = process.stdin
        self._stdout: Any = process.stdout
        self._stderr: Any = process.stderr

    @classmethod
    async def start(cls, server: ServerEntry, meter: Meter) -> Program:
        """Start the program."""
        environment = get_default_environment() | dict(server.env)
        command = shutil.which(server.command, path=environment.get("PATH"))
        if command is None:
            raise McpError(
                f"The MCP server {server.name} can't be started: there is no program {server.command!r}.",
                mend="Install it, or correct the entry in mcp.json.",
            )
        reading, lifeline = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(KEEPER), str(reading), command, *server.args),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=FRAME_BYTES,
                env=environment,
                cwd=server.cwd,
                pass_fds=(reading,),
                start_new_session=True,  # Ctrl-C at the terminal stops a cell, not the servers
            )
        except BaseException as error:
            os.close(lifeline)
            if isinstance(error, OSError | ValueError):
                raise McpError(f"The MCP server {server.name} can't be started: {error}.") from error
            raise
        finally:
            os.close(reading)
        return cls(process, lifeline, meter)

    async def listen(self) -> None:
        """Keep the end of standard error; a program that prints too much is ended."""
        while chunk := await self._stderr.read(65536):
            self.tail = (self.tail + chunk)[-TAIL:]
            if not self.meter.take(len(chunk)):
                self.process.kill()  # the keeper, with which the program dies
                return

    async def read(self, to: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass the program's messages on, until it closes its output or sends too much."""
        async with to:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while line := await self._line():
                    if line.strip():
                        await to.send(_message(line))
            await self._explain()

    async def write(self, of: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send messages to the program."""
        with contextlib.suppress(OSError):
            async for item in of:
                self._stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await self._stdin.drain()

    async def end(self) -> None:
        """End the program: close its input, then the keeper's lifeline, then kill the keeper."""
        self._stdin.close()
        await self._ends_within(EXIT_SECONDS if not self.meter.why else 0)
        os.close(self._lifeline)
        if not await self._ends_within(KILL_SECONDS):
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        # Otherwise the pipes warn when they are garbage-collected; asyncio has no public way.
        compat.TRANSPORT.of(self.process).close()

    async def _line(self) -> bytes:
        """The next line; empty at the end."""
        try:
            line: bytes = await self._stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError:
            self.meter.cut(f"sent a message of more than {FRAME_BYTES >> 20} MB")
            return b""
        return line if self.meter.take(len(line)) else b""

    async def _explain(self) -> None:
        """Note how the program ended, if it did by itself."""
        if not self.meter.why and await self._ends_within(1.0):
            await asyncio.sleep(0)  # the end of standard error may arrive together with the end of the program
            self.meter.cut(f"ended with exit code {self.process.returncode}")

    async def _ends_within(self, seconds: float) -> bool:
        """Whether the program ends within a time; `wait` would also wait for pipes that its children hold."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while self.process.returncode is None and clock() < deadline:
            await asyncio.sleep(0.01)
        return self.process.returncode is not None


def _message(line: bytes) -> SessionMessage | Exception:
    if weight(line) > MAX_WEIGHT:
        return ValueError("a message of too many values")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


@asynccontextmanager
async def program(server: ServerEntry, *, meter: Meter, tail: list[bytes]) -> AsyncIterator[TransportStreams]:
    """A transport to a program, which is started and ended with it."""
    running = await Program.start(server, meter)
    incoming, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.listen)
            tasks.start_soon(running.read, incoming)
            tasks.start_soon(running.write, outgoing)
            try:
                yield reading, writing
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, reading, writing, outgoing):
            stream.close()
        with anyio.CancelScope(shield=True):
            await running.end()
        tail.append(running.tail)
