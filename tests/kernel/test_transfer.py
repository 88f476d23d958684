"""Files carried into a sandbox and out of it, whatever hostile code does about it."""

from __future__ import annotations

import asyncio
import bz2
import contextlib
import gzip
import hashlib
import io
import os
import random
import resource
import socket
import stat
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from typing import Any

import machine
import pytest
import pytest_asyncio

from nbagent.core.errors import TransferError, TransferLimit
from nbagent.core.policy import MIB, TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer import transfer
from nbagent.kernel.transfer.sandbox_paths import file_at, folder_at
from nbagent.kernel.transfer.transfer import PIECE_BYTES, Carried, Transfer
from nbagent.kernel.transfer.variable import fetch_variable
from nbagent.sandbox.channels.byte_stream import ByteStream, SealedMemory
from nbagent.sandbox.paths import VARIABLES
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")
DATA = random.Random(1).randbytes(9 * MIB + 7)  # noqa: S311 - it need not be secret


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel() -> AsyncIterator[Kernel]:
    """A sandbox for code of unknown origin, which all tests here share: no processes, no sockets, little memory."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED, grace=1))
    async with Kernel(machine.works("bubblewrap"), spec) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def carry(kernel: Kernel) -> AsyncIterator[Carry]:
    """What carries, with nothing in the folders yet."""
    await run(kernel, "import os, shutil, threading, time\nos.chdir('/workspace')")
    yield Carry(kernel)
    await run(
        kernel, "for it in os.scandir('.'): shutil.rmtree(it) if it.is_dir(follow_symlinks=False) else os.unlink(it)"
    )


async def run(kernel: Kernel, code: str) -> str:
    """What code prints that doesn't fail."""
    cell = await kernel.run(code)
    assert cell.success, cell.outputs
    return cell.text


class Carry:
    """Carries bytes to a path and from it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.transfer = Transfer(kernel)

    async def up(self, content: bytes, path: str, *, size: int | None = None, unpack: bool = False) -> Carried:
        """Upload."""

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 3_000_000):
                yield content[start : start + 3_000_000]

        place = file_at(path, self.kernel.about)
        return await self.transfer.upload(pieces(), place, size=size, unpack=unpack)

    async def down(self, path: str, **more: Any) -> bytes:
        """Download."""
        content = bytearray()
        carried = await self.transfer.download(file_at(path, self.kernel.about), content.extend, **more)
        assert (carried.size, carried.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        return bytes(content)

    async def left(self) -> list[str]:
        """What there is under /workspace, hidden files too."""
        names = await self.kernel.run("sorted(os.path.join(at, n) for at, d, f in os.walk('.') for n in d + f)")
        found: list[str] = eval(names.text)  # noqa: S307 - a list of names that the test made
        return found


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


async def test_memory_is_held_and_not_copied(carry: Carry) -> None:
    """It has its name until a cell that names it, whole, has ended; takes no room there, and can't be written to."""
    memory, place = SealedMemory(), file_at(f"{VARIABLES}/frame", carry.kernel.about)
    memory.add(DATA)
    memory.seal()
    held = await carry.transfer.hold(memory, place)
    memory.close()
    assert held == Carried(len(DATA), "")
    await run(carry.kernel, f"'{VARIABLES}/my_frame'")
    sha256 = hashlib.sha256(DATA).hexdigest()
    code = f"import hashlib; it = open('{VARIABLES}/frame', 'rb'); digest = hashlib.sha256(it.read()).hexdigest()\n"
    code += "used = os.statvfs('/workspace'); used = (used.f_blocks - used.f_bfree) * used.f_frsize\n"
    code += f"try: os.write(os.open('{VARIABLES}/frame', os.O_RDWR), b'x')\nexcept OSError as error: print(used, error)"
    used, told = (await run(carry.kernel, code)).split(" ", 1)
    assert int(used) < MIB
    assert "not permitted" in told or "denied" in told
    assert await run(carry.kernel, f"print(digest, os.path.lexists('{VARIABLES}/frame'))") == f"{sha256} False"


