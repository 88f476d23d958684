"""Attacks by system calls by which code has escaped from sandboxes; their arguments have no effect if they succeed."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import threading
from typing import Any

from nbagent.faces.selfcheck.probe import WITH_PROGRAMS, ProbeGroup, unrefused

GROUP = ProbeGroup("system calls", control="system calls", expected="each refused with EPERM or ENOSYS")
_attack = GROUP.attack

CALLS: dict[str, tuple[int, ...]] = {
    "unshare": (0,),
    "setns": (-1, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 0),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "move_mount": (-1, 0, -1, 0, 0),
    "open_tree": (-1, 0, 0),
    "fsopen": (0, 0),
    "fsmount": (-1, 0, 0),
    "fspick": (-1, 0, 0),
    "fsconfig": (-1, 99, 0, 0, 0),
    "mount_setattr": (-1, 0, 0, 0, 0),
    "ptrace": (0xFFFF, -1, 0, 0),
    "process_vm_readv": (-1, 0, 0, 0, 0, 0),
    "process_vm_writev": (-1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (-1, 0, 0),
    "kcmp": (-1, -1, 99, 0, 0),
    "keyctl": (0xFFFF, 0, 0, 0, 0),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "bpf": (0xFFFF, 0, 0),
    "perf_event_open": (0, -1, -1, -1, 0),
    "userfaultfd": (0xFFFF,),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "name_to_handle_at": (-1, 0, 0, 0, 0),
    "kexec_load": (0, 0xFFFF, 0, 0),
    "kexec_file_load": (-1, -1, 0, 0, 0xFFFF),
    "init_module": (0, 0, 0),
    "finit_module": (-1, 0, 0xFFFF),
    "delete_module": (0, 0),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, 0),
    "swapoff": (0,),
    "acct": (8,),
    "quotactl": (0xFFFF, 0, 0, 0),
    "syslog": (0xFFFF, 0, 0),
    "personality": (0xFFFFFFFF,),
    "settimeofday": (8, 0),
    "clock_settime": (-1, 0),
    "clock_adjtime": (-1, 0),
    "adjtimex": (0,),
    "sethostname": (0, -1),
    "setdomainname": (0, -1),
    "iopl": (99,),
    "ioperm": (-1, -1, 0),
    "modify_ldt": (99, 0, 0),
    "fanotify_init": (0xFFFF, 0xFFFF),
    "inotify_init1": (0xFFFF,),
    "mbind": (1, 1, 99, 0, 0, 99),
    "set_mempolicy": (99, 0, 0),
    "migrate_pages": (-1, 0, 0, 0),
    "move_pages": (-1, 1, 0, 0, 0, 99),
    "clone3": (0, 0),
    "process_madvise": (-1, 0, 0, 0, 0),
    "process_mrelease": (-1, 0),
    "memfd_secret": (0xFFFF,),
    "mincore": (1, 0, 0),
}
"""System calls by name, with arguments that have no effect, even for root without a sandbox."""


@_attack("5", "Make calls that change the machine, other processes or namespaces")
def make_dangerous_calls(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for name, (number, arguments) in host["calls"].items():
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
        if result != -1 or ctypes.get_errno() not in (1, 38):
            found.append(name)
    return [f"{len(found)} of {len(host['calls'])}", *found] if found else None


@_attack("5", "Make a user, mount, network or other namespace (clone)")
def make_namespaces(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.clone.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    end = ctypes.cast(libc._exit, ctypes.c_void_p)
    stack = ctypes.create_string_buffer(1 << 16)
    top = (ctypes.addressof(stack) + len(stack)) & ~0xFF
    kinds = {"user": 0x10000000, "mount": 0x20000, "network": 0x40000000, "pid": 0x20000000, "ipc": 0x08000000}
    found = []
    for name, flag in (kinds | {"uts": 0x04000000, "cgroup": 0x02000000}).items():
        # The child shares nothing, and ends before any Python runs in it.
        child = libc.clone(end, top, flag | 17, 0)
        if child > 0:
            os.waitpid(child, 0)
            found.append(name)
        elif ctypes.get_errno() not in (1, 38):
            found.append(f"{name} (error {ctypes.get_errno()})")
    return found


@_attack(
    "5",
    "Enter Linux by the calls of another architecture (int 0x80)",
    expected="refused, or killed for it",
    levels=WITH_PROGRAMS,
)
def call_as_another_architecture(host: Any) -> object:
    if os.uname().machine != "x86_64":
        return None
    # mov eax, 20 (getpid); int 0x80; ret. A child runs it, since it may be killed for it.
    child = os.fork()
    if not child:
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex("b814000000cd80c3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        os._exit(1 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else 0)
    return os.waitpid(child, 0)[1] == 1 << 8


@_attack("5", "Make sockets to the hypervisor, to raw packets or to Linux's own crypto (vsock, packet, alg, key)")
def make_other_sockets(host: Any) -> object:
    found = []
    kinds = (("vsock", 40, 1), ("packet", 17, 3), ("alg", 38, 5), ("key", 15, 3), ("bluetooth", 31, 3))
    for name, family, kind in kinds:
        try:
            socket.socket(family, kind, 2 if name == "key" else 0).close()
        except OSError as error:
            if error.errno in (1, 22, 38, 93, 94, 97):
                continue
        found.append(name)
    return found


@_attack("32", "Speak to Linux's routes, audit, firewall and diagnostics (netlink), whose unread answers fill memory")
def speak_netlink(host: Any) -> object:
    protocols = {"routes": 0, "diagnostics": 4, "audit": 9, "firewall": 12, "devices": 15, "generic": 16}
    return unrefused(lambda name: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocols[name]).close(), protocols)


@_attack("32", "Make Internet sockets of other protocols than TCP and UDP (MPTCP, UDP-Lite, SCTP, ICMP)")
def make_sockets_of_other_protocols(host: Any) -> object:
    protocols = {"MPTCP": (1, 262), "UDP-Lite": (2, 136), "SCTP": (1, 132), "ICMP": (3, 1)}
    return unrefused(lambda name: socket.socket(socket.AF_INET, *protocols[name]).close(), protocols)


@_attack("32", "Give Linux programs that take from what the whole machine has for them (filters of sockets, seccomp)")
def attach_filters(host: Any) -> object:
    # The filter has one instruction: allow.
    instruction = ctypes.create_string_buffer(bytes.fromhex("06000000") + (0x7FFF0000).to_bytes(4, "little"))
    program = ctypes.create_string_buffer(
        (1).to_bytes(8, "little") + ctypes.addressof(instruction).to_bytes(8, "little")
    )
    options = {"socket": 26, "reuseport": 51}
    with socket.socket(socket.AF_UNIX) as tried:
        found = unrefused(lambda name: tried.setsockopt(socket.SOL_SOCKET, options[name], program.raw[:16]), options)

    def install() -> None:
        # The filter is this thread's only, and ends with it.
        libc = ctypes.CDLL(None)
        set_no_new_privileges, set_seccomp = 38, 22
        libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
        if libc.prctl(set_seccomp, 2, program, 0, 0) == 0:
            found.append("seccomp")

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    return found


@_attack("5", "Run with fewer filters in another thread", expected="every thread has the filter")
def find_a_thread_without_filter(host: Any) -> object:
    found = []
    for each in os.listdir("/proc/self/task"):
        status = dict(line.split(":", 1) for line in open(f"/proc/self/task/{each}/status").read().splitlines())
        if status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
            found.append(each)
    return f"{len(found)} threads" if found else None
