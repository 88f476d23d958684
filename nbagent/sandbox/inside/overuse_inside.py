"""Counts what a sandbox takes that no control group limits: locks of files, open files, terminals, sockets.

Linux charges a group for most of the memory that it uses on the group's behalf, but not for locks of files, nor for
all that belongs to open files, nor for connections that nobody has accepted; and the whole machine has one supply of
terminals, of open files and of memory for connections. Where the inner filter (`seccomp.py`) can forbid such a thing,
it does; the rest process 1 counts here, a few times a second, by what Linux tells of this sandbox's own processes,
mounts and network. So a sandbox ends only for what it has itself.

Standard library only, of whatever version the sandbox has.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import time
from collections.abc import Iterator

LOOK_SECONDS = 0.25
"""Seconds between two looks, in which code takes some 50 MB of locks a core."""
IDLE_LOOK_SECONDS = 1.0
"""Seconds between two looks at an idle sandbox: it then wakes about as often as ipykernel alone."""
IDLE_SECONDS = 0.002
"""A sandbox is idle if its processes ran for no more than so many seconds since the last look.

So much as can be taken in that time, some hundred terminals or sockets, is found only when they run again.
"""
MOST_CLOCKS = 100
"""With more processes than this, a sandbox counts as busy, and their running times are not read."""
BOUNDS = {
    "terminals": 64,
    "locks of files": 10_000,
    "open files": 100_000,
    "watches of epoll": 100_000,
    "files in flight": 256,
    "Internet sockets": 1_000,
    "closed connections": 20_000,
    "Unix sockets": 20_000,
    "MB in Internet sockets": 256,
}
"""The most that a sandbox may have at a time; also at most an eighth of the open files that the machine allows."""
PRESSURE = 512 * 1024
"""Once Linux's own memory has grown by so many kB since the sandbox's start, a quarter of each bound holds."""
LOCKS = 4 * 1024 * 1024
"""Bytes that are read of the list of locks, at about 60 a lock."""
SOCKETS = 4 * 1024 * 1024
"""Bytes that are read of each list of sockets, at 150 an Internet socket and 60 a Unix socket."""
MAPS = 16 * 1024 * 1024
"""Bytes that are read of a process's mappings, of which there are 65,530 at most, at about 100 each."""


