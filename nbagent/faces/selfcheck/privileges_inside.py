"""Attacks that gain privileges: root, capabilities, another user, devices, terminals, Linux's settings."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import stat
import subprocess
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup, unrefused

PRIVILEGES = ProbeGroup("privileges")
DEVICES = ProbeGroup("devices and terminals")
SETTINGS = ProbeGroup("Linux's settings")
_privileges = PRIVILEGES.attack
_devices = DEVICES.attack
_settings = SETTINGS.attack
_REFUSED = "not permitted"


@_privileges(
    "4",
    "Hold any privilege: capabilities, root, new privileges, no filter",
    expected="capabilities all 0, not root, NoNewPrivs 1, Seccomp 2",
    control="user",
)
def be_privileged(host: Any) -> object:
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    held = [name for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb") if int(status[name], 16)]
    if os.getuid() == 0 or 0 in os.getresuid() or 0 in os.getresgid() or 0 in os.getgroups():
        held.append("root")
    if int(status["NoNewPrivs"]) != 1:
        held.append("new privileges")
    if int(status["Seccomp"]) != 2:
        held.append("no filter")
    return held


@_privileges("4", "Become root", expected=_REFUSED, control="user")
def become_root(host: Any) -> object:
    os.setresuid(0, 0, 0)
    return os.getuid() == 0


@_privileges("4", "Be another user of the host than the person or the sandbox's own", expected="the sandbox's own user")
def be_somebody(host: Any) -> object:
    ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    # Linux shows ids that are not mapped into the user namespace as the overflow id.
    return sorted(ids - set(host["ids"]) - {65534})


@_privileges("4", "Gain root by a program with the setuid bit", expected="it runs without root", control="user")
def gain_by_setuid_program(host: Any) -> object:
    if os.getuid() == 0:
        return "it is root already"
    programs = [at for folder in ("/bin", "/usr/bin", "/usr/sbin") for at in glob.glob(folder + "/*")]
    programs = [at for at in programs if os.path.isfile(at) and os.stat(at).st_mode & 0o4000]
    for program in programs:
        child = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=-3, stderr=-3)
        uids = []
        with contextlib.suppress(OSError, IndexError):
            uids = open(f"/proc/{child.pid}/status").read().split("Uid:")[1].splitlines()[0].split()
        child.kill()
        child.wait()
        if "0" in uids:
            return program
    return None


@_devices("6", "Make a device file", expected=_REFUSED)
def make_a_device(host: Any) -> object:
    os.mknod("nbagent-probe-device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.unlink("nbagent-probe-device")
    return True


@_devices("6", "Open memory, the kernel's log, disks, or virtual machines as devices", expected="no such device")
def open_devices(host: Any) -> object:
    disks = (*glob.glob("/dev/[svx]d[a-z]"), *glob.glob("/dev/nvme*"), *glob.glob("/dev/loop*"))
    others = "mem kmsg port kvm fuse net/tun vsock".split()
    return unrefused(lambda at: open(at, "rb", buffering=0).close(), (*(f"/dev/{at}" for at in others), *disks))[:6]


@_devices("6", "Find any other device", expected="null, zero, full, random, urandom, tty and terminals only")
def find_devices(host: Any) -> object:
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    found = []
    for name in sorted(os.listdir("/dev")):
        mode = os.lstat("/dev/" + name).st_mode
        if name not in allowed and (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
            found.append(name)
    return found[:6]


@_devices("6", "Use a device file on a folder that can be written", expected="every such mount is nodev and nosuid")
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


@_devices("9", "Type into a terminal of the host (TIOCSTI)", expected=_REFUSED)
def type_into_a_terminal(host: Any) -> object:
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return True


@_settings("6", "Change Linux's settings in /proc/sys and /sys", expected="none can be written")
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


@_settings(
    "6",
    "Open the machine's switches for writing (core_pattern, sysrq-trigger, release_agent …)",
    expected="read-only file system, or no such file",
)
def open_switches(host: Any) -> object:
    switches = (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sysrq-trigger",
        "/proc/sys/fs/binfmt_misc/register",
        "/sys/kernel/uevent_helper",
        *glob.glob("/sys/fs/cgroup/*/release_agent"),
        *glob.glob("/sys/fs/cgroup/release_agent"),
    )
    # Opened, not written to.
    return unrefused(lambda at: os.close(os.open(at, os.O_WRONLY)), switches)


@_settings("+", "Read Linux's own memory and addresses (/proc/kcore, kallsyms, iomem)", expected=_REFUSED)
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


@_settings(
    "32", "Write to files of /proc that are the machine's, such as /proc/pressure", expected="none can be written"
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


@_settings("7", "Raise one's own limits: open files of control groups for writing", expected="none can be written")
def open_control_groups(host: Any) -> object:
    limits = {"memory.limit_in_bytes", "memory.max", "cgroup.procs", "tasks", "pids.max", "cpu.max"}
    files = [os.path.join(at, name) for at, _, names in os.walk("/sys/fs/cgroup") for name in limits & {*names}]
    return unrefused(lambda at: os.close(os.open(at, os.O_WRONLY)), files)[:1]
