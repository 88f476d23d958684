"""Attacks by memory that Linux charges to nobody, so that it would stay hidden from the limit of a sandbox."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import struct
import time
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup, unrefused

GROUP = ProbeGroup("what the whole machine shares")
_attack = GROUP.attack


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
