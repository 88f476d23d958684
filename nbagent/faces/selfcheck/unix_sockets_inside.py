"""Attacks by Unix sockets and pipes of the host, and on its programs that read from sockets."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup

GROUP = ProbeGroup("Unix sockets of the host")
_attack = GROUP.attack


@_attack(
    "3", "Connect to a container engine (Docker, containerd, Podman), to D-Bus or systemd", expected="no such socket"
)
def connect_to_engine_sockets(host: Any) -> object:
    found = []
    for path in (
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/docker/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/systemd/journal/stdout",
        *host["sockets"],
    ):
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(path) == 0:
                found.append(path)
    return found


@_attack("3", "Connect to a Unix socket of the host's by its path", expected="no such file", control="files")
def connect_to_a_named_socket(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["unix"])
    return True


@_attack(
    "+",
    "Connect to a socket of the host's that lies in the data folder",
    expected="it is hidden",
    control="files",
)
def connect_to_a_socket_in_data(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["data_folder"] + "/socket")
    return True


@_attack(
    "30",
    "Connect to one in a folder that a link in somebody else's folder leads to",
    expected="the link is not there",
    control="files",
)
def connect_to_a_socket_behind_a_link(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["clone"] + "/figures/socket")
    return True


@_attack(
    "30",
    "Connect to one that a program of the host puts there later",
    expected="it is hidden",
    control="files",
)
def connect_to_a_later_socket_in_data(host: Any) -> object:
    # Wait until data that is added later is visible; otherwise the attack would prove nothing.
    end = time.monotonic() + 2 * host["patience"]
    while not os.path.exists(host["data_folder"] + "/later.csv"):
        if time.monotonic() > end:
            raise RuntimeError("nothing that came later is seen")
        time.sleep(0.1)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["data_folder"] + "/later")
    return True


@_attack(
    "+",
    "Write to a named pipe of the host's that lies in the data folder",
    expected="it is hidden",
    control="files",
)
def write_to_a_pipe_in_data(host: Any) -> object:
    pipe = os.open(host["data_folder"] + "/pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return os.write(pipe, b"hello") == 5
    finally:
        os.close(pipe)


@_attack(
    "3",
    "Connect to an abstract Unix socket of the host's",
    expected="connection refused",
    levels=BELOW_TRUSTED,
    control="network",
)
def connect_to_an_abstract_socket(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + host["abstract"])
    return True


@_attack(
    "+",
    "Send the host a connection that lingers, so that closing it holds the host up",
    expected="no connection lingers",
)
def send_a_lingering_connection(host: Any) -> object:
    import socket
    import struct

    with socket.socket(socket.AF_UNIX) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 60))
        return struct.unpack("@ii", tried.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))[0] == 1
