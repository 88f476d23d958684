"""What starts the kernel *inside* a sandbox: this file is mounted there and run by the sandbox's own Python.

It is the last trusted code that runs inside. It takes what the controller hands over (`handoff.py`), gives up what
privilege is left, and becomes a plain ipykernel. It may import the standard library and ipykernel only, of whatever
version the sandbox has, and must cost as good as no time: each import here is paid at every cold start.

The kernel's sockets arrive as file descriptors that already listen. So nothing in the sandbox can write to the folder
where they lie, a client can connect before the kernel is up, and no port is probed until it answers.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
from typing import Any, NoReturn

HOST = "/run/nbagent/host.sock"
SCRIPT = r"(?m)^# /// script\s*$\n(?P<block>(?:^#(?:| .*)$\n)+?)^# ///\s*$"
"""Inline script metadata, as PEP 723 has it."""
PIP = r"(?m)^([ \t]*)!\s*(?:python3?\s+-m\s+|uv\s+)?pip3?\s+install\s"
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
OOM_SCORE = "500"
"""Of 1000, as Linux counts it for code inside."""
FORWARDER = 0x7FFFFFFE
"""What stands in the inner filter for the process that passes bytes to the way out (`seccomp.py`)."""
SECCOMP = 317 if os.uname().machine == "x86_64" else 277
"""The number of that call."""


def main() -> None:
    """Take the hand-over, harden, and run the kernel until it ends."""
    connection, config, descriptors = receive()
    become_unprivileged(config)
    bound(config["bounds"])
    prepare_folders(config)
    supervise(connection, descriptors, config)
    app = make_app(config, descriptors)
    if config["filter"]:
        forbid(bytes.fromhex(config["filter"]))
    forget_original_streams()
    app.start()


def receive() -> tuple[socket.socket, dict[str, Any], list[int]]:
    """The connection to the controller that started this sandbox, its configuration, and the listening sockets.

    These are the kernel's five, in the order of `CHANNELS`, and the one of process 1.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(HOST)
    head, descriptors, _, _ = socket.recv_fds(connection, 65536, len(CHANNELS) + 1)
    for each in descriptors:
        os.set_inheritable(each, False)
    return connection, json.loads(head + read_line(connection)), descriptors


def read_line(connection: socket.socket) -> bytes:
    """What the controller sends, up to the end of the line."""
    line = b""
    while not line.endswith(b"\n"):
        more = connection.recv(65536)
        if not more:
            raise OSError("The controller does not answer.")
        line += more
    return line


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Ask the controller for something, such as an install; policy decides there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(HOST)
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(read_line(connection))
        return answer


def supervise(connection: socket.socket, descriptors: list[int], config: dict[str, Any]) -> None:
    """Leave the kernel to a child, in which this returns, and look after it (`supervisor_inside.py`).

    Each keeps its own of the sockets: the child those of the kernel, process 1 the one that was the last.
    """
    listening = descriptors.pop()
    # The parent stays outside of the inner filter, so code inside must not be able to write into it through /proc.
    libc, set_dumpable = ctypes.CDLL(None), 4
    libc.prctl(set_dumpable, 0, 0, 0, 0)
    if config["ask"]:
        sys.path.insert(0, os.path.dirname(HOST))
        asking, asked = socket.socketpair()
    if config["proxy"]:
        forwarder = start_forwarder(tuple(config["proxy"]))
        config["filter"] = naming(forwarder, bytes.fromhex(config["filter"])).hex()
    child = os.fork()
    if not child:
        libc.prctl(set_dumpable, 1, 0, 0, 0)
        connection.close()
        os.close(listening)
        # Signals to its own group are not for process 1, nor is it the one to go where memory runs out.
        os.setsid()
        offer_to_oom_killer()
        if config["ask"]:
            asking.close()
            report_commands(asked, config)
            sys.path.pop(0)
        return
    for descriptor in descriptors:
        os.close(descriptor)

    def shell() -> NoReturn:
        if config["filter"]:
            forbid(bytes.fromhex(config["filter"]))
        # Only now: code inside may get at a process that it can look into. The filter takes away only the contrary.
        libc.prctl(set_dumpable, 1, 0, 0, 0)
        offer_to_oom_killer()
        os.chdir(config["cwd"])
        program = next(each for each in ("/bin/bash", "/bin/sh") if os.access(each, os.X_OK))
        words = [program, "-i"] if os.isatty(0) else [program]
        os.execve(program, words, {**os.environ, "TERM": "xterm-256color"})  # noqa: S606

    sys.path.insert(0, os.path.dirname(HOST))
    from supervisor_inside import Supervisor  # type: ignore[import-not-found]  # beside this file, in there

    Supervisor(
        child,
        connection,
        socket.socket(fileno=listening),
        keep=config["keep"],
        shell=shell if config["shell"] else None,
        asking=asking if config["ask"] else None,
        report=(lambda: report_commands(asked, config)) if config["ask"] else None,
    ).run()


