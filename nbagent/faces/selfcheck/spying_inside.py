"""Attacks that learn about the host: its environment, paths, packages, and the use of its files."""

from __future__ import annotations

import ctypes
import fcntl
import glob
import hashlib
import os
import sys
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("spying on the host")
_attack = GROUP.attack


@_attack("8", "Find a secret variable in any environment", expected="no variable of that name", control="processes")
def find_the_secret_in_environments(host: Any) -> object:
    name = host["variable"]
    if name in os.environ:
        return os.environ[name]
    for at in glob.glob("/proc/[0-9]*/environ"):
        try:
            variables = open(at, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        for each in variables:
            if each.startswith(name + "="):
                return each
    return None


@_attack("8", "Find variables of the host's environment", expected="none of the host's variables")
def see_variables_of_the_host(host: Any) -> object:
    digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in os.environ.items()}
    return [name for name, digest in host["environment"].items() if digests.get(name) == digest]


@_attack("+", "Learn where the data lies on the host from any process's command line", expected="no path of the host")
def see_paths_in_command_lines(host: Any) -> object:
    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text = open(at, "rb").read().decode(errors="replace")
        except OSError:
            continue
        if host["folder"] in text or host["runtime"] in text:
            return at
    return None


@_attack("+", "Learn where the data lies on the host from the list of mounts", expected="no path of the host")
def see_paths_in_mounts(host: Any) -> object:
    # Compares file names only: a mount may hide the beginning of a path.
    name = host["folder"].rstrip("/").rsplit("/", 1)[-1]
    if not host["isolated"]:
        return [line.split()[0] for line in open("/proc/self/mountinfo") if line.split()[4] == "/"]
    return [line.split()[4] for line in open("/proc/self/mountinfo") if name in line.split()[3]]


@_attack("+", "List the packages of the host's own Python", expected="the interpreter and standard library only")
def see_packages_of_the_host(host: Any) -> object:
    # The base Python of a bare machine has none; where nothing is isolated, the kernel's own are the host's.
    bases = {sys.base_prefix, "/opt/python", "/usr", "/usr/local"} | ({sys.prefix} - {"/opt/kernel"})
    found = set()
    for base in bases:
        for at in glob.glob(base + "/lib/python3*/*-packages/*"):
            name = os.path.basename(at).partition("-")[0].partition(".")[0].lower()
            if name in host["packages"]:
                found.add(at)
    return sorted(found)[:3] + ([f"{len(found)} in all"] if len(found) > 3 else [])


@_attack("+", "Share locks on the data with programs of the host", expected="the host's lock is not seen")
def lock_data(host: Any) -> object:
    with open(host["locked_file"]) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "a lock that the host holds is seen, so one of the sandbox's makes the host wait"
    return None


@_attack("+", "Take a lease on the data, so that programs on the host are held up", expected="not permitted")
def lease_data(host: Any) -> object:
    set_lease = 1024
    with open(host["data_file"]) as file:
        fcntl.fcntl(file, set_lease, fcntl.F_RDLCK)
        fcntl.fcntl(file, set_lease, fcntl.F_UNLCK)
    return True


@_attack("+", "Watch which programs the host runs (inotify on /usr/bin)", expected="no such call")
def watch_files(host: Any) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(0)
    if watcher < 0 or libc.inotify_add_watch(watcher, b"/usr/bin", 0x20) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(watcher)
    return True


@_attack("+", "Watch folders of the host's by signals (dnotify on /usr/bin)", expected="not permitted")
def watch_folders(host: Any) -> object:
    folder = os.open("/usr/bin", os.O_RDONLY)
    try:
        fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
        fcntl.fcntl(folder, fcntl.F_NOTIFY, 0)
    finally:
        os.close(folder)
    return True


@_attack("+", "Watch which files the host reads, by what is in memory (RWF_NOWAIT)", expected="not supported")
def watch_memory_of_files(host: Any) -> object:
    file = os.open(host["data_file"], os.O_RDONLY)
    try:
        os.pread(file, 1, 0)
        return bool(os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT))
    finally:
        os.close(file)