class OveruseWatch:
    """Looks now and then whether a sandbox uses more than its share of what no control group limits.

    Args:
        kernel: The number of its kernel's process; those with smaller ones are nbagent's own.

    Attributes:
        bounds: How many of each thing the sandbox may have.
    """

    def __init__(self, kernel: int = 2) -> None:
        self.kernel = kernel
        self.bounds = dict(BOUNDS)
        with contextlib.suppress(OSError, ValueError), open("/proc/sys/fs/file-max") as file:
            self.bounds["open files"] = min(BOUNDS["open files"], int(file.read()) // 8)
        self.before = memory_of_linux()
        self.open_before = open_on_machine()
        self.loads = os.open("/proc/loadavg", os.O_RDONLY)
        """Stays open: the number of the newest process is read at each look, also at an idle sandbox."""
        self.newest = b""
        """The process or thread that had begun last at the last look."""
        self.clocks: dict[int, float] = {}
        """The clocks of the other processes, and how many seconds each showed at the last look."""
        self.hidden = set[str]()
        """Sockets that no process had open at the last look."""

    def is_idle(self) -> bool:
        """Whether no process has begun since the last look, and next to nothing has run."""
        left = IDLE_SECONDS
        try:
            for clock, before in self.clocks.items():
                left -= time.clock_gettime(clock) - before
            return left > 0 and self.newest_process() == self.newest and bool(self.clocks)
        except OSError:
            return False

    def newest_process(self) -> bytes:
        """The number of the process or thread of this sandbox that has begun last, whether or not it is still there."""
        return os.pread(self.loads, 100, 0).rpartition(b" ")[2]

    def overuse(self) -> str:
        """What the sandbox has too much of, as part of a sentence; empty if it is within its bounds."""
        self.newest, self.clocks = self.newest_process(), read_clocks()
        # What others had open at the start and closed since must not make room for this sandbox.
        self.open_before = min(self.open_before, open_on_machine())
        for name, count in (
            ("terminals", terminals),
            ("locks of files", locks),
            ("open files", open_files),
            ("watches of epoll", watches),
            ("files in flight", lambda: self.files_in_flight(self.bounds["files in flight"])),
            ("Internet sockets", internet_sockets),
            ("closed connections", closed_connections),
            ("Unix sockets", unix_sockets),
            ("MB in Internet sockets", lambda: megabytes_in_sockets(self.bounds["MB in Internet sockets"])),
        ):
            most = self.bounds[name]
            with contextlib.suppress(OSError, ValueError):
                has = count()
                # A file that is mapped stays open when it is closed. Most are shared libraries, a few for thousands of
                # mappings, so they count only where somebody has opened as many.
                if name == "open files" and open_on_machine() - self.open_before > most:
                    has += sum(map(mapped_files_of, filter(str.isdecimal, os.listdir("/proc"))))
                if has > most or (has > most // 4 and memory_of_linux() - self.before > PRESSURE):
                    return f"it had {has:,} {name}, of which a sandbox may have {most:,}"
        return ""

    def files_in_flight(self, most: int) -> int:
        """Files that were sent over Unix sockets and that nobody has received; 0 unless its user has more than `most`.

        Linux has one supply of them for all programs of a user, and lets a process send a file as long as that user has
        no more in flight than the process may have open. So that is tried first. Whose they are is looked up then: a
        socket that is in flight itself may hide any number.
        """
        before, self.hidden = self.hidden, set()
        if may_send(self.loads, most) or not own_network():
            return 0
        held, count, room = set[str](), 0, 0
        for process in filter(str.isdecimal, os.listdir("/proc")):
            try:
                for described, what in opened(process):
                    if what.startswith("socket:[") and what not in held:
                        held.add(what)
                        count += sent_to(described)
            except PermissionError:
                room += connections_of(process) if int(process) < self.kernel else -room_of(process)
            except OSError:
                pass  # it is gone
        # Others may have filled the supply while this sandbox passes on a socket: it counts if it is still there later.
        self.hidden = unix_numbers() - held
        self.clocks = {} if self.hidden else self.clocks  # so that it is looked at again soon
        return count + (most + 1) * max(0, len(self.hidden & before) - room)


def read_clocks() -> dict[int, float]:
    """The clocks of the sandbox's other processes: how many seconds each has run; empty where that can't be known."""
    others = [int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1"]
    if len(others) <= MOST_CLOCKS:
        with contextlib.suppress(OSError):
            return {clock: time.clock_gettime(clock) for clock in map(clock_of, others)}
    return {}


def clock_of(process: int) -> int:
    """The clock that shows how long all threads of a process have run on a core; reading it fails if it is gone."""
    # A clock of another process is named like this in Linux (posix-timers.h), as clock_getcpuclockid(3) does it.
    return ~process << 3 | 2


OWN_DEVICES = frozenset(
    "lo tunl0 sit0 gre0 gretap0 erspan0 ip_vti0 ip6tnl0 ip6gre0 ip6gretap0 ip6erspan0 ip6_vti0".split()
)
"""Devices of a network that has no way out: Linux adds the tunnels, all down, where their modules are loaded."""


def terminals() -> int:
    """Open pseudo-terminals; each mount of their file system shows its own."""
    return sum(name.isdecimal() for name in os.listdir("/dev/pts"))


def locks() -> int:
    """Locks of files that processes of this sandbox hold or wait for; inside, Linux shows no others."""
    with open("/proc/locks", "rb", buffering=0) as file:
        listed = read(file.fileno(), LOCKS)
    # Except for locks that belong to an open file: it shows everybody's. The inner filter forbids those.
    return listed.count(b"\n") - listed.count(b" OFDLCK ")


def internet_sockets() -> int:
    """Internet sockets of this sandbox, with those that nobody has accepted, that wait to be closed or have no address.

    Linux counts by protocol only sockets that have an address. They lose it when they are disconnected, but nothing of
    what is kept for them. So this is the number of all sockets without those of Unix, of which there is a list.
    """
    if not own_network():
        return 0
    return sum(int(words[2]) for words in socket_counts("sockstat") if words[0] == "sockets:") - unix_sockets()


def closed_connections() -> int:
    """Connections that Linux remembers for a minute after their end; the engine bounds them, where it can, at fewer."""
    counts = next((words for words in socket_counts("sockstat") if words[0] == "TCP:"), [])
    return int(counts[counts.index("tw") + 1]) if "tw" in counts and own_network() else 0


def unix_sockets() -> int:
    """Unix sockets of this sandbox, with those that nobody has accepted, each of which hides a kilobyte."""
    if not own_network():
        return 0
    with open("/proc/net/unix", "rb", buffering=0) as file:
        return read(file.fileno(), SOCKETS).count(b"\n") - 1


def megabytes_in_sockets(least: int) -> int:
    """Megabytes that wait in Internet sockets of this sandbox; TCP's only if those of the machine have `least`.

    UDP's are looked up in any case: Linux leaves errors, and datagrams that aren't complete, out of its own count.
    """
    if not own_network():
        return 0
    counts = {words[0]: words for name in ("sockstat", "sockstat6") for words in socket_counts(name)}
    names = [name for name in ("udp", "udp6") if counts.get(f"{name.upper()}:", ["", "inuse", "0"])[2] != "0"]
    if int(counts["TCP:"][-1]) * os.sysconf("SC_PAGE_SIZE") >= least << 20 and internet_sockets():
        names += ["tcp", "tcp6"]
    return sum(map(waiting_in, names)) >> 20


def waiting_in(name: str) -> int:
    """Bytes that the sockets of a protocol have not sent yet, or that nobody has read."""
    total = 0
    with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", "rb", buffering=0) as file:
        for line in read(file.fileno(), SOCKETS).splitlines()[1:]:
            words = line.split(None, 5)
            # For a socket that listens, this is a number of connections.
            if len(words) > 4 and words[3] != b"0A":
                total += sum(int(each, 16) for each in words[4].split(b":"))
    return total


def socket_counts(name: str) -> list[list[str]]:
    """What Linux tells of sockets: their number in this network, and the memory of all on the machine."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}") as file:
        return [line.split() for line in file]
    return []


def own_network() -> bool:
    """Whether the sandbox has a network of its own; otherwise the sockets that it sees are the host's too."""
    with open("/proc/net/dev") as file:
        return {line.split(":")[0].strip() for line in file.readlines()[2:]} <= OWN_DEVICES


def read(descriptor: int, most: int) -> bytes:
    """What a list of Linux's has, piece by piece; at most about so many bytes."""
    pieces, taken = [], 0
    while taken < most and (piece := os.read(descriptor, 65536)):
        pieces.append(piece)
        taken += len(piece)
    return b"".join(pieces)


def open_files() -> int:
    """Open files of all processes; one that two of them share counts twice."""
    return sum(map(open_files_of, filter(str.isdecimal, os.listdir("/proc"))))


def open_files_of(process: str) -> int:
    """Open files of a process; if it lets nobody look, as many as it has room for; 0 if it is gone."""
    try:
        # Linux tells their number as the folder's size since 6.2.
        return os.stat(f"/proc/{process}/fd").st_size or len(os.listdir(f"/proc/{process}/fd"))
    except PermissionError:
        return room_of(process)
    except OSError:
        return 0


def room_of(process: str) -> int:
    """Open files for which a process has room; 0 if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith("FDSize:")), 0)
    return 0


def watches() -> int:
    """Files that processes watch by epoll, of which Linux has one supply for all programs of a user."""
    return sum(watches_of(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1")


def watches_of(process: str) -> int:
    """Files that a process watches; if it lets nobody look, as many as it has room for; 0 if it is gone."""
    total = 0
    try:
        for described, what in opened(process):
            if what == "anon_inode:[eventpoll]":
                with contextlib.suppress(FileNotFoundError), open(described, "rb", buffering=0) as file:
                    total += read(file.fileno(), MAPS).count(b"tfd:")
    except PermissionError:
        # One half of its files watch the other. A program that its user may not read is such a process.
        return (room_of(process) // 2) ** 2
    except OSError:
        return 0
    return total


def opened(process: str) -> Iterator[tuple[str, str]]:
    """What a process has open: each with the path at which Linux describes it, and what it is."""
    for each in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield f"/proc/{process}/fdinfo/{each}", os.readlink(f"/proc/{process}/fd/{each}")


def may_send(file: int, most: int) -> bool:
    """Whether the user of this process has no more than `most` files in flight, in whatever sandbox."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    one, other = socket.socketpair()
    with one, other:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, soft), hard))
            socket.send_fds(one, [b"x"], [file])
        except OSError as error:
            return error.errno != errno.ETOOMANYREFS
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return True


