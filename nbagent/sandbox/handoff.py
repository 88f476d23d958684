"""The controller's end of a sandbox: its sockets, and the one thread that serves it.

A sandbox gets no writable piece of the host. The controller makes the kernel's five sockets in a private folder of its
own, listening already, and passes them as file descriptors to `inside.py` through a socket in the folder that the
sandbox sees read-only at /run/nbagent. The same socket then takes one kind of request, one JSON line each:
`{"install": ["humanize==4.17.0"]}`, which policy decides and which is answered with one JSON line. What the sandbox
prints where nobody looks (its original stdout and stderr) is read and thrown away, but for the tail.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo

from nbagent.errors import NbagentError, SandboxError

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
PORTS = {f"{channel}_port": number for number, channel in enumerate(CHANNELS, start=1)}
INSIDE = "/run/nbagent"
TAIL = 16 * 1024
"""Bytes kept of what a sandbox prints to its original stdout and stderr."""
MAX_REQUEST = 64 * 1024
MAX_WANTED = 50
MAX_REQUESTS = 200
"""Names that code chooses leave the machine when they are looked up; these bound how many."""
REQUEST_SECONDS = 5.0
"""From a caller's connection to the end of its request."""
SOCKET_PATH_LIMIT = 107
"""Bytes of a Unix socket's path, from unix(7)."""

InstallHook = Callable[[list[str]], list[dict[str, Any]]]
"""Blocking: requirements in, what was installed out; raises InstallError."""


def runtime_root() -> Path:
    """The private folder for sockets: short enough a path, ours alone, gone with a restart of the machine.

    Raises:
        SandboxError: Somebody else owns it.
    """
    preferred = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(preferred) if preferred and os.access(preferred, os.W_OK) else Path(tempfile.gettempdir())
    if len(str(base)) > SOCKET_PATH_LIMIT - 60:
        base = Path("/tmp")  # noqa: S108 - a socket's path must be short; the folder below is checked
    root = base / f"nbagent-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SandboxError(f"{root} belongs to somebody else.", mend="Remove it, or set XDG_RUNTIME_DIR.")
    if found.st_mode & 0o077:
        root.chmod(0o700)
    return root


