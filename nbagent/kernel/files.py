"""Brings files that cells left in /tmp/output to the host, over the kernel's own connection.

Nothing on the host follows a name, a link or a size that the sandbox claims: names are cleaned, sizes bounded, and
what is written is a plain file in a folder of the session's.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from nbagent.errors import TransferError
from nbagent.events import FileSeen
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.paths import Place, shown
from nbagent.kernel.transfer import Transfer
from nbagent.kernel.watch import Watch

MAX_FILES = 20
"""Files that are collected after one run."""
MAX_SIZE = 100 * 1024 * 1024
"""Bytes of one file; a larger one stays in the sandbox, and that is said."""
MAX_TOTAL = 1024 * 1024 * 1024
"""Bytes of all that one session hands over: what is free inside must not fill the host's disk."""
SECONDS = 60.0
"""For all files after one run."""
NAMED = 3
"""Changed files that the note names."""


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


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What came of one run's files.

    Attributes:
        saved: What reached the host.
        note: Sentences about what stayed behind, and about files that changed elsewhere.
        total: Files that there are in /tmp/output in all.
        changed: Files that are new or changed elsewhere, as many as are named.
        more: How many more of these there are.
    """

    saved: list[Saved] = field(default_factory=list)
    note: str = ""
    total: int = 0
    changed: list[FileSeen] = field(default_factory=list)
    more: int = 0


class Collector:
    """Collects one session's output files, each when it is new or has changed.

    Args:
        kernel: The session's.
        folder: Where they go on the host.
        source: The output folder as the sandbox sees it.
        others: Folders in which changes are only noticed, by the name that people know them by.
    """

    def __init__(self, kernel: Kernel, folder: Path, *, source: str, others: dict[str, str] | None = None) -> None:
        self._transfer = Transfer(kernel)
        self._folder = folder
        self._source = source
        self._total = 0
        self._names: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self.watch = Watch(kernel, source, bound=MAX_FILES, others=others)

    async def collect(self, *, after: float = 0.0) -> Collected:
        """Fetch what is new in /tmp/output, and notice what changed elsewhere.

        Args:
            after: Seconds that the cell took.

        Raises:
            OSError: The host's folder can't be written.
        """
        fresh, changed, more = await self.watch.look(after=after)
        saved: list[Saved] = []
        notes = []
        end = time.monotonic() + SECONDS
        for name, size, _ in fresh.files[:MAX_FILES]:
            try:
                one = await self._fetch(name, seconds=end - time.monotonic())
                self._total += one.size
                # A cell that is run again writes its files again; those that are the same are nothing new.
                if self._digests.get(name) != one.sha256:
                    saved.append(one)
                self._digests[name] = one.sha256
            except TransferError:
                large = size > min(MAX_SIZE, MAX_TOTAL - self._total)
                why = f"has {size:,} bytes and stays in the sandbox" if large else "could not be fetched"
                notes.append(f"{shown(name)!r} {why}.")
        if fresh.fresh > MAX_FILES:
            least = "" if fresh.whole else "at least "
            of = f" of {least}{fresh.total:,}" if fresh.total > fresh.fresh else ""
            notes.append(f"{fresh.fresh:,}{of} files are new in {self._source}; {MAX_FILES} were collected.")
        if changed:
            notes.append(_named(changed, more))
        return Collected(saved=saved, note=" ".join(notes), total=fresh.total, changed=changed, more=more)

    def host_path(self, name: str, *, size: int) -> Path | None:
        """Where a file of the output folder is on the host, if it was collected with this size."""
        path = self._folder / self._names.get(name, "")
        return path if path.is_file() and path.stat().st_size == size else None

    async def _fetch(self, name: str, *, seconds: float) -> Saved:
        """One file, written beside its place and moved there when it is whole."""
        parts = name.split("/")
        if not set(parts).isdisjoint(("", ".", "..")):
            raise TransferError(f"{shown(name)} is no name.")
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, staged = tempfile.mkstemp(prefix=".nbagent-", dir=self._folder)
        place = Place(f"{self._source}/{name}", self._source, tuple(parts))
        try:
            with os.fdopen(descriptor, "wb") as file:
                bound = min(MAX_SIZE, MAX_TOTAL - self._total)
                carried = await self._transfer.download(place, file.write, bound=bound, seconds=seconds)
            Path(staged).chmod(0o644)
            path = self._folder / self._place(name)
            Path(staged).replace(path)
            return Saved(path.name, path, carried.size, carried.sha256)
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


def _named(changed: list[FileSeen], more: int) -> str:
    """A short sentence about changed files, for the model and the person."""
    named = ", ".join(f"{each.path} ({size_of(each.size)})" for each in changed[:NAMED])
    left = len(changed) - NAMED + more
    others = f" and {left:,} more" if left > 0 else ""
    return f"Changed: {named}{others}; fetch with session.download(path), or save to /tmp/output."


def size_of(size: int) -> str:
    """Bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"


def safe_name(name: str) -> str:
    """A file's name without what file systems, shells, terminals and readers stumble over; never empty or hidden.

    Folders become part of the name: `plots/a.png` is `plots_a.png`.
    """
    text = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode())
    # Control and format characters: newlines, escapes, and those that turn the direction of writing.
    text = "".join("_" if unicodedata.category(each)[0] == "C" else each for each in text)
    text = re.sub(r'[/\\:*?"<>|]+', "_", text).strip(" .").lstrip("-. ") or "file"
    stem, ending = PurePath(text).stem, PurePath(text).suffix
    return stem.encode()[:150].decode(errors="ignore") + ending.encode()[:20].decode(errors="ignore")
