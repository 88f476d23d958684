"""Attacks on processes of the host: seeing, signalling and outrunning them, and their shared memory."""

from __future__ import annotations

import ctypes
import glob
import os
import signal
import threading
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("processes of the host")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack("7", "Find a process of the host in the process list", expected="the sandbox's own processes only")
def see_processes_of_the_host(host: Any) -> object:
    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if host["marker"] in open(at).read():
                return at
        except OSError:
            continue
    return None


@_attack("7", "End a process of the host by a signal", expected="no such process")
def signal_a_process_of_the_host(host: Any) -> object:
    # By its number on the host, which inside may be that of another process or of none.
    if host["marker"] not in open(f"/proc/{host['process']}/cmdline").read():
        return None
    os.kill(host["process"], signal.SIGUSR1)
    return True


@_attack("7", "Debug a process of the host (ptrace)", expected="no such process, or not permitted")
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


@_attack("+", "Find the host's shared memory and message queues (System V, POSIX)", expected="none is there")
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


@_attack(
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


@_attack("+", "Take precedence over the host's processes (priority, real time)", expected=_REFUSED)
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
