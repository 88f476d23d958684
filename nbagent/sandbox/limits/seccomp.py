"""Which system calls a sandbox may make: two filters, in the forms that the engines take.

The engine sets the *outer* filter before any code runs. It allows the reviewed calls, without those that change the
machine, other processes or namespaces. Calls that came to Linux after the review don't exist (ENOSYS), so that the C
library falls back. `inside.py` adds the *inner* filter once the kernel is up. It forbids what starting Python still
needed, such as executing a program.

The system call numbers come from libseccomp, through pyseccomp.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import platform
import socket
import tempfile
from pathlib import Path
from typing import Any

from nbagent.core.errors import EngineUnavailable
from nbagent.sandbox.limits import system_calls
from nbagent.sandbox.limits.socket_options import HARMLESS, IGNORED, IPPROTO_TCP, REFUSED, SOL_SOCKET, others


@functools.cache
def _library() -> Any:
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineUnavailable(
            "The system call filter needs the C library libseccomp, which isn't here.",
            mend="Install it, for example with: apt-get install libseccomp2",
        ) from error
    return pyseccomp


def number(name: str) -> int:
    """The number of a system call on this machine, negative if it has none of that name."""
    library = _library()
    found: int = library.resolve_syscall(library.Arch.NATIVE, name)
    return found


@functools.cache
def allowed() -> tuple[str, ...]:
    """The names of the calls that the outer filter allows whatever their arguments."""
    library = _library()
    names = []
    for number in range(system_calls.LAST_REVIEWED + 1):
        try:
            name = library.resolve_syscall(library.Arch.NATIVE, number)
        except ValueError:
            continue
        text = name.decode() if isinstance(name, bytes) else str(name)
        if text not in system_calls.DENIED and text not in ("clone", "socket", "socketpair"):
            names.append(text)
    return tuple(names)


@functools.cache
def outer_program() -> bytes:
    """The outer filter as a BPF program, for `bwrap --seccomp`."""
    library = _library()
    filter_ = library.SyscallFilter(library.ERRNO(errno.ENOSYS))
    for name in allowed():
        filter_.add_rule(library.ALLOW, name)
    filter_.add_rule(library.ALLOW, "clone", library.Arg(0, library.MASKED_EQ, system_calls.NEW_NAMESPACES, 0))
    filter_.add_rule(library.ALLOW, "socketpair", library.Arg(0, library.EQ, socket.AF_UNIX))
    compare = {"SCMP_CMP_EQ": library.EQ, "SCMP_CMP_GT": library.GT}
    for error, arguments in _sockets():
        action = library.ALLOW if error is None else library.ERRNO(error)
        filter_.add_rule(
            action, "socket", *(library.Arg(each["index"], compare[each["op"]], each["value"]) for each in arguments)
        )
    return _export(filter_)


def _sockets() -> list[tuple[int | None, list[dict[str, Any]]]]:
    """Rules for `socket`: None to allow or the number of an error, and the arguments as Docker's profile has them.

    What programs miss most is refused as a Linux without it would, so that they fall back. Without netlink, ZeroMQ goes
    on after this error alone, which it knows from Windows's Linux.
    """
    rules: list[tuple[int | None, list[dict[str, Any]]]] = [
        (None, [_equal(0, socket.AF_UNIX)]),
        (errno.EOPNOTSUPP, [_equal(0, socket.AF_NETLINK)]),
    ]
    for family in system_calls.INTERNET:
        rules += [(None, [_equal(0, family), _equal(2, protocol)]) for protocol in system_calls.PROTOCOLS]
        above = {"index": 2, "value": system_calls.LAST_PROTOCOL, "valueTwo": 0, "op": "SCMP_CMP_GT"}
        rules.append((errno.EPROTONOSUPPORT, [_equal(0, family), above]))
    return rules


@functools.cache
def outer_profile() -> str:
    """The outer filter as a Docker seccomp profile, JSON."""
    machine = platform.machine()
    architecture = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}.get(machine)
    if architecture is None:
        raise EngineUnavailable(f"nbagent has no system call filter for the architecture {machine}.")
    no_namespaces = {"index": 0, "value": system_calls.NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    calls: list[dict[str, Any]] = [
        {"names": list(allowed()), "action": "SCMP_ACT_ALLOW"},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespaces]},
        # A Docker before 23 ignores `defaultErrnoRet`, and on EPERM the C library doesn't fall back to clone.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    for error, arguments in _sockets():
        action = {"action": "SCMP_ACT_ALLOW"} if error is None else {"action": "SCMP_ACT_ERRNO", "errnoRet": error}
        calls.append({"names": ["socket"], **action, "args": arguments})
    calls.append({"names": ["socketpair"], "action": "SCMP_ACT_ALLOW", "args": [_equal(0, socket.AF_UNIX)]})
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "architectures": [architecture],
        "syscalls": calls,
    }
    return json.dumps(profile)


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


@functools.cache
def inner_program(*, subprocess: bool, sockets: bool = True, forwarder: bool = False) -> bytes:
    """The inner filter as a BPF program.

    Args:
        subprocess: False forbids executing programs and starting processes; threads remain. Since there is then no
            other process to lock out, locks of files are reported as taken, without being taken.
        sockets: False forbids Internet sockets, also to the sandbox's own loopback.
        forwarder: Whether there is a process `FORWARDER`, which code may not signal.
    """
    library = _library()
    filter_ = library.SyscallFilter(library.ALLOW)
    denied = library.ERRNO(errno.EPERM)
    for request in system_calls.TERMINAL_INJECTION:
        filter_.add_rule(denied, "ioctl", _low(1, request))
    filter_.add_rule(library.ERRNO(errno.EINVAL), "ioctl", _low(1, system_calls.LINE_DISCIPLINE))
    filter_.add_rule(library.ERRNO(errno.ENOENT), "setsockopt", _low(1, IPPROTO_TCP), _low(2, system_calls.TCP_ULP))
    for command in system_calls.OTHERS_FILES:
        filter_.add_rule(denied, "fcntl", _low(1, command))
    for name, argument in system_calls.OUT_OF_BAND.items():
        filter_.add_rule(denied, name, library.Arg(argument, library.MASKED_EQ, 1, 1))
    _spare_process_1(filter_, forwarder=forwarder)
    _spare_others_files(filter_)
    _bound_socket_options(filter_)
    _bound_kernel_memory(filter_, locks=subprocess)
    if not subprocess:
        for name in ("execve", "execveat", "fork", "vfork"):
            filter_.add_rule(denied, name)
        filter_.add_rule(denied, "clone", library.Arg(0, library.MASKED_EQ, system_calls.CLONE_THREAD, 0))
    if not sockets:
        for family in system_calls.INTERNET:
            filter_.add_rule(denied, "socket", library.Arg(0, library.EQ, family))
    return _export(filter_)


def _low(argument: int, value: int) -> Any:
    """The condition that an argument has a value, in the low 32 bits, which are all that Linux reads."""
    return _library().Arg(argument, _library().MASKED_EQ, system_calls.LOW_BITS, value & system_calls.LOW_BITS)


def _spare_process_1(filter_: Any, *, forwarder: bool) -> None:
    """Deny what would reach process 1, the forwarder or a program of the host's: signals, priority, limits, hiding."""
    library = _library()
    denied = library.ERRNO(errno.EPERM)
    # Its first argument may be any open folder below /proc, also that of process 1.
    filter_.add_rule(denied, "pidfd_send_signal")
    for name in system_calls.SIGNALS:
        for process in (1, system_calls.FORWARDER) if forwarder else (1,):
            filter_.add_rule(denied, name, _low(0, process))
    if forwarder:
        # Its group, and all processes, which never include process 1.
        for group in (-system_calls.FORWARDER, -1):
            filter_.add_rule(denied, "kill", _low(0, group))
    for name, commands in system_calls.OWNERS.items():
        for command in commands:
            filter_.add_rule(denied, name, _low(1, command))
    for name in system_calls.ONLY_ONESELF:
        filter_.add_rule(denied, name, library.Arg(0, library.NE, 0))
    for name in system_calls.AS_IF_DONE:
        filter_.add_rule(denied, name, library.Arg(0, library.EQ, 1))
        filter_.add_rule(library.ERRNO(system_calls.NOTHING), name, library.Arg(0, library.GT, 1))
    for name, process in system_calls.ONLY_ONESELF_BY_KIND.items():
        filter_.add_rule(denied, name, library.Arg(0, library.NE, process))
        filter_.add_rule(denied, name, library.Arg(1, library.NE, 0))
    # Limits of others can be read: the third argument is the new one.
    filter_.add_rule(denied, "prlimit64", library.Arg(0, library.NE, 0), library.Arg(2, library.NE, 0))
    filter_.add_rule(library.ERRNO(system_calls.NOTHING), "setrlimit", _low(0, system_calls.CORE))
    given = library.Arg(0, library.EQ, 0), _low(1, system_calls.CORE), library.Arg(2, library.NE, 0)
    filter_.add_rule(library.ERRNO(system_calls.NOTHING), "prlimit64", *given)
    # Process 1 reads the memory of processes that want to execute a program.
    filter_.add_rule(denied, "prctl", _low(0, system_calls.PR_SET_DUMPABLE), library.Arg(1, library.EQ, 0))


