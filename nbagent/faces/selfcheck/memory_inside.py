"""Attacks on the memory limit."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import subprocess
import sys
from typing import Any

from nbagent.faces.selfcheck.probe import EVERYWHERE, NO_PROGRAMS, ProbeGroup

GROUP = ProbeGroup("memory")
_attack = GROUP.attack
_KILLED = "killed at the limit, and called out of memory"
_WITH_PROGRAMS = EVERYWHERE - NO_PROGRAMS


@_attack(
    "17",
    "Take more memory than the limit",
    expected=_KILLED,
    control="memory",
    may_kill=True,
)
def take_memory(host: Any) -> object:
    taken = bytearray((host["memory_mb"] + 64) << 20)
    return f"{len(taken) >> 20} MB, the limit is {host['memory_mb']} MB"


@_attack(
    "17",
    "Take more memory than the limit in a program, and go on",
    expected="the program is killed alone",
    control="memory",
    levels=_WITH_PROGRAMS,
)
def take_memory_in_a_program(host: Any) -> object:
    code = f"print(len(bytearray({host['memory_mb'] + 64} << 20)) >> 20)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"the program was ended by signal {-done.returncode}")
    return f"{done.stdout.strip()} MB, the limit is {host['memory_mb']} MB"


@_attack(
    "17",
    "Hide memory from the limit in files that have no name (memfd)",
    expected=_KILLED,
    control="memory",
    may_kill=True,
)
def take_memory_by_memfd(host: Any) -> object:
    file = os.memfd_create("nbagent-probe")
    try:
        for _ in range(host["memory_mb"] + 64):
            os.write(file, bytes(1 << 20))
    finally:
        os.close(file)
    return f"{host['memory_mb'] + 64} MB, the limit is {host['memory_mb']} MB"


@_attack(
    "17",
    "Hide memory from the limit in the buffers of pipes",
    expected="refused at Linux's own bounds, or killed at the limit",
    control="memory",
    may_kill=True,
)
def take_memory_by_pipes(host: Any) -> object:
    taken = 0
    held: list[tuple[int, int]] = []
    try:
        while taken < (host["memory_mb"] + 64) << 20:
            held.append(pair := os.pipe())
            fcntl.fcntl(pair[1], fcntl.F_SETPIPE_SZ, 1 << 20)
            os.set_blocking(pair[1], False)
            taken += os.write(pair[1], bytes(1 << 20))
    finally:
        for pair in held:
            os.close(pair[0])
            os.close(pair[1])
    return f"{taken >> 20} MB, the limit is {host['memory_mb']} MB"


@_attack(
    "+",
    "Hide memory from the limit in TCP connections to itself that nobody reads",
    expected="refused or stopped at a part of the limit, or killed at it",
    control="memory",
    may_kill=True,
)
def take_memory_by_connections(host: Any) -> object:
    # Linux counts more bytes than are sent, by its version; use what it counts.
    def counted() -> int:
        lines = open("/proc/net/sockstat").read().splitlines()
        return next(int(line.split()[-1]) for line in lines if line.startswith("TCP:")) >> 8

    before, most = counted(), 0
    held: list[socket.socket] = []
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=300) as server:
            while most < host["memory_mb"] + 64 and len(held) < 500:
                client = socket.create_connection(server.getsockname(), timeout=2)
                held += [client, server.accept()[0]]
                client.setblocking(False)
                try:
                    while True:
                        client.send(bytes(1 << 20))
                except BlockingIOError:
                    most = max(most, counted() - before)
    finally:
        for each in held:
            each.close()
    if most < host["memory_mb"]:
        raise OSError(f"stopped at {most} MB")
    return f"{most} MB, the limit is {host['memory_mb']} MB"


@_attack(
    "+",
    "Pin memory so that Linux can't move it (mlock)",
    expected="refused beyond a few megabytes",
    levels=EVERYWHERE,
)
def pin_memory(host: Any) -> object:
    size = 16 << 20
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, size) as area:
        start = ctypes.c_char.from_buffer(area)
        address, length = ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size)
        failed = libc.mlock(address, length) and ctypes.get_errno()
        libc.munlock(address, length)
        # Remaining references would prevent that it is freed.
        del start
    if failed:
        raise OSError(failed, os.strerror(failed))
    return f"{size >> 20} MB"
