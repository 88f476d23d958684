"""Files that come into the sandbox and out of it."""

from __future__ import annotations

import msgspec

from nbagent.events.base import Fact, Output


class FileSeen(msgspec.Struct, frozen=True):
    """A file in the sandbox.

    Attributes:
        path: Where code has it, for example `/workspace/model.pkl`; signs that mislead a reader are replaced.
        size: Bytes.
    """

    path: str
    size: int


class FileLeft(msgspec.Struct, frozen=True):
    """A file that a cell left for the person, and that did not reach them.

    Attributes:
        path: Where code has it; signs that mislead a reader are replaced.
        why: Why not, in words that go on a sentence.
    """

    path: str
    why: str


class FileSaved(Fact, frozen=True, kw_only=True):
    """A file reached the host: from `/tmp/output` or `/workspace` after a cell, or the exported notebook."""

    path: str
    size: int
    sha256: str
    cell: int = 0
    source: str = ""
    """Where code has it."""


class FilesLeft(Fact, frozen=True, kw_only=True):
    """Files that a cell left in /tmp/output or /workspace did not reach the host."""

    cell: int
    files: list[FileLeft]


class FilesChanged(Fact, frozen=True, kw_only=True):
    """A cell made or changed files under /tmp, which stay there until somebody fetches them."""

    cell: int
    files: list[FileSeen]
    more: int = 0
    """How many more there are than are named."""


class FileUploaded(Fact, frozen=True, kw_only=True):
    """A person put a file, or the files of an archive, into the sandbox."""

    path: str
    name: str
    """Its own, which an archive's folder has without the ending."""
    size: int
    sha256: str
    source: str = ""
    """Where it lies on the host, absolute; empty if it came from memory."""
    unpacked: int = 0
    """Files that it was unpacked to below `path`; 0 if it was not."""


class FileDownloaded(Fact, frozen=True, kw_only=True):
    """A person fetched a file from the sandbox."""

    path: str
    size: int
    sha256: str
    to: str = ""
    """Where it is on the host, absolute; empty if it went to memory."""


def left_output(event: FilesLeft) -> Output:
    """How a cell's outputs say what of its files did not reach the person."""
    lines = [f"nbagent: {each.path} was not delivered: {each.why}.\n" for each in event.files]
    return {"output_type": "stream", "name": "stderr", "text": "".join(lines)}
