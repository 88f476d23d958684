"""Attacks on the machine: privileges, devices, Linux's own switches, control groups, and other processes."""

from __future__ import annotations

from typing import Any

from nbagent.faces.selfcheck.probe import Group

GROUP = Group("privileges and the machine")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack(
    "4",
    "Hold any privilege: capabilities, root, new privileges, no filter",
    expected="capabilities all 0, not root, NoNewPrivs 1, Seccomp 2",
    control="user",
)
def be_privileged(host: Any) -> object:
    import os

    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    held = [name for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb") if int(status[name], 16)]
    if os.getuid() == 0 or 0 in os.getresuid() or 0 in os.getresgid() or 0 in os.getgroups():
        held.append("root")
    if int(status["NoNewPrivs"]) != 1:
        held.append("new privileges")
    if int(status["Seccomp"]) != 2:
        held.append("no filter")
    return held


@_attack("4", "Become root", expected=_REFUSED, control="user")
def become_root(host: Any) -> object:
    import os

    os.setresuid(0, 0, 0)
    return os.getuid() == 0


@_attack("4", "Be another user of the host than the person or the sandbox's own", expected="the sandbox's own user")
def be_somebody(host: Any) -> object:
    import os

    ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    # Linux shows ids that are not mapped into the user namespace as the overflow id.
    return sorted(ids - set(host["ids"]) - {65534})


@_attack("4", "Gain root by a program with the setuid bit", expected="it runs without root", control="user")
def gain_by_setuid_program(host: Any) -> object:
    import contextlib
    import glob
    import os
    import subprocess

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


@_attack("6", "Make a device file", expected=_REFUSED)
def make_a_device(host: Any) -> object:
    import os
    import stat

    os.mknod("nbagent-probe-device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.unlink("nbagent-probe-device")
    return True


@_attack("6", "Open memory, the kernel's log, disks, or virtual machines as devices", expected="no such device")
def open_devices(host: Any) -> object:
    import glob

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
    import os
    import stat

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


@_attack("6", "Change Linux's settings in /proc/sys and /sys", expected="none can be written")
def change_settings_of_linux(host: Any) -> object:
    import os

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
    import glob
    import os

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


@_attack("7", "Raise one's own limits: open files of control groups for writing", expected="none can be written")
def open_control_groups(host: Any) -> object:
    import os

    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            if name in ("memory.limit_in_bytes", "memory.max", "cgroup.procs", "tasks", "pids.max", "cpu.max"):
                try:
                    os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                except OSError:
                    continue
                return os.path.join(folder, name)
    return None


@_attack(
    "7",
    "Be passed over for the host's processes when memory runs out (oom_score_adj)",
    expected=_REFUSED,
    held_anyway="it needs CAP_SYS_RESOURCE, which this user may not have",
)
def avoid_the_memory_killer(host: Any) -> object:
    before = open("/proc/self/oom_score_adj").read()
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1")
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(before)
    return True


@_attack("+", "Take precedence over the host's processes (priority, real time)", expected=_REFUSED)
def take_precedence(host: Any) -> object:
    import os
    import threading

    got = []

    def take_back() -> None:
        # To lower the priority is always permitted; to raise it again must not be.
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, niceness + 1)
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
        except OSError:
            return
        if niceness < 19:
            got.append("niceness")

    thread = threading.Thread(target=take_back)
    thread.start()
    thread.join()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        got.append("real time")
    except OSError:
        pass
    return got


@_attack("7", "Find a process of the host in the process list", expected="the sandbox's own processes only")
def see_processes_of_the_host(host: Any) -> object:
    import glob

    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if host["marker"] in open(at).read():
                return at
        except OSError:
            continue
    return None


@_attack("7", "End a process of the host by a signal", expected="no such process")
def signal_a_process_of_the_host(host: Any) -> object:
    import os
    import signal

    # By its number on the host, which inside may be that of another process or of none.
    if host["marker"] not in open(f"/proc/{host['process']}/cmdline").read():
        return None
    os.kill(host["process"], signal.SIGUSR1)
    return True


@_attack("7", "Debug a process of the host (ptrace)", expected="no such process, or not permitted")
def trace_a_process_of_the_host(host: Any) -> object:
    import ctypes
    import os

    attach, detach = 16, 17
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    if libc.ptrace(attach, host["process"], 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # It can be detached only once it has stopped, and signals of the kernel must not interfere.
    os.waitpid(host["process"], 0x40000000)
    libc.ptrace(detach, host["process"], 0, 0)
    return True


@_attack(
    "4",
    "Read or change the sandbox's first process",
    expected="permission denied",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def touch_process_one(host: Any) -> object:
    import os

    # Without a sandbox this is the machine's own memory: it is opened for reading, but not read.
    if os.getpid() == 1:
        return None
    found = []
    for name in ("mem", "environ", "maps", "ns/mnt"):
        try:
            os.close(os.open(f"/proc/1/{name}", os.O_RDONLY))
        except OSError:
            continue
        found.append(name)
    return found


@_attack(
    "37",
    "Slow down or limit what looks after the sandbox: by process, thread, group and user",
    expected="only one's own can be changed",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def change_how_process_one_runs(host: Any) -> object:
    import contextlib
    import os
    import resource

    # Set to the value that it has: without a sandbox it is the machine's first process.
    found = []

    def attempt(name: str, change: Any) -> None:
        with contextlib.suppress(OSError):
            change()
            found.append(name)

    others = {1, *(int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) < os.getpid())}
    threads = set()
    for each in sorted(others)[:5]:
        with contextlib.suppress(OSError):
            threads |= {int(thread) for thread in os.listdir(f"/proc/{each}/task")}
    for at in sorted(threads)[:20]:
        attempt(f"priority of {at}", lambda at=at: os.setpriority(0, at, os.getpriority(0, at)))
        attempt(f"limits of {at}", lambda at=at: resource.prlimit(at, 4, resource.prlimit(at, 4)))
        attempt(f"processors of {at}", lambda at=at: os.sched_setaffinity(at, os.sched_getaffinity(at)))
    for at in sorted(others)[:5]:
        attempt(f"priority of the group {at}", lambda at=at: os.setpriority(1, at, os.getpriority(1, at)))
    attempt("scheduling", lambda: os.sched_setscheduler(1, os.sched_getscheduler(1), os.sched_getparam(1)))
    attempt("priority of the user", lambda: os.setpriority(2, 0, os.getpriority(2, 0)))
    return found[:6]


@_attack(
    "37",
    "Signal what looks after the sandbox: by process, thread, group, or as the owner of a file",
    expected="none of it can be signalled",
    held_anyway="the machine's own processes may be out of this user's reach",
)
def signal_process_one(host: Any) -> object:
    import contextlib
    import ctypes
    import fcntl
    import os
    import socket

    # Signal 0 does nothing, but shows whether signals are permitted.
    found = []
    libc = ctypes.CDLL(None, use_errno=True)
    calls = {"x86_64": (200, 234)}.get(os.uname().machine, (130, 131))
    others = {1, *(int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) < os.getpid())}
    for each in sorted(others)[:5]:
        for name, number in (("process", each), ("group", -each)):
            with contextlib.suppress(OSError):
                if number != -1:
                    os.kill(number, 0)
                    found.append(f"{name} {each}")
        with contextlib.suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{each}/task")):
                for call, arguments in ((calls[0], (thread, 0)), (calls[1], (each, thread, 0))):
                    if libc.syscall(ctypes.c_long(call), *map(ctypes.c_long, arguments)) == 0:
                        found.append(f"thread {thread}")
    set_owner, one, other = 8, *socket.socketpair()
    with one, other, contextlib.suppress(OSError):
        fcntl.fcntl(one, set_owner, 1)
        found.append("owner of a file")
    return found[:6]


@_attack(
    "37",
    "Close a process to the looks of what tells which programs it executes (PR_SET_DUMPABLE)",
    expected=_REFUSED,
)
def hide_from_process_one(host: Any) -> object:
    import ctypes

    libc, set_dumpable = ctypes.CDLL(None), 4
    hidden = libc.prctl(set_dumpable, 0, 0, 0, 0) == 0
    libc.prctl(set_dumpable, 1, 0, 0, 0)
    return hidden


@_attack(
    "32",
    "Write to files of /proc that are the machine's, such as /proc/pressure",
    expected="none can be written",
)
def write_to_proc(host: Any) -> object:
    import os
    import stat

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


@_attack("9", "Type into a terminal of the host (TIOCSTI)", expected=_REFUSED)
def type_into_a_terminal(host: Any) -> object:
    import fcntl
    import os

    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return True


@_attack("+", "Find the host's shared memory and message queues (System V, POSIX)", expected="none is there")
def see_shared_memory_of_the_host(host: Any) -> object:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    if libc.shmget(host["shm_key"], 0, 0) >= 0:
        found.append("shared memory")
    if os.path.exists("/dev/shm/" + host["shm_name"]):
        found.append("/dev/shm")
    queue = libc.mq_open(("/" + host["shm_name"]).encode(), os.O_RDONLY)
    if queue >= 0:
        os.close(queue)
        found.append("message queue")
    return found


@_attack("+", "Write a core file of any size when a program crashes", expected="the limit on core files is 0")
def leave_core_files(host: Any) -> object:
    import resource

    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return f"up to {'any size' if most < 0 else most}" if most else None


@_attack(
    "28",
    "Have nbagent install from an address, a path, a repository, or with options",
    expected="each refused before anything runs",
    held_anyway="nbagent's own process decides it, whatever the engine",
)
def install_by_address(host: Any) -> object:
    import json
    import os
    import socket

    door = host["door"] if os.path.exists(host["door"]) else "/run/nbagent/host.sock"
    taken = []
    for wanted in (
        "nbagent-probe @ https://127.0.0.1/nbagent_probe-1-py3-none-any.whl",
        "git+https://127.0.0.1/nbagent-probe.git",
        "file:///etc/passwd",
        "../nbagent-probe",
        "--index-url=http://127.0.0.1/ nbagent-probe",
        "nbagent-probe; rm -rf /nowhere",
        "nbagent-probe\n--find-links=/",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(door)
            client.sendall(json.dumps({"install": [wanted]}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n") and (more := client.recv(65536)):
                answer += more
        if "error" not in json.loads(answer or b'{"error": "closed"}'):
            taken.append(wanted)
    return taken
