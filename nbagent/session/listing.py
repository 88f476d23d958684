"""What there is in a sandbox's folders, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.core.policy import MIB

IN_MEMORY = 256 * MIB
"""Bytes of a file that is handed over in memory."""


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """A file that is in the sandbox now.

    Attributes:
        path: Where code finds it; a folder if it was unpacked.
        size: Bytes that were sent.
        sha256: Of these, in hexadecimal.
        unpacked: Files that it was unpacked to; 0 if it was not.
    """

    path: str
    size: int
    sha256: str
    unpacked: int = 0


@dataclass(frozen=True, kw_only=True)
class SandboxFile:
    """Something in the sandbox's folders.

    Attributes:
        path: Where code finds it. A name that is no text has single surrogates, as Python has it.
        kind: `file`, `folder`, `link` or `special file`.
        size: Bytes of a file.
        modified: When it was written to last, in seconds since the epoch.
        host: Where the host has it too: as data, or since it was collected or uploaded from there.
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
        files: As many as were wanted.
        total: How many there are.
        whole: Whether `total` is all; a folder with more than 100,000 is not counted to its end.
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
