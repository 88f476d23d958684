"""Attacks on processes of the host and their shared memory, and on process 1, which looks after the sandbox."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import os
import resource
import signal
import socket
import threading
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup, unrefused

PROCESSES = ProbeGroup("processes of the host")
PROCESS_ONE = ProbeGroup("process 1 of the sandbox")
_processes = PROCESSES.attack
_process_one = PROCESS_ONE.attack
_REFUSED = "not permitted"


@_processes("7", "Find a process of the host in the process list", expected="the sandbox's own processes only")
def see_processes_of_the_host(host: Any) -> object:
    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if host["marker"] in open(at).read():
                return at
        except OSError:
            continue
    return None


@_processes("7", "End a process of the host by a signal", expected="no such process")
def signal_a_process_of_the_host(host: Any) -> object:
    # By its number on the host, which inside may be that of another process or of none.
    if host["marker"] not in open(f"/proc/{host['process']}/cmdline").read():
        return None
    os.kill(host["process"], signal.SIGUSR1)
    return True


@_processes("7", "Debug a process of the host (ptrace)", expected="no such process, or not permitted")
def trace_a_process_of_the_host(host: Any) -> object:
    attach, detach = 16, 17
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    if libc.ptrace(attach, host["process"], 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # It can be detached only once it has stopped, and signals of the kernel must not interfere.
    os.waitpid(host["process"], 0x40000000)
    libc.ptrace(detach, host["process"], 0, 0)
    return True


@_processes("+", "Find the host's shared memory and message queues (System V, POSIX)", expected="none is there")
def see_shared_memory_of_the_host(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    if libc.shmget(host["shm_key"], 0, 0) >= 0:
        found.append("shared memory")
    if os.path.exists("/dev/shm/" + host["shm_name"]):
        found.append("/dev/shm")
    queue = libc.mq_open(("/" + host["shm_name"]).encode(), os.O_RDONLY)
    if queue >= 0:
        os.close(queue)
        found.append("message queue")
    return found


@_processes(
    "7",
    "Be passed over for the host's processes when memory runs out (oom_score_adj)",
    expected=_REFUSED,
    held_anyway="it needs CAP_SYS_RESOURCE, which this user may not have",
)
def avoid_the_memory_killer(host: Any) -> object:
    before = open("/proc/self/oom_score_adj").read()
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1")
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(before)
    return True


@_processes("+", "Take precedence over the host's processes (priority, real time)", expected=_REFUSED)
def take_precedence(host: Any) -> object:
    got = []

    def take_back() -> None:
        # To lower the priority is always permitted; to raise it again must not be.
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, niceness + 1)
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
        except OSError:
            return
        if niceness < 19:
            got.append("niceness")

    thread = threading.Thread(target=take_back)
    thread.start()
    thread.join()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        got.append("real time")
    except OSError:
        pass
    return got


@_process_one(
    "4",
    "Read or change the sandbox's first process",
    expected="permission denied",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def touch_process_one(host: Any) -> object:
    # Without a sandbox this is the machine's own memory: it is opened for reading, but not read.
    if os.getpid() == 1:
        return None
    return unrefused(lambda at: os.close(os.open(f"/proc/1/{at}", os.O_RDONLY)), ("mem", "environ", "maps", "ns/mnt"))


@_process_one(
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


@_process_one(
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


@_process_one(
    "37", "Close a process to the looks of what tells which programs it executes (PR_SET_DUMPABLE)", expected=_REFUSED
)
def hide_from_process_one(host: Any) -> object:
    libc, set_dumpable = ctypes.CDLL(None), 4
    hidden = libc.prctl(set_dumpable, 0, 0, 0, 0) == 0
    libc.prctl(set_dumpable, 1, 0, 0, 0)
    return hidden