@pytest.mark.parametrize("way", ["socket", "bytes", "file"])
async def test_a_variable_is_fetched(carry: Carry, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what it is, without room in the sandbox's folders where there is a socket; what can't be had is a sentence."""
    if way == "file":
        monkeypatch.setattr(carry.kernel, "byte_stream", lambda: None)
    if way == "bytes":  # as where no descriptor arrives
        monkeypatch.setattr(socket, "send_fds", lambda connection, buffers, _: connection.sendall(b"".join(buffers)))
    code = f"import random, numpy\narray = numpy.frombuffer(random.Random(1).randbytes({len(DATA)}), dtype='u1')"
    await run(carry.kernel, code + "\ntext = 'ä' * 3; odd = object()")
    for name, kind, content in (("array", "numpy.ndarray", DATA), ("text", "text", "äää".encode())):
        with contextlib.closing(SealedMemory()) as memory:
            assert await fetch_variable(carry.kernel, name, memory) == kind
            assert memory.path.read_bytes().endswith(content)
            assert memory.is_sealed
    assert (await carry.left() == []) is (way != "file")
    for name, told in (("none", "no such variable"), ("odd", "a object is no table")):
        with contextlib.closing(SealedMemory()) as memory, pytest.raises(TransferError, match=told):
            await fetch_variable(carry.kernel, name, memory)


FRAME = """
class Frame:
    def write_ipc(self, file, **_):
        {}
    def estimated_size(self):
        return {}
Frame.__module__, Frame.__name__ = 'polars', 'DataFrame'
frame = Frame()
"""


@pytest.mark.parametrize(
    ("does", "says", "told"),
    [
        ("file.truncate(2**40); file.seek(2**40)", 0, r"more than .*, the sandbox's memory"),
        ("global kept; kept = __import__('mmap').mmap(file.fileno(), 8)", 2**50, "holds on to what it wrote"),
        ("pass", -1, "can't be had"),
    ],
)
async def test_no_variable_is_taken_that_code_can_change_or_that_is_larger_than_the_sandbox(
    carry: Carry, does: str, says: int, told: str
) -> None:
    """Whatever code inside says of its size, and whatever it keeps."""
    await run(carry.kernel, FRAME.format(does, says))
    with contextlib.closing(SealedMemory()) as memory:
        with pytest.raises(TransferError, match=told):
            await fetch_variable(carry.kernel, "frame", memory)
        assert os.fstat(memory.descriptor).st_blocks * 512 <= 256 * MIB
    assert await run(carry.kernel, "print('alive')") == "alive"


async def test_code_cannot_write_into_what_was_taken(carry: Carry) -> None:
    """Though it keeps what it was lent open."""
    await run(carry.kernel, FRAME.format("file.write(b'x' * 9); global kept; kept = os.dup(file.fileno())", 9))
    with contextlib.closing(SealedMemory()) as memory:
        assert await fetch_variable(carry.kernel, "frame", memory) == "polars.DataFrame"
        told = await run(carry.kernel, "try: os.write(kept, b'y')\nexcept OSError as error: print(error)")
        assert "not permitted" in told
        assert memory.path.read_bytes() == b"x" * 9


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
    assert time.monotonic() - started < 5


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
    assert time.monotonic() - started < 5


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
        assert await asyncio.wait_for(reading, 5) == b"x"
        return ours.fileno() == number


# -- archives -------------------------------------------------------------------------------------------------------


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of these."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def tarred(*members: tuple[str | tarfile.TarInfo, bytes], **options: Any) -> bytes:
    """A tar archive of these."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", **options) as archive:
        for member, content in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member of a tar archive that is no plain file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link(name: str) -> zipfile.ZipInfo:
    """A member of a zip archive that is a link."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


MEMBERS = (("d/x.csv", b"1" * 5000), ("y.csv", b"2" * 512), ("d/e/z.csv", b""))
PACKED = {
    "zip": zipped(*MEMBERS),
    "stored zip": zipped(*MEMBERS, how=zipfile.ZIP_STORED),
    "bzip2 zip": zipped(*MEMBERS, how=zipfile.ZIP_BZIP2),
    "tar": tarred(*MEMBERS),
    "pax tar": tarred(*MEMBERS, format=tarfile.PAX_FORMAT),
    "gnu tar": tarred(*MEMBERS, format=tarfile.GNU_FORMAT),
    "tar.gz": gzip.compress(tarred(*MEMBERS)),
    "tar.bz2": bz2.compress(tarred(*MEMBERS)),
}


@pytest.mark.parametrize("kind", PACKED)
async def test_an_archive_is_unpacked_into_a_folder(carry: Carry, kind: str) -> None:
    """Its files with their contents, and neither the archive nor anything else."""
    carried = await carry.up(PACKED[kind], "/workspace/pack", unpack=True)
    assert carried.files == 3
    for name, content in MEMBERS:
        assert await carry.down(f"/workspace/pack/{name}") == content
    found = ["./pack", "./pack/d", "./pack/d/e", "./pack/d/e/z.csv", "./pack/d/x.csv", "./pack/y.csv"]
    assert await carry.left() == found


async def test_a_long_name_and_a_long_archive_are_unpacked(carry: Carry) -> None:
    """Names that need a header of their own, and many members of sizes that fill blocks."""
    many = [(f"{'n' * 120}/{'m' * 150}/{number}", b"x" * (512 * (number % 5))) for number in range(500)]
    carried = await carry.up(gzip.compress(tarred(*many)), "/workspace/pack", unpack=True)
    assert carried.files == 500
    assert await carry.down(f"/workspace/pack/{many[499][0]}") == many[499][1]


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip leads up": (lambda: zipped(("ok", b"1"), ("../out", b"2")), "leads out of its folder"),
    "zip leads up later": (lambda: zipped(("a/b/../../../out", b"2")), "leads out of its folder"),
    "zip absolute": (lambda: zipped(("/tmp/out", b"2")), "leads out of its folder"),
    "zip link": (lambda: zipped((zip_link("l"), b"/tmp"), ("l/out", b"2")), "is a link or a special file"),
    "zip deep": (lambda: zipped(("a/" * 50 + "b", b"")), "more than 40 folders deep"),
    "zip twice": (lambda: zipped(("a", b"1"), ("./a", b"2")), "two members called 'a'"),
    "zip both": (lambda: zipped(("a", b"1"), ("a/b", b"2")), "a file and a folder called 'a'"),
    "zip lzma": (lambda: zipped(("a", b"1"), how=zipfile.ZIP_LZMA), "is packed in a way"),
    "zip many": (lambda: zipped(*((str(n), b"") for n in range(10_001))), "more than 10,000 members"),
    "zip ratio": (lambda: zipped(("a", bytes(90 * MIB))), "more than 200 times its own size"),
    "zip large": (lambda: zipped(*((str(n), bytes(20 * MIB)) for n in range(8))), "unpacks to more than"),
    "zip64": (lambda: zipped(("a", b"1"))[:-22] + b"PK\6\7" + bytes(16) + zipped()[-22:], "more than 10,000 members"),
    "tar leads up": (lambda: tarred(("ok", b"1"), ("../out", b"2")), "leads out of its folder"),
    "tar absolute": (lambda: tarred(("/tmp/out", b"2")), "leads out of its folder"),
    "tar link": (lambda: tarred((special("l", tarfile.SYMTYPE, "/tmp"), b"")), "is a link or a special file"),
    "tar hard link": (lambda: tarred((special("l", tarfile.LNKTYPE, "/tmp/x"), b"")), "is a link or a special file"),
    "tar pipe": (lambda: tarred((special("p", tarfile.FIFOTYPE), b"")), "is a link or a special file"),
    "tar device": (lambda: tarred((special("p", tarfile.CHRTYPE), b"")), "is a link or a special file"),
    "tar sparse": (lambda: tarred((special("p", tarfile.GNUTYPE_SPARSE), b"")), "is sparse"),
    "tar bomb": (lambda: gzip.compress(tarred(("a", bytes(90 * MIB)))), "more than 200 times its own size"),
    "tar claims": (lambda: gzip.compress(claiming(b"0", 10**12)), "unpacks to more than"),
    "tar header": (lambda: gzip.compress(claiming(b"x", 10**10)), "headers are too large"),
    "tar long name": (lambda: gzip.compress(claiming(b"L", 10**10)), "headers are too large"),
    "tar many headers": (lambda: gzip.compress(with_header(b"x", 900_000) * 300, 1), "headers are too large"),
    "tar global headers": (lambda: gzip.compress(with_header(b"g", 1500) + PACKED["tar"]), "headers are too large"),
    "tar goes on": (lambda: gzip.compress(PACKED["tar"] + bytes(10 * MIB)), "goes on behind its end"),
    "text": (lambda: b"a,b\n1,2\n" * 100, "no archive that can be unpacked here"),
    "nothing": (lambda: b"", "no archive that can be unpacked here"),
    "cut zip": (lambda: PACKED["zip"][:-30], "no whole zip archive"),
    "xz": (lambda: b"\xfd7zXZ\0" + bytes(100), "no archive that can be unpacked here"),
}


def with_header(kind: bytes, size: int) -> bytes:
    """A tar member whose name stands in an extended header as large as that."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    text = f"{size} path=".encode().ljust(size - 1, b"a") + b"\n"
    return info.tobuf() + text + bytes(-size % 512) + tarfile.TarInfo("f").tobuf()


