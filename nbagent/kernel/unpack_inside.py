"""Unpacks an archive, inside the sandbox: `transfer.py` sends this source there. Not for the host.

All names are checked before anything is written, bytes are counted as they really come, and no claim of the archive's
is believed: an archive that does more than its limits is given up, and nothing of it stays.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import os
import shutil
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Iterator
from typing import Any

CHUNK = 256 * 1024
HEADERS = 8 * 1024 * 1024
"""Bytes that a tar archive may have in headers that are read at once, whatever size they claim, and are kept."""
GLOBAL_HEADERS = 1024
"""Bytes of those that each member has a copy of; Git writes 52."""
SLACK = 64 * 1024 * 1024
"""Bytes that any archive may come to, however well it is packed."""
DEPTH = 40
"""Folders in folders."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

Member = tuple[list[str], bool, int, Any]
"""The parts of a name, whether it is a folder, the bytes it claims to have, and how to open it."""


class LimitError(Exception):
    """What an archive may not do, in a sentence."""


class Timed:
    """A stream that ends with an error when time is up, wherever its reader is; for archives that never end.

    Args:
        file: What is read.
        seconds: From now on.
    """

    def __init__(self, file: Any, seconds: float) -> None:
        self._file = file
        self._end = time.monotonic() + seconds

    def read(self, size: int) -> bytes:
        """Read some bytes."""
        if time.monotonic() > self._end:
            raise LimitError("it takes too long to unpack")
        data: bytes = self._file.read(size)
        return data


def bounded_header() -> type[tarfile.TarInfo]:
    """What reads the headers of one tar archive; those of a kind that is read at once are bounded, one and all."""
    claimed = {"all": 0, "global": 0}

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
            info = super().frombuf(buf, encoding, errors)
            if info.type == tarfile.GNUTYPE_SPARSE:
                raise LimitError(f"its member {info.name[:100]!r} is sparse")
            if info.type not in tarfile.REGULAR_TYPES:
                claimed["all"] += info.size
            if info.type == tarfile.XGLTYPE:
                claimed["global"] += info.size
            if claimed["all"] > HEADERS or claimed["global"] > GLOBAL_HEADERS:
                raise LimitError("its headers are too large")
            return info

    return Header


def main(file: int, folder: int, name: str, bounds: dict[str, Any]) -> dict[str, Any]:
    """Unpack the archive that is open as `file` into a new folder `name` of the open folder.

    Args:
        file: A descriptor.
        folder: A descriptor.
        name: There must be nothing of that name.
        bounds: `files`, `bytes` in all, `ratio` of these to the archive's own, and `seconds`.
    """
    staged = f".nbagent-{os.urandom(8).hex()}"
    try:
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise LimitError(f"there is something called {name!r} already")
        except FileNotFoundError:
            pass
        os.mkdir(staged, 0o755, dir_fd=folder)
        found = unpack(file, folder, staged, bounds)
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        return found
    except LimitError as error:
        return {"error": str(error), "limit": True}
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        return {"error": f"it can't be read: {str(error)[:200]}"}
    except OSError as error:
        return {"error": os.strerror(error.errno) if error.errno else str(error)[:200], "errno": error.errno or 0}
    finally:
        shutil.rmtree(staged, dir_fd=folder, ignore_errors=True)


def unpack(file: int, folder: int, staged: str, bounds: dict[str, Any]) -> dict[str, Any]:
    """Write the members below the staged folder; returns how many files there are, and their bytes."""
    size = os.fstat(file).st_size
    room = min(bounds["bytes"], SLACK + size * bounds["ratio"])
    files = written = 0
    with os.fdopen(os.dup(file), "rb") as raw:
        raw.seek(0)
        opened = members(raw, size, bounds)
        top = os.open(staged, FOLDER, dir_fd=folder)
        try:
            for count, (parts, is_folder, claimed, source) in enumerate(opened, start=1):
                if count > bounds["files"]:
                    raise LimitError(f"it has more than {bounds['files']:,} members")
                if claimed > room - written:
                    raise LimitError(too_large(room, bounds))
                at = folder_below(top, parts if is_folder else parts[:-1])
                try:
                    if not is_folder:
                        files += 1
                        written += write(at, parts[-1], source, room - written)
                finally:
                    os.close(at)
        finally:
            os.close(top)
    return {"files": files, "bytes": written, "changed": time.time_ns()}


def too_large(room: int, bounds: dict[str, Any]) -> str:
    """Which of the two limits on size an archive breaks."""
    if room < bounds["bytes"]:
        return f"it unpacks to more than {bounds['ratio']} times its own size"
    return f"it unpacks to more than {bounds['bytes']:,} bytes"


