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
import selectors
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import NbagentError, SandboxError
from nbagent.sandbox.channels.endpoint import PORTS, UnixEndpoint
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.paths import RUN
from nbagent.sandbox.untrusted import UnreadableError, parse

if TYPE_CHECKING:
    from nbagent.sandbox.contract import CommandHook, InstallHook

TAIL = 16 * 1024
"""Bytes kept of what a sandbox prints to its original stdout and stderr."""
CHUNK = 64 * 1024
PAUSE = 0.005
"""Seconds between two full chunks of that."""
MAX_REQUEST = 64 * 1024
MAX_WANTED = 50
MAX_REQUESTS = 200
"""Names that code chooses leave the machine when they are looked up; these bound how many."""
MAX_LINE = 1024 * 1024
"""Bytes of what process 1 says at once; it is ours, and says less."""
MAX_WORDS = 50
"""Things that it says of how the sandbox ended."""
REQUEST_SECONDS = 5.0
"""From a caller's connection to the end of its request."""
OUTPUT = "out"
LAST_WORDS = 5.0
"""Seconds to wait for what process 1 said at its end: on a busy machine its end may be known before its words are read.

They are there; only a thread that serves an install doesn't read them soon."""
PROGRAMS = (
    *("inside.py", "supervisor_inside.py", "commands_inside.py", "overuse_inside.py"),
    *("bounds_inside.py", "streams_inside.py", "forward.py"),
)
"""What of this package runs inside of a sandbox, by the sandbox's own Python."""


