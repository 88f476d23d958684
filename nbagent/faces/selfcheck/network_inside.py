"""Attacks over the network, by Unix sockets and pipes of the host, and by the installer behind `%pip install`."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from typing import Any

from nbagent.core.policy import TrustLevel
from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup, unrefused

UNIX = ProbeGroup("Unix sockets of the host")
NETWORK = ProbeGroup("network", levels=BELOW_TRUSTED, control="network", expected="no route to it")
PACKAGES = ProbeGroup("packages")
_unix = UNIX.attack
_network = NETWORK.attack
_packages = PACKAGES.attack


@_unix(
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


@_unix("3", "Connect to a Unix socket of the host's by its path", expected="no such file", control="files")
def connect_to_a_named_socket(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["unix"])
    return True


@_unix("+", "Connect to a socket of the host's that lies in the data folder", expected="it is hidden", control="files")
def connect_to_a_socket_in_data(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["data_folder"] + "/socket")
    return True


@_unix(
    "30",
    "Connect to one in a folder that a link in somebody else's folder leads to",
    expected="the link is not there",
    control="files",
)
def connect_to_a_socket_behind_a_link(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(host["clone"] + "/figures/socket")
    return True


@_unix("30", "Connect to one that a program of the host puts there later", expected="it is hidden", control="files")
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


@_unix(
    "+", "Write to a named pipe of the host's that lies in the data folder", expected="it is hidden", control="files"
)
def write_to_a_pipe_in_data(host: Any) -> object:
    pipe = os.open(host["data_folder"] + "/pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return os.write(pipe, b"hello") == 5
    finally:
        os.close(pipe)


@_unix(
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


@_unix(
    "+",
    "Send the host a connection that lingers, so that closing it holds the host up",
    expected="no connection lingers",
)
def send_a_lingering_connection(host: Any) -> object:
    with socket.socket(socket.AF_UNIX) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 60))
        return struct.unpack("@ii", tried.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))[0] == 1


@_network(
    "14", "Connect to a server on the host's loopback, by IPv4 and IPv6", expected="connection refused, or no route"
)
def connect_to_loopback_of_the_host(host: Any) -> object:
    loopback = ("127.0.0.1", "::1")
    return unrefused(lambda at: socket.create_connection((at, host["tcp"]), timeout=2).close(), loopback)


@_network("14", "Connect to a server on the host's other addresses and on its gateway's")
def connect_to_addresses_of_the_host(host: Any) -> object:
    return unrefused(lambda at: socket.create_connection((at, host["tcp"]), timeout=2).close(), host["addresses"])


@_network("13", "Send UDP to the host")
def send_udp_to_the_host(host: Any) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect((host["addresses"][0], host["udp"]))
        client.send(b"hello")
        return client.recv(100) == b"hello back"


@_network("13", "Ping the host", expected="not permitted")
def ping(host: Any) -> object:
    def checksum(data: bytes) -> int:
        total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
        total = (total >> 16) + (total & 0xFFFF)
        return ~(total + (total >> 16)) & 0xFFFF

    packet = struct.pack("!BBHHH", 8, 0, 0, 7, 1)
    packet = struct.pack("!BBHHH", 8, 0, checksum(packet), 7, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as client:
        client.settimeout(2)
        client.sendto(packet, (host["addresses"][0], 0))
        return bool(client.recv(1000))


@_network("13", "Find a route to the Internet, to private ranges or to the clouds' metadata services")
def find_a_route(host: Any) -> object:
    def connect(address: str) -> None:
        # Of a UDP socket, which sends nothing: it only needs a route.
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect((address, 53))

    places = "1.1.1.1 169.254.169.254 100.100.100.200 10.0.0.1 172.17.0.1 192.168.1.1 2606:4700::1111 fd00:ec2::254"
    return unrefused(connect, places.split())


@_network("13", "Send a question for a name to a resolver")
def ask_a_resolver(host: Any) -> object:
    query = bytes.fromhex("1d0501000001000000000000") + b"\x07nbagent\x07invalid\x00\x00\x01\x00\x01"

    def send(address: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect((address, 53))
            client.send(query)

    # To the host's resolvers, or, if it has none, to the host itself.
    return unrefused(send, (*host["resolvers"], host["addresses"][0]))


@_network(
    "16", "Have a program look for a way out that knows nothing of proxies", levels=frozenset({TrustLevel.ISOLATED})
)
def send_a_program(host: Any) -> object:
    ask = f"import socket; socket.create_connection(('{host['addresses'][0]}', {host['tcp']}), 2)"
    return subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True).returncode == 0


@_network("13", "See network interfaces of the host's", expected="its own loopback only")
def see_interfaces(host: Any) -> object:
    # Without a socket, since some levels can't make any.
    names = {line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]}
    idle = {"lo", "sit0", "tunl0", "ip6tnl0", "ip_vti0", "ip6_vti0", "gre0", "gretap0", "erspan0", "ip6gre0"}
    return sorted((names | set(os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ())) - idle)


@_network("13", "See routes or connections of the host's", expected="none")
def see_routes(host: Any) -> object:
    found = []
    if len(open("/proc/net/route").read().splitlines()) > 1:
        found.append("routes")
    listening = f":{host['tcp']:04X} "
    if any(listening in line for line in open("/proc/net/tcp")):
        found.append("connections")
    if host["abstract"] in open("/proc/net/unix").read():
        found.append("Unix sockets")
    return found


@_network(
    "13",
    "Make an Internet socket at all, even to itself",
    expected="not permitted",
    levels=frozenset({TrustLevel.UNTRUSTED}),
    control="system calls",
)
def make_internet_sockets(host: Any) -> object:
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)
    found = unrefused(
        lambda each: socket.socket(*each).close(),
        [(family, kind) for family in (socket.AF_INET, socket.AF_INET6) for kind in kinds],
    )
    return [f"{family.name} {kind.name}" for family, kind in found]


@_packages(
    "28",
    "Have nbagent install from an address, a path, a repository, or with options",
    expected="each refused before anything runs",
    held_anyway="nbagent's own process decides it, whatever the engine",
)
def install_by_address(host: Any) -> object:
    door = host["door"] if os.path.exists(host["door"]) else "/run/nbagent/controller.sock"
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
