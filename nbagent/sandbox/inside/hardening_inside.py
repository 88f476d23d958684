"""Gives up privileges inside of a sandbox, before any code of the person's runs; imported by `inside.py` there.

Standard library only, of whatever version the sandbox has.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

OOM_SCORE = "500"
"""Of 1000, as Linux counts it for code inside."""
FORWARDER = 0x7FFFFFFE
"""What stands in the inner filter for the process that passes bytes to the way out (`seccomp.py`)."""
SECCOMP = 317 if os.uname().machine == "x86_64" else 277
"""The number of that system call."""
SET_DUMPABLE = 4
"""The number of that option of prctl."""


def let_others_look(yes: bool) -> None:
    """Let code of the same user look into this process through /proc, or keep it out."""
    ctypes.CDLL(None).prctl(SET_DUMPABLE, int(yes), 0, 0, 0)


def become_unprivileged(uid: int | None) -> None:
    """Leave root for this user for good, if there is one and this is root; and never gain privileges again."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, drop_from_bounding_set = 38, 24
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    if uid is None or os.geteuid() != 0:
        return
    for capability in range(64):
        if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0):
            break
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # The inheritable set outlives the change; an empty set for this process, in version 3 of capset's header.
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    # Changing ids clears it, and then /proc/self belongs to root and can't be read.
    let_others_look(True)


def set_bounds(bounds: dict[str, int]) -> None:
    """Set resource limits on this process and its children, by the names that Python's `resource` gives them."""
    if bounds:
        import resource

        for name, value in bounds.items():
            limit = getattr(resource, name)
            _, hard = resource.getrlimit(limit)
            least = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (least, least))


def leave_no_memory() -> None:
    """Have Linux put no memory into what a crash of this process, or of its children, leaves to the host (core(5)).

    Code can change that. It is for whom a limit of 1 on core files doesn't stop: a socket that waits for crashes.
    """
    try:
        with open("/proc/self/coredump_filter", "w") as file:
            file.write("0")
    except OSError:
        pass  # this Linux writes no core files


def offer_to_oom_killer() -> None:
    """Let Linux, where memory runs out, kill this process before process 1 and before the host's own."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(OOM_SCORE)
    except OSError:
        pass  # it is higher already


def forbid(program: bytes) -> None:
    """Add a system call filter to the one that the engine set; it holds for all threads and can't be taken back."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_mode_filter, every_thread = 1, 1

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    filter_ = Program(len(program) // 8, program)
    if libc.syscall(SECCOMP, set_mode_filter, every_thread, ctypes.byref(filter_)):
        reason = os.strerror(ctypes.get_errno())
        # The kernel's own stderr is a message to clients by now, of which there are none yet.
        original = getattr(sys.stderr, "_original_stdstream_copy", 2)
        os.write(original, f"nbagent: the system call filter was refused: {reason}\n".encode())
        os._exit(1)


def name_forwarder(process: int, program: bytes) -> bytes:
    """The inner filter with the forwarder's process, and its group, where `FORWARDER` stands for them."""
    named = {FORWARDER: process, -FORWARDER: -process}
    instructions = struct.Struct("=HBBi")
    return b"".join(
        instructions.pack(*head, named.get(value, value)) for *head, value in instructions.iter_unpack(program)
    )
