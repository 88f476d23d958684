"""Attacks on process 1, which is trusted and looks after the sandbox from inside."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("process 1 of the sandbox")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack(
    "4",
    "Read or change the sandbox's first process",
    expected="permission denied",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def touch_process_one(host: Any) -> object:
    # Without a sandbox this is the machine's own memory: it is opened for reading, but not read.
    if os.getpid() == 1:
        return None
    found = []
    for name in ("mem", "environ", "maps", "ns/mnt"):
        try:
            os.close(os.open(f"/proc/1/{name}", os.O_RDONLY))
        except OSError:
            continue
        found.append(name)
    return found


@_attack(
    "37",
    "Slow down or limit what looks after the sandbox: by process, thread, group and user",
    expected="only one's own can be changed",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def change_how_process_one_runs(host: Any) -> object:
    # Set to the value that it has: without a sandbox it is the machine's first process.
    found = []

    def attempt(name: str, change: Any) -> None:
        with contextlib.suppress(OSError):
            change()
            found.append(name)

    others = {1, *(int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) < os.getpid())}
    threads = set()
    for each in sorted(others)[:5]:
        with contextlib.suppress(OSError):
            threads |= {int(thread) for thread in os.listdir(f"/proc/{each}/task")}
    for at in sorted(threads)[:20]:
        attempt(f"priority of {at}", lambda at=at: os.setpriority(0, at, os.getpriority(0, at)))
        attempt(f"limits of {at}", lambda at=at: resource.prlimit(at, 4, resource.prlimit(at, 4)))
        attempt(f"processors of {at}", lambda at=at: os.sched_setaffinity(at, os.sched_getaffinity(at)))
    for at in sorted(others)[:5]:
        attempt(f"priority of the group {at}", lambda at=at: os.setpriority(1, at, os.getpriority(1, at)))
    attempt("scheduling", lambda: os.sched_setscheduler(1, os.sched_getscheduler(1), os.sched_getparam(1)))
    attempt("priority of the user", lambda: os.setpriority(2, 0, os.getpriority(2, 0)))
    return found[:6]


@_attack(
    "37",
    "Signal what looks after the sandbox: by process, thread, group, or as the owner of a file",
    expected="none of it can be signalled",
    held_anyway="the machine's own processes may be out of this user's reach",
)
def signal_process_one(host: Any) -> object:
    # Signal 0 does nothing, but shows whether signals are permitted.
    found = []
    libc = ctypes.CDLL(None, use_errno=True)
    calls = {"x86_64": (200, 234)}.get(os.uname().machine, (130, 131))
    others = {1, *(int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) < os.getpid())}
    for each in sorted(others)[:5]:
        for name, number in (("process", each), ("group", -each)):
            with contextlib.suppress(OSError):
                if number != -1:
                    os.kill(number, 0)
                    found.append(f"{name} {each}")
        with contextlib.suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{each}/task")):
                for call, arguments in ((calls[0], (thread, 0)), (calls[1], (each, thread, 0))):
                    if libc.syscall(ctypes.c_long(call), *map(ctypes.c_long, arguments)) == 0:
                        found.append(f"thread {thread}")
    set_owner, one, other = 8, *socket.socketpair()
    with one, other, contextlib.suppress(OSError):
        fcntl.fcntl(one, set_owner, 1)
        found.append("owner of a file")
    return found[:6]


@_attack(
    "37",
    "Close a process to the looks of what tells which programs it executes (PR_SET_DUMPABLE)",
    expected=_REFUSED,
)
def hide_from_process_one(host: Any) -> object:
    libc, set_dumpable = ctypes.CDLL(None), 4
    hidden = libc.prctl(set_dumpable, 0, 0, 0, 0) == 0
    libc.prctl(set_dumpable, 1, 0, 0, 0)
    return hidden
