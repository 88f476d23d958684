"""Which hosts a sandbox may reach: names, rules and addresses. Pure; nothing here looks anything up.

A name is taken in one form only, and anything else is denied instead of normalised: an allow-list is circumvented by
names that two programs read differently. So there is no trailing dot, no percent-encoding, no user in front, and no
address in any notation. An internationalised name is compared and shown in its ASCII form (`xn--…`), so that letters
which look alike don't pass for each other.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Literal

from nbagent.core.policy import HOST_LABEL, allowed_host

By = Literal["list", "person", "policy"]
"""Who decided: the list of allowed hosts, a person who was asked, or a rule that holds for every session."""

WEB_PORTS = (80, 443)
"""What an entry without a port allows."""


class Denied(Exception):  # noqa: N818 - the name says what happened
    """The proxy refuses a request.

    Args:
        reason: One sentence for the program that asked.
        by: Who decided.
        status: The HTTP status: 400 for a malformed request, 403 for one that isn't allowed, 502 and 504 for a host
            that can't be reached.
        address: The address of the name, if that is the reason. Only the person sees it: code must not learn the
            addresses of the person's own network.
    """

    def __init__(self, reason: str, *, by: By = "policy", status: int = 403, address: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.by: By = by
        self.status = status
        self.address = address


_NAME = re.compile(rf"{HOST_LABEL}(?:\.{HOST_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


def authority(text: str, *, default_port: int | None = None) -> tuple[str, int]:
    """Split `HOST:PORT`; the host is returned in lower case.

    Args:
        text: From a URL, a CONNECT request or a Host header.
        default_port: The port if the text has none; with None, it must have one.

    Raises:
        Denied: The text has another form.
    """
    host, colon, digits = text.partition(":")
    host = host.lower() if host.isascii() else host
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise Denied(f"{quoted(text)} is not a host's plain name; addresses and other forms are not taken.", status=400)
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # Some programs read 127.1, 2130706433 and 0x7f.0.0.1 as 127.0.0.1.
        raise Denied(f"{quoted(text)} is an address; only names are taken.", status=400)
    if not colon and default_port is not None:
        return host, default_port
    if not _PORT.fullmatch(digits) or int(digits) > 65535:
        raise Denied(f"{quoted(text)} names no port.", status=400)
    return host, int(digits)


def quoted(text: str) -> str:
    """The first 100 characters of a text from the sandbox, quoted and in ASCII, for a message."""
    return ascii(text[:100])


class Rules:
    """A list of allowed hosts: `HOST`, `HOST:PORT`, `*.DOMAIN`, each without a port for ports 80 and 443.

    `*.example.org` is every name below example.org, at any depth, but not example.org itself.

    Raises:
        UsageError: An entry has another form.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._names: set[tuple[str, int]] = set()
        self._domains: set[tuple[str, int]] = set()
        for entry in entries:
            self.add(entry)

    def add(self, entry: str) -> None:
        """Add an entry."""
        host, _, port = allowed_host(entry).partition(":")
        domain = host.startswith("*.")
        known = self._domains if domain else self._names
        for each in (int(port),) if port else WEB_PORTS:
            known.add((host.removeprefix("*."), each))

    def allows(self, host: str, port: int) -> bool:
        """Whether the list allows a port of a host, which is named as `authority` returns it."""
        if (host, port) in self._names:
            return True
        labels = host.split(".")
        return any((".".join(labels[start:]), port) in self._domains for start in range(1, len(labels)))


_SPECIAL_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # behind a provider's NAT; one cloud's metadata too
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host, seen from its machines: a public address that isn't one
            "169.254.0.0/16",  # link-local; most clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocols; one cloud's metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
"""IPv6 addresses of hosts on the Internet; loopback, private, link-local, multicast and embedded ones lie outside."""
_SPECIAL_6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocols; Teredo, which embeds an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, likewise
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address belongs to a host on the Internet, by IANA's registries of special-purpose addresses.

    It doesn't trust `ipaddress.is_global`, whose answer changed between releases of Python. On a network that only has
    IPv6, the resolver embeds IPv4 addresses in the well-known prefix of NAT64: these are judged by what they embed.

    Source:
        RFC 6890 and https://www.iana.org/assignments/iana-ipv4-special-registry, …/iana-ipv6-special-registry; the
        prefix of NAT64: RFC 6052.
    """
    if "%" in address:
        return False  # only a link-local address has a zone
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and found in _NAT64:
        found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in each for each in _SPECIAL_4)
    return found in _GLOBAL_6 and not any(found in each for each in _SPECIAL_6)