def start_forwarder(address: tuple[str, int]) -> int:
    """Start the process that passes bytes to the way out (`forward.py`), as closed to code inside as process 1 is.

    Returns:
        Its number, by which code may not signal it.

    Raises:
        OSError: The port can't be had.
    """
    import signal

    listening = socket.create_server(address)
    if forwarder := os.fork():
        listening.close()
        return forwarder
    try:
        # What Linux itself might send it, for somebody else's doing, is nothing to end for.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.setsid()
        # It holds nothing else open: its controller knows by such a connection that a sandbox has ended.
        os.dup2(os.dup(listening.fileno()), 3)
        os.closerange(4, 65536)
        sys.path.insert(0, os.path.dirname(HOST))
        from forward import forward  # type: ignore[import-not-found]

        forward(socket.socket(fileno=3), os.path.join(os.path.dirname(HOST), "egress.sock"))
    finally:
        os._exit(1)


def naming(process: int, program: bytes) -> bytes:
    """A system call filter that means this process, and its group, where it has `FORWARDER`."""
    named = {FORWARDER: process, -FORWARDER: -process}
    instructions = struct.Struct("=HBBi")
    return b"".join(
        instructions.pack(*head, named.get(value, value)) for *head, value in instructions.iter_unpack(program)
    )


def report_commands(asked: socket.socket, config: dict[str, Any]) -> None:
    """Have process 1 see each program that this process and those it starts execute (`commands_inside.py`)."""
    from commands_inside import hand_over, listen  # type: ignore[import-not-found]

    hand_over(asked, listen(bytes.fromhex(config["ask"]), SECCOMP))


def offer_to_oom_killer() -> None:
    """Let Linux, where memory runs out, kill this process before process 1 and before the host's own."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(OOM_SCORE)
    except OSError:
        pass  # it is higher already


def become_unprivileged(config: dict[str, Any]) -> None:
    """Leave root for the sandbox's own user, for good: bounding set, groups, ids, no new privileges."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, drop_from_bounding_set, set_dumpable = 38, 24, 4
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    uid = config["uid"]
    if uid is None or os.geteuid() != 0:
        return
    for capability in range(64):
        if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0):
            break
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # The inheritable set outlives the change; an empty set for this process, in version 3 of capset's header.
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    # Changing ids clears it, and then /proc/self belongs to root and can't be read.
    libc.prctl(set_dumpable, 1, 0, 0, 0)


def bound(bounds: dict[str, int]) -> None:
    """Set limits of Linux's on this process and its children, by their names; an engine with better ones sends none."""
    if bounds:
        import resource

        for name, value in bounds.items():
            limit = getattr(resource, name)
            _, hard = resource.getrlimit(limit)
            least = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (least, least))


def prepare_folders(config: dict[str, Any]) -> None:
    """Make the folders that code expects, in the writable scratch of the sandbox."""
    for folder in config["folders"]:
        os.makedirs(folder, exist_ok=True)
    if os.path.isdir(config["fonts"]):
        # Made anew, matplotlib's list of fonts costs seconds; and it takes its cache only from a writable folder.
        cache = os.path.join(os.environ["HOME"], ".cache", "matplotlib")
        os.makedirs(cache, exist_ok=True)
        for name in os.listdir(config["fonts"]):
            with open(os.path.join(config["fonts"], name), "rb") as source, open(os.path.join(cache, name), "wb") as to:
                to.write(source.read())
    os.chdir(config["cwd"])


