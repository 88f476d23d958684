"""Archives that are unpacked inside of a sandbox, hostile and broken ones too."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from kernel.carry import Carry, run

from nbagent.core.errors import TransferError, TransferLimit
from nbagent.core.policy import MIB

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    assert time.monotonic() - started < 30
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
