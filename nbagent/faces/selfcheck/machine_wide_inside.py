"""Attacks on what the whole machine has one supply of: open files, locks, terminals, memory of sockets, huge pages."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import socket
import struct
import threading
import time
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, WITH_PROGRAMS, ProbeGroup, unrefused

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
    "Hide memory from the limit in connections to itself that nobody accepts",
    expected="no such sockets, or nbagent ends the sandbox",
    levels=BELOW_TRUSTED,
    may_kill=True,
)
def take_memory_by_unaccepted_connections(host: Any) -> object:
    # Linux charges nobody for a connection before it is accepted, and one that was closed is no open file any more.
    sent = 0
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        server.bind(("127.0.0.1", 0))
        server.listen(4096)
        for _ in range(4000):
            with socket.create_connection(server.getsockname(), timeout=5) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
                client.setblocking(False)
                try:
                    while sent < 500 << 20:
                        sent += client.send(bytes(1 << 16))
                except BlockingIOError:
                    continue
                break
        if sent >= 500 << 20 and host["isolated"]:
            time.sleep(host["patience"])
    return f"{sent >> 20} MB" if sent >= 500 << 20 else None


@_attack(
    "32",
    "Hide memory from the limit in connections to Unix sockets that nobody accepts",
    expected="nbagent ends the sandbox",
    levels=BELOW_TRUSTED,
    may_kill=True,
)
def take_memory_by_unaccepted_unix_connections(host: Any) -> object:
    made, servers = 0, []
    for number in range(300):
        servers.append(server := socket.socket(socket.AF_UNIX))
        server.bind(f"\0nbagent-probe-{number}")
        server.listen(4096)
        while made < 24_000:
            with socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                try:
                    client.connect(server.getsockname())
                except BlockingIOError:
                    break
                made += 1
    time.sleep(1)
    for server in servers:
        server.close()
    return f"{made:,} connections" if made >= 24_000 else None


@_attack(
    "32",
    "Hide memory from the limit in access control lists of files, which Linux charges to nobody",
    expected="no file takes an attribute",
)
def take_memory_by_attributes(host: Any) -> object:
    entries = [(1, 7, 2**32 - 1), *[(2, 7, os.getuid())] * 100, *((each, 7, 2**32 - 1) for each in (4, 16, 32))]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    folder = f"/dev/shm/nbagent-probe-{os.getpid()}"
    os.mkdir(folder)
    names = ("system.posix_acl_access", "system.posix_acl_default", "user.nbagent")
    try:
        return unrefused(lambda name: os.setxattr(folder, name, listed), names)
    finally:
        os.rmdir(folder)


@_attack(
    "32",
    "Hide memory from the limit in waits for the same file, named many times in one call",
    expected="no call waits for more than 1,024",
)
def take_memory_by_waits(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 1200
    if hard == resource.RLIM_INFINITY or hard >= count:
        soft = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], count)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ends = os.pipe()
    got = []
    try:
        # As in poll.h: a file, what is awaited (nothing), what came.
        waits = (ctypes.c_int * (2 * count))(*[ends[0], 0] * count)
        for name, rest in (("poll", (ctypes.c_int(0),)), ("ppoll", ((ctypes.c_long * 2)(0, 0), None))):
            if getattr(libc, name)(waits, ctypes.c_ulong(count), *rest) >= 0:
                got.append(name)
        if libc.select(ctypes.c_int(count), (ctypes.c_char * 1024)(), None, None, (ctypes.c_long * 2)(0, 0)) >= 0:
            got.append("select")
    finally:
        for end in ends:
            os.close(end)
    return got


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


@_attack(
    "32",
    "Hide memory from the limit in what Linux keeps for sockets: options, memberships, keys",
    expected="no such option",
    levels=BELOW_TRUSTED,
)
def take_memory_by_socket_options(host: Any) -> object:
    # Linux charges nobody for these: a header of 64 KB that is sent along, groups that the socket hears, keys of TCP.
    header = struct.pack("@Qii", 65520, 12345, 1) + bytes(65520 - 16)
    group = socket.inet_pton(socket.AF_INET6, "ff01::1234") + struct.pack("@I", 1)
    address = struct.pack("@HH4s", socket.AF_INET, 0, bytes((10, 0, 0, 1))).ljust(128, b"\0")
    key = address + struct.pack("@BBHI", 0, 0, 4, 0) + b"abcd".ljust(80, b"\0")
    options: dict[str, Any] = {
        "headers": (socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_IPV6, 6, header),
        "memberships": (socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_IPV6, 20, group),
        "keys": (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, 14, key),
    }

    def set_option(name: str) -> None:
        family, kind, *option = options[name]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(*option)

    return unrefused(set_option, options)


@_attack(
    "32",
    "Hide memory from the limit in what Linux keeps for sockets: errors, datagrams that are never complete",
    expected="no such sockets, or nbagent ends the sandbox",
    levels=BELOW_TRUSTED,
    may_kill=True,
)
def take_memory_by_unsent_datagrams(host: Any) -> object:
    held: list[socket.socket] = []
    try:
        for _ in range(1500):
            held.append(client := socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            client.connect(("127.0.0.1", 9))
            client.send(bytes(20_000), socket.MSG_MORE)
        if host["isolated"]:
            time.sleep(host["patience"])
    finally:
        for client in held:
            client.close()
    return f"{len(held) * 20_000 >> 20} MB"


@_attack(
    "32",
    "Hide memory from the limit in what Linux remembers of connections that have ended",
    expected="no such sockets, or few are remembered",
    levels=BELOW_TRUSTED,
)
def take_memory_by_ended_connections(host: Any) -> object:
    for number in range(2, 8):
        with socket.create_server((f"127.0.0.{number}", 0)) as server:
            for _ in range(1_000):
                with socket.create_connection(server.getsockname()) as client:
                    other = server.accept()[0]
                    client.shutdown(socket.SHUT_WR)
                other.close()
    words = next(line.split() for line in open("/proc/net/sockstat") if line.startswith("TCP:"))
    remembered = int(words[words.index("tw") + 1])
    return f"{remembered:,} connections" if remembered > 5_000 else None


@_attack(
    "32",
    "Hide memory from the limit in copies of what was sent, which Linux keeps up to the size of a buffer",
    expected="no such sockets, or their buffers stay small",
    levels=BELOW_TRUSTED,
)
def take_memory_by_copies(host: Any) -> object:
    small = 1 << 20
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        asked = tried.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    grown = int(open("/proc/sys/net/ipv4/tcp_rmem").read().split()[2])
    return f"{max(grown, asked) >> 10:,} KB for each socket" if max(grown, asked) > small else None
