"""Attacks over the network."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from nbagent.core.policy import TrustLevel
from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, A, ProbeGroup

GROUP = ProbeGroup("network")
_NO_ROUTE = "no route to it"


def _attack(threat: str, title: str, *, expected: str = _NO_ROUTE, **others: Any) -> Callable[[A], A]:
    """Decorate an attack as a probe of this group, for all levels but `trusted`, which has the host's network."""
    return GROUP.attack(threat, title, expected=expected, **{"levels": BELOW_TRUSTED, "control": "network", **others})


@_attack(
    "14", "Connect to a server on the host's loopback, by IPv4 and IPv6", expected="connection refused, or no route"
)
def connect_to_loopback_of_the_host(host: Any) -> object:
    found = []
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, host["tcp"]), timeout=2).close()
        except OSError:
            continue
        found.append(address)
    return found


@_attack("14", "Connect to a server on the host's other addresses and on its gateway's")
def connect_to_addresses_of_the_host(host: Any) -> object:
    found = []
    for address in host["addresses"]:
        try:
            socket.create_connection((address, host["tcp"]), timeout=2).close()
        except OSError:
            continue
        found.append(address)
    return found


@_attack("13", "Send UDP to the host")
def send_udp_to_the_host(host: Any) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect((host["addresses"][0], host["udp"]))
        client.send(b"hello")
        return client.recv(100) == b"hello back"


@_attack("13", "Ping the host", expected="not permitted")
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


@_attack("13", "Find a route to the Internet, to private ranges or to the clouds' metadata services")
def find_a_route(host: Any) -> object:
    # Connecting a UDP socket sends nothing, it only needs a route.
    found = []
    places = "1.1.1.1 169.254.169.254 100.100.100.200 10.0.0.1 172.17.0.1 192.168.1.1 2606:4700::1111 fd00:ec2::254"
    for address in places.split():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as client:
                client.connect((address, 53))
        except OSError:
            continue
        found.append(address)
    return found


@_attack("13", "Send a question for a name to a resolver")
def ask_a_resolver(host: Any) -> object:
    query = bytes.fromhex("1d0501000001000000000000") + b"\x07nbagent\x07invalid\x00\x00\x01\x00\x01"
    sent = []
    # To the host's resolvers, or, if it has none, to the host itself.
    for address in (*host["resolvers"], host["addresses"][0]):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.connect((address, 53))
                client.send(query)
        except OSError:
            continue
        sent.append(address)
    return sent


@_attack(
    "16", "Have a program look for a way out that knows nothing of proxies", levels=frozenset({TrustLevel.ISOLATED})
)
def send_a_program(host: Any) -> object:
    ask = f"import socket; socket.create_connection(('{host['addresses'][0]}', {host['tcp']}), 2)"
    return subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True).returncode == 0


@_attack("13", "See network interfaces of the host's", expected="its own loopback only")
def see_interfaces(host: Any) -> object:
    # Without a socket, since some levels can't make any.
    names = {line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]}
    idle = {"lo", "sit0", "tunl0", "ip6tnl0", "ip_vti0", "ip6_vti0", "gre0", "gretap0", "erspan0", "ip6gre0"}
    return sorted((names | set(os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ())) - idle)


@_attack("13", "See routes or connections of the host's", expected="none")
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


@_attack(
    "13",
    "Make an Internet socket at all, even to itself",
    expected="not permitted",
    levels=frozenset({TrustLevel.UNTRUSTED}),
    control="system calls",
)
def make_internet_sockets(host: Any) -> object:
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            found.append(f"{family.name} {kind.name}")
    return found