def _spare_others_files(filter_: Any) -> None:
    """Keep code from flushing the host's disk, and from seeing or changing which files are in memory."""
    library = _library()
    done = library.ERRNO(system_calls.NOTHING)
    for name in system_calls.FLUSHES:
        filter_.add_rule(done, name)
    filter_.add_rule(done, "msync", library.Arg(2, library.MASKED_EQ, system_calls.MS_SYNC, system_calls.MS_SYNC))
    filter_.add_rule(done, "fadvise64", _low(3, system_calls.FADV_DONTNEED))
    filter_.add_rule(
        library.ERRNO(errno.EOPNOTSUPP),
        "preadv2",
        library.Arg(5, library.MASKED_EQ, system_calls.RWF_NOWAIT, system_calls.RWF_NOWAIT),
    )


def _bound_socket_options(filter_: Any) -> None:
    """Deny the options of sockets but those that are known to cost nothing (`socket_options.py`)."""
    library = _library()
    unknown = library.ERRNO(errno.ENOPROTOOPT)
    for level, options in IGNORED.items():
        for option in options:
            filter_.add_rule(library.ERRNO(system_calls.NOTHING), "setsockopt", _low(1, level), _low(2, option))
    for option in REFUSED:
        filter_.add_rule(unknown, "setsockopt", _low(1, SOL_SOCKET), _low(2, option))
    for level, harmless in HARMLESS.items():
        decided = {*IGNORED.get(level, ()), *((system_calls.TCP_ULP,) if level == IPPROTO_TCP else ())}
        for mask, value in others(harmless | decided):
            filter_.add_rule(unknown, "setsockopt", _low(1, level), library.Arg(2, library.MASKED_EQ, mask, value))