def write(folder: int, name: str, source: Any, room: int) -> int:
    """Write one file; returns its bytes."""
    written = 0
    try:
        target = os.open(name, FILE, 0o644, dir_fd=folder)
    except FileExistsError:
        raise LimitError(f"it has two members called {name[:100]!r}") from None
    with os.fdopen(target, "wb") as to, source() as reader:
        while chunk := reader.read(CHUNK):
            written += len(chunk)
            if written > room:
                raise LimitError("it unpacks to more than it says")
            to.write(chunk)
    return written


def folder_below(top: int, parts: list[str]) -> int:
    """A descriptor of a folder, made part by part."""
    at = os.dup(top)
    for part in parts:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
            below = os.open(part, FOLDER, dir_fd=at)
        except NotADirectoryError:
            raise LimitError(f"it has a file and a folder called {part[:100]!r}") from None
        finally:
            os.close(at)
        at = below
    return at


def parts_of(name: str) -> list[str]:
    """The parts of a member's name, if it stays below the folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise LimitError(f"its member {name[:100]!r} leads out of its folder")
    if len(parts) > DEPTH:
        raise LimitError(f"its member {name[:100]!r} is more than {DEPTH} folders deep")
    return parts


# -- formats --------------------------------------------------------------------------------------------------------


def members(raw: Any, size: int, bounds: dict[str, Any]) -> Iterator[Member]:
    """What an archive holds, by its first bytes: zip, or tar, packed by gzip or bzip2 or not at all."""
    start = raw.read(262)
    raw.seek(0)
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        return of_zip(raw, size, bounds)
    if start.startswith(b"\x1f\x8b"):
        return of_tar(lambda: gzip.GzipFile(fileobj=raw), raw, bounds)
    if start.startswith(b"BZh"):
        return of_tar(lambda: bz2.BZ2File(raw), raw, bounds)
    if start[257:262] == b"ustar":
        return of_tar(lambda: raw, raw, bounds)
    raise LimitError("it is no archive that can be unpacked here: zip, tar, tar.gz and tar.bz2 are")


def of_zip(raw: Any, size: int, bounds: dict[str, Any]) -> Iterator[Member]:
    """The members of a zip archive; all names are looked at first."""
    check_directory(raw, size, bounds)
    archive = zipfile.ZipFile(raw)
    found: list[Member] = []
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise LimitError(f"its member {info.filename[:100]!r} is a link or a special file")
        if info.flag_bits & 1:
            raise LimitError("it is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
            raise LimitError(f"its member {info.filename[:100]!r} is packed in a way that is not unpacked here")
        found.append((parts_of(info.filename), info.is_dir(), info.file_size, lambda info=info: archive.open(info)))
    return iter([each for each in found if each[0]])


def check_directory(raw: Any, size: int, bounds: dict[str, Any]) -> None:
    """Refuse a zip archive whose table of members is too large to be read at once, which is how it is read."""
    tail_size = min(size, 65536 + 22 + 20)
    raw.seek(size - tail_size)
    tail = raw.read(tail_size)
    raw.seek(0)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < 22:
        raise LimitError("it is no whole zip archive")
    count, table = struct.unpack("<HL", tail[at + 10 : at + 16])
    if count > bounds["files"] or table > bounds["files"] * 300 or b"PK\6\7" in tail:
        raise LimitError(f"it has more than {bounds['files']:,} members")


def of_tar(unpacked: Any, raw: Any, bounds: dict[str, Any]) -> Iterator[Member]:
    """The members of a tar archive; it is read twice, the first time for the names."""
    raw.seek(0)
    stream = Timed(unpacked(), bounds["seconds"])
    with opened_tar(stream) as archive:
        claimed = 0
        for count, info in enumerate(archive, start=1):
            claimed += info.size
            if count > bounds["files"]:
                raise LimitError(f"it has more than {bounds['files']:,} members")
            if claimed > bounds["bytes"]:
                raise LimitError(too_large(bounds["bytes"], bounds))
            parts_of(info.name)
            if not (info.isreg() or info.isdir()) or info.issparse():
                raise LimitError(f"its member {info.name[:100]!r} is a link or a special file")
    # The checksum of what is packed stands at its very end.
    if len(stream.read(CHUNK)) == CHUNK:
        raise LimitError("it goes on behind its end")
    raw.seek(0)
    with opened_tar(Timed(unpacked(), bounds["seconds"])) as archive:
        for info in archive:
            if parts := parts_of(info.name):
                yield parts, info.isdir(), info.size, lambda info=info: archive.extractfile(info)


def opened_tar(stream: Any) -> tarfile.TarFile:
    """The archive in a stream that is read once, from its start to its end."""
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=bounded_header())
