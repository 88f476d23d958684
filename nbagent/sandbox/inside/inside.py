"""What starts the kernel *inside* a sandbox: this file is mounted there and run by the sandbox's own Python.

With the files that it imports from beside it, it is the last trusted code that runs inside. It takes what the
controller hands over (`handoff.py`), gives up what privilege is left, forks, and becomes a plain ipykernel; the parent
stays process 1. It may import the standard library and ipykernel only, of whatever version the sandbox has, and must
cost as good as no time: each import is paid at every cold start.

The kernel's sockets arrive as file descriptors that listen already. So nothing in the sandbox can write to the folder
where they lie, a client can connect before the kernel is up, and no port is probed until it answers.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
"""The folder of this file. It isn't on `sys.path` in a sandbox, since Python is started isolated."""
CONTROLLER = "/run/nbagent/controller.sock"
SOCKETS = 6
"""The number of sockets that the controller hands over: the kernel's five, then that of process 1."""


def main(controller: str) -> None:
    """Take the hand-over, harden, and run the kernel until it ends."""
    sys.path.insert(0, HERE)
    from hardening_inside import (  # type: ignore[import-not-found]
        become_unprivileged,
        forbid,
        leave_no_memory,
        set_bounds,
    )

    connection, config, descriptors = receive(controller)
    become_unprivileged(config["uid"])
    set_bounds(config["bounds"])
    leave_no_memory()
    prepare_folders(config)
    fork_kernel(connection, descriptors, config)
    from ipykernel_inside import forget_original_streams, make_app  # type: ignore[import-not-found]

    app = make_app(config, descriptors, controller=controller)
    sys.path.remove(HERE)
    if config["filter"]:
        forbid(bytes.fromhex(config["filter"]))
    forget_original_streams()
    app.start()


def receive(controller: str) -> tuple[socket.socket, dict[str, Any], list[int]]:
    """The connection to the controller that started this sandbox, its configuration, and the listening sockets."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(controller)
    line, descriptors, _, _ = socket.recv_fds(connection, 65536, SOCKETS)
    for each in descriptors:
        os.set_inheritable(each, False)
    while not line.endswith(b"\n"):
        more = connection.recv(65536)
        if not more:
            raise OSError("The controller does not answer.")
        line += more
    return connection, json.loads(line), descriptors


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


def fork_kernel(connection: socket.socket, descriptors: list[int], config: dict[str, Any]) -> None:
    """Leave the kernel to a child, in which this returns; the parent looks after it (`supervisor_inside.py`).

    Each keeps its own of the sockets: the child those of the kernel, process 1 the last one.
    """
    from hardening_inside import let_others_look, name_forwarder, offer_to_oom_killer

    listening = descriptors.pop()
    # Process 1 stays outside of the inner filter, so code inside must not be able to write into it through /proc.
    let_others_look(False)
    if config["ask"]:
        asking, asked = socket.socketpair()
    if config["proxy"]:
        forwarder = start_forwarder(tuple(config["proxy"]))
        config["filter"] = name_forwarder(forwarder, bytes.fromhex(config["filter"])).hex()
    child = os.fork()
    if not child:
        let_others_look(True)
        connection.close()
        os.close(listening)
        # Signals to its own group are not for process 1, nor is it the one to go where memory runs out.
        os.setsid()
        offer_to_oom_killer()
        if config["ask"]:
            asking.close()
            report_commands(asked, config)
        return
    for descriptor in descriptors:
        os.close(descriptor)
    from supervisor_inside import Supervisor  # type: ignore[import-not-found]

    Supervisor(
        child,
        connection,
        socket.socket(fileno=listening),
        keep=config["keep"],
        shell=(lambda: become_shell(config)) if config["shell"] else None,
        asking=asking if config["ask"] else None,
        report=(lambda: report_commands(asked, config)) if config["ask"] else None,
    ).run()


def become_shell(config: dict[str, Any]) -> NoReturn:
    """Become a shell on this process's terminal, with the kernel's filter and limits."""
    from hardening_inside import forbid, let_others_look, offer_to_oom_killer

    if config["filter"]:
        forbid(bytes.fromhex(config["filter"]))
    # After the filter is set: once code inside may look into this process, it could use what the filter forbids.
    let_others_look(True)
    offer_to_oom_killer()
    os.chdir(config["cwd"])
    program = next(each for each in ("/bin/bash", "/bin/sh") if os.access(each, os.X_OK))
    words = [program, "-i"] if os.isatty(0) else [program]
    os.execve(program, words, {**os.environ, "TERM": "xterm-256color"})  # noqa: S606


def start_forwarder(address: tuple[str, int]) -> int:
    """Start the process that passes bytes to the egress proxy (`forward.py`), as closed to code as process 1 is.

    Returns:
        Its process id, which the filter keeps code from signalling.

    Raises:
        OSError: The port can't be had.
    """
    listening = socket.create_server(address)
    if forwarder := os.fork():
        listening.close()
        return forwarder
    try:
        # No signal that Linux sends on account of other processes may end it.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        os.setsid()
        # It closes all else: while it held the connection to the controller, that would not see the sandbox's end.
        os.dup2(os.dup(listening.fileno()), 3)
        os.closerange(4, 65536)
        from forward import forward  # type: ignore[import-not-found]

        forward(socket.socket(fileno=3), os.path.join(HERE, "egress.sock"))
    finally:
        os._exit(1)


def report_commands(asked: socket.socket, config: dict[str, Any]) -> None:
    """Have process 1 told of each program that this process or a child executes (`commands_inside.py`)."""
    from commands_inside import hand_over, listen  # type: ignore[import-not-found]
    from hardening_inside import SECCOMP

    hand_over(asked, listen(bytes.fromhex(config["ask"]), SECCOMP))


if __name__ == "__main__":
    # Only the unsandboxed engine says where the controller is; in a sandbox it is always at the same place.
    main(sys.argv[1] if len(sys.argv) > 1 else CONTROLLER)
