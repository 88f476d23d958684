"""Names, rules and addresses: what is one host to us must be the same host to everybody."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.core.errors import UsageError
from nbagent.egress.hosts import Denied, Rules, authority, is_public


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("example.org:443", ("example.org", 443)),
        ("EXAMPLE.Org:8080", ("example.org", 8080)),
        ("example.org", ("example.org", 80)),
        ("xn--pple-43d.com", ("xn--pple-43d.com", 80)),
        ("_dmarc.a-b.example:1", ("_dmarc.a-b.example", 1)),
        ("localhost:65535", ("localhost", 65535)),
        ("1.example", ("1.example", 80)),
    ],
)
def test_a_plain_name_is_taken(text: str, found: tuple[str, int]) -> None:
    """Letters, digits and hyphens in labels, in any case, and a port."""
    assert authority(text, default_port=80) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", ":80", ".", "..", ".example.org", "example..org", "example.org.", "example.org.:80"),
        *("allowed.org@evil.org", "allowed.org:80@evil.org", "user:pw@allowed.org", "allowed.org\\@evil.org"),
        *("allowed.org\0.evil.org", "allowed.org\0", "allowed.org evil.org", " allowed.org", "allowed.org\t"),
        *("allowed.org\r\nHost: evil.org", "allowed.org%00.evil.org", "allowed%2eorg", "allowed.org#.evil.org"),
        *("allowed.org/.evil.org", "allowed.org?evil.org", "allowed.org,evil.org", "allowed.org;evil.org"),
        *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "0x7f.1", "0x"),
        *("169.254.169.254", "169.254.43518", "0251.0376.0251.0376", "1.2.3.4.5", "a.1", "example.0x1"),
        *("[::1]", "[::1]:80", "::1", "[::ffff:127.0.0.1]", "[fd00:ec2::254]:80", "fe80::1%eth0"),
        *("ex\u0430mple.org", "example\u3002org", "\uff45xample.org", "\u2460.org", "\u0131.org", "\u212aelvin.org"),
        *("example.org:", "example.org:0", "example.org:65536", "example.org:080", "example.org:+80"),
        *("example.org:80:80", "example.org:8 0", "example.org:\u0668\u0660", "example.org:-1", "example.org:1e2"),
        *("-a.org", "a-.org", f"{'a' * 64}.org", ".".join(["a" * 50] * 6), "*.example.org", "*"),
    ],
    ids=ascii,
)
def test_any_other_form_is_denied(text: str) -> None:
    """Nothing is repaired: user information, NUL, white space, addresses in any notation, more dots, other letters."""
    with pytest.raises(Denied) as caught:
        authority(text, default_port=80)
    assert caught.value.status == 400
    assert caught.value.reason.isascii()
    assert caught.value.reason.isprintable()


def test_a_tunnel_must_name_its_port() -> None:
    with pytest.raises(Denied, match="names no port"):
        authority("example.org")


@given(st.text(max_size=60) | st.from_regex(r"[a-z0-9.:@%\[\]_-]{1,40}"))
def test_whatever_comes_is_a_name_or_denied(text: str) -> None:
    """A name that is taken comes back the same when it is read again."""
    try:
        host, port = authority(text, default_port=80)
    except Denied:
        return
    assert authority(f"{host}:{port}") == (host, port)
    with pytest.raises(ValueError, match="not appear to be"):
        ipaddress.ip_address(host)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        *(("example.org", 80), ("example.org", 443), ("api.test", 8443)),
        *(("a.pypi.test", 443), ("a.b.pypi.test", 80), ("x.deep.test", 9000)),
    ],
)
def test_what_is_listed_is_allowed(host: str, port: int) -> None:
    """A name at both ports of the web or at its own, a domain's names at any depth."""
    assert rules().allows(host, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        *(("example.org", 8080), ("example.org", 22), ("api.test", 443), ("api.test", 80), ("x.deep.test", 443)),
        *(("www.example.org", 443), ("evilexample.org", 443), ("example.org.evil.test", 443), ("org", 443)),
        *(("pypi.test", 443), ("evilpypi.test", 443), ("pypi.test.evil.test", 443), ("a.pypi.test", 8080)),
    ],
)
def test_what_is_not_listed_is_not_allowed(host: str, port: int) -> None:
    """Neither another port, nor a name that only ends or begins like a listed one, nor the domain itself."""
    assert not rules().allows(host, port)


def rules() -> Rules:
    """Each form of an entry once."""
    return Rules(["Example.ORG", "api.test:8443", "*.pypi.test", "*.deep.test:9000"])


def test_a_malformed_entry_is_an_error() -> None:
    """A person who lists an address or a URL is told."""
    for entry in ("http://example.org", "10.0.0.1", "*", "*.*.org", ""):
        with pytest.raises(UsageError):
            Rules([entry])


@pytest.mark.parametrize(
    "address",
    [
        *("93.184.216.34", "1.1.1.1", "172.32.0.1", "100.128.0.1"),
        *("2606:2800:220:1::34", "64:ff9b::5db8:d822", "2001:200::1"),
    ],
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    """Those that IANA has given out for hosts, and such an IPv4 address behind NAT64."""
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255"),  # noqa: S104
        *("192.168.0.1", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192"),
        *("168.63.129.16", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
        *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1"),
        *("::ffff:127.0.0.1", "::ffff:93.184.216.34", "::ffff:0:127.0.0.1", "::127.0.0.1", "::93.184.216.34"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1", "64:ff9b:1::5db8:d822"),
        *("2002:7f00:1::", "2002:a00:1::", "2001:0:7f00:1::", "2001::1", "2001:db8::1", "3fff::1", "4000::1"),
        "2606:2800:220:1::34%eth0",
    ],
)
def test_special_addresses_are_not(address: str) -> None:
    """Private, loopback, link-local, metadata, shared, documentation, multicast, reserved, and embedded ones."""
    assert not is_public(address)


@given(st.ip_addresses())
def test_nothing_that_python_calls_special_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Python's own list is never wider than ours, but for the prefix of NAT64."""
    nat64 = address in ipaddress.IPv6Network("64:ff9b::/96") if address.version == 6 else False
    if is_public(str(address)) and not nat64:
        assert address.is_global
        assert not address.is_multicast
