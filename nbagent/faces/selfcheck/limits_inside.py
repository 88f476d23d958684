"""Attacks on the limits: memory; processes, threads and cores; the host's disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from nbagent.faces.selfcheck.probe import WITH_PROGRAMS, ProbeGroup

MEMORY = ProbeGroup("memory", control="memory")
PROCESSOR = ProbeGroup("processes and cores")
DISK = ProbeGroup("the host's disk")
_memory = MEMORY.attack
_processor = PROCESSOR.attack
_disk = DISK.attack
_KILLED = "killed at the limit, and called out of memory"


@_memory("17", "Take more memory than the limit", expected=_KILLED, may_kill=True)
def take_memory(host: Any) -> object:
    taken = bytearray((host["memory_mb"] + 64) << 20)
    return f"{len(taken) >> 20} MB, the limit is {host['memory_mb']} MB"


@_memory(
    "17",
    "Take more memory than the limit in a program, and go on",
    expected="the program is killed alone",
    levels=WITH_PROGRAMS,
)
def take_memory_in_a_program(host: Any) -> object:
    code = f"print(len(bytearray({host['memory_mb'] + 64} << 20)) >> 20)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"the program was ended by signal {-done.returncode}")
    return f"{done.stdout.strip()} MB, the limit is {host['memory_mb']} MB"


@_memory("17", "Hide memory from the limit in files that have no name (memfd)", expected=_KILLED, may_kill=True)
def take_memory_by_memfd(host: Any) -> object:
    file = os.memfd_create("nbagent-probe")
    try:
        for _ in range(host["memory_mb"] + 64):
            os.write(file, bytes(1 << 20))
    finally:
        os.close(file)
    return f"{host['memory_mb'] + 64} MB, the limit is {host['memory_mb']} MB"


@_memory(
    "17",
    "Hide memory from the limit in the buffers of pipes",
    expected="refused at Linux's own bounds, or killed at the limit",
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


@_memory(
    "+",
    "Hide memory from the limit in TCP connections to itself that nobody reads",
    expected="refused or stopped at a part of the limit, or killed at it",
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


@_memory("+", "Pin memory so that Linux can't move it (mlock)", expected="refused beyond a few megabytes", control="")
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


@_processor(
    "17", "Start more processes than the limit", expected="refused at the limit", control="pids", levels=WITH_PROGRAMS
)
def start_processes(host: Any) -> object:
    # Each child waits for the end of a pipe that only this process holds, so none outlives it.
    reader, writer = os.pipe()
    children: list[int] = []
    try:
        while len(children) < host["pids"] + 16:
            child = os.fork()
            if not child:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(child)
    except BlockingIOError:
        raise OSError(f"refused after {len(children)} processes") from None
    finally:
        os.close(writer)
        os.close(reader)
        for child in children:
            os.waitpid(child, 0)
    return f"{len(children)} processes, the limit is {host['pids']}"


@_processor("17", "Start more threads than the limit on processes", expected="refused at the limit", control="pids")
def start_threads(host: Any) -> object:
    end = threading.Event()
    threads: list[threading.Thread] = []
    try:
        while len(threads) < host["pids"] + 16:
            thread = threading.Thread(target=end.wait, args=(10,))
            thread.start()
            threads.append(thread)
    except RuntimeError:
        raise OSError(f"refused after {len(threads)} threads") from None
    finally:
        end.set()
        for thread in threads:
            thread.join()
    return f"{len(threads)} threads, the limit is {host['pids']}"


@_processor(
    "18",
    "Compute on more cores than the limit, by threads that don't hold Python's lock",
    expected="no more than the limit's share of time",
    control="cpu",
    held_anyway="a machine that is busy otherwise gives nobody more",
)
def take_cores(host: Any) -> object:
    block = bytes(1 << 18)

    def spin(end: float) -> None:
        while time.monotonic() < end:
            hashlib.sha256(block)

    def measure() -> float:
        started, computed = time.monotonic(), time.process_time()
        threads = [threading.Thread(target=spin, args=(started + 0.5,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.process_time() - computed) / (time.monotonic() - started)

    # Linux applies the limit in periods of a tenth of a second.
    cores = max(measure(), measure())
    if cores <= host["cpus"] + 0.25:
        raise OSError(f"{cores:.2f} cores, the limit is {host['cpus']}")
    return f"{cores:.2f} cores, the limit is {host['cpus']}"


@_disk(
    "19",
    "Write more files than a scratch folder holds (/tmp, /workspace, the home folder, /dev/shm)",
    expected="no space left, and none of it on the host's disk",
    control="tmp",
)
def fill_scratch_folders(host: Any) -> object:
    found, full = [], []
    size = host["tmp_mb"] + 8
    for folder in host["scratch"]:
        name = folder + "/nbagent-probe"
        try:
            with open(name, "wb", buffering=0) as file:
                for written in range(size):
                    if file.write(bytes(1 << 20)) < 1 << 20:
                        full.append(f"{folder} after {written} MB")
                        break
                else:
                    found.append(f"{folder} took {size} MB")
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            full.append(f"{folder} after {written} MB")
        finally:
            if os.path.exists(name):
                os.unlink(name)
    if not found:
        raise OSError(f"full: {', '.join(full)}")
    return found


@_disk(
    "19",
    "Make a file of a terabyte that has no content",
    expected="it takes no room, and lies on no disk of the host's",
    control="tmp",
)
def make_a_sparse_file(host: Any) -> object:
    # Every writable folder must be a tmpfs of the sandbox's with a size.
    found = []
    for folder in host["scratch"]:
        name = folder + "/nbagent-probe-sparse"
        try:
            with open(name, "wb") as file:
                file.truncate(1 << 40)
            there = os.statvfs(name)
            if there.f_blocks * there.f_frsize > (host["tmp_mb"] + 1) << 20:
                found.append(f"{folder} is on a file system of {there.f_blocks * there.f_frsize >> 20:,} MB")
        except OSError:
            continue
        finally:
            if os.path.exists(name):
                os.unlink(name)
    return found


@_disk(
    "+",
    "Have Linux give what a crash leaves to the host: to a file, a program or a socket (core_pattern)",
    expected="the limit on core files is 1, and stays so; no socket waits for crashes",
)
def leave_core_files(host: Any) -> object:
    pattern = open("/proc/sys/kernel/core_pattern").read().strip()
    soft, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    left = resource.getrlimit(resource.RLIMIT_CORE)[0]
    resource.setrlimit(resource.RLIMIT_CORE, (soft, most))
    # To a socket, Linux connects whatever the limit is; a program it doesn't start at 1; a file needs a page.
    if pattern.startswith(("@/", "@@/")):
        return f"Linux connects to {pattern}"
    if pattern.startswith("|"):
        return None if left == 1 else f"Linux starts {pattern}"
    return None if left == 1 or 0 <= most < 4096 else f"up to {'any size' if most < 0 else most} in {pattern}"


@_disk("+", "Have the host's disk written without end (fsync)", expected="Linux is never asked")
def flush_the_disk(host: Any) -> object:
    # Of a file that isn't there, Linux would say so.
    libc = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_int(-1)
    return [name for name in ("fsync", "fdatasync", "syncfs") if getattr(libc, name)(none)]
