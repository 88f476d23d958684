"""The parent process of an MCP server's program, which ends all that the program started once nbagent is gone.

Run as `python -I -S keeper.py LIFELINE PROGRAM ARGUMENT…`. LIFELINE is the reading end of a pipe whose other end only
nbagent holds: Linux closes it when nbagent ends, by SIGKILL too. Then, or when the program ends, the keeper ends all of
the program's descendants. It is their subreaper, so daemons are among them. Messages don't pass through it: the program
has nbagent's pipes.

It imports little of the standard library, since it runs before every server.
"""

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
ROUNDS = 200
"""How often the remaining processes are killed: they may start others meanwhile."""
CANNOT_RUN = 127


def main() -> None:
    """Run the program until it or nbagent ends."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        become(command, libc)
    # Close the program's pipes here, so that nbagent notices when the program closes one.
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, flags), number)
    status = wait(child, lifeline, woken)
    if status is None:
        end(signal.SIGTERM, time.monotonic() + GRACE)
    for _ in range(ROUNDS):
        if not end(signal.SIGKILL, time.monotonic() + 0.05):
            break
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def become(command: list[str], libc: ctypes.CDLL) -> None:
    """Replace the child by the program, which Linux kills with the keeper."""
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - what the person wrote in mcp.json
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_RUN)


def wait(child: int, lifeline: int, woken: int) -> "int | None":
    """Wait; returns the program's status when it ended, None when nbagent did."""
    while True:
        readable, _, _ = select.select([lifeline, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
        status = collect(child)
        if status is not None:
            return status
        if lifeline in readable:
            return None


def collect(child: int) -> "int | None":
    """Reap all processes that have ended; returns the status of `child` if it is one of them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def end(number: int, deadline: float) -> bool:
    """Send a signal to all descendants and wait until the deadline; returns whether any are left."""
    for pid in descendants():
        try:
            os.kill(pid, number)
        except OSError:
            continue  # it has ended, or may not be killed
    while descendants() and time.monotonic() < deadline:
        collect(0)
        time.sleep(0.005)
    return bool(descendants())


def descendants() -> "list[int]":
    """The processes that this process and its children have started."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in brackets may contain brackets; the state and the parent follow the last one.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found: set[int] = set()
    added = {os.getpid()}
    while added:
        added = {pid for pid, parent in parents.items() if parent in added} - found
        found |= added
    return sorted(found)


if __name__ == "__main__":
    main()
