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

CHUNK_BYTES = 256 * 1024
MAX_HEADER_BYTES = 1024 * 1024
"""Bytes that may stand before one member of a tar archive: they are read at once."""
MAX_HEADERS_BYTES = 8 * 1024 * 1024
"""Bytes of those in all, beyond `USUAL_HEADER_BYTES` for each member: the names in them are kept."""
USUAL_HEADER_BYTES = 2048
"""Bytes that stand before most members: its header, and one with its time to the microsecond."""
MAX_GLOBAL_CHARACTERS = 1024
"""Characters of those that each member has a copy of; Git writes 52."""
SLACK_BYTES = 64 * 1024 * 1024
"""Bytes that any archive may come to, however well it is packed."""
MAX_DEPTH = 40
"""Folders in folders."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

Member = tuple[list[str], bool, int, Any]
"""The parts of a name, whether it is a folder, the bytes it claims to have, and how to open it."""


class LimitError(Exception):
    """What an archive may not do, in a sentence."""


class Bounded:
    """What tarfile reads, and the bound on its memory: no version of it can hold more than it has been given.

    Between two members it is given `MAX_HEADER_BYTES` bytes and no more, whatever it reads them for.

    Args:
        file: What is read, from its start to its end.
        seconds: When time is up, from now on; for archives that never end.
    """

    def __init__(self, file: Any, seconds: float) -> None:
        self._file = file
        self._end = time.monotonic() + seconds
        self._read = self._member = self._spent = 0
        self._allowed = MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """Read some bytes."""
        if time.monotonic() > self._end:
            raise LimitError("it takes too long to unpack")
        if self._read > self._allowed:
            raise LimitError("its headers are too large")
        data: bytes = self._file.read(size)
        self._read += len(data)
        return data

    def allow(self, info: tarfile.TarInfo, size: int) -> None:
        """Give what comes up to the end of a member, whose size has been looked at, and the next one's headers."""
        self._spent += max(info.offset_data - self._member - USUAL_HEADER_BYTES, 0)
        if info.offset_data < self._member or self._spent > MAX_HEADERS_BYTES:
            raise LimitError("its headers are too large")
        self._member = info.offset_data + size + -size % tarfile.BLOCKSIZE
        self._allowed = self._member + MAX_HEADER_BYTES


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
    room = min(bounds["bytes"], SLACK_BYTES + size * bounds["ratio"])
    files = written = 0
    with os.fdopen(os.dup(file), "rb") as raw:
        raw.seek(0)
        opened = members(raw, size, bounds)
        top = os.open(staged, FOLDER_FLAGS, dir_fd=folder)
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
        target = os.open(name, FILE_FLAGS, 0o644, dir_fd=folder)
    except FileExistsError:
        raise LimitError(f"it has two members called {name[:100]!r}") from None
    with os.fdopen(target, "wb") as to, source() as reader:
        while chunk := reader.read(CHUNK_BYTES):
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
            below = os.open(part, FOLDER_FLAGS, dir_fd=at)
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
    if len(parts) > MAX_DEPTH:
        raise LimitError(f"its member {name[:100]!r} is more than {MAX_DEPTH} folders deep")
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
    stream = Bounded(unpacked(), bounds["seconds"])
    for _ in in_tar(stream, bounds):
        pass
    # The checksum of what is packed stands at its very end.
    if len(stream.read(CHUNK_BYTES)) == CHUNK_BYTES:
        raise LimitError("it goes on behind its end")
    raw.seek(0)
    for info, archive in in_tar(Bounded(unpacked(), bounds["seconds"]), bounds):
        if parts := parts_of(info.name):
            yield parts, info.isdir(), info.size, lambda info=info, archive=archive: archive.extractfile(info)


def in_tar(stream: Bounded, bounds: dict[str, Any]) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """The members of a tar archive that is read once, each checked; by `next`, since an iteration may keep them all."""
    claimed = count = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
        while (info := archive.next()) is not None:
            count += 1
            claimed += max(info.size, 0)
            if count > bounds["files"]:
                raise LimitError(f"it has more than {bounds['files']:,} members")
            if claimed > bounds["bytes"]:
                raise LimitError(too_large(bounds["bytes"], bounds))
            if sum(len(key) + len(str(value)) for key, value in archive.pax_headers.items()) > MAX_GLOBAL_CHARACTERS:
                raise LimitError("its headers are too large")
            parts_of(info.name)
            if info.issparse():
                raise LimitError(f"its member {info.name[:100]!r} is sparse")
            if not (info.isreg() or info.isdir()) or info.size < 0:
                raise LimitError(f"its member {info.name[:100]!r} is a link or a special file")
            stream.allow(info, info.size if info.isreg() else 0)
            info.pax_headers = {}
            yield info, archive