def claiming(kind: bytes, size: int) -> bytes:
    """The header of a tar member that claims to be as large as that, and some of it."""
    info = tarfile.TarInfo("a")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(2 * MIB)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_is_a_limit_error(carry: Carry, name: str) -> None:
    """It is refused by what it does, in seconds; nothing of it stays, and the kernel lives on."""
    made, told = HOSTILE[name]
    started = time.monotonic()
    with pytest.raises(TransferLimit, match=told):
        await carry.up(made(), "/workspace/pack", unpack=True)
    assert time.monotonic() - started < 10
    assert await carry.left() == []
    assert await run(carry.kernel, "print(os.path.exists('/tmp/out'))") == "False"


@pytest.mark.parametrize("broken", ["middle of zip", "cut tar.gz", "wrong checksum", "cut tar"])
async def test_a_broken_archive_is_told_as_that(carry: Carry, broken: str) -> None:
    content = {
        "middle of zip": PACKED["stored zip"][:45] + b"?" + PACKED["stored zip"][46:],
        "cut tar.gz": PACKED["tar.gz"][:-20],
        "wrong checksum": PACKED["tar.gz"][:-8] + bytes(8),
        "cut tar": PACKED["tar"][:3000],
    }[broken]
    with pytest.raises(TransferError, match=r"was not carried|can't be read"):
        await carry.up(content, "/workspace/pack", unpack=True)
    assert await carry.left() == []


async def test_what_is_there_is_not_unpacked_over(carry: Carry) -> None:
    await run(carry.kernel, "os.mkdir('one'); os.mkdir('/tmp/target'); os.symlink('/tmp/target', 'two')")
    for name in ("one", "two"):
        with pytest.raises(TransferLimit, match=r"there is a (folder|link) of that name already"):
            await carry.up(PACKED["zip"], f"/workspace/{name}", unpack=True)
    assert (
        await run(carry.kernel, "print(os.listdir('one'), os.listdir('/tmp/target')); os.rmdir('/tmp/target')")
        == "[] []"
    )


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
