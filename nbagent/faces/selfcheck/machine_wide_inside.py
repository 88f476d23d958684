"""Attacks on what the whole machine has one supply of: open files, locks, terminals, memory of sockets, huge pages."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import socket
import threading
import time
from typing import Any

from nbagent.faces.selfcheck.probe import WITH_PROGRAMS, ProbeGroup

GROUP = ProbeGroup("what the whole machine shares")
_attack = GROUP.attack


@_attack(
    "32",
    "Take locks of files without end, whose memory Linux counts for nobody",
    expected="none is taken where there are no programs; elsewhere nbagent ends the sandbox",
    may_kill=True,
)
def take_locks(host: Any) -> object:
    files = [open(f"{host['scratch'][0]}/nbagent-probe-{number}", "wb") for number in range(50)]
    try:
        for number in range(20_000):
            fcntl.lockf(files[number % len(files)], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * (number // len(files)))
        own = str(os.getpid())
        held = sum(line.split()[4] == own for line in open("/proc/locks"))
        if held > 10_000 and host["isolated"]:
            time.sleep(host["patience"])
    finally:
        for each in files:
            each.close()
            os.unlink(each.name)
    return f"{held:,} locks" if held > 10_000 else None


@_attack(
    "32",
    "Take more pseudo-terminals than a sandbox needs, of those that the whole machine has",
    expected="none is there without a shell; elsewhere nbagent ends the sandbox",
    may_kill=True,
)
def take_terminals(host: Any) -> object:
    taken: list[int] = []
    try:
        while len(taken) < 200:
            taken += os.openpty()
        # What hardly ran isn't looked at again: on a fast machine, to take a hundred terminals is hardly to run.
        ran = time.process_time()
        while time.process_time() - ran < 0.01:
            pass
        if host["isolated"]:
            time.sleep(host["patience"])
    finally:
        for each in taken:
            os.close(each)
    return f"{len(taken) // 2} terminals"


@_attack("+", "Open tens of thousands of files in one process", expected="refused after some thousand")
def open_files(host: Any) -> object:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[int] = []
    try:
        while len(opened) < 16384:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        raise OSError(f"refused after {len(opened):,} files") from error
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return f"{len(opened):,} files"


@_attack("32", "Make tens of thousands of timers, which Linux counts by user", expected="refused after some thousand")
def make_timers(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    made: list[ctypes.c_void_p] = []
    try:
        # One more than a sandbox may have, and some that the kernel has already.
        while len(made) < 5000 and not libc.timer_create(1, None, ctypes.byref(timer := ctypes.c_void_p())):
            made.append(timer)
        error = ctypes.get_errno()
    finally:
        for each in made:
            libc.timer_delete(each)
    if len(made) < 5000:
        raise OSError(error, f"refused after {len(made):,} timers")
    return f"{len(made):,} timers"


@_attack(
    "32",
    "Take the files in flight over sockets that Linux lets all programs of a user have",
    expected="nbagent ends the sandbox",
    may_kill=True,
)
def take_files_in_flight(host: Any) -> object:
    one, other = socket.socketpair()
    with one, other, open("/dev/null") as file:
        for _ in range(10):
            socket.send_fds(one, [b"x"], [file.fileno()] * 200)
        sum(range(1_000_000))  # what hardly ran isn't looked at again
        if host["isolated"]:
            time.sleep(host["patience"])
    return "2,000 files"


@_attack("32", "Make a POSIX message queue, of whose bytes Linux has one supply for a user", expected="refused")
def make_message_queues(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"/nbagent-probe-{os.getpid()}".encode()
    if (queue := libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    os.close(queue)
    libc.mq_unlink(name)
    return "a queue"


@_attack(
    "32",
    "Take the watches of files (epoll) that Linux has for all programs of a user",
    expected="nbagent ends the sandbox",
    may_kill=True,
)
def take_watches(host: Any) -> object:
    ends = [end for _ in range(500) for end in os.pipe()]
    held = [select.epoll() for _ in range(120)]
    try:
        for each in held:
            for end in ends:
                each.register(end, 0)
        if host["isolated"]:
            time.sleep(host["patience"])
    finally:
        for each in held:
            each.close()
        for end in ends:
            os.close(end)
    return f"{len(held) * len(ends):,} watches"


@_attack("32", "Give a thread open files of its own, which nobody would count", expected="the call fails")
def open_files_in_a_thread(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    got: list[int] = []

    def unshare() -> None:
        close_range, unshared, above_all = 436, 2, ctypes.c_uint(2**20)
        got.append(libc.syscall(close_range, above_all, ctypes.c_uint(-1), ctypes.c_ulong(unshared)))

    thread = threading.Thread(target=unshare)
    thread.start()
    thread.join()
    return "a table of its own" if got == [0] else None


@_attack(
    "32",
    "Start processes that together hold 120,000 files open, of which the whole machine has one supply",
    expected="nbagent counts those of all processes, and ends the sandbox",
    levels=WITH_PROGRAMS,
    may_kill=True,
)
def open_files_in_processes(host: Any) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    each, wanted = min(hard, 8192) - 64, 120_000
    reader, writer = os.pipe()
    children: list[int] = []
    most = 0
    try:
        while len(children) * each < wanted and len(children) < host["pids"] // 2:
            child = os.fork()
            if not child:
                os.close(writer)
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
                for _ in range(each):
                    os.dup(reader)
                os.read(reader, 1)
                os._exit(0)
            children.append(child)
        end = time.monotonic() + host["patience"]
        while most < wanted * 9 // 10 and time.monotonic() < end:
            most = sum(len(os.listdir(f"/proc/{child}/fd")) for child in children)
            time.sleep(0.1)
        if host["isolated"]:
            time.sleep(host["patience"])
    finally:
        os.close(writer)
        os.close(reader)
        for child in children:
            os.waitpid(child, 0)
    return f"{most:,} open files" if most > 100_000 else None


@_attack(
    "+",
    "Use up the machine's requests for asynchronous files (io_setup)",
    expected="no such call",
    control="system calls",
)
def take_requests(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    context = ctypes.c_ulong(0)
    if libc.syscall(ctypes.c_long(host["io_setup"]), ctypes.c_long(1), ctypes.byref(context)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    libc.syscall(ctypes.c_long(host["io_destroy"]), context)
    return f"{open('/proc/sys/fs/aio-max-nr').read().strip()} are there for all of the machine"


@_attack(
    "32",
    "Ask for huge pages, which an administrator has set aside for others and no limit counts",
    expected="Linux is never asked",
)
def take_huge_pages(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    got = []
    private, anonymous, no_reserve, huge = 2, 0x20, 0x4000, 0x40000
    # Without a reservation, Linux gives the address even where there is no such page.
    flags = private | anonymous | no_reserve | huge
    at = libc.mmap(None, ctypes.c_size_t(1 << 21), 3, flags, -1, ctypes.c_long(0))
    if at not in (None, ctypes.c_void_p(-1).value):
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(1 << 21))
        got.append("mapped")
    try:
        os.close(os.memfd_create("nbagent-probe", 4))
        got.append("as a file")
    except OSError:
        pass
    return got
