"""The hand-over to a sandbox: the controller's sockets, and the thread that serves them.

A sandbox gets no writable piece of the host. The controller makes the kernel's five sockets in a private folder,
listening already, and passes them as file descriptors to `inside.py` through a socket in the folder that the sandbox
sees read-only at /run/nbagent. From then on that socket takes requests, one JSON line each, as in
`{"install": ["humanize==4.17.0"]}`: policy decides, and the answer is one JSON line. In kernels of other clients it
also takes the modules that cells miss, and the files that they save (`results/receiver.py`). What the sandbox prints to
its original stdout and stderr is read and thrown away, except for the tail.
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

import msgspec

from nbagent.core.errors import NbagentError, SandboxError
from nbagent.core.fileio import refuse_files
from nbagent.packages.import_names import missing_module
from nbagent.sandbox.channels.endpoint import PORTS
from nbagent.sandbox.connection_file import KernelAddress
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.paths import RUN
from nbagent.sandbox.untrusted import UnreadableError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbagent.sandbox.contract import CommandHook, InstallHook
    from nbagent.sandbox.results.receiver import Receiver

TAIL = 16 * 1024
"""Bytes kept of what a sandbox prints to its original stdout and stderr."""
CHUNK_BYTES = 64 * 1024
PAUSE_SECONDS = 0.005
"""Seconds of rest after a full chunk of that output, so that a sandbox that prints for ever can't keep this busy."""
MAX_REQUEST = 64 * 1024
MAX_WANTED = 50
MAX_REQUESTS = 200
"""The most install requests of one start: code chooses the names in them, and the index reads these."""
MAX_LINE = 1024 * 1024
"""Bytes of one line of process 1; it is trusted, and its lines are shorter."""
MAX_WORDS = 50
"""The most facts that process 1 tells about the sandbox's end."""
REQUEST_SECONDS = 5.0
"""Seconds from a caller's connection in which its request must have come."""
OUTPUT = "out"
LAST_WORDS = 5.0
"""Seconds to wait for the last words of process 1, whose end may be known before the serving thread has read them."""
PROGRAMS = tuple(sorted((Path(__file__).parents[1] / "inside").glob("[a-z]*.py")))
"""The files that the sandbox's own Python runs."""


