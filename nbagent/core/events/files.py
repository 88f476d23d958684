"""Events of files that come into the sandbox and out of it. The session emits them."""

from __future__ import annotations

import msgspec

from nbagent.core.events.base import Fact, Output


class FileSeen(msgspec.Struct, frozen=True):
    """A file in the sandbox.

    Attributes:
        path: Its path in the sandbox, such as `/workspace/model.pkl`, without characters that mislead a reader.
        size: Bytes.
    """

    path: str
    size: int


class FileLeft(msgspec.Struct, frozen=True):
    """A file that a cell saved and that did not reach the host.

    Attributes:
        path: Its path in the sandbox, without characters that mislead a reader.
        why: The reason, as the end of a sentence.
    """

    path: str
    why: str


class FileSaved(Fact, frozen=True, kw_only=True):
    """A file reached the host: one that a cell saved in `/tmp/output` or `/workspace`, or the exported notebook."""

    path: str
    size: int
    sha256: str
    cell: int = 0
    source: str = ""
    """Its path in the sandbox."""


class FilesLeft(Fact, frozen=True, kw_only=True):
    """Files that a cell saved in /tmp/output or /workspace could not be brought to the host."""

    cell: int
    files: list[FileLeft]


class FilesChanged(Fact, frozen=True, kw_only=True):
    """A cell made or changed files under /tmp, which stay in the sandbox."""

    cell: int
    files: list[FileSeen]
    more: int = 0
    """The number of files that are not listed."""


class FileUploaded(Fact, frozen=True, kw_only=True):
    """A person put a file, or the files of an archive, into the sandbox."""

    path: str
    name: str
    """The file's name; an archive's folder has it without the ending."""
    size: int
    sha256: str
    """Empty of a large variable, which is hashed meanwhile: a later `DataHashed` has it."""
    source: str = ""
    """Its absolute path on the host; empty if it came from memory."""
    unpacked: int = 0
    """The number of files that were unpacked below `path`; 0 if it is no archive."""


class FileDownloaded(Fact, frozen=True, kw_only=True):
    """A person fetched a file from the sandbox."""

    path: str
    size: int
    sha256: str
    """Empty of a variable, whose file nobody keeps."""
    to: str = ""
    """Its absolute path on the host; empty if it went to memory."""


def left_output(event: FilesLeft) -> Output:
    """An output for the cell that names the files that did not reach the person."""
    lines = [f"nbagent: {each.path} was not delivered: {each.why}.\n" for each in event.files]
    return {"output_type": "stream", "name": "stderr", "text": "".join(lines)}
