"""ZeroMQ's wire protocol: what is read is what was sent, and nothing grows beyond its bounds."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.sandbox.channels.zmtp import MAX_FRAMES, MAX_MESSAGE, BreachError, Decoder, encode, hello

MORE, LONG, COMMAND = 1, 2, 4
GREETING = hello("ROUTER")


def frame(body: bytes, flags: int = 0) -> bytes:
    """A frame as it travels, with any flags."""
    return bytes((flags | LONG,)) + len(body).to_bytes(8, "big") + body


def decode(*pieces: bytes) -> list[list[bytes]]:
    """The messages of what comes in pieces."""
    decoder = Decoder()
    found = []
    for piece in pieces:
        decoder.feed(piece)
        found += list(decoder.messages())
    return found


@given(
    st.lists(st.lists(st.one_of(st.binary(max_size=20), st.binary(min_size=254, max_size=258)), min_size=1)),
    st.lists(st.integers(min_value=0, max_value=3000)),
)
def test_what_is_read_is_what_was_sent(messages: list[list[bytes]], cuts: list[int]) -> None:
    """However the bytes are cut into pieces on the way."""
    sent = GREETING + b"".join(map(encode, messages))
    places = [0, *sorted(min(each, len(sent)) for each in cuts), len(sent)]
    assert decode(*(sent[start:end] for start, end in itertools.pairwise(places))) == messages


def test_a_large_frame_comes_in_pieces() -> None:
    """Up to the bound, and not more than once in memory beside the copy that is handed out."""
    body = b"x" * (MAX_MESSAGE // 2)
    sent = GREETING + encode([b"topic", body])
    decoder = Decoder()
    tracemalloc.start()
    try:
        for start in range(0, len(sent), 200_000):
            decoder.feed(sent[start : start + 200_000])
            found = list(decoder.messages())
        assert tracemalloc.get_traced_memory()[1] < 2.2 * len(body)
    finally:
        tracemalloc.stop()
    assert found == [[b"topic", body]]


def test_the_other_end_is_ready_when_it_says_so() -> None:
    """Not before its command has come whole."""
    decoder = Decoder()
    for byte in GREETING[:-1]:
        decoder.feed(bytes((byte,)))
        assert list(decoder.messages()) == []
        assert not decoder.is_ready
    decoder.feed(GREETING[-1:])
    assert list(decoder.messages()) == []
    assert decoder.is_ready


def consume(decoder: Decoder, part: bytes, *, times: int) -> None:
    """Take parts of a message that isn't whole."""
    for _ in range(times):
        decoder.feed(part)
        assert list(decoder.messages()) == []


def test_a_message_that_never_ends() -> None:
    """It is cut off as soon as it is larger than any message may be; until then it is not there twice."""
    decoder = Decoder()
    decoder.feed(GREETING)
    part = frame(b"x" * 1_000_000, MORE)
    tracemalloc.start()
    try:
        with pytest.raises(BreachError, match=r"^sent a message of more than 64 MB$"):
            consume(decoder, part, times=1_000)
        assert tracemalloc.get_traced_memory()[1] < MAX_MESSAGE + 4_000_000
    finally:
        tracemalloc.stop()


def test_a_message_of_ever_more_parts() -> None:
    """Empty parts are counted, since each of them takes memory all the same."""
    with pytest.raises(BreachError, match=r"^sent a message of more than 4,096 parts$"):
        decode(GREETING, b"\x01\x00" * (MAX_FRAMES + 1))


@pytest.mark.parametrize("size", [MAX_MESSAGE + 1, 2**63, 2**64 - 1])
def test_a_frame_that_is_too_large(size: int) -> None:
    """Its size is judged before any of it has come."""
    with pytest.raises(BreachError, match="64 MB"):
        decode(GREETING, bytes((LONG,)) + size.to_bytes(8, "big"))


def test_messages_of_the_largest_size() -> None:
    """The bound is a message's, not the connection's."""
    part = b"x" * (MAX_MESSAGE // 4)
    decoder = Decoder()
    decoder.feed(GREETING)
    for _ in range(3):
        for more in (MORE, MORE, MORE, 0):
            decoder.feed(frame(part, more))
            found = [[len(each) for each in message] for message in decoder.messages()]
        assert found == [[len(part)] * 4]


@pytest.mark.parametrize(
    "sent",
    [
        b"x" * 64,
        b"\x01\x00" * 32,
        GREETING[:10] + b"\x01\x00" + GREETING[12:],
        GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:],
        GREETING[:64] + encode([b"before it is ready"]),
        GREETING[:64] + frame(b"\x05ERROR", COMMAND),
        GREETING[:64] + bytes((COMMAND | LONG,)) + (10**6).to_bytes(8, "big"),
        GREETING + frame(b"\x05READY", COMMAND),
        GREETING + frame(b"x", 8),
        GREETING + frame(b"x", 128),
    ],
    ids=[
        "noise", "frames without a greeting", "an old version", "another mechanism", "a message too early",
        "another command", "a large command", "ready twice", "an unknown flag", "another unknown flag",
    ],
)  # fmt: skip
def test_what_is_no_message(sent: bytes) -> None:
    """What is not in the protocol ends the connection, whatever it is."""
    with pytest.raises(BreachError, match="sent something that is no message"):
        decode(sent)


@given(st.binary(max_size=200), st.booleans())
def test_noise(noise: bytes, greeted: bool) -> None:
    """Nothing else is raised, whatever comes."""
    with contextlib.suppress(BreachError):
        assert isinstance(decode(GREETING + noise if greeted else noise), list)
