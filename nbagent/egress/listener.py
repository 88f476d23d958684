"""The proxy on the host through which a sandbox without a route reaches the hosts that are allowed.

It listens on a Unix socket in the folder that the sandbox sees read-only. Inside, `forward.py` listens on a loopback
port, which the usual proxy variables name, and passes bytes to that socket. A program that ignores the variables has no
network at all.

The proxy runs in a thread and an event loop of its own, so that it works for any client of the kernel, and a busy
controller doesn't delay it. Connections, the rate of new ones, and bytes are bounded for each sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

from nbagent.core.errors import SandboxError
from nbagent.core.events import HostDecided
from nbagent.core.fileio import refuse_files
from nbagent.core.policy import MIB
from nbagent.egress.dial import Dialer
from nbagent.egress.gate import AskPerson, Gate
from nbagent.egress.hosts import Rules
from nbagent.egress.proxy import ConnectionEnded, Exchange, Observe
from nbagent.egress.relay import TrafficBudget
from nbagent.safety.questions import ASK_SECONDS

SOCKET = "egress.sock"
"""The socket's name in the folder that the sandbox sees at `/run/nbagent`."""
CONNECTIONS = 64
"""Connections at a time; further ones wait to be accepted."""
PACE = 0.005
"""Seconds between two accepted connections, so that one sandbox can't keep the controller from the others."""


class Egress:
    """The proxy of one sandbox.

    Args:
        allowed: Entries of the list: `HOST`, `HOST:PORT`, `*.DOMAIN`.
        ask: Asks a person about a host that isn't listed; None denies it at once.
        observe: Gets each decision and each connection's end, on this proxy's thread.
        upload: Bytes that may be sent in all.
        download: Bytes that may be received in all.
        ask_seconds: Seconds that a person has to answer.

    Raises:
        UsageError: An entry has another form.
    """

    def __init__(
        self,
        allowed: Iterable[str],
        *,
        ask: AskPerson | None = None,
        observe: Observe | None = None,
        upload: int = 256 * MIB,
        download: int = 4096 * MIB,
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        self._gate = Gate(Rules(allowed), ask, ask_seconds=ask_seconds)
        self._dialer = Dialer()
        self._budget = TrafficBudget(upload=upload, download=download)
        self._observer = observe
        self._path: Path | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None

    def start(self, path: Path) -> None:
        """Listen at a path, and serve until `close`. The permissions of its folder say who can connect.

        Raises:
            SandboxError: The socket can't be made.
        """
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            refuse_files(listening)
            listening.bind(str(path))
            # The sandbox's user, which has no rights on the host, must be able to connect.
            path.chmod(0o666)
            listening.listen(CONNECTIONS)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise SandboxError(f"The proxy's socket can't be made: {error}.", mend="Set XDG_RUNTIME_DIR.") from error
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._serving = self._loop.create_task(self._serve(listening))
        arguments = (self._loop, self._serving, listening)
        self._thread = threading.Thread(target=self._run, args=arguments, name="nbagent-egress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections and stop. A second call does nothing."""
        if self._loop is None or self._thread is None or self._path is None or self._serving is None:
            return
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join(timeout=5)
        self._thread = None
        self._path.unlink(missing_ok=True)

    def allow(self, entry: str) -> None:
        """Add an entry to the list; it overrides earlier decisions.

        Raises:
            UsageError: It has another form.
        """
        Rules([entry])  # raises in the caller's thread
        if self._loop is None:
            self._gate.allow(entry)
        else:
            self._loop.call_soon_threadsafe(self._gate.allow, entry)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, serving: asyncio.Task[None], listening: socket.socket) -> None:
        asyncio.set_event_loop(loop)
        with contextlib.closing(loop), listening, contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    async def _serve(self, listening: socket.socket) -> None:
        slots = asyncio.Semaphore(CONNECTIONS)
        try:
            async with asyncio.TaskGroup() as callers:
                while True:
                    await slots.acquire()
                    caller = await self._accept(listening)
                    callers.create_task(self._exchange(caller)).add_done_callback(lambda _: slots.release())
                    await asyncio.sleep(PACE)
        finally:
            # Open questions outlive the connections that asked them.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> socket.socket:
        while True:
            try:
                caller, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError:
                await asyncio.sleep(0.1)  # this process has no descriptors left; some will be closed
            else:
                caller.setblocking(False)
                return caller

    async def _exchange(self, caller: socket.socket) -> None:
        exchange = Exchange(caller, gate=self._gate, dialer=self._dialer, budget=self._budget, observe=self._observe)
        await exchange.run()

    def _observe(self, observed: HostDecided | ConnectionEnded) -> None:
        if self._observer is not None:
            with contextlib.suppress(Exception):
                self._observer(observed)
