"""Which system calls a sandbox may make, as the filters that the engines take.

Two filters stand one behind the other. The *outer* one is set by the engine before any code runs: all calls that are
known and reviewed, less those that change the machine, other processes or namespaces; calls that came to Linux later
than the review do not exist (ENOSYS), so that the C library falls back. The *inner* one is set by `inside.py` once the
kernel is up: it takes away what starting a Python still needed, such as executing a program.

The system call numbers come from libseccomp, through pyseccomp.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from nbagent.errors import EngineUnavailable

LAST_REVIEWED = 451
"""The newest system call number (the numbering is shared by all architectures from 424 on) that was reviewed."""

DENIED = frozenset(
    """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime clone3 create_module delete_module fanotify_init
    fanotify_mark finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module inotify_init inotify_init1
    io_setup io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
    lookup_dcookie mbind memfd_secret modify_ldt
    migrate_pages mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree
    perf_event_open personality pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv
    process_vm_writev ptrace query_module quotactl quotactl_fd reboot request_key set_mempolicy
    set_mempolicy_home_node setdomainname sethostname setns settimeofday stime swapoff swapon sysfs syslog _sysctl
    umount umount2 unshare uselib userfaultfd ustat vhangup vm86 vm86old
    """.split()
)
"""Calls that no code of a data analysis needs, and through which sandboxes have been left.

`clone3` hides its flags from filters; without it the C library falls back to `clone`, whose flags are checked.
`inotify` tells when anybody on the host opens a file that the sandbox sees too, such as a program in /usr/bin, and its
instances are few for each user. `io_setup` takes from a number that the whole machine shares.
"""

NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME, from linux/sched.h."""
CLONE_THREAD = 0x00010000
AF_UNIX, AF_NETLINK, NETLINK_ROUTE = 1, 16, 0
INTERNET = (2, 10)
"""AF_INET, AF_INET6."""
ADDRESS_FAMILIES = (AF_UNIX, *INTERNET)
"""Of AF_NETLINK only the routes. Not AF_VSOCK, which reaches the hypervisor, nor others."""
TERMINAL_INJECTION = (0x5412, 0x541C)
"""The ioctls TIOCSTI and TIOCLINUX: they type into a terminal. Linux looks at the low 32 bits only, and so do we."""
LOW_BITS = 0xFFFFFFFF
NAMES_PROCESS = (
    *("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "prlimit64"),
    *("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"),
)
"""Calls that do something to the process that their first argument names. Process 1 belongs to the user that code runs
as, and so Linux would let code signal it, take away its files and memory, or leave it no processor."""
NAMES_PROCESS_OR_USER = {"setpriority": (0, 2), "ioprio_set": (1, 3)}
"""Those whose second argument names it if the first has the first of these values, or with the second a whole user."""

OUT_OF_BAND = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3, "recvfrom": 3, "recvmsg": 2, "recvmmsg": 3}
"""Calls whose argument of that number has the flag MSG_OOB (1). On Unix sockets nobody uses it, and sandboxes have been
left through its code in Linux (CVE-2025-38236)."""

OTHERS_FILES = (1024, 1026)
"""The fcntls F_SETLEASE and F_NOTIFY: they hold up or watch others' use of a file that the sandbox only reads."""


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
    """The names of the calls that the outer filter allows without a look at their arguments."""
    library = _library()
    names = []
    for number in range(LAST_REVIEWED + 1):
        try:
            name = library.resolve_syscall(library.Arch.NATIVE, number)
        except ValueError:
            continue
        text = name.decode() if isinstance(name, bytes) else str(name)
        if text not in DENIED and text not in ("clone", "socket", "socketpair"):
            names.append(text)
    return tuple(names)


@functools.cache
def outer_program() -> bytes:
    """The outer filter as a BPF program, for `bwrap --seccomp`."""
    library = _library()
    filter_ = library.SyscallFilter(library.ERRNO(38))
    for name in allowed():
        filter_.add_rule(library.ALLOW, name)
    filter_.add_rule(library.ALLOW, "clone", library.Arg(0, library.MASKED_EQ, NEW_NAMESPACES, 0))
    filter_.add_rule(library.ALLOW, "socketpair", library.Arg(0, library.EQ, AF_UNIX))
    for family in ADDRESS_FAMILIES:
        filter_.add_rule(library.ALLOW, "socket", library.Arg(0, library.EQ, family))
    # Only routes, which the C library asks for the list of interfaces: not audit, netfilter, diagnostics.
    filter_.add_rule(
        library.ALLOW, "socket", library.Arg(0, library.EQ, AF_NETLINK), library.Arg(2, library.EQ, NETLINK_ROUTE)
    )
    return _export(filter_)


