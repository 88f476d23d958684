"""The side of a transfer that is outside of the sandbox: what an upload reads, and where a download may be put."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

from nbagent.core import fileio
from nbagent.core.errors import DataError, TransferError, UsageError
from nbagent.core.policy import MIB
from nbagent.kernel.transfer.sandbox_paths import display
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.data.mounts import named

READ_BYTES = 4 * MIB
"""Bytes that are read at once."""
_MEMORY: Final = re.compile(r"/proc/\d+/fd/\d+")
"""How memory of another process of the person's is named: by a link that leads to no path."""


class Readable(Protocol):
    """A binary file, or anything with its `read`."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, none at the end."""


UploadSource = bytes | bytearray | memoryview | str | Path | Readable
"""What can be uploaded: bytes, the path of a file, or an open binary file, which is read from its present position."""


# -- what is uploaded -----------------------------------------------------------------------------------------------


def name_of(source: UploadSource, name: str | None) -> str:
    """The name of an upload inside: the one that was given, else the file's own."""
    own = str(source) if isinstance(source, str | Path) else getattr(source, "name", None)
    found = name if name is not None else (Path(own).name if isinstance(own, str) else "")
    if not found:
        raise UsageError("The upload has no name.", mend="Name it: upload(source, 'table.csv').")
    return found


def is_memory(path: Path) -> bool:
    """Whether it is the name of what a process has open, as memory has no other."""
    return _MEMORY.fullmatch(str(path)) is not None


def open_plain(path: Path) -> IO[bytes]:
    """Open a plain file outside of the sandbox, or sealed memory; a pipe is refused, never waited for."""
    name = display(str(path))
    try:
        descriptor = os.open(path if is_memory(path) else named(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise DataError(f"There is no file {name}.", mend="Check the name and where you are.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{name} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    # What else is open in a process is reached by its own name, or not at all.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or (is_memory(path) and not SealedMemory(descriptor).is_sealed):
        os.close(descriptor)
        raise DataError(f"{name} is no plain file.", mend="Pack a folder into an archive: unpack=True.")
    return os.fdopen(descriptor, "rb")


class Content(NamedTuple):
    """What an open source has: its pieces, its size if it is known, and the sealed memory in which all of it is."""

    pieces: AsyncIterator[bytes]
    size: int | None = None
    memory: SealedMemory | None = None


@contextlib.contextmanager
def open_source(source: UploadSource) -> Iterator[Content]:
    """The contents of a source.

    Raises:
        DataError: It isn't there, can't be read, or is no plain file.
        UsageError: It can't be read as bytes.
    """
    if isinstance(source, str | Path):
        with open_plain(Path(source)) as file:
            memory = SealedMemory(file.fileno())
            yield Content(_file_pieces(file, Path(source)), memory.size, memory if memory.is_sealed else None)
    elif isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
        yield Content(_slices(content), len(content))
    elif callable(getattr(source, "read", None)):
        yield Content(_pieces(source))
    else:
        raise UsageError(
            f"A {type(source).__name__} can't be uploaded.", mend="Give bytes, the path of a file, or an open file."
        )


async def _slices(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), READ_BYTES):
        yield content[start : start + READ_BYTES]


async def _pieces(file: Any) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        if not isinstance(piece, bytes):
            raise UsageError("The file is open as text.", mend="Open it as binary: open(path, 'rb').")
        yield piece


async def _file_pieces(file: IO[bytes], path: Path) -> AsyncIterator[bytes]:
    """The pieces of a file; an error at the end if it was written to meanwhile: the pieces may not fit together."""
    before = os.fstat(file.fileno())
    left = before.st_size
    async for piece in _pieces(file):
        left -= len(piece)
        if left < 0:
            # It may grow for ever.
            break
        yield piece
    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise TransferError(f"{display(str(path))} changed while it was sent.", mend="Upload it when it is written.")


# -- where a download goes ------------------------------------------------------------------------------------------


def new_memory(target: Path) -> SealedMemory:
    """Memory for what is to be put into that of another process, if that has no other name, else into a file.

    Raises:
        OSError: What is open there is no new memory.
    """
    if not is_memory(target):
        return SealedMemory()
    memory = SealedMemory(os.open(target, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    status = os.fstat(memory.descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink or status.st_size:
        memory.close()
        raise OSError(errno.EINVAL, "it is no new memory")
    return memory


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a place for a download that is taken or impossible, before anything is fetched.

    Raises:
        StoreError: No file can be written there.
        TransferError: Something is there already, or a link.
    """
    if target.is_symlink():
        raise TransferError(f"{target} is a link, and nothing is written through one.", mend="Choose another name.")
    fileio.check_file(target)
    if not overwrite and target.exists():
        raise TransferError(f"{target} is there already.", mend="Choose another name, or say overwrite=True.")


def put(staged: Path, target: Path, *, overwrite: bool) -> None:
    """Move a file to its place; over another one, also one that came meanwhile, only with `overwrite`."""
    if not overwrite:
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        except FileExistsError:
            raise TransferError(f"{target} is there already.", mend="Choose another name.") from None
    staged.replace(target)
