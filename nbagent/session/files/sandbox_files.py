"""Files in a sandbox's folders, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.core.policy import MIB

MAX_BYTES_IN_MEMORY = 256 * MIB
"""Bytes that a file may have to be handed over in memory."""


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """A file that is in the sandbox now.

    Attributes:
        path: Where code finds it; a folder if it was unpacked.
        size: Bytes that were sent.
        sha256: The hash of these bytes, in hexadecimal; empty of a large variable, which is hashed meanwhile.
        unpacked: The number of files that it was unpacked to; 0 if it wasn't unpacked.
    """

    path: str
    size: int
    sha256: str
    unpacked: int = 0


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A variable that was fetched as a file, as the sandbox calls it.

    Attributes:
        kind: What it is: `polars.DataFrame` or another table or array, `text`, or `data` for plain data as JSON.
        size: Bytes of the file.
    """

    kind: str
    size: int


@dataclass(frozen=True, kw_only=True)
class SandboxFile:
    """A file or folder in the sandbox.

    Attributes:
        path: Where code finds it; bytes of the name that aren't UTF-8 are lone surrogates, as `os.fsdecode` has them.
        kind: `file`, `folder`, `link` or `special file`.
        size: Bytes of a file.
        modified: When it was last written to, in seconds since the epoch.
        host: The same file on the host, if it is data, was uploaded from there, or was collected.
    """

    path: str
    kind: str
    size: int
    modified: float
    host: Path | None = None


@dataclass(frozen=True)
class Listing(Sequence[SandboxFile]):
    """Files and folders, by path.

    Attributes:
        files: As many as were asked for.
        total: How many there are.
        whole: Whether `total` counts all; in a folder with more than 100,000 files it doesn't.
    """

    files: tuple[SandboxFile, ...]
    total: int
    whole: bool = True

    def __getitem__(self, index: Any) -> Any:
        return self.files[index]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[SandboxFile]:
        return iter(self.files)
