"""Attacks on Linux's settings: /proc, /sys and control groups."""

from __future__ import annotations

import glob
import os
import stat
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("Linux's settings")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack("6", "Change Linux's settings in /proc/sys and /sys", expected="none can be written")
def change_settings_of_linux(host: Any) -> object:
    found = []
    for base in ("/proc/sys", "/sys"):
        for folder, _, files in os.walk(base):
            if folder.startswith(("/sys/devices", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/cgroup")):
                continue
            for name in files:
                # Its mode lets everybody write, but Linux requires a privilege.
                if name != "ns_last_pid" and os.access(at := os.path.join(folder, name), os.W_OK):
                    found.append(at)
            if len(found) > 20:
                return [*found[:3], "and more"]
    return found


@_attack(
    "6",
    "Open the machine's switches for writing (core_pattern, sysrq-trigger, release_agent …)",
    expected="read-only file system, or no such file",
)
def open_switches(host: Any) -> object:
    # Opened, not written to.
    found = []
    for at in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sysrq-trigger",
        "/proc/sys/fs/binfmt_misc/register",
        "/sys/kernel/uevent_helper",
        *glob.glob("/sys/fs/cgroup/*/release_agent"),
        *glob.glob("/sys/fs/cgroup/release_agent"),
    ):
        try:
            os.close(os.open(at, os.O_WRONLY))
        except OSError:
            continue
        found.append(at)
    return found


@_attack("+", "Read Linux's own memory and addresses (/proc/kcore, kallsyms, iomem)", expected=_REFUSED)
def read_memory_of_linux(host: Any) -> object:
    found = []
    try:
        if open("/proc/kcore", "rb", buffering=0).read(16):
            found.append("/proc/kcore")
    except OSError:
        pass
    for at, column in (("/proc/kallsyms", 0), ("/proc/iomem", 0), ("/proc/modules", -1)):
        try:
            lines = open(at).read(20000).splitlines()[:-1]
        except OSError:
            continue
        if any(set(line.split()[column].removeprefix("0x")) - set("0-() OELPF") for line in lines if line.split()):
            found.append(at)
    return found


@_attack(
    "32",
    "Write to files of /proc that are the machine's, such as /proc/pressure",
    expected="none can be written",
)
def write_to_proc(host: Any) -> object:
    found = []
    for folder, folders, files in os.walk("/proc"):
        if folder == "/proc":
            # Settings have an attack of their own; /proc/PID is of the sandbox's own processes.
            folders[:] = [
                each for each in folders if not each.isdecimal() and each not in ("sys", "self", "thread-self")
            ]
        for name in files:
            at = os.path.join(folder, name)
            if os.access(at, os.W_OK) and stat.S_ISREG(os.stat(at).st_mode):
                found.append(at)
    return [*found[:3], "and more"] if len(found) > 3 else found


@_attack("7", "Raise one's own limits: open files of control groups for writing", expected="none can be written")
def open_control_groups(host: Any) -> object:
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            if name in ("memory.limit_in_bytes", "memory.max", "cgroup.procs", "tasks", "pids.max", "cpu.max"):
                try:
                    os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                except OSError:
                    continue
                return os.path.join(folder, name)
    return None
