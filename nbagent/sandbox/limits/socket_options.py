"""Which options code may set on Internet sockets. Pure.

Many options have Linux keep something for a socket: memberships in groups, keys, headers, copies of what was sent.
It charges nobody for these, so code could hide gigabytes in them. So each protocol has a list of options that cost
nothing and that programs set; whatever else there is, or will be, is refused as by a Linux without it.
"""

from __future__ import annotations

from collections.abc import Iterator

SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6 = 1, 0, 6, 17, 41
"""The levels of options, from linux/in.h."""
NUMBER_BITS = 32

HARMLESS = {
    # TOS, TTL, PKTINFO, MTU_DISCOVER, RECVTTL, RECVTOS, FREEBIND, BIND_ADDRESS_NO_PORT, MULTICAST_IF, _TTL and _LOOP,
    # MULTICAST_ALL, LOCAL_PORT_RANGE
    IPPROTO_IP: frozenset({1, 2, 8, 10, 12, 13, 15, 24, 32, 33, 34, 49, 51}),
    # UNICAST_HOPS, MULTICAST_IF, _HOPS and _LOOP, MTU_DISCOVER, MTU, V6ONLY, MULTICAST_ALL, RECVPKTINFO, RECVHOPLIMIT,
    # DONTFRAG, RECVTCLASS, TCLASS, ADDR_PREFERENCES
    IPPROTO_IPV6: frozenset({16, 17, 18, 19, 23, 24, 26, 29, 49, 51, 62, 66, 67, 72}),
    # NODELAY to WINDOW_CLAMP, QUICKACK, CONGESTION, USER_TIMEOUT, NOTSENT_LOWAT, INQ
    IPPROTO_TCP: frozenset({*range(1, 11), 12, 13, 18, 25, 36}),
    IPPROTO_UDP: frozenset[int](),
}
"""The options that may be set, by level."""
IGNORED = {
    # LINGER: whoever closes the socket last waits, and that may be the host's process, to which code has sent it.
    # RCVBUF: what Linux keeps for a socket without charging anybody grows with it.
    SOL_SOCKET: (13, 8),
    # RECVERR and RECVERR_RFC4884, which the C library sets before it looks a name up: errors are kept until read.
    IPPROTO_IP: (11, 26),
    IPPROTO_IPV6: (25, 31),
}
"""Options that are reported as set and aren't, by level: programs do well without them, but not with an error."""
NETWORK_SETTINGS = {"net.ipv4.tcp_rmem": "4096 131072 131072", "net.ipv4.tcp_max_tw_buckets": "4096"}
"""What holds in a sandbox's network, by the names of sysctl.

The least, usual and largest receive buffer of TCP, in bytes: so much may Linux keep for a socket and charge to nobody,
and messages, too, can ask for copies of what was sent. And how many connections Linux remembers for a minute after both
ends have closed them: 340 bytes each, charged to nobody, and they are no sockets any more.
"""
REFUSED = (37, 65, 60)
"""TIMESTAMPING, by both its numbers, and ZEROCOPY: options of any socket by which copies of what was sent are kept."""


def others(numbers: frozenset[int], *, bits: int = NUMBER_BITS, value: int = 0) -> Iterator[tuple[int, int]]:
    """All numbers but these, as few pairs of a mask and a value that `number & mask` has.

    Of the numbers, the lowest bits are open, and those above have a value.
    """
    inside = {each for each in numbers if each >> bits == value >> bits}
    if not inside:
        yield (1 << NUMBER_BITS) - (1 << bits), value
    elif bits:
        yield from others(numbers, bits=bits - 1, value=value)
        yield from others(numbers, bits=bits - 1, value=value | 1 << (bits - 1))