@functools.cache
def outer_profile() -> str:
    """The outer filter as a Docker seccomp profile, JSON."""
    machine = platform.machine()
    architecture = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}.get(machine)
    if architecture is None:
        raise EngineUnavailable(f"nbagent has no system call filter for the architecture {machine}.")
    no_namespaces = {"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    calls: list[dict[str, Any]] = [
        {"names": list(allowed()), "action": "SCMP_ACT_ALLOW"},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespaces]},
        # A Docker before 23 ignores `defaultErrnoRet`, and on EPERM the C library doesn't fall back to clone.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    ]
    for family in ADDRESS_FAMILIES:
        calls.append({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [_equal(0, family)]})
    routes = [_equal(0, AF_NETLINK), _equal(2, NETLINK_ROUTE)]
    calls.append({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": routes})
    calls.append({"names": ["socketpair"], "action": "SCMP_ACT_ALLOW", "args": [_equal(0, AF_UNIX)]})
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "architectures": [architecture],
        "syscalls": calls,
    }
    return json.dumps(profile)


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


@functools.cache
def inner_program(*, subprocess: bool, sockets: bool = True) -> bytes:
    """The inner filter as a BPF program.

    Args:
        subprocess: False takes away executing programs and starting processes; threads remain.
        sockets: False takes away Internet sockets, also those to the sandbox's own loopback.
    """
    library = _library()
    filter_ = library.SyscallFilter(library.ALLOW)
    denied = library.ERRNO(1)
    for request in TERMINAL_INJECTION:
        filter_.add_rule(denied, "ioctl", library.Arg(1, library.MASKED_EQ, LOW_BITS, request))
    for command in OTHERS_FILES:
        filter_.add_rule(denied, "fcntl", library.Arg(1, library.MASKED_EQ, LOW_BITS, command))
    for name, argument in OUT_OF_BAND.items():
        filter_.add_rule(denied, name, library.Arg(argument, library.MASKED_EQ, 1, 1))
    _spare_process_1(filter_, denied)
    if not subprocess:
        for name in ("execve", "execveat", "fork", "vfork"):
            filter_.add_rule(denied, name)
        filter_.add_rule(denied, "clone", library.Arg(0, library.MASKED_EQ, CLONE_THREAD, 0))
    if not sockets:
        for family in INTERNET:
            filter_.add_rule(denied, "socket", library.Arg(0, library.EQ, family))
    return _export(filter_)


def _spare_process_1(filter_: Any, denied: Any) -> None:
    library = _library()
    # Its first argument may be any open folder below /proc, that of process 1 too.
    filter_.add_rule(denied, "pidfd_send_signal")
    for name in NAMES_PROCESS:
        filter_.add_rule(denied, name, library.Arg(0, library.MASKED_EQ, LOW_BITS, 1))
    for name, (process, user) in NAMES_PROCESS_OR_USER.items():
        by = library.Arg(0, library.MASKED_EQ, LOW_BITS, process)
        filter_.add_rule(denied, name, by, library.Arg(1, library.MASKED_EQ, LOW_BITS, 1))
        filter_.add_rule(denied, name, library.Arg(0, library.MASKED_EQ, LOW_BITS, user))


@functools.cache
def asking_program() -> bytes:
    """A filter as a BPF program that has Linux ask before a program is executed (`commands_inside.py`)."""
    library = _library()
    filter_ = library.SyscallFilter(library.ALLOW)
    for name in ("execve", "execveat"):
        filter_.add_rule(library.NOTIFY, name)
    return _export(filter_)


def can_ask() -> bool:
    """Whether this Linux can ask: it does since 5.5."""
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
    """A file descriptor from which that can be read, such as a BPF program; the caller closes it."""
    descriptor = os.memfd_create(f"nbagent-{name}")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
