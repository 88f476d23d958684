"""Attacks of one sandbox on another one of the same person, on the same engine."""

from __future__ import annotations

import ctypes
import fcntl
import glob
import os
import resource
import socket
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup

GROUP = ProbeGroup("another sandbox")


def leave(host: Any) -> object:
    """Make files, sockets, shared memory and a process in the other sandbox, as targets."""
    for folder in host["scratch"]:
        open(f"{folder}/{host['neighbour']}", "w").write("left")
    kept = globals().setdefault("nbagent_kept", [])
    for address in ("\0" + host["neighbour"], f"{host['scratch'][0]}/{host['neighbour']}.socket"):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(address)
            server.listen()
        except OSError:
            continue
        kept.append(server)
    libc = ctypes.CDLL(None)
    made = libc.shmget(host["neighbour_key"], 4096, 0o1666)
    kept.append(made)
    os.environ["NBAGENT_NEIGHBOUR"] = host["neighbour"]
    libc.prctl(15, host["neighbour"][-15:].encode(), 0, 0, 0)
    door = host["door"] if os.path.exists(host["door"]) else "/run/nbagent/controller.sock"
    return {"door": [os.stat(door).st_dev, os.stat(door).st_ino], "process": os.getpid()}


@GROUP.attack(
    "11",
    "Read files that it left in /tmp, /workspace, the home folder and /dev/shm",
    expected="no such file",
    neighbour=leave,
)
def read_files_of_the_neighbour(host: Any) -> object:
    return [each for each in host["scratch"] if os.path.exists(f"{each}/{host['neighbour']}")]


@GROUP.attack(
    "11", "Connect to its abstract Unix socket", expected="connection refused", levels=BELOW_TRUSTED, neighbour=leave
)
def connect_to_the_neighbour(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + host["neighbour"])
    return True


@GROUP.attack("11", "Find its shared memory", expected="none is there", neighbour=leave)
def find_shared_memory_of_the_neighbour(host: Any) -> object:
    return ctypes.CDLL(None).shmget(host["neighbour_key"], 0, 0) >= 0


@GROUP.attack("11", "Find, signal or read its kernel's process", expected="it is in no process list", neighbour=leave)
def find_the_neighbour(host: Any) -> object:
    for at in glob.glob("/proc/[0-9]*/comm"):
        try:
            if open(at).read().strip() != host["neighbour"][-15:]:
                continue
            os.kill(int(at.split("/")[2]), 0)
        except OSError:
            continue
        return at
    return None


@GROUP.attack(
    "11",
    "Reach the socket by which it asks nbagent for packages",
    expected="each sandbox sees its own only",
    neighbour=leave,
)
def reach_the_door_of_the_neighbour(host: Any) -> object:
    for at in ("/run/nbagent/controller.sock", *glob.glob(host["runtime"] + "/*/in/controller.sock")):
        try:
            found = os.stat(at)
        except OSError:
            continue
        if [found.st_dev, found.st_ino] == host["left"]["door"]:
            return at
    return None


def use_up_pipes(host: Any) -> object:
    """Open as many pipes of the usual size as one user of the machine may have."""
    kept = globals().setdefault("nbagent_kept_pipes", [])
    try:
        while len(kept) < 3000:
            kept += os.pipe()
    except OSError:
        pass
    return len(kept)


@GROUP.attack(
    "+",
    "Have its pipes become small by using up what one user of the machine may have",
    expected="a new pipe holds 64 kB",
    neighbour=use_up_pipes,
    held_anyway="root is exempt from this limit of Linux's",
)
def shrink_pipes_of_the_neighbour(host: Any) -> object:
    reader, writer = os.pipe()
    size = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
    os.close(reader)
    os.close(writer)
    return f"{size >> 10} kB" if size < 1 << 16 else None


def hold_files_in_flight(host: Any) -> object:
    """Send as many open files over sockets as one user of the machine may have in flight."""
    pair = socket.socketpair()
    globals()["nbagent_in_flight"] = pair
    file = os.open("/dev/null", os.O_RDONLY)
    pair[0].setblocking(False)
    sent = 0
    try:
        while sent < 1500:
            socket.send_fds(pair[0], [b"x"], [file] * 50)
            sent += 50
    except OSError:
        # The socket's queue is full: use another one.
        pass
    os.close(file)
    return sent


@GROUP.attack(
    "+",
    "Keep it from handing over open files, by holding what one user of the machine may have on the way",
    expected="an open file can be handed over",
    neighbour=hold_files_in_flight,
    held_anyway="root is exempt from this limit of Linux's",
)
def block_files_of_the_neighbour(host: Any) -> object:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The usual limit of a process.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    ours, theirs = socket.socketpair()
    try:
        socket.send_fds(ours, [b"x"], [0])
        _, received, _, _ = socket.recv_fds(theirs, 1, 1)
        os.close(received[0])
    except OSError as error:
        return f"refused: {error.strerror}"
    finally:
        ours.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return None