class Handoff:
    """The sockets and the thread of one sandbox, over its restarts.

    Attributes:
        folder: The private folder: `k-1` … `k-5` are the kernel's sockets, `s` is the one of process 1.
        shared: The folder in it that the sandbox sees read-only at /run/nbagent.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        install: InstallHook | None = None,
        install_module: InstallHook | None = None,
        known: Mapping[str, Callable[[], int]] | None = None,
        ran: CommandHook | None = None,
        results: Receiver | None = None,
    ) -> None:
        self.lease = lease
        self.folder = lease.folder
        self.shared = self.folder / "in"
        self.install = install
        self.install_module = install_module
        self.known = known or {}
        self.ran = ran
        self.results = results
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
            for program in PROGRAMS:
                shutil.copyfile(program, self.shared / program.name)
                (self.shared / program.name).chmod(0o644)

    @property
    def endpoint(self) -> KernelAddress:
        """The kernel's sockets."""
        said = {"transport": "ipc", "ip": str(self.folder / "k"), "key": self.lease.terms.key, **PORTS}
        return msgspec.convert(said, KernelAddress)

    def open(self, config: dict[str, Any]) -> None:
        """Make the sockets for one start of the kernel, and serve them; `config` is that of `inside.py` beside them."""
        self.close()
        listening = [self._listen(self.folder / f"k-{number}", mode=0o600) for number in PORTS.values()]
        listening.append(self._listen(self.folder / supervisor.SOCKET, mode=0o600))
        ports = {name.removesuffix("_port"): number for name, number in PORTS.items()}
        keep = self.lease.terms.spec.keep
        message = {"key": self.lease.terms.key, "ip": f"{RUN}/k", "ports": ports, "keep": keep, **config}
        self._start(message, listening)

    def take_over(self) -> None:
        """Take over a sandbox that another process started, and serve it."""
        self.close()
        self.lease.held = supervisor.hold(self.folder)
        self._start({}, [])

    def _start(self, message: dict[str, Any], listening: list[socket.socket]) -> None:
        door = self._listen(self.shared / "controller.sock", mode=0o666)
        refuse_files(door)
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
        """Connect to process 1 anew, and change for how many seconds the sandbox lives on without a controller."""
        held = supervisor.hold(self.folder, keep=keep)
        self.lease.let_go()
        self.lease.held = held
        if self._wake is not None:
            self._wake.send(b" ")

    def last_words(self) -> dict[str, Any]:
        """What process 1 said at its end: how it ended, and what the sandbox had used. Waits until that was read."""
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
        """Listen to the connection to process 1, which `hold` may have replaced."""
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
        """Read what process 1 says, line by line: a program that is executed, or its last words."""
        assert self._hearing is not None  # noqa: S101 - it was selected
        try:
            data = self._hearing.recv(CHUNK_BYTES)
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
        # A caller that sends nothing must not keep the next one waiting for long.
        caller.settimeout(REQUEST_SECONDS)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError):
            stack.callback(caller.close)
            if handed:
                # By this connection process 1 knows that its controller lives; a fork of ours closes it.
                self.lease.held = caller
                stack.pop_all()
                socket.send_fds(caller, [b" "], [each.fileno() for each in handed])
                caller.sendall(json.dumps(message).encode() + b"\n")
                for each in handed:
                    each.close()
            else:
                request = _read_request(caller)
                if self.results is not None and "save" in request:
                    stack.pop_all()
                    self.results.receive(caller, request["save"], request.get("size"))
                else:
                    said = {name: look() for name, look in self.known.items() if name in request}
                    answer = said or self._install(request)
                    caller.sendall(json.dumps(answer).encode() + b"\n")
        return []

    def _install(self, request: dict[str, Any]) -> dict[str, Any]:
        install, wanted = self.install, request.get("install")
        match request.get("missing"):
            case [str(kind), str(words), str(code)] if self.install_module is not None:
                module = missing_module(kind, words, code)
                install, wanted = self.install_module, [] if module is None else [module]
        if install is None:
            return {"error": "This sandbox takes no installs."}
        if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            return {"error": "An install request is a list of requirements."}
        self._requests += 1
        if len(wanted) > MAX_WANTED or self._requests > MAX_REQUESTS:
            return {"error": "This sandbox has asked for too many packages."}
        try:
            return {"installed": install(wanted) if wanted else []}
        except NbagentError as error:
            return {"error": str(error)}
        except Exception as error:  # an error of the installer must not end this thread
            return {"error": f"The install failed: {type(error).__name__}: {error}"}

    def _drain(self, output: int) -> bool:
        try:
            data = os.read(output, CHUNK_BYTES)
        except BlockingIOError:
            return True
        self._tail = (self._tail + data)[-TAIL:]
        if len(data) == CHUNK_BYTES:
            time.sleep(PAUSE_SECONDS)
        return bool(data)


def open_fifo(path: Path) -> int:
    """Open the reading end of a sandbox's output; the pipe has a name, so that a process that takes over finds it."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_output(folder: Path) -> int:
    """Open the end that a sandbox writes to, for reading too: without any reader, a print would be an error.

    It serves a start that fails. Once the kernel is up `inside.py` lets go of it, so that a full pipe whose reader is
    dead stops nobody.
    """
    return os.open(folder / OUTPUT, os.O_RDWR | os.O_CLOEXEC)


def _read_request(caller: socket.socket) -> dict[str, Any]:
    """Read what a caller wants, by names; the caller may be hostile code, so the values may be anything."""
    end = time.monotonic() + REQUEST_SECONDS
    request = b""
    while not request.endswith(b"\n") and len(request) < MAX_REQUEST:
        # The whole request must come in time: a caller that sends a byte now and then would block the others for ever.
        caller.settimeout(max(0.001, end - time.monotonic()))
        more = caller.recv(MAX_REQUEST)
        if not more:
            break
        request += more
    caller.settimeout(REQUEST_SECONDS)
    try:
        found = parse(request, limit=2 * MAX_REQUEST)
    except UnreadableError:
        return {}
    return found if isinstance(found, dict) else {}
