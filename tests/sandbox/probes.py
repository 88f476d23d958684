"""Attacks on a sandbox, as functions whose source runs inside of it.

Each takes `host`, what the test prepared on the host, and returns something truthy if the attack succeeded; it failed
if it returns nothing or raises. Each imports what it needs, since only its own source travels. `UNPROTECTED` are those
that succeed on the `local` engine when root runs the tests: a probe that can't fail proves nothing.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

Probe = Callable[[dict[str, Any]], Any]


def source(probe: Probe, host: dict[str, Any]) -> str:
    """Code of one cell that runs the probe and prints what came of it as one JSON line."""
    return f"""
import json
{inspect.getsource(probe)}
try:
    print(json.dumps({{"got": {probe.__name__}(json.loads({json.dumps(host)!r}))}}))
except BaseException as error:
    print(json.dumps({{"error": f"{{type(error).__name__}}: {{error}}", "errno": getattr(error, "errno", None)}}))
"""


def read_by_absolute_path(host):
    return open(host["canary"]).read() == host["secret"]


def read_by_parent_folders(host):
    import os

    return open(os.getcwd() + "/.." * 12 + host["canary"]).read() == host["secret"]


def read_through_root_of_process_one(host):
    return open("/proc/1/root" + host["canary"]).read() == host["secret"]


def read_through_own_root(host):
    return open("/proc/self/root" + host["canary"]).read() == host["secret"]


def read_through_folders_of_processes(host):
    import glob

    for at in (*glob.glob("/proc/[0-9]*/cwd"), *glob.glob("/proc/[0-9]*/root")):
        try:
            if open(at + "/.." * 12 + host["canary"]).read() == host["secret"]:
                return at
        except OSError:
            continue
    return None


def read_through_descriptors(host):
    import glob

    # Of the sandbox's own processes, whatever is open must not lead outside.
    for at in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if open(at + "/.." * 12 + host["canary"]).read() == host["secret"]:
                return at
        except OSError:
            continue
    return None


def write_to_a_folder_of_the_host(host):
    with open(host["tree"] + "/planted", "w") as file:
        file.write("x")
    return True


def write_to_data(host):
    import os

    done = []
    for attempt in (
        lambda: open(host["data_file"], "a").close(),
        lambda: open(host["data_folder"] + "/planted", "w").close(),
        lambda: os.rename(host["data_folder"] + "/inner.txt", host["data_folder"] + "/moved.txt"),
        lambda: os.unlink(host["data_file"]),
        lambda: os.chmod(host["data_file"], 0o777),
        lambda: os.utime(host["data_file"]),
    ):
        try:
            attempt()
            done.append(True)
        except OSError:
            continue
    return len(done)


def connect_to_engine_sockets(host):
    import socket

    for path in (
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/docker/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
            except OSError:
                continue
            return path
    return None


def connect_to_a_named_socket(host):
    import socket

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["unix"])
    return True


def connect_to_an_abstract_socket(host):
    import socket

    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + host["abstract"])
    return True


def connect_to_loopback_of_the_host(host):
    import socket

    socket.create_connection(("127.0.0.1", host["tcp"]), timeout=3).close()
    return True


def connect_to_addresses_of_the_host(host):
    import socket

    for address in host["addresses"]:
        try:
            socket.create_connection((address, host["tcp"]), timeout=3).close()
        except OSError:
            continue
        return address
    return None


def send_udp_to_the_host(host):
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect((host["addresses"][0], host["udp"]))
        client.send(b"hello")
        return client.recv(100) == b"hello back"


def ping(host):
    import socket
    import struct

    def checksum(data):
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        total = (total >> 16) + (total & 0xFFFF)
        return ~(total + (total >> 16)) & 0xFFFF

    packet = struct.pack("!BBHHH", 8, 0, 0, 7, 1)
    packet = struct.pack("!BBHHH", 8, 0, checksum(packet), 7, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as client:
        client.settimeout(2)
        client.sendto(packet, (host["addresses"][0], 0))
        return bool(client.recv(1000))


def see_interfaces(host):
    import socket

    return [name for _, name in socket.if_nameindex() if name not in ("lo", "sit0", "tunl0", "ip6tnl0", "ip_vti0")]


def see_routes(host):
    return len(open("/proc/net/route").read().splitlines()) > 1


def be_privileged(host):
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


def become_root(host):
    import os

    os.setresuid(0, 0, 0)
    return os.getuid() == 0


def gain_by_setuid_program(host):
    import contextlib
    import glob
    import os
    import subprocess

    # By root any of them may be run; by others each must be refused what its bit promises.
    if os.getuid() == 0:
        return True
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


def make_a_device(host):
    import os
    import stat

    os.mknod("nbagent-probe-device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.unlink("nbagent-probe-device")
    return True


def open_devices(host):
    import glob

    for at in ("/dev/mem", "/dev/kmsg", "/dev/port", "/dev/kvm", *glob.glob("/dev/[svx]d[a-z]"), "/dev/loop-control"):
        try:
            open(at, "rb").close()
        except OSError:
            continue
        return at
    return None


def open_switches_of_the_machine(host):
    import glob
    import os

    # Opened for writing, not written to.
    for at in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        *glob.glob("/sys/fs/cgroup/*/release_agent"),
        *glob.glob("/sys/fs/cgroup/release_agent"),
    ):
        try:
            os.close(os.open(at, os.O_WRONLY))
        except OSError:
            continue
        return at
    return None


def open_bounds_of_control_groups(host):
    import os

    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            if name in ("memory.limit_in_bytes", "memory.max", "cgroup.procs", "tasks", "pids.max"):
                try:
                    os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                except OSError:
                    continue
                return os.path.join(folder, name)
    return None


def see_processes_of_the_host(host):
    import glob

    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if host["marker"] in open(at).read():
                return at
        except OSError:
            continue
    return None


def find_the_secret_in_environments(host):
    import glob
    import os

    if host["secret"] in os.environ.values():
        return "os.environ"
    for at in glob.glob("/proc/[0-9]*/environ"):
        try:
            if host["secret"].encode() in open(at, "rb").read():
                return at
        except OSError:
            continue
    return None


def see_shared_memory_of_the_host(host):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return libc.shmget(host["shm_key"], 0, 0) >= 0


def type_into_a_terminal(host):
    import fcntl
    import os

    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return True


def read_the_runtime_folder(host):
    import os

    return os.listdir(host["runtime"])


def run_a_program(host):
    import subprocess

    return subprocess.run(["/bin/echo", "ran"], capture_output=True).stdout == b"ran\n"


def run_a_shell(host):
    import os

    os.system("echo ran > nbagent-ran")
    return os.path.exists("nbagent-ran")


def fork(host):
    import os

    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def spawn(host):
    import os

    child = os.posix_spawn("/bin/true", ["true"], {})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def replace_the_process(host):
    import ctypes
    import os

    # An address that isn't one: EFAULT if the call is there, and nothing is replaced.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.execve(ctypes.c_void_p(8), None, None)
    error = ctypes.get_errno()
    if error in (1, 38):
        raise OSError(error, os.strerror(error))
    return True


def multiprocess(host):
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(abs, [-3]) == [3]


SECRETS = [
    read_by_absolute_path,
    read_by_parent_folders,
    read_through_root_of_process_one,
    read_through_own_root,
    read_through_folders_of_processes,
    read_through_descriptors,
    find_the_secret_in_environments,
]
HOST = [
    *SECRETS,
    write_to_a_folder_of_the_host,
    write_to_data,
    connect_to_engine_sockets,
    connect_to_a_named_socket,
    connect_to_an_abstract_socket,
    be_privileged,
    become_root,
    gain_by_setuid_program,
    make_a_device,
    open_devices,
    open_switches_of_the_machine,
    open_bounds_of_control_groups,
    see_processes_of_the_host,
    see_shared_memory_of_the_host,
    type_into_a_terminal,
    read_the_runtime_folder,
]
NETWORK = [
    connect_to_loopback_of_the_host,
    connect_to_addresses_of_the_host,
    send_udp_to_the_host,
    ping,
    see_interfaces,
    see_routes,
]
PROGRAMS = [run_a_program, run_a_shell, fork, spawn, replace_the_process, multiprocess]
UNPROTECTED = [*HOST, *NETWORK, *PROGRAMS]
# Nothing of the host's is handed on by any engine; what the machine's first process sees is not for a test to say.
UNPROTECTED.remove(read_through_descriptors)
UNPROTECTED.remove(read_through_root_of_process_one)