class Handoff:
    """One sandbox's folder, sockets and thread, for all the kernels that run in it one after another.

    Attributes:
        folder: The private folder: `k-1` … `k-5` are the kernel's sockets.
        shared: The part of it that the sandbox sees, read-only, at /run/nbagent.
        key: The connection's signing key; kept over restarts, as clients keep theirs.
    """

    def __init__(self, *, install: InstallHook | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="k", dir=runtime_root()))
        self.shared = self.folder / "in"
        self.shared.mkdir(mode=0o755)
        self.shared.chmod(0o755)
        self.install = install
        self.key = secrets.token_hex(16)
        self._tail = b""
        self._requests = 0
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        shutil.copyfile(Path(__file__).with_name("inside.py"), self.shared / "inside.py")
        (self.shared / "inside.py").chmod(0o644)

    @property
    def connection_info(self) -> KernelConnectionInfo:
        """What a client needs to connect: paths on the host."""
        info = {
            "transport": "ipc",
            "ip": str(self.folder / "k"),
            "key": self.key.encode(),
            "signature_scheme": "hmac-sha256",
            **PORTS,
        }
        return cast("KernelConnectionInfo", info)

    def open(self, config: dict[str, Any], *, output: int | None = None) -> None:
        """Make the sockets for one start of the kernel, and serve them from now on.

        Args:
            config: What `inside.py` needs beside the connection.
            output: A file descriptor from which the sandbox's own output can be read; closed here at its end.
        """
        self.close()
        listening = [self._listen(self.folder / f"k-{number}", mode=0o600) for number in PORTS.values()]
        door = self._listen(self.shared / "host.sock", mode=0o666)
        ports = {name.removesuffix("_port"): number for name, number in PORTS.items()}
        message = {"key": self.key, "ip": f"{INSIDE}/k", "ports": ports, **config}
        self._wake, woken = socket.socketpair()
        self._tail = b""
        arguments = (door, woken, output, message, listening)
        self._thread = threading.Thread(target=self._serve, args=arguments, name="nbagent-sandbox", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; what clients hold stays valid for the next `open`."""
        if self._wake is not None:
            self._wake.close()
            self._wake = None
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
        self._thread = None

    def remove(self) -> None:
        """Stop serving and delete the folder."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tail(self) -> str:
        """The end of what the sandbox printed to its original stdout and stderr."""
        return self._tail.decode(errors="replace").strip()

    @staticmethod
    def _listen(path: Path, *, mode: int) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
        except OSError as error:
            listening.close()
            raise SandboxError(f"The kernel's socket can't be made: {error}.", mend="Set XDG_RUNTIME_DIR.") from error
        path.chmod(mode)
        listening.listen(64)
        return listening

    def _serve(
        self,
        door: socket.socket,
        woken: socket.socket,
        output: int | None,
        message: dict[str, Any],
        handed: list[socket.socket],
    ) -> None:
        """Hand over once, then answer requests and drain the output until told to stop."""
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for each in (door, woken, *handed):
                stack.callback(each.close)
            if output is not None:
                stack.callback(os.close, output)
                selector.register(output, selectors.EVENT_READ)
            selector.register(door, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            waiting = handed
            while True:
                for key, _ in selector.select():
                    if key.fileobj is woken:
                        return
                    if key.fileobj is door:
                        waiting = self._answer(door, message, waiting)
                    elif output is not None and not self._drain(output):
                        selector.unregister(output)

    def _answer(self, door: socket.socket, message: dict[str, Any], handed: list[socket.socket]) -> list[socket.socket]:
        """Serve one caller. The first one is the start-up code, before any code of the person's has run."""
        caller, _ = door.accept()
        # A caller that says nothing must not hold up the next one for long.
        caller.settimeout(REQUEST_SECONDS)
        with caller, contextlib.suppress(OSError, ValueError):
            if handed:
                socket.send_fds(caller, [b" "], [each.fileno() for each in handed])
                caller.sendall(json.dumps(message).encode() + b"\n")
                for each in handed:
                    each.close()
            else:
                caller.sendall(json.dumps(self._handle(caller)).encode() + b"\n")
        return []

    def _handle(self, caller: socket.socket) -> dict[str, Any]:
        wanted = _wanted(caller)
        if self.install is None:
            return {"error": "This sandbox takes no installs."}
        if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            return {"error": "An install request is a list of requirements."}
        self._requests += 1
        if len(wanted) > MAX_WANTED or self._requests > MAX_REQUESTS:
            return {"error": "This sandbox has asked for too many packages."}
        try:
            return {"installed": self.install(wanted)}
        except NbagentError as error:
            return {"error": str(error)}
        except Exception as error:  # what goes wrong in there must not end this thread
            return {"error": f"The install failed: {type(error).__name__}: {error}"}

    def _drain(self, output: int) -> bool:
        data = os.read(output, 65536)
        self._tail = (self._tail + data)[-TAIL:]
        return bool(data)


def _wanted(caller: socket.socket) -> Any:
    """What a caller asks to be installed, which is code of the sandbox's and may send anything.

    Raises:
        OSError: It takes too long.
    """
    end = time.monotonic() + REQUEST_SECONDS
    request = b""
    while not request.endswith(b"\n") and len(request) < MAX_REQUEST:
        # All of it must come in time: one that sends a byte now and then would hold up the others for ever.
        caller.settimeout(max(0.001, end - time.monotonic()))
        more = caller.recv(MAX_REQUEST)
        if not more:
            break
        request += more
    caller.settimeout(REQUEST_SECONDS)
    try:
        return json.loads(request)["install"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
