"""Files carried into a sandbox and out of it, whatever hostile code does about it."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kernel.carry import DATA, Carry, run

from nbagent.core.errors import TransferError, TransferLimit
from nbagent.core.policy import MIB
from nbagent.kernel.transfer import over_socket, transfer
from nbagent.kernel.transfer.over_socket import PIECE_BYTES
from nbagent.kernel.transfer.sandbox_paths import file_at, folder_at
from nbagent.sandbox.channels.byte_stream import ByteStream

pytestmark = pytest.mark.asyncio(loop_scope="module")


# -- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, len(DATA)])
async def test_a_file_goes_there_and_back(carry: Carry, size: int) -> None:
    """Every byte, whatever the size; nothing but the file itself is left, and it is a plain one."""
    carried = await carry.up(DATA[:size], "/workspace/deep/er/a b.bin", size=size)
    digest = hashlib.sha256(DATA[:size]).hexdigest()
    assert (carried.size, carried.sha256) == (size, digest)
    inside = "import hashlib; print(hashlib.sha256(open('deep/er/a b.bin', 'rb').read()).hexdigest())"
    assert await run(carry.kernel, inside) == digest
    assert await carry.down("/workspace/deep/er/a b.bin") == DATA[:size]
    assert await carry.left() == ["./deep", "./deep/er", "./deep/er/a b.bin"]
    assert (await run(carry.kernel, "oct(os.stat('deep/er/a b.bin').st_mode)")).strip("'") == "0o100644"


async def test_a_plain_file_is_replaced_whole(carry: Carry) -> None:
    """Who has the old one open still reads it: the new one was moved into its place."""
    await carry.up(b"old", "/workspace/a")
    await run(carry.kernel, "was = open('a')")
    await carry.up(b"new!", "/workspace/a")
    assert await run(carry.kernel, "print(was.read(), open('a').read())") == "old new!"


async def test_the_controllers_memory_stays_flat(carry: Carry) -> None:
    """A hundred megabytes, in and out, add a few of a piece's own size."""
    size = 100 * MIB
    piece = bytes(PIECE_BYTES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // PIECE_BYTES):
            yield piece

    place = file_at("/workspace/large", carry.kernel.about)
    carried = await carry.transfer.upload(pieces(), place, size=size)
    received = await carry.transfer.download(place, len)
    assert carried.sha256 == received.sha256
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


async def test_an_upload_that_is_given_up_leaves_nothing(carry: Carry) -> None:
    """Neither a half file nor a staged one, and the old one is as it was."""
    await carry.up(b"old", "/workspace/a")

    async def pieces() -> AsyncIterator[bytes]:
        yield bytes(PIECE_BYTES)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await carry.transfer.upload(pieces(), file_at("/workspace/a", carry.kernel.about))
    assert await carry.left() == ["./a"]
    assert await carry.down("/workspace/a") == b"old"


# -- bounds ---------------------------------------------------------------------------------------------------------


async def test_what_does_not_fit_is_refused_by_name_of_the_limit(carry: Carry) -> None:
    """At once where the size is known, else when it is reached; the kernel lives on."""
    for known in (True, False):
        with pytest.raises(TransferLimit, match=r"128 MB each \(limit tmp_mb\).*Limits\(tmp_mb="):
            await carry.up(bytes(129 * MIB), "/workspace/huge", size=129 * MIB if known else None)
    await run(carry.kernel, "open('/workspace/most', 'wb').write(bytes(100 * 2**20)) and None")
    with pytest.raises(TransferLimit, match="limit tmp_mb"):
        await carry.up(bytes(50 * MIB), "/workspace/more", size=50 * MIB)
    with pytest.raises(TransferLimit, match="limit tmp_mb"):
        await carry.up(bytes(50 * MIB), "/workspace/more")
    assert await carry.left() == ["./most"]


async def test_a_sparse_terabyte_is_not_fetched(carry: Carry) -> None:
    """Nothing can have such a size in there, whatever it claims."""
    await run(carry.kernel, "os.truncate(os.open('tera', os.O_CREAT | os.O_RDWR), 2**40)")
    with pytest.raises(TransferLimit, match="limit tmp_mb"):
        await carry.down("/workspace/tera")


# -- links and worse ------------------------------------------------------------------------------------------------

PLANTED = {
    "link": "os.symlink('/tmp/victim', 'planted')",
    "dangling link": "os.symlink('/tmp/none', 'planted')",
    "pipe": "os.mkfifo('planted')",
    "folder": "os.mkdir('planted')",
}


@pytest.mark.parametrize("kind", PLANTED)
async def test_nothing_is_written_through_what_is_planted(carry: Carry, kind: str) -> None:
    """At the place of an upload there may be a plain file or nothing."""
    await run(carry.kernel, f"open('/tmp/victim', 'w').write('mine'); {PLANTED[kind]}")
    started = time.monotonic()
    with pytest.raises(TransferLimit, match=r"there is a (link|special file|folder) of that name already"):
        await carry.up(b"x", "/workspace/planted")
    assert await run(carry.kernel, "print(open('/tmp/victim').read(), os.path.exists('/tmp/none'))") == "mine False"
    assert time.monotonic() - started < 25


async def test_a_linked_folder_on_the_way_is_refused(carry: Carry) -> None:
    await run(carry.kernel, "os.makedirs('/tmp/real/sub'); open('/tmp/real/sub/a', 'w').write('x')")
    await run(carry.kernel, "os.symlink('/tmp/real', 'way')")
    for path in ("/workspace/way/a", "/workspace/way/sub/a", "/workspace/way/new/a"):
        with pytest.raises(TransferLimit, match="'way' is a link, or no folder"):
            await carry.up(b"x", path)
        with pytest.raises(TransferLimit, match="'way' is a link, or no folder"):
            await carry.down(path)
    with pytest.raises(TransferLimit, match="'way' is a link, or no folder"):
        await carry.transfer.entries(folder_at("/workspace/way", carry.kernel.about), bound=10)
    assert await run(carry.kernel, "shutil.rmtree('/tmp/real'); print('gone')") == "gone"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("os.symlink('/etc/passwd', 'it')", "it is a link"),
        ("os.mkfifo('it')", "it is a special file"),
        ("os.mkdir('it')", "it is a folder"),
        ("open('one', 'w').close(); os.link('one', 'it')", "it is a hard link"),
        ("pass", "There is no /workspace/it in the sandbox"),
    ],
)
async def test_only_plain_files_are_fetched(carry: Carry, made: str, told: str) -> None:
    """All else is refused by what it is, without a hang."""
    await run(carry.kernel, made)
    started = time.monotonic()
    with pytest.raises(TransferError, match=told):
        await carry.down("/workspace/it")
    assert time.monotonic() - started < 25


