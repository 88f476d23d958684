"""What an archive may cost whoever unpacks it, with the tarfile of the Python that runs this."""

from __future__ import annotations

import gzip
import inspect
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nbagent.kernel.inside import unpack_inside

MIB = 1024 * 1024
ROOM = 64 * MIB
"""Half of what is left at the strictest level beside a kernel with Polars and Matplotlib."""
UNPACK = """
import json, os, resource, sys
exec(sys.stdin.read(), space := {"__name__": "unpack"})
archive, folder, room = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDONLY), int(sys.argv[3])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
bounds = {"files": 10_000, "bytes": 1 << 27, "ratio": 200, "seconds": 60}
print(json.dumps(space["main"](archive, folder, "unpacked", bounds)))
"""


def header(kind: bytes, size: int, name: str = "a") -> bytes:
    """One header of a tar archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(kind: bytes, content: bytes) -> bytes:
    """An extended header with its content."""
    return header(kind, len(content)) + content + bytes(-len(content) % 512)


def records(count: int, key: Callable[[int], str], value: str = "") -> bytes:
    """Records of a pax header."""
    lines = (f" {key(number)}={value}\n" for number in range(count))
    return b"".join(f"{_length(line)}{line}".encode() for line in lines)


def _length(line: str) -> int:
    digits = 1
    while len(str(len(line) + digits)) != digits:
        digits += 1
    return len(line) + digits


def sparse(blocks: int) -> bytes:
    """GNU's old form of a file with holes, whose map goes on in blocks of its own."""
    first = bytearray(header(tarfile.GNUTYPE_SPARSE, 0))
    first[482] = 1
    first[148:156] = b"%06o\0 " % (sum(first) - sum(first[148:156]) + 8 * 32)
    entry = b"%011o\0" % 512
    return bytes(first) + ((entry * 42).ljust(504, b"\0") + b"\1".ljust(8, b"\0")) * blocks


MEMBER = header(tarfile.REGTYPE, 0)
HOSTILE: dict[str, Callable[[], bytes]] = {
    "one long header": lambda: extended(b"x", bytes(100 * MIB)) + MEMBER,
    "one long header of Solaris": lambda: extended(b"X", bytes(100 * MIB)) + MEMBER,
    "one long global header": lambda: extended(b"g", bytes(100 * MIB)) + MEMBER,
    "one long name": lambda: extended(b"L", b"a" * 100 * MIB) + MEMBER,
    "one long link": lambda: extended(b"K", b"a" * 100 * MIB) + MEMBER,
    "names before names": lambda: extended(b"L", b"a" * 300) * 100_000 + MEMBER,
    "many records": lambda: extended(b"x", records(2_000_000, lambda number: f"k{number}")) + MEMBER,
    "many records, often": lambda: (extended(b"x", records(50_000, lambda number: f"k{number}")) + MEMBER) * 100,
    "records for all": lambda: extended(b"g", records(20_000, lambda number: f"k{number}")) + MEMBER * 9_000,
    "records for all, little by little": lambda: b"".join(
        extended(b"g", records(20, lambda number, turn=turn: f"k{turn}-{number}")) + MEMBER for turn in range(9_000)
    ),
    "many names": lambda: (extended(b"L", b"a" * 100_000) + MEMBER) * 5_000,
    "many owners": lambda: (extended(b"x", records(1, lambda _: "uname", "u" * 100_000)) + MEMBER) * 5_000,
    "holes": lambda: sparse(200_000),
    "holes by pax": lambda: (
        extended(b"x", records(1, lambda _: "GNU.sparse.map", "1," * 20_000_000 + "1") + b"24 GNU.sparse.size=1024\n")
        + MEMBER
    ),
    "holes in the content": lambda: (
        extended(b"x", b"22 GNU.sparse.major=1\n" + b"22 GNU.sparse.minor=0\n" + b"20 GNU.sparse.name=a\n")
        + header(tarfile.REGTYPE, 100 * MIB)
        + b"99999999\n"
        + b"1\n" * 50 * MIB
    ),
}


def unpack(content: bytes, folder: Path, room: int = ROOM) -> dict[str, object]:
    """What came of unpacking it, in a process that may take so many bytes more than it has."""
    (folder / "archive").write_bytes(content)
    (folder / "here").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", UNPACK, str(folder / "archive"), str(folder / "here"), str(room)],
        input=inspect.getsource(unpack_inside), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_no_header_of_an_archive_takes_much_memory(name: str, tmp_path: Path) -> None:
    """Headers are read whole, by a tarfile that each release changes; what it is given to read is bounded."""
    found = unpack(gzip.compress(HOSTILE[name](), 1), tmp_path)
    assert "error" in found
    assert "header" in str(found["error"]) or "can't be read" in str(found["error"])
    assert list((tmp_path / "here").iterdir()) == []


def test_the_room_is_enough_for_what_people_pack(tmp_path: Path) -> None:
    """As many members as there may be, each with a time to the microsecond and a name of 200 characters."""
    info = tarfile.TarInfo("n" * 90 + "/" + "m" * 100 + "/0000")
    info.mtime = 1.5  # type: ignore[assignment]
    one = info.tobuf(tarfile.PAX_FORMAT)
    assert len(one) > 1024
    members = (one.replace(b"/0000", f"/{number:04}".encode()) for number in range(9_999))
    assert unpack(gzip.compress(b"".join(members) + bytes(1024)), tmp_path)["files"] == 9_999
