"""Which options code may set on sockets, and what Linux keeps for sockets beside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from sandbox.inner import value

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.limits.socket_options import NETWORK_SETTINGS, others
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")
NUMBERS = st.integers(min_value=0, max_value=2**32 - 1) | st.integers(min_value=0, max_value=300)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def isolated(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel at the default level."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.ISOLATED))) as kernel:
        yield kernel


@given(st.frozensets(NUMBERS, max_size=20), NUMBERS)
async def test_all_others_are_covered_and_none_of_these(numbers: frozenset[int], number: int) -> None:
    """Each number that isn't in the set has one pair, and those in it have none."""
    pairs = list(others(numbers))
    for each in {*numbers, number}:
        assert sum(each & mask == value for mask, value in pairs) == (each not in numbers)


async def test_options_that_cost_memory_are_not_there(isolated: Kernel) -> None:
    """Programs set what they are used to; what Linux would keep for the socket is refused, also by odd numbers."""
    code = """
import ctypes, json, socket
libc = ctypes.CDLL(None, use_errno=True)
def say(family, kind, level, option, size=4):
    with socket.socket(family, kind) as tried:
        one = (ctypes.c_char * size)(1)
        if not libc.syscall(number, tried.fileno(), ctypes.c_long(level), ctypes.c_long(option), one, size):
            return 0
        return ctypes.get_errno()
tcp, udp = (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM)
fine = [say(*tcp, 6, 1), say(*tcp, 6, 4), say(*tcp, 0, 2), say(*udp, 41, 26), say(*tcp, 1, 2), say(*tcp, 1, 9)]
cheap = [say(*tcp, 1, 13, 8), say(*tcp, 1, 8), say(*tcp, 0, 11), say(*udp, 41, 25)]
costly = [say(*tcp, 6, 14, 216), say(*tcp, 6, 33, 16), say(*tcp, 0, 4, 4), say(*tcp, 0, 35, 8), say(*udp, 41, 6, 64)]
costly += [say(*udp, 41, 20, 20), say(*udp, 17, 1), say(*udp, 1, 37), say(*udp, 1, 60), say(*udp, 41, 1000)]
odd = [say(*udp, 1 << 32 | 41, 1 << 32 | 20, 20), say(*tcp, 6, 1 << 32 | 14, 216), say(*udp, 1, 1 << 32 | 37)]
with socket.socket() as tried:
    before = tried.getsockopt(1, 8)
    tried.setsockopt(1, 8, 1 << 22)
    grown = tried.getsockopt(1, 8) - before
print(json.dumps([fine, cheap, set(costly + odd) == {92}, grown]))
"""
    code = f"number = {seccomp.number('setsockopt')}" + code
    assert await value(isolated, code) == [[0] * 6, [0] * 4, True, 0]


async def test_buffers_of_connections_stay_small(isolated: Kernel) -> None:
    """Copies of what was sent, which a message can ask for, are kept up to the size of the buffer only."""
    code = """
import json, socket, struct
with socket.create_server(("127.0.0.1", 0)) as server:
    client = socket.create_connection(server.getsockname())
    other = server.accept()[0]
for each in (client, other):
    each.setblocking(False)
data, room, kept = bytes(1 << 20), bytearray(1 << 20), 0
for _ in range(200):
    for sender, receiver, asked in ((other, client, []), (client, other, [(1, 37, struct.pack("@I", 2 | 256))])):
        try:
            sender.sendmsg([data], asked)
        except BlockingIOError:
            pass
        try:
            while receiver.recv_into(room):
                pass
        except BlockingIOError:
            pass
    kept = max(kept, struct.unpack("@I", client.getsockopt(1, 55, 4))[0])
print(json.dumps([open("/proc/sys/net/ipv4/tcp_rmem").read().split(), 0 < kept < 300_000]))
"""
    assert await value(isolated, code) == [NETWORK_SETTINGS["net.ipv4.tcp_rmem"].split(), True]


async def test_few_connections_that_have_ended_are_remembered(isolated: Kernel) -> None:
    """They are no sockets, so that nothing else bounds them, and Linux charges nobody for their memory."""
    code = """
import json, socket
for number in range(2, 9):
    with socket.create_server((f"127.0.0.{number}", 0)) as server:
        for _ in range(1_000):
            with socket.create_connection(server.getsockname()) as client:
                other = server.accept()[0]
                client.shutdown(socket.SHUT_WR)
            other.close()
words = next(line.split() for line in open("/proc/net/sockstat") if line.startswith("TCP:"))
print(json.dumps(int(words[words.index("tw") + 1])))
"""
    assert 0 < await value(isolated, code) <= 4_200


async def test_options_of_a_process_that_cost_something_do_not_exist(isolated: Kernel) -> None:
    """A table of locks of its own, names for memory, pages that are merged with others'; names of threads do."""
    code = """
import ctypes, json, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

def error(call, *given):
    ctypes.set_errno(0)
    return 0 if call(*given) >= 0 else ctypes.get_errno()

memory = mmap.mmap(-1, 1 << 16)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
merged = error(libc.madvise, place, 1 << 16, 12)
tables = error(libc.prctl, 78, 2, 0, 0, 0)
named = error(libc.prctl, 0x53564D41, 0, ctypes.c_ulong(place), ctypes.c_ulong(4096), b"name")
fine = [error(libc.prctl, 15, b"worker", 0, 0, 0), error(libc.prctl, 3, 0, 0, 0, 0)]
fine.append(error(libc.madvise, place, 4096, 3))
print(json.dumps([merged, tables, named, fine]))
"""
    assert await value(isolated, code) == [22, 22, 22, [0, 0, 0]]


async def test_sockets_without_an_address_count(isolated: Kernel) -> None:
    """Linux keeps errors for a socket that was disconnected; such a socket is in no list."""
    code = """
import ctypes, socket, time
libc, held, nowhere = ctypes.CDLL(None), [], bytes(16)
for _ in range(1200):
    held.append(one := socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    one.connect(("127.0.0.1", 9))
    libc.connect(one.fileno(), nowhere, len(nowhere))
time.sleep(60)
"""
    cell = await isolated.run(code)
    assert cell.status == "died"
    assert " Internet sockets, of which a sandbox may have 1,000" in cell.note


LINGER = """
import array, os, socket, struct
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
other = server.accept()[0]
client.setblocking(False)
try:
    while True:
        client.send(bytes(65536))
except BlockingIOError:
    pass
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 20))
for number in range(3, 300):
    try:
        to = socket.socket(fileno=os.dup(number))
        if to.family == socket.AF_UNIX and str(to.getsockname()).endswith("/k-2") and to.getpeername() == "":
            break
    except OSError:
        continue
file = client.detach()
to.setblocking(False)
to.send(bytes((0, 1, 120)) * 30_000)
try:
    to.sendmsg([bytes((0, 1, 120))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
except PermissionError:
    pass
os.close(file)
print("closed")
"""


async def test_no_file_that_code_sends_holds_the_host_up(isolated: Kernel) -> None:
    """Whoever reads a message closes the files that came with it; a connection could linger for days."""
    running = asyncio.create_task(isolated.run(LINGER))
    slowest = 0.0
    while not running.done():
        started = time.monotonic()
        await asyncio.sleep(0.01)
        slowest = max(slowest, time.monotonic() - started)
    assert "closed" in (await running).text or (await running).status == "died"
    assert slowest < 5
