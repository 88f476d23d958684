"""Sees each program that is executed in a sandbox: Linux asks process 1 before it is (seccomp's user notification).

The kernel's process sets a filter that has Linux ask, and gives process 1 the descriptor on which Linux asks; it can
take back neither. Process 1 reads the program and its arguments, tells the controller, and permits the execution; if
it can't read them, it refuses, and tells that too. Another thread of the code could change the arguments in between,
so the controller knows what the code claimed to execute. If process 1 is gone, nothing is executed.

Standard library only, of whatever version the sandbox has. The numbers are those of linux/seccomp.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1
NOT_PERMITTED = 1
UNREADABLE = "(what can't be read, and wasn't executed)"
EXECVEAT = 322 if os.uname().machine == "x86_64" else 281
"""The number of that call, which has one argument more before those of execve."""
NOTIFICATION = struct.Struct("QIIiIQ6Q")
RESPONSE = struct.Struct("QqiI")
MAX_WORDS = 64
MAX_WORD = 1024
MAX_TEXT = 8192
"""Characters of all words of an execution."""
PER_SECOND = 50
"""Executions a second that are reported one by one; further ones are only counted."""
MANY = 5000
"""Executions after which only one a second is reported: code that starts programs for ever must not fill the host's
disk."""


def listen(program: bytes, seccomp: int) -> int:
    """Have Linux ask before this process, or one that it starts, executes a program; returns the descriptor for that.

    Raises:
        OSError: Linux refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    filter_ = Program(len(program) // 8, program)
    descriptor: int = libc.syscall(seccomp, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(filter_))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def hand_over(connection: socket.socket, descriptor: int) -> None:
    """Give the descriptor to process 1, and keep nothing of it."""
    socket.send_fds(connection, [b" "], [descriptor])
    connection.close()
    os.close(descriptor)


class Commands:
    """Answers Linux, and reports each program."""

    def __init__(self, descriptor: int, *, tell: Callable[[dict[str, Any]], None]) -> None:
        self.descriptor = descriptor
        self.tell = tell
        self.second = 0
        self.told = self.told_in_all = 0
        self.untold = 0

    def are_over(self) -> bool:
        """Whether no process is left that could execute anything; Linux then calls the descriptor ready for ever."""
        look = select.poll()
        look.register(self.descriptor, select.POLLIN)
        return any(event & select.POLLHUP for _, event in look.poll(0))

    def answer(self) -> None:
        """Read one execution, report it, and permit it if it could be read."""
        asked = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(self.descriptor, RECEIVE, asked)
        except OSError:
            return  # the process has ended
        number, pid, _, call, _, _, *arguments = NOTIFICATION.unpack(asked)
        argv = words(pid, *(arguments[1:] if call == EXECVEAT else arguments)[:2])
        self.count(pid, argv or [UNREADABLE])
        response = (0, CONTINUE) if argv else (-NOT_PERMITTED, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.descriptor, SEND, bytearray(RESPONSE.pack(number, 0, *response)))

    def count(self, pid: int, argv: list[str]) -> None:
        """Report an execution, or only count it if there are too many at once."""
        now = int(time.monotonic())
        if now != self.second:
            self.flush()
            self.second, self.told = now, 0
        if self.told >= (PER_SECOND if self.told_in_all < MANY else 1):
            self.untold += 1
            return
        self.told += 1
        self.told_in_all += 1
        self.tell({"pid": pid, "argv": argv})

    def flush(self) -> None:
        """Report how many were only counted."""
        if self.untold:
            self.tell({"pid": 0, "argv": [f"({self.untold} more programs)"]})
            self.untold = 0


def words(pid: int, path: int, argv: int) -> list[str]:
    """The path and the arguments of an execution, from the memory of the process; empty if it can't be read.

    Linux closes a process to such a look when it becomes a program whose file it may execute but not read.
    """
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            found = [text(memory, path)]
            # A program may be executed without any argument, not even its name.
            for place in range(1, MAX_WORDS) if argv else ():
                memory.seek(argv + 8 * place)
                address = int.from_bytes(memory.read(8), sys.byteorder)
                if not address:
                    break
                found.append(text(memory, address))
                if sum(map(len, found)) > MAX_TEXT:
                    break
            return found
    except (OSError, ValueError, OverflowError):
        return []


def text(memory: Any, address: int) -> str:
    """A string in another process's memory, read page by page, since the next page may not be there."""
    found = b""
    while b"\0" not in found and len(found) < MAX_WORD:
        memory.seek(address + len(found))
        more = memory.read(4096 - (address + len(found)) % 4096)
        if not more:
            break
        found += more
    return str(found.split(b"\0")[0][:MAX_WORD].decode(errors="replace"))
