"""The system call filters as the engines get them; that they hold is shown in the contract."""

from __future__ import annotations

import json
import os

import machine
import pyseccomp
import pytest

from nbagent.core.errors import EngineUnavailable
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.limits.system_calls import DENIED, LAST_REVIEWED


def test_what_leaves_sandboxes_is_not_allowed() -> None:
    """No denied call is among the allowed ones, and neither are those whose arguments decide."""
    assert not set(seccomp.allowed()) & (DENIED | {"clone", "socket"})


def test_what_a_kernel_needs_is_allowed() -> None:
    """Files, memory, threads, polling and processes work."""
    needed = "read write openat mmap futex epoll_wait execve wait4 getrandom memfd_create seccomp prctl".split()
    assert set(needed) <= set(seccomp.allowed())


def test_calls_later_than_the_review_do_not_exist() -> None:
    """A call with a higher number than was reviewed is not allowed by name."""
    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in seccomp.allowed()]
    assert max(numbers) <= LAST_REVIEWED


def test_each_denied_name_is_a_call() -> None:
    """A misspelt name would deny nothing."""
    for name in DENIED:
        assert pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) != -1, name


def test_both_forms_allow_the_same() -> None:
    """Docker's profile names what the program for bubblewrap was made of, and falls back to ENOSYS."""
    profile = json.loads(seccomp.outer_profile())
    named = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert named == {*seccomp.allowed(), "clone", "socket", "socketpair"}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile["defaultErrnoRet"] == 38
    sockets = [rule for rule in profile["syscalls"] if rule["names"] == ["socket"]]
    allowed = [[each["value"] for each in rule["args"]] for rule in sockets if rule["action"] == "SCMP_ACT_ALLOW"]
    assert allowed == [[1], [2, 0], [2, 6], [2, 17], [10, 0], [10, 6], [10, 17]]


def test_programs_are_whole_instructions() -> None:
    """A BPF instruction has eight bytes; the stricter program is the longer one."""
    free, strict = seccomp.inner_program(subprocess=True), seccomp.inner_program(subprocess=False)
    for program in (free, strict, seccomp.outer_program()):
        assert program
        assert len(program) % 8 == 0
    assert len(strict) > len(free)


def test_a_program_can_be_read_from_a_descriptor() -> None:
    """What bwrap gets is the program from its start."""
    program = seccomp.outer_program()
    descriptor = seccomp.in_memory("filter", program)
    try:
        assert os.read(descriptor, len(program) + 1) == program
    finally:
        os.close(descriptor)


def test_no_descriptor_and_no_file_is_left() -> None:
    """Making programs again and again costs no descriptors."""
    before = machine.descriptors()
    for _ in range(10):
        seccomp.inner_program.cache_clear()
        seccomp.inner_program(subprocess=False)
    assert machine.descriptors() == before


def test_an_unknown_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a filter for the machine there is no sandbox."""
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    seccomp.outer_profile.cache_clear()
    try:
        with pytest.raises(EngineUnavailable, match="riscv64"):
            seccomp.outer_profile()
    finally:
        seccomp.outer_profile.cache_clear()