def make_app(config: dict[str, Any], descriptors: list[int]) -> Any:
    """An ipykernel application that listens on the sockets it was handed."""
    import zmq
    from ipykernel.heartbeat import Heartbeat
    from ipykernel.iostream import OutStream
    from ipykernel.kernelapp import IPKernelApp
    from jupyter_client.session import Session
    from traitlets.config import Config

    sys.path.insert(0, os.path.dirname(HOST))
    from bounds_inside import bounded  # type: ignore[import-not-found]  # beside this file, in there
    from streams_inside import in_order  # type: ignore[import-not-found]

    sys.path.pop(0)
    handed = dict(zip(CHANNELS, descriptors, strict=True))

    def listen(target: Any, channel: str) -> None:
        target.setsockopt(zmq.USE_FD, handed[channel])
        target.bind(f"ipc://{config['ip']}-{config['ports'][channel]}")

    class Beat(Heartbeat):
        def _bind_socket(self) -> None:
            listen(self.socket, "hb")

    class App(IPKernelApp):
        def _session_default(self) -> Session:
            # Whatever is displayed: what is more than the controller takes is cut here, and the cell goes on.
            return bounded(Session)(parent=self)  # type: ignore[no-any-return]

        def init_connection_file(self) -> None:
            self.session.key = config["key"].encode()
            self.transport, self.ip = "ipc", config["ip"]
            for channel, port in config["ports"].items():
                setattr(self, f"{channel}_port", port)

        def write_connection_file(self, **kwargs: Any) -> None:
            """Write no connection file: the controller has one, and nothing inside needs it."""

        def _bind_socket(self, target: Any, port: int) -> int:
            listen(target, next(name for name, number in config["ports"].items() if number == port))
            return port

        def init_control(self, context: Any) -> None:
            # The debugger reaches the shell channel by an address of its own: the path is not there inside.
            self.shell_socket.bind("inproc://nbagent-shell")
            super().init_control(context)

        def init_iopub(self, context: Any) -> None:
            # What a slow reader has not taken yet waits in this sandbox's memory: never dropped, never the host's.
            context.setsockopt(zmq.SNDHWM, 0)
            super().init_iopub(context)

        def log_connection_info(self) -> None:
            """How to connect by hand, which nobody can from outside, and which would hide why a start failed."""

        def init_heartbeat(self) -> None:
            self.heartbeat = Beat(zmq.Context(), ("ipc", config["ip"], self.hb_port))
            self.heartbeat.start()

        def init_path(self) -> None:
            """Packages installed for the session come last: they can't stand in for the kernel's own."""
            sys.path.insert(0, "")
            sys.path.extend(each for each in config["path"] if each not in sys.path)

    import ipykernel.compiler
    import ipykernel.iostream

    # Warnings and tracebacks name the file of a cell, and by default that has the process's number in it: the same
    # cells would never give the same outputs again.
    ipykernel.compiler.get_tmp_directory = lambda: "/tmp/ipykernel"  # noqa: S108 - a path inside
    ipykernel.iostream.OutStream = in_order(OutStream)  # type: ignore[misc]
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.IPKernelApp.outstream_class = "ipykernel.iostream.OutStream"
    settings.Session.username = "sandbox"
    # By default each reply waits half a millisecond, so that clients which read no further than that miss less output.
    # Whoever runs cells waits for `idle`, which comes after all of it.
    settings.IPythonKernel._execute_sleep = 0.0
    app = App.instance(config=settings)
    app.initialize([])
    offer_installs(app.shell)
    if config["notice"]:
        tell_once(app.shell, config["notice"])
    if not config["shell"]:
        refuse_shells(app.shell)
    return app


