"""Brings files that cells left in /tmp/output to the host, over the kernel's own connection.

Nothing on the host follows a name, a link or a size that the sandbox claims: names are cleaned, sizes bounded, and
what is written is a plain file in a folder of the session's.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from nbagent.kernel.kernel import Kernel

MAX_FILES = 20
"""Files that are collected after one run."""
MAX_SIZE = 100 * 1024 * 1024
"""Bytes of one file; a larger one stays in the sandbox, and that is said."""
MAX_TOTAL = 1024 * 1024 * 1024
"""Bytes of all that one session hands over: what is free inside must not fill the host's disk."""
SECONDS = 60.0
"""For all files after one run."""
_PROBE = Path(__file__).with_name("files_inside.py")


@dataclass(frozen=True)
class Saved:
    """A file that reached the host.

    Attributes:
        name: Its name in the output folder.
        path: Where it is.
        size: Bytes.
        sha256: Of its contents, in hexadecimal.
    """

    name: str
    path: Path
    size: int
    sha256: str


class Collector:
    """Collects one session's output files, each when it is new or has changed.

    Args:
        kernel: The session's.
        folder: Where they go on the host.
        source: The output folder as the sandbox sees it.
    """

    def __init__(self, kernel: Kernel, folder: Path, *, source: str) -> None:
        self._kernel = kernel
        self._folder = folder
        self._source = source
        self._total = 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._names: dict[str, str] = {}

    async def collect(self) -> tuple[list[Saved], str]:
        """Fetch what is new in /tmp/output.

        Returns:
            The files, and a sentence about what was left behind, or nothing.

        Raises:
            OSError: The host's folder can't be written.
        """
        listing = await self._kernel.evaluate(_PROBE.read_text(), ["list", self._source, MAX_FILES * 50], seconds=10)
        fresh = self._fresh(listing)
        saved: list[Saved] = []
        notes = []
        end = time.monotonic() + SECONDS
        for name, size, changed in fresh[:MAX_FILES]:
            if size > MAX_SIZE or self._total + size > MAX_TOTAL:
                self._seen[name] = (size, changed)
                notes.append(f"{name!r} has {size:,} bytes and stays in the sandbox.")
            elif (left := end - time.monotonic()) <= 0:
                notes.append("The kernel took too long to hand over its files; the rest stays in the sandbox.")
                break
            elif (one := await self._fetch(name, size, seconds=left)) is not None:
                self._seen[name] = (size, changed)
                self._total += size
                saved.append(one)
            else:
                notes.append(f"{name!r} could not be fetched.")
        if len(fresh) > MAX_FILES:
            notes.append(f"{len(fresh)} files are new in {self._source}; {MAX_FILES} were collected.")
        return saved, " ".join(notes)

    def _fresh(self, listing: Any) -> list[tuple[str, int, int]]:
        found = []
        for entry in listing if isinstance(listing, list) else []:
            match entry:
                case [str(name), int(size), int(changed)] if size >= 0 and self._seen.get(name) != (size, changed):
                    found.append((name, size, changed))
        return found

    async def _fetch(self, name: str, size: int, *, seconds: float) -> Saved | None:
        """One file, written beside its place and moved there when it is whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, staged = tempfile.mkstemp(prefix=".nbagent-", dir=self._folder)
        digest = hashlib.sha256()
        received = 0
        try:
            with os.fdopen(descriptor, "wb") as file:

                def take(chunk: bytes) -> None:
                    nonlocal received
                    chunk = chunk[: size - received]
                    received += len(chunk)
                    digest.update(chunk)
                    file.write(chunk)

                await self._kernel.evaluate(
                    _PROBE.read_text(), ["send", f"{self._source}/{name}", size], seconds=seconds, chunks=take
                )
            if received != size:
                return None
            Path(staged).chmod(0o644)
            path = self._folder / self._place(name)
            Path(staged).replace(path)
            return Saved(path.name, path, size, digest.hexdigest())
        finally:
            Path(staged).unlink(missing_ok=True)

    def _place(self, name: str) -> str:
        """The name on the host: the same for the same file, and no other's, whatever the case."""
        if name not in self._names:
            wanted = safe_name(name)
            taken = {other.casefold() for other in self._names.values()}
            stem, ending = PurePath(wanted).stem, PurePath(wanted).suffix
            number = 1
            while wanted.casefold() in taken:
                number += 1
                wanted = f"{stem}-{number}{ending}"
            self._names[name] = wanted
        return self._names[name]


def safe_name(name: str) -> str:
    """A file's name without what file systems, shells, terminals and readers stumble over; never empty or hidden.

    Folders become part of the name: `plots/a.png` is `plots_a.png`.
    """
    text = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode())
    # Control and format characters: newlines, escapes, and those that turn the direction of writing.
    text = "".join("_" if unicodedata.category(each)[0] == "C" else each for each in text)
    text = re.sub(r'[/\\:*?"<>|]+', "_", text).strip(" .") or "file"
    stem, ending = PurePath(text).stem, PurePath(text).suffix
    return stem.encode()[:150].decode(errors="ignore") + ending.encode()[:20].decode(errors="ignore")
