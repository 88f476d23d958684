"""Jupyter's kernel provisioner on top of `Sandbox`: it only translates.

By the name of a kernelspec (`nbagent-docker`, `nbagent-bubblewrap`), JupyterLab, nbclient, papermill or any other
client starts the same sandbox as nbagent does, without knowing nbagent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerBase

from nbagent.core import folders
from nbagent.core.errors import EngineUnavailable, NbagentError
from nbagent.core.events import DataLeftOut
from nbagent.sandbox.bounded import BoundedSockets
from nbagent.sandbox.connection_file import KernelAddress
from nbagent.sandbox.contract import Engine, Hooks, Sandbox
from nbagent.sandbox.data.tree import HiddenReason, facts
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.registry import find, refuse_unisolated
from nbagent.sandbox.spec import SandboxSpec, results_for_client, spec_for_client

LOOK_SECONDS = 1.0
"""Seconds between two looks at what a first start makes."""


class Provisioner(KernelProvisionerBase):
    """A sandbox of the engine that the kernelspec names, for one of Jupyter's kernel managers."""

    _loss = ""
    _ended: Exit | None = None
    _told: Exit | None = None
    _sandbox: Sandbox | None = None
    _bounded: BoundedSockets | None = None
    _running = _lives = False
    _spec = SandboxSpec()
    _telling: Callable[[], contextlib.AbstractContextManager[None]] = staticmethod(contextlib.nullcontext)

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started, and its end was not yet waited for."""
        return self._running

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Make the sandbox, for the spec that is given as `sandbox` or for the folder of the kernel's notebook."""
        spec = kwargs.pop("sandbox", None)
        self._telling = contextlib.nullcontext if spec else showing_errors
        with self._telling():
            config, cwd = self._stanza.get("config") or {}, kwargs.get("cwd")
            self._spec = spec or spec_for_client(cwd, config=config)
            refuse_unisolated(self._engine(), self._spec)
            if self._sandbox is None:
                file = Path(getattr(self.parent, "connection_file", "")).name
                results = None if spec else results_for_client(cwd, self._spec, config=config)
                hooks = Hooks(
                    left_out=self._tell_left_out,
                    is_client=spec is None,
                    connection_file=file,
                    results=results,
                    is_told=lambda ended: ended is self._told,
                )
                self._sandbox = self._engine().sandbox(hooks)
                await self._prepare()
        # A kernelspec that somebody copied from an older nbagent has clients interrupt by a message, which no cell that
        # holds Python's lock lets in.
        self.kernel_spec.interrupt_mode = "signal"
        return {"cmd": list(self.kernel_spec.argv), "env": {}}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:  # noqa: ARG002 - the interface's
        """Start the sandbox; the connection is usable at once, the kernel answers when it is up."""
        assert self._sandbox is not None  # noqa: S101 - `pre_launch` has made it
        with self._telling():
            await self._sandbox.start(self._spec)
            endpoint = self._sandbox.endpoint
            if (info := endpoint.connection_info) is None:
                await self._sandbox.close()
                raise EngineUnavailable(f"Jupyter's clients can't reach a kernel of the {self._engine().name} engine.")
            if isinstance(endpoint, KernelAddress) and endpoint.transport == "ipc":
                try:
                    self._bounded = BoundedSockets(endpoint)
                except OSError as error:
                    await self._sandbox.close()
                    raise EngineUnavailable(f"No sockets can be made for the kernel's clients: {error}.") from error
                info = self._bounded.connection_info
        self._running = self._lives = True
        for each in facts(self._sandbox.about.left_out):
            self._tell_left_out(each)
        self.connection_info = cast("KernelConnectionInfo", info)
        return self.connection_info

    async def poll(self) -> int | None:
        """None while the kernel runs, else its exit code."""
        ended = await self._sandbox.poll() if self._sandbox is not None else None
        if ended is None:
            return 0 if self._sandbox is None else None
        self._note(ended)
        return ended.code

    def _note(self, ended: Exit) -> None:
        """Note how a kernel has ended, once; clients such as nbclient know no more than that it is dead, so log why."""
        if not self._lives:
            return
        self._lives, self._ended = False, ended
        self._loss = ended.loss(self._spec.trust.limits.memory_mb)
        if ended.out_of_memory or ended.overuse:
            self.log.error("nbagent: the kernel %s", self._loss)

    def tell_loss(self) -> str:
        """How the last kernel that ended did, as the rest of a sentence about it; empty if none has.

        It is for a page that shows it in the cell in which the kernel ended; no cell of the next kernel repeats it.
        """
        self._told = self._ended
        return self._loss

    async def wait(self) -> int | None:
        """Wait until the kernel has ended, and return its exit code."""
        ended = await self._sandbox.wait() if self._sandbox is not None else None
        if ended is not None:
            self._note(ended)
        self._running = False
        return ended.code if ended is not None else 0

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel; SIGINT interrupts its cell."""
        if self._sandbox is not None:
            await self._sandbox.signal(signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002 - the interface's
        """Kill the sandbox."""
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002
        """Ask the kernel to end."""
        await self.send_signal(signal.SIGTERM)

    async def cleanup(self, restart: bool = False) -> None:
        """Remove all that the sandbox had on the host; over a restart it keeps what the next kernel needs."""
        if self._bounded is not None:
            self._bounded.close()
            self._bounded = None
        if self._sandbox is not None:
            await (self._sandbox.end() if restart else self._sandbox.close())

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Nothing: no other process can take over a sandbox through this interface."""
        return {}

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """Seconds to wait for the kernel to end by itself; few, since a sandbox has nothing to put away."""
        return min(recommended, 1.0)

    @property
    def _stanza(self) -> dict[str, Any]:
        """What the kernelspec says about this provisioner."""
        found: dict[str, Any] = self.kernel_spec.metadata.get("kernel_provisioner", {})
        return found

    async def _prepare(self) -> None:
        """Make what the first kernel on this machine needs, and log how far that is."""
        making, told = asyncio.ensure_future(self._engine().prepare()), ""
        try:
            while not (await asyncio.wait([making], timeout=LOOK_SECONDS))[0]:
                if (now := folders.progress()) and now != told:
                    self.log.warning("nbagent: %s", now)
                    told = now
            await making
        except asyncio.CancelledError:
            making.cancel()
            await asyncio.wait([making])
            raise

    def _engine(self) -> Engine:
        return find(str(self._stanza["provisioner_name"]).removeprefix("nbagent-"))

    def _tell_left_out(self, event: DataLeftOut) -> None:
        # Nearly every repository has names that begin with a dot.
        self.log.log(logging.INFO if event.reason == HiddenReason.HIDDEN else logging.WARNING, event.text)


@contextlib.contextmanager
def showing_errors() -> Iterator[None]:
    """Raise nbagent's errors as errors that a Jupyter server shows, with mends that name settings instead of flags."""
    try:
        yield
    except NbagentError as error:
        raise as_http_error(error) from error


def as_http_error(error: NbagentError) -> NbagentError:
    """The error as an `HTTPError` of Tornado's, which still has the error's own class among its bases.

    Of any other error, a Jupyter server shows no more than "Unhandled error".
    """
    from tornado.web import HTTPError

    kind = type(error)
    if issubclass(kind, HTTPError):
        return error
    both = type(kind.__name__, (kind, HTTPError), {"__module__": kind.__module__})
    shown: NbagentError = BaseException.__new__(both)
    NbagentError.__init__(shown, f"{error.message[:1].upper()}{error.message[1:]}", mend=error.elsewhere)
    HTTPError.__init__(shown, 500, str(shown))  # type: ignore[arg-type]  # it is one of both
    return shown
