"""Attacks by devices and terminals."""

from __future__ import annotations

import fcntl
import glob
import os
import stat
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("devices and terminals")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack("6", "Make a device file", expected=_REFUSED)
def make_a_device(host: Any) -> object:
    os.mknod("nbagent-probe-device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.unlink("nbagent-probe-device")
    return True


@_attack("6", "Open memory, the kernel's log, disks, or virtual machines as devices", expected="no such device")
def open_devices(host: Any) -> object:
    found = []
    disks = (*glob.glob("/dev/[svx]d[a-z]"), *glob.glob("/dev/nvme*"), *glob.glob("/dev/loop*"))
    for at in ("/dev/mem", "/dev/kmsg", "/dev/port", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vsock", *disks):
        try:
            open(at, "rb", buffering=0).close()
        except OSError:
            continue
        found.append(at)
    return found[:6]


@_attack("6", "Find any other device", expected="null, zero, full, random, urandom, tty and terminals only")
def find_devices(host: Any) -> object:
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    found = []
    for name in sorted(os.listdir("/dev")):
        mode = os.lstat("/dev/" + name).st_mode
        if name not in allowed and (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
            found.append(name)
    return found[:6]


@_attack("6", "Use a device file on a folder that can be written", expected="every such mount is nodev and nosuid")
def mount_options(host: Any) -> object:
    found = []
    own = ("/tmp", "/workspace", "/home", "/dev/shm")
    for line in open("/proc/self/mountinfo"):
        fields = line.split()
        options, kind = fields[5].split(","), line.split(" - ")[1].split()[0]
        if host["isolated"] and (kind != "tmpfs" or not fields[4].startswith(own)):
            continue
        if "rw" in options and not {"nodev", "nosuid"} <= set(options):
            found.append(fields[4])
    return found[:6]


@_attack("9", "Type into a terminal of the host (TIOCSTI)", expected=_REFUSED)
def type_into_a_terminal(host: Any) -> object:
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return True