def _bound_kernel_memory(filter_: Any, *, locks: bool) -> None:
    """Deny what takes memory that Linux charges to no control group; without `locks`, no file is really locked."""
    library = _library()
    for name, (argument, flag) in system_calls.HUGE_PAGES.items():
        # As on a machine that has none.
        filter_.add_rule(library.ERRNO(errno.ENOMEM), name, library.Arg(argument, library.MASKED_EQ, flag, flag))
    for name in system_calls.ATTRIBUTES:
        # As on a file system that has none, which programs that copy files know.
        filter_.add_rule(library.ERRNO(errno.EOPNOTSUPP), name)
    for name, argument in system_calls.WAITS.items():
        # As beyond the limit on open files.
        filter_.add_rule(
            library.ERRNO(errno.EINVAL), name, library.Arg(argument, library.GT, system_calls.MOST_AWAITED)
        )
    for option in system_calls.SOCKET_FILTERS:
        filter_.add_rule(library.ERRNO(errno.EPERM), "setsockopt", _low(1, SOL_SOCKET), _low(2, option))
    # As on a Linux without filters, which programs can handle.
    filter_.add_rule(library.ERRNO(errno.ENOSYS), "seccomp")
    for mask, value in others(system_calls.PROCESS_OPTIONS):
        filter_.add_rule(library.ERRNO(errno.EINVAL), "prctl", library.Arg(0, library.MASKED_EQ, mask, value))
    filter_.add_rule(library.ERRNO(errno.EINVAL), "madvise", _low(2, system_calls.MADV_MERGEABLE))
    # A thread with a table of open files of its own would have as many as a process.
    separate = library.Arg(
        0, library.MASKED_EQ, system_calls.CLONE_THREAD | system_calls.CLONE_FILES, system_calls.CLONE_THREAD
    )
    filter_.add_rule(library.ERRNO(errno.EPERM), "clone", separate)
    # Another way to a table of its own; glibc and Python close ranges without this flag.
    shared = library.Arg(2, library.MASKED_EQ, system_calls.CLOSE_RANGE_UNSHARE, system_calls.CLOSE_RANGE_UNSHARE)
    filter_.add_rule(library.ERRNO(errno.EINVAL), "close_range", shared)
    for command in system_calls.OWNERLESS_LOCKS:
        filter_.add_rule(library.ERRNO(errno.EINVAL if locks else system_calls.NOTHING), "fcntl", _low(1, command))
    if not locks:
        filter_.add_rule(library.ERRNO(system_calls.NOTHING), "flock")
        for command in system_calls.LOCKS:
            filter_.add_rule(library.ERRNO(system_calls.NOTHING), "fcntl", _low(1, command))


@functools.cache
def asking_program() -> bytes:
    """The filter by which Linux asks process 1 before a program is executed (`commands_inside.py`)."""
    library = _library()
    filter_ = library.SyscallFilter(library.ALLOW)
    for name in ("execve", "execveat"):
        filter_.add_rule(library.NOTIFY, name)
    return _export(filter_)


def can_ask() -> bool:
    """Whether this Linux can ask; it can since 5.5."""
    try:
        return "user_notif" in Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        return False


def _export(filter_: Any) -> bytes:
    with tempfile.TemporaryFile() as file:
        filter_.export_bpf(file)
        file.flush()
        file.seek(0)
        return file.read()


def in_memory(name: str, data: bytes) -> int:
    """A file descriptor from which these bytes can be read; the caller closes it."""
    descriptor = os.memfd_create(f"nbagent-{name}")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