class Handoff:
    """One sandbox's folder, sockets and thread, for all the kernels that run in it one after another.

    Args:
        lease: The sandbox's lease; its folder is where everything lies.
        install: What serves install requests.
        ran: Gets each program that is executed inside, where that is looked at.

    Attributes:
        folder: The private folder: `k-1` … `k-5` are the kernel's sockets, `s` is the one of process 1.
        shared: The part of it that the sandbox sees, read-only, at /run/nbagent.
    """

    def __init__(self, lease: Lease, *, install: InstallHook | None = None, ran: CommandHook | None = None) -> None:
        self.lease = lease
        self.folder = lease.folder
        self.shared = self.folder / "in"
        self.install = install
        self.ran = ran
        self._hearing: socket.socket | None = None
        self._unread = b""
        self._words: dict[str, Any] = {}
        self._silent = threading.Event()
        self._tail = b""
        self._requests = 0
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        if not self.shared.exists():
            self.shared.mkdir(mode=0o755)
            self.shared.chmod(0o755)
            for name in PROGRAMS:
                shutil.copyfile(Path(__file__).parents[1] / "inside" / name, self.shared / name)
                (self.shared / name).chmod(0o644)

    @property
    def endpoint(self) -> UnixEndpoint:
        """Where the kernel is reached: sockets of this folder's."""
        return UnixEndpoint(self.folder / "k", self.lease.terms.key.encode())

    def open(self, config: dict[str, Any]) -> None:
        """Make the sockets for one start of the kernel, and serve them from now on.

        Args:
            config: What `inside.py` needs beside the connection.
        """
        self.close()
        listening = [self._listen(self.folder / f"k-{number}", mode=0o600) for number in PORTS.values()]
        listening.append(self._listen(self.folder / supervisor.SOCKET, mode=0o600))
        ports = {name.removesuffix("_port"): number for name, number in PORTS.items()}
        keep = self.lease.terms.spec.keep
        message = {"key": self.lease.terms.key, "ip": f"{RUN}/k", "ports": ports, "keep": keep, **config}
        self._start(message, listening)

    def take_over(self) -> None:
        """Serve a sandbox that another process started and did not live to end.

        Raises:
            SandboxError: It has ended.
        """
        self.close()
        self.lease.held = supervisor.hold(self.folder)
        self._start({}, [])

    def _start(self, message: dict[str, Any], listening: list[socket.socket]) -> None:
        door = self._listen(self.shared / "host.sock", mode=0o666)
        self._wake, woken = socket.socketpair()
        self._tail, self._words = b"", {}
        self._silent.clear()
        arguments = (door, woken, open_fifo(self.folder / OUTPUT), message, listening)
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
        self.lease.let_go()

    def remove(self, *, keep_scratch: bool = False) -> None:
        """Stop serving, and remove the lease with its folders."""
        self.close()
        self.lease.remove(keep_scratch=keep_scratch)

    def hold(self, *, keep: float) -> None:
        """Own the sandbox anew, on other terms.

        Args:
            keep: Seconds that it lives on without an owner from now on.

        Raises:
            SandboxError: It has ended.
        """
        held = supervisor.hold(self.folder, keep=keep)
        self.lease.let_go()
        self.lease.held = held
        if self._wake is not None:
            self._wake.send(b" ")

    def last_words(self) -> dict[str, Any]:
        """What process 1 of a sandbox that has ended said at its end: what it had used. Waits a moment for that."""
        if self._thread is not None and self.lease.held is not None:
            self._silent.wait(LAST_WORDS)
        return self._words

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
        output: int,
        message: dict[str, Any],
        handed: list[socket.socket],
    ) -> None:
        """Hand over once, then answer requests and drain the output until told to stop."""
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for each in (door, woken, *handed):
                stack.callback(each.close)
            stack.callback(os.close, output)
            selector.register(output, selectors.EVENT_READ)
            selector.register(door, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            waiting = handed
            while True:
                self._listen_to_held(selector)
                for key, _ in selector.select():
                    if key.fileobj is woken:
                        if not woken.recv(1):
                            return
                    elif key.fileobj is door:
                        waiting = self._answer(door, message, waiting)
                    elif key.fileobj is self._hearing:
                        self._hear(selector)
                    elif not self._drain(output):
                        selector.unregister(output)

    def _listen_to_held(self, selector: selectors.BaseSelector) -> None:
        """Listen to the connection to process 1 that is held now."""
        held = self.lease.held
        if held is not self._hearing:
            if self._hearing is not None:
                with contextlib.suppress(KeyError, ValueError):
                    selector.unregister(self._hearing)
            self._hearing, self._unread = held, b""
            if held is not None:
                with contextlib.suppress(OSError, ValueError):
                    held.setblocking(False)
                    selector.register(held, selectors.EVENT_READ)

    def _hear(self, selector: selectors.BaseSelector) -> None:
        """Take what process 1 says, line by line: a program that is executed, or its last words."""
        assert self._hearing is not None  # noqa: S101 - it was selected
        try:
            data = self._hearing.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(self._hearing)
            self._silent.set()
            return
        *lines, unread = (self._unread + data).split(b"\n")
        self._unread = unread if len(unread) <= MAX_LINE else b""
        for line in lines:
            with contextlib.suppress(UnreadableError):
                self._understand(parse(line, limit=MAX_LINE))

    def _understand(self, said: Any) -> None:
        match said:
            case {"pid": int(pid), "argv": list(words)}:
                if self.ran is not None:
                    self.ran(pid, [str(word) for word in words])
            case dict():
                told = {name: value for name, value in said.items() if isinstance(value, int | float | str | None)}
                if len(self._words | told) <= MAX_WORDS:
                    self._words |= told

    def _answer(self, door: socket.socket, message: dict[str, Any], handed: list[socket.socket]) -> list[socket.socket]:
        """Serve one caller. The first one is the start-up code, before any code of the person's has run."""
        caller, _ = door.accept()
        # A caller that says nothing must not hold up the next one for long.
        caller.settimeout(REQUEST_SECONDS)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError):
            stack.callback(caller.close)
            if handed:
                # As long as it is open, process 1 inside knows that its controller lives. A fork closes what is held.
                self.lease.held = caller
                stack.pop_all()
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
        try:
            data = os.read(output, CHUNK)
        except BlockingIOError:
            return True
        self._tail = (self._tail + data)[-TAIL:]
        if len(data) == CHUNK:
            # Who prints without end waits for us, and not this process for it.
            time.sleep(PAUSE)
        return bool(data)


def open_fifo(path: Path) -> int:
    """The reading end of the pipe for a sandbox's own output; it has a name, so that who takes over finds it again."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_output(folder: Path) -> int:
    """The end of that pipe that a sandbox writes to.

    It reads too: without any reader, a print would be an error. Only a start that fails has anything to say there: once
    the kernel is up, `inside.py` lets go of it, so that a full pipe whose reader is dead stops nobody.
    """
    return os.open(folder / OUTPUT, os.O_RDWR | os.O_CLOEXEC)


def _wanted(caller: socket.socket) -> Any:
    """Read the install request of a caller, which may be hostile code of the sandbox and send anything.

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
        return parse(request, limit=2 * MAX_REQUEST)["install"]
    except (UnreadableError, TypeError, KeyError):
        return None