def forget_original_streams() -> None:
    """Throw away what ipykernel would repeat there of all that programs print, beside sending it to clients.

    Until now somebody may have wanted to know why a start failed. From here on nobody reads it, and a pipe that is
    full, or whose reader has died, must not stop what prints.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        original = getattr(stream, "_original_stdstream_copy", None)
        if original is not None:
            os.dup2(nowhere, original, inheritable=False)
    os.close(nowhere)


def forbid(program: bytes) -> None:
    """Add a system call filter to the one that the engine set; it holds for all threads and can't be taken back."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_mode_filter, every_thread = 1, 1

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    filter_ = Program(len(program) // 8, program)
    if libc.syscall(SECCOMP, set_mode_filter, every_thread, ctypes.byref(filter_)):
        reason = os.strerror(ctypes.get_errno())
        # The kernel's own stderr is a message to clients by now, of which there are none yet.
        original = getattr(sys.stderr, "_original_stdstream_copy", 2)
        os.write(original, f"nbagent: the system call filter was refused: {reason}\n".encode())
        os._exit(1)


def offer_installs(shell: Any) -> None:
    """Make `%pip install`, `!pip install` and a PEP 723 block in a cell ask the controller: there is no network."""

    def pip(line: str) -> None:
        """Install packages into this session: `%pip install NAME …`."""
        verb, *words = line.split() or [""]
        wanted = [word.strip("'\"") for word in words if not word.startswith("-")]
        if verb != "install" or not wanted:
            print("In this sandbox pip can only install, by name and version: %pip install NAME …", file=sys.stderr)
            return
        print(install(wanted) or f"Already there: {', '.join(wanted)}")

    def before_run(info: Any) -> None:
        found = re.search(SCRIPT, info.raw_cell or "")
        if not found:
            return
        try:
            block = "".join(line[2:] or "\n" for line in found["block"].splitlines(keepends=True))
            install(tomllib.loads(block).get("dependencies", []))
        except tomllib.TOMLDecodeError as error:
            print(f"The script block can't be read: {error}", file=sys.stderr)

    def rewrite(lines: list[str]) -> list[str]:
        return re.sub(PIP, r"\1%pip install ", "".join(lines)).splitlines(keepends=True)

    def after_run(result: Any) -> None:
        if re.fullmatch(rf"\s*(?:{SCRIPT[4:]})\s*", result.info.raw_cell or "", re.MULTILINE):
            # A cell that only names packages does not count: tracebacks name cells by number, and a notebook that was
            # exported with such a cell on top is to give the same outputs again.
            shell.execution_count -= 1

    import re
    import tomllib

    shell.register_magic_function(pip, "line", "pip")
    shell.events.register("pre_run_cell", before_run)
    shell.events.register("post_run_cell", after_run)
    shell.input_transformers_cleanup.insert(0, rewrite)


def tell_once(shell: Any, notice: str) -> None:
    """Have the first cell say something before it runs."""

    def tell(_: Any) -> None:
        shell.events.unregister("pre_run_cell", tell)
        print(f"nbagent: {notice}", file=sys.stderr)

    shell.events.register("pre_run_cell", tell)


def refuse_shells(shell: Any) -> None:
    """Say so where code asks IPython for a shell, of which this sandbox has none."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("This sandbox has no shell (its option allow_shell is off): use Python instead.")

    for name in ("system", "system_raw", "system_piped", "getoutput"):
        setattr(shell, name, refuse)
    for name in ("bash", "sh"):
        shell.register_magic_function(refuse, "cell", name)


def install(wanted: list[str]) -> str:
    """Have packages installed; returns a sentence about what is new, and prints to stderr why if it can't be done."""
    import importlib

    if not wanted:
        return ""
    try:
        answer = ask({"install": wanted})
    except (OSError, ValueError) as error:
        answer = {"error": str(error)}
    importlib.invalidate_caches()
    if "error" in answer:
        print(f"Not installed: {answer['error']}", file=sys.stderr)
        return " "
    names = ", ".join(f"{each['name']} {each['version']}" for each in answer["installed"])
    return f"Installed {names}." if names else ""


if __name__ == "__main__":
    # Only the unsandboxed engine says where the controller is; in a sandbox it is always at the same place.
    HOST = sys.argv[1] if len(sys.argv) > 1 else HOST
    main()
