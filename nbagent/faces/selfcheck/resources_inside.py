"""Attacks on resources: each exceeds a limit by a small known amount, and releases what it took."""

from __future__ import annotations

from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, EVERYWHERE, NO_PROGRAMS, Group

GROUP = Group("resources")
_attack = GROUP.attack
_WITH_PROGRAMS = EVERYWHERE - NO_PROGRAMS
_KILLED = "killed at the limit, and called out of memory"


@_attack(
    "17",
    "Start more processes than the limit",
    expected="refused at the limit",
    control="pids",
    levels=_WITH_PROGRAMS,
)
def start_processes(host: Any) -> object:
    import os

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


@_attack("17", "Start more threads than the limit on processes", expected="refused at the limit", control="pids")
def start_threads(host: Any) -> object:
    import threading

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
    import subprocess
    import sys

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
    import os

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
    import fcntl
    import os

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
    "32",
    "Take locks of files without end, whose memory Linux counts for nobody",
    expected="none is taken where there are no programs; elsewhere the sandbox is ended for them",
    may_kill=True,
)
def take_locks(host: Any) -> object:
    import fcntl
    import os
    import time

    files = [open(f"{host['scratch'][0]}/nbagent-probe-{number}", "wb") for number in range(50)]
    try:
        for number in range(20_000):
            fcntl.lockf(files[number % len(files)], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * (number // len(files)))
        time.sleep(1)
        own = str(os.getpid())
        held = sum(line.split()[4] == own for line in open("/proc/locks"))
    finally:
        for each in files:
            each.close()
            os.unlink(each.name)
    return f"{held:,} locks" if held > 10_000 else None


@_attack(
    "32",
    "Take more pseudo-terminals than a sandbox needs, of those that the whole machine has",
    expected="none is there without a shell; elsewhere the sandbox is ended for them",
    may_kill=True,
)
def take_terminals(host: Any) -> object:
    import os
    import time

    taken: list[int] = []
    try:
        while len(taken) < 200:
            taken += os.openpty()
        time.sleep(1)
    finally:
        for each in taken:
            os.close(each)
    return f"{len(taken) // 2} terminals"


@_attack("32", "Give a thread open files of its own, which nobody would count", expected="the call fails")
def open_files_in_a_thread(host: Any) -> object:
    import ctypes
    import threading

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
    "Have more open files than the machine has for a sandbox, in many processes",
    expected="the sandbox is ended for them",
    levels=_WITH_PROGRAMS,
    may_kill=True,
)
def open_files_in_processes(host: Any) -> object:
    import os
    import resource
    import time

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
        end = time.monotonic() + 5
        while most < wanted * 9 // 10 and time.monotonic() < end:
            most = sum(len(os.listdir(f"/proc/{child}/fd")) for child in children)
            time.sleep(0.1)
        time.sleep(1)
    finally:
        os.close(writer)
        os.close(reader)
        for child in children:
            os.waitpid(child, 0)
    return f"{most:,} open files" if most > 100_000 else None


@_attack(
    "+",
    "Hide memory from the limit in TCP connections to itself that nobody reads",
    expected="refused or stopped at a part of the limit, or killed at it",
    control="memory",
    may_kill=True,
)
def take_memory_by_connections(host: Any) -> object:
    import socket

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
    "32",
    "Hide memory from the limit in connections to itself that nobody accepts",
    expected="no such sockets, or the sandbox is ended for them",
    levels=BELOW_TRUSTED,
    may_kill=True,
)
def take_memory_by_unaccepted_connections(host: Any) -> object:
    import socket
    import time

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
        time.sleep(1)
    return f"{sent >> 20} MB" if sent >= 500 << 20 else None


@_attack(
    "32",
    "Ask for huge pages, which an administrator has set aside for others and no limit counts",
    expected="Linux is never asked",
)
def take_huge_pages(host: Any) -> object:
    import ctypes
    import os

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
    "+",
    "Use up the machine's requests for asynchronous files (io_setup)",
    expected="no such call",
    control="system calls",
)
def take_requests(host: Any) -> object:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    context = ctypes.c_ulong(0)
    if libc.syscall(ctypes.c_long(host["io_setup"]), ctypes.c_long(1), ctypes.byref(context)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    libc.syscall(ctypes.c_long(host["io_destroy"]), context)
    return f"{open('/proc/sys/fs/aio-max-nr').read().strip()} are there for all of the machine"


@_attack(
    "18",
    "Compute on more cores than the limit, by threads that don't hold Python's lock",
    expected="no more than the limit's share of time",
    control="cpu",
    held_anyway="a machine that is busy otherwise gives nobody more",
)
def take_cores(host: Any) -> object:
    import hashlib
    import threading
    import time

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


@_attack(
    "19",
    "Write more files than a scratch folder holds (/tmp, /workspace, the home folder, /dev/shm)",
    expected="no space left, and none of it on the host's disk",
    control="tmp",
)
def fill_scratch_folders(host: Any) -> object:
    import errno
    import os

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


@_attack(
    "19",
    "Make a file of a terabyte that has no content",
    expected="it takes no room, and lies on no disk of the host's",
    control="tmp",
)
def make_a_sparse_file(host: Any) -> object:
    import os

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


@_attack("+", "Open tens of thousands of files", expected="refused after some thousand")
def open_files(host: Any) -> object:
    import os
    import resource

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


@_attack(
    "+",
    "Pin memory so that Linux can't move it (mlock)",
    expected="refused beyond a few megabytes",
    levels=EVERYWHERE,
)
def pin_memory(host: Any) -> object:
    import ctypes
    import mmap
    import os

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
