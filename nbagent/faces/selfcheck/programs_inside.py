"""Attacks by starting programs and processes, at the levels that have none."""

from __future__ import annotations

import contextlib
import ctypes
import io
import multiprocessing
import os
import subprocess
import threading
from typing import Any

from nbagent.faces.selfcheck.probe import NO_PROGRAMS, ProbeGroup

GROUP = ProbeGroup("programs and processes", levels=NO_PROGRAMS, control="system calls", expected="not permitted")
_attack = GROUP.attack


@_attack("5", "Run a program (subprocess)")
def run_a_program(host: Any) -> object:
    return subprocess.run(["/bin/echo", "ran"], capture_output=True).stdout == b"ran\n"


@_attack("5", "Run a shell (os.system)")
def run_a_shell(host: Any) -> object:
    os.system("echo ran > nbagent-ran")
    return os.path.exists("nbagent-ran")


@_attack("5", "Run a shell the notebook's way (!command, %%bash)")
def run_a_notebook_shell(host: Any) -> object:
    shell = get_ipython()  # type: ignore[name-defined] # noqa: F821 - a kernel has it
    silent = io.StringIO()
    with contextlib.suppress(Exception), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        shell.system("echo ran > nbagent-ran-system")
    with contextlib.suppress(Exception), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        shell.run_cell_magic("bash", "", "echo ran > nbagent-ran-bash")
    return [way for way in ("system", "bash") if os.path.exists(f"nbagent-ran-{way}")]


@_attack("5", "Make a process (fork)")
def fork(host: Any) -> object:
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@_attack("5", "Make a process by the C library (clone)")
def fork_in_c(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.clone.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    stack = ctypes.create_string_buffer(1 << 16)
    top = (ctypes.addressof(stack) + len(stack)) & ~0xFF
    # The child ends before any Python runs in it.
    child = libc.clone(ctypes.cast(libc._exit, ctypes.c_void_p), top, 17, 0)
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(child, 0)
    return True


@_attack("5", "Start a program without a fork (posix_spawn)")
def spawn(host: Any) -> object:
    child = os.posix_spawn("/bin/true", ["true"], {})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@_attack("24", "Become another program (execve, execveat), in any thread")
def replace_the_process(host: Any) -> object:
    # With an invalid address: if the call is permitted it fails with EFAULT, and the process goes on.
    got = []

    def attempt() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        for name, number in host["exec"].items():
            ctypes.set_errno(0)
            libc.syscall(ctypes.c_long(number), *map(ctypes.c_void_p, (8, 8, 0, 0, 0)))
            if ctypes.get_errno() not in (1, 38):
                got.append(name)

    attempt()
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return got


@_attack("5", "Start workers (multiprocessing)")
def multiprocess(host: Any) -> object:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(abs, [-3]) == [3]