CHANGES = {
    "shrinks": "os.truncate('moving', n % 100)",
    "grows": "open('moving', 'ab').write(b'more')",
    "is replaced": "open('other', 'wb').write(bytes(9 * 2**20)); os.replace('other', 'moving')",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_file_that_changes_while_it_is_sent_is_noticed(carry: Carry, change: str) -> None:
    """What would have come is neither the old nor the new one."""
    loop = "def change():\n    for n in range(10**9):\n        if stop: break\n"
    loop += f"        {change}; changed.set(); time.sleep(0.002)"
    await run(carry.kernel, f"open('moving', 'wb').write(bytes(9 * 2**20)) and None\n{loop}")
    await run(carry.kernel, "stop = False; changed = threading.Event(); changing = threading.Thread(target=change)")
    parts = []

    def take(chunk: bytes) -> None:
        parts.append(len(chunk))

    do = carry.transfer._do

    async def then_change(place: Any, verb: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        answer = await do(place, verb, *arguments, **more)
        if verb == "look":
            await run(carry.kernel, "changing.start(); changed.wait()")
        return answer

    carry.transfer._do = then_change  # type: ignore[method-assign]
    with pytest.raises(TransferError, match="changed while it was sent"):
        await carry.transfer.download(file_at("/workspace/moving", carry.kernel.about), take)
    await run(carry.kernel, "stop = True; changing.join()")


async def test_a_folder_that_is_moved_away_is_noticed(carry: Carry) -> None:

    async def pieces() -> AsyncIterator[bytes]:
        yield b"1"
        await run(carry.kernel, "os.rename('here', 'there')")
        yield b"2"

    with pytest.raises(TransferError, match=r"There is no /workspace/here/a"):
        await carry.transfer.upload(pieces(), file_at("/workspace/here/a", carry.kernel.about))


async def test_a_kernel_that_is_replaced_meanwhile_is_noticed(carry: Carry) -> None:
    """What has come so far went with the old one."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"1"
        await carry.kernel.restart()
        yield b"2"

    with pytest.raises(TransferError, match="the kernel was replaced meanwhile"):
        await carry.transfer.upload(pieces(), file_at("/workspace/a", carry.kernel.about))
    await run(carry.kernel, "import os, shutil, threading, time\nos.chdir('/workspace')")
    assert await carry.left() == []


LIES = [
    "None", "5", "[]", "{'size': -1, 'identity': []}", "{'size': 10**30, 'identity': []}", "{'size': True}",
    "{'size': 10**400, 'identity': []}", "{'size': 2**63, 'identity': []}",
    "{'size': '5', 'identity': [1]}", "{'size': 5}", "{'error': 'x' * 10**6, 'errno': 5}", "{'error': None}",
    "{'error': '\\x1b]0;title\\x07', 'errno': 'x'}",
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
async def test_a_sandbox_that_lies_is_an_error(carry: Carry, lie: str) -> None:
    """Whatever it answers, a transfer ends with one of its own errors, in a sentence."""
    await carry.up(b"x", "/workspace/a")
    await run(carry.kernel, f"kept = get_ipython().kernel.__dict__['_nbagent']\nwas = dict(kept)\n"
              f"for key in kept: kept[key] = {{'main': lambda *_: {lie}}}")  # fmt: skip
    with pytest.raises(TransferError) as told:
        await carry.down("/workspace/a")
    assert len(str(told.value)) < 500
    assert str(told.value).isprintable()
    await run(carry.kernel, "kept.update(was)")
    assert await carry.down("/workspace/a") == b"x"


NEVER_POURS = """
kept = get_ipython().kernel.__dict__['_nbagent']
was = dict(kept)
(key,) = [key for key in kept if 'pour' in kept[key].get('VERBS', ())]
real = kept[key]['main']
kept[key] = {'main': lambda verb, *more: {'sent': 1} if verb == 'pour' else real(verb, *more)}
"""


async def test_a_sandbox_that_never_connects_takes_no_other_socket_along(
    carry: Carry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next socket of this process may get the number of the one that it was waited at, and is read as any other."""
    monkeypatch.setattr(over_socket, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(transfer, "REQUEST_SECONDS", 1.0)
    await carry.up(DATA, "/workspace/a")
    await run(carry.kernel, NEVER_POURS)
    made = carry.kernel.byte_stream

    def watched() -> ByteStream | None:
        nonlocal other
        if (stream := made()) is not None:
            other = asyncio.create_task(next_socket(stream))
        return stream

    other: asyncio.Task[bool] | None = None
    monkeypatch.setattr(carry.kernel, "byte_stream", watched)
    with pytest.raises(TransferError, match="neither takes nor gives"):
        await carry.down("/workspace/a")
    assert other is not None
    assert await other
    await run(carry.kernel, "kept.update(was)")


async def next_socket(stream: ByteStream) -> bool:
    """Wait at the first socket that can be made once a stream is closed; returns whether it had the same number."""
    number = stream._listening.fileno()
    while stream._listening.fileno() >= 0:
        await asyncio.sleep(0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reading = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(ours, 1))
        await asyncio.sleep(0.1)
        theirs.send(b"x")
        assert await asyncio.wait_for(reading, 60) == b"x"
        return ours.fileno() == number


# -- lists ----------------------------------------------------------------------------------------------------------


async def test_what_there_is_is_listed_by_kind(carry: Carry) -> None:
    """With the sizes of files; links are named, not followed."""
    await run(
        carry.kernel, "os.makedirs('a/b'); open('a/b/c', 'w').write('123'); os.symlink('/etc', 'l'); os.mkfifo('p')"
    )
    place = folder_at("/workspace", carry.kernel.about)
    listed, total, whole = await carry.transfer.entries(place, bound=100)
    assert [(each.path, each.kind, each.size) for each in listed] == [
        ("/workspace/a", "folder", 0),
        ("/workspace/a/b", "folder", 0),
        ("/workspace/a/b/c", "file", 3),
        ("/workspace/l", "link", 0),
        ("/workspace/p", "special file", 0),
    ]
    assert (total, whole) == (5, True)
    listed, total, whole = await carry.transfer.entries(place, bound=2)
    assert (len(listed), total, whole) == (2, 5, True)


async def test_a_list_takes_a_bounded_time(carry: Carry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than can be counted, it says that there are more."""
    monkeypatch.setattr(transfer, "REQUEST_SECONDS", 10)
    await run(carry.kernel, "for i in range(30_000): os.close(os.open(f'{i}', os.O_CREAT))")
    place = folder_at("/workspace", carry.kernel.about)
    listed, total, whole = await carry.transfer.entries(place, bound=10, seconds=0.01)
    assert (len(listed), whole) == (10, False)
    assert total < 30_000
