"""The sandbox's kernel: ipykernel's application, on sockets that the controller made; imported by `inside.py` there.

It imports the standard library and ipykernel only, of whatever version the sandbox has.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import warnings
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import Any

import ipykernel.compiler
import ipykernel.iostream
import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.session import Session
from magics_inside import go_on, offer_installs, point_to_agent, print_once, refuse_shells  # type: ignore[import-not-found]
from message_sizes_inside import bounded  # type: ignore[import-not-found]  # beside this file, in there
from streams_inside import in_order  # type: ignore[import-not-found]
from tornado.ioloop import IOLoop
from traitlets.config import Config

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


def make_app(config: dict[str, Any], descriptors: list[int], *, controller: str) -> Any:
    """An ipykernel application that listens on the sockets that the controller made, in the order of `CHANNELS`."""
    # Warnings and tracebacks name the file of a cell, and by default that has the process's number in it: the same
    # cells would never give the same outputs again.
    ipykernel.compiler.get_tmp_directory = lambda: "/tmp/ipykernel"  # noqa: S108 - a path inside
    ipykernel.iostream.OutStream = in_order(ipykernel.iostream.OutStream)  # type: ignore[misc]
    sys.meta_path.insert(0, KnownCores())
    # Of a script that ends by `sys.exit`, for which nobody is at a prompt to be told.
    warnings.filterwarnings("ignore", "To exit: use", UserWarning)
    # Of each column of a sheet that has no value, which no one needs to be told.
    logging.getLogger("fastexcel").setLevel(logging.ERROR)
    app = App.instance(config=_settings())
    app.handed = config, dict(zip(CHANNELS, descriptors, strict=True))
    app.initialize([])
    import_from_here(app.shell)
    offer_installs(app.shell, controller, tell=bool(config["client"]))
    go_on(app.shell)
    if config["linked"]:
        from links_inside import follow  # type: ignore[import-not-found]

        follow(app.shell, config["linked"])
    if config["kernel"]:
        point_to_agent(app.shell, config["kernel"])
    if config["client"]:
        from client_inside import serve_client  # type: ignore[import-not-found]

        serve_client(app.shell, controller, config["client"])
        # After "starting". A client that has lost a kernel is told by no request of its own that the next one is idle:
        # JupyterLab doesn't look at the status that belongs to those that it sends then.
        idle = ("status", {"execution_state": "idle"})
        IOLoop.current().add_callback(app.session.send, app.kernel.iopub_socket, *idle, ident=b"kernel.status")
    if config["results"]:
        from results_inside import keep_results  # type: ignore[import-not-found]

        keep_results(app.shell, controller, config["results"])
    if config["notice"]:
        print_once(app.shell, config["notice"])
    if not config["shell"]:
        refuse_shells(app.shell)
    return app


class KnownCores(MetaPathFinder):
    """Tells joblib how many cores there are, once it is imported.

    Otherwise it runs `lscpu`, which finds none in a sandbox or may not run, and scikit-learn's KMeans shows a warning
    and a traceback. `LOKY_MAX_CPU_COUNT` keeps it from that only where it is less than the machine's cores.
    """

    name = "joblib.externals.loky.backend.context"

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Leave all other modules to others."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        if (spec := PathFinder.find_spec(name, path, target)) is not None and spec.loader is not None:
            execute, cores = spec.loader.exec_module, int(os.environ["LOKY_MAX_CPU_COUNT"])

            def exec_module(module: Any) -> None:
                execute(module)
                module.physical_cores_cache = cores

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _settings() -> Config:
    settings = Config()
    settings.HistoryManager.enabled = False
    # Which is where nbclient's kernels say that it is.
    settings.HistoryManager.hist_file = ":memory:"
    settings.IPKernelApp.outstream_class = "ipykernel.iostream.OutStream"
    settings.Session.username = "sandbox"
    # By default each reply waits half a millisecond, so that clients which read no further than that miss less output.
    # Whoever runs cells waits for `idle`, which comes after all of it.
    settings.IPythonKernel._execute_sleep = 0.0
    return settings


class App(IPKernelApp):
    """ipykernel's application, for a kernel that is given its listening sockets.

    Attributes:
        handed: What the controller sent, and the kernel's sockets by channel.
    """

    handed: tuple[dict[str, Any], dict[str, int]]

    def _session_default(self) -> Session:
        # Whatever is displayed: what is more than the controller takes is cut here, and the cell goes on.
        return bounded(Session)(parent=self)  # type: ignore[no-any-return]

    def init_connection_file(self) -> None:
        """Take the connection from the controller."""
        config, _ = self.handed
        self.session.key = config["key"].encode()
        self.transport, self.ip = "ipc", config["ip"]
        for channel, port in config["ports"].items():
            setattr(self, f"{channel}_port", port)

    def write_connection_file(self, **kwargs: Any) -> None:
        """Write no connection file: the controller has one, and nothing inside needs it."""

    def listen(self, target: Any, channel: str) -> None:
        """Have a ZeroMQ socket use the one that the controller made for a channel."""
        config, sockets = self.handed
        target.setsockopt(zmq.USE_FD, sockets[channel])
        target.bind(f"ipc://{config['ip']}-{config['ports'][channel]}")

    def _bind_socket(self, target: Any, port: int) -> int:
        config, _ = self.handed
        self.listen(target, next(name for name, number in config["ports"].items() if number == port))
        return port

    def init_control(self, context: Any) -> None:
        """Let the debugger reach the shell channel by an address of its own: the path is not there inside."""
        self.shell_socket.bind("inproc://nbagent-shell")
        super().init_control(context)

    def init_iopub(self, context: Any) -> None:
        """Set no bound: what a slow client has not read yet waits in this sandbox's memory, and is never dropped."""
        context.setsockopt(zmq.SNDHWM, 0)
        super().init_iopub(context)

    def log_connection_info(self) -> None:
        """Log nothing: nobody can connect by hand from outside, and it would hide why a start failed."""

    def init_signal(self) -> None:
        """Have an interrupt wake what waits: ipykernel only notes it, and a cell that awaits would sleep on."""
        super().init_signal()
        self.woken, self.wake = socket.socketpair()
        for each in (self.woken, self.wake):
            each.setblocking(False)
        IOLoop.current().add_handler(self.woken.fileno(), lambda *_: self.forget_wakes(), IOLoop.READ)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)

    def forget_wakes(self) -> None:
        """Read what a signal has written."""
        self.woken.recv(4096)

    def init_heartbeat(self) -> None:
        """Start the heartbeat on the controller's socket."""
        app = self

        class Beat(Heartbeat):
            def _bind_socket(self) -> None:
                app.listen(self.socket, "hb")

        self.heartbeat = Beat(zmq.Context(), ("ipc", self.ip, self.hb_port))
        self.heartbeat.start()

    def init_path(self) -> None:
        """Put packages installed for the session last, so that they can't stand in for the kernel's own."""
        config, _ = self.handed
        sys.path.extend(each for each in config["path"] if each not in sys.path)


def import_from_here(shell: Any) -> None:
    """Have cells find modules in the working folder, as in every kernel, but nothing before the first one.

    Until then only nbagent's own code runs here, and what it says of data is remembered for other sessions. Data has
    plain names in that folder, so a file `polars.py` among it would be imported in the place of the library.
    """

    def before_first() -> None:
        sys.path.insert(0, "")
        shell.events.unregister("pre_execute", before_first)

    shell.events.register("pre_execute", before_first)


def forget_original_streams() -> None:
    """Stop ipykernel from repeating to its original stdout and stderr what programs print.

    Those tell the controller why a start failed. Once the kernel is up nobody reads them, and a pipe that is full, or
    whose reader has died, must not stop what prints.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        original = getattr(stream, "_original_stdstream_copy", None)
        if original is not None:
            os.dup2(nowhere, original, inheritable=False)
    os.close(nowhere)