def connections_of(process: str) -> int:
    """Unix sockets that the forwarder has open, as its name says (`forward.py`), which no other process can set."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/comm") as file:
        return int(file.read().split()[1])
    return 0


def sent_to(described: str) -> int:
    """Files that wait in a socket; one that listens has those of the connections that nobody has accepted."""
    with contextlib.suppress(FileNotFoundError), open(described) as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("scm_fds:"))
    return 0


def unix_numbers() -> set[str]:
    """All Unix sockets of this sandbox, as links to open ones name them, without those that nobody has accepted."""
    with open("/proc/net/unix", "rb", buffering=0) as file:
        lines = read(file.fileno(), SOCKETS).splitlines()[1:]
    numbers = (line.split()[6].decode() for line in lines if len(line.split()) > 6)
    return {f"socket:[{each}]" for each in numbers if each != "0"}


def mapped_files_of(process: str) -> int:
    """Mappings of files of a process; if it lets nobody look, as many as fit into its memory; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/maps", "rb", buffering=0) as file:
            listed = read(file.fileno(), MAPS)
        return listed.count(b"\n") - listed.count(b" 00:00 0 ")
    except PermissionError:
        with open(f"/proc/{process}/status") as status:
            return next((int(line.split()[1]) // 4 for line in status if line.startswith("VmSize:")), 0)
    except OSError:
        return 0


def open_on_machine() -> int:
    """Files that are open on this machine; 0 where Linux doesn't say."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/sys/fs/file-nr") as file:
        return int(file.read().split()[0])
    return 0


def memory_of_linux() -> int:
    """Memory on this machine that Linux uses itself and can't give back, in kB."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("SUnreclaim:", "KernelStack:")))
    return 0


def is_dying(process: int) -> bool:
    """Whether a process has ended, or a signal that kills it is on its way, which may take long on a busy machine."""
    exiting, sigkill = 0x4, 1 << 8
    try:
        with open(f"/proc/{process}/stat") as file:
            state, *fields = file.read().rpartition(")")[2].split()
        with open(f"/proc/{process}/status") as file:
            pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except (OSError, ValueError, IndexError):
        return True
    return state in "ZX" or bool(int(fields[5]) & exiting) or any(each & sigkill for each in pending)


def counted() -> dict[str, int]:
    """What Linux counted for this sandbox, as far as its control group can be seen from inside."""
    found = {}
    for name, path in (("memory_peak", "memory/memory.max_usage_in_bytes"), ("memory_peak", "memory.peak")):
        with contextlib.suppress(OSError, ValueError), open(f"/sys/fs/cgroup/{path}") as file:
            found[name] = int(file.read())
    for path in ("memory/memory.oom_control", "memory.events"):
        with contextlib.suppress(OSError, ValueError, KeyError), open(f"/sys/fs/cgroup/{path}") as file:
            counts = dict(line.split() for line in file)
            found["oom_kills"] = int(counts["oom_kill"])
    return found
