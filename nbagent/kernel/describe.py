"""Profiles data files: everything in them is read inside the sandbox, and remembered by the hash of the file.

The host never parses data, since a file may be hostile to the parser. The profiles are untrusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.events import ColumnType
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.inside.notes_inside import may_be_note
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.profile import MAX_PROFILE_HEFT, FileProfile, bounded, columns_of
from nbagent.kernel.profile_cache import ProfileCache
from nbagent.sandbox.untrusted import UnreadableError, parse

ALL_FILES_SECONDS = 20.0
"""Seconds for all files together; a file that got too little of them has a note that says so."""
MOST_BUSY = 3.0
"""How many times as long it may take while other programs have the processors."""
MAX_WORDS = 300
"""Words of a question that are looked for in the files' names."""
MAX_FILES = 5_000
"""Files of which anything is said, as in `listing_inside.py`."""
MAX_SCHEMA = 2000
"""Columns of all files together that a lock names."""
MAX_PROFILE_BYTES = 4 * MIB
"""Bytes of one profile; 60 columns with their sketches have a fourth of that."""
MAX_PROFILES_BYTES = 128 * MIB
"""Bytes of all profiles; there are two of each file, from the begin and the end of reading it."""
MAX_ALL_COLUMNS = 50_000
"""Columns of all files together: each takes half a kilobyte of memory, however short its text is."""
NOT_LISTED = "could not be read in time"
UNREAD = ("not profiled", "took too long", NOT_LISTED)
"""How notes begin of files and sheets for which there was no time (`profile_inside.py`, `workbooks_inside.py`)."""
_TYPED = re.compile(
    r"(?i)\.(?:[ctp]sv|tab|gz|parquet|arrow|feather|ipc|jsonl?|ndjson|xls[xbm]?|ods|html?|dta|db|sqlite|gpkg)$"
)
"""Files that are read in one way, whatever notes say."""


@dataclass
class Profiles:
    """What is known of the data.

    Attributes:
        files: Each file, in the order of their paths.
        more: Files that are not among them.
        cached: How many of them were known from before.
        copies: The paths of files that have the same content, the first of each in the order of all.
    """

    files: list[FileProfile] = field(default_factory=list)
    more: int = 0
    cached: int = 0
    copies: list[list[str]] = field(default_factory=list)


async def describe(
    kernel: Kernel, paths: Sequence[str], *, cache: ProfileCache | None = None, first: Collection[str] = ()
) -> Profiles:
    """Profile data files.

    Args:
        kernel: A running kernel; its namespace is left as it was.
        paths: Files and folders as the sandbox sees them.
        cache: Remembers profiles by the hashes of their files.
        first: Paths, or words in them, of files that are read before the others.

    Returns:
        Each file, also below a folder. One that could not be read has a note only.
    """
    if not paths:
        return Profiles()
    source = inside_calls.source_of("profile_inside.py")
    lister = inside_calls.source_of("listing_inside.py")
    arguments: list[Any] = [list(paths), ALL_FILES_SECONDS * 0.2]
    listing = _Files.of(await kernel.evaluate(lister, arguments, seconds=ALL_FILES_SECONDS * 0.4))
    known: dict[str, FileProfile] = {}
    made_with = hashlib.sha256(f"{source}{kernel.pins.get('polars')}".encode()).hexdigest()
    if cache is not None:
        known = {path: found for path, key in listing.keys(made_with).items() if (found := cache.find(key, path))}
    asked, words = set(first), sorted({each.lower() for each in first})[:MAX_WORDS]
    # Where there is too little time for all, it is enough for more of them if the large ones come last.
    wanted = sorted(
        (path for path in (listing.sizes or paths) if path not in known),
        key=lambda path: (path not in asked, -sum(map(path.lower().__contains__, words)), listing.sizes.get(path, 0)),
    )
    taken = _Taken()
    if wanted:
        piece = max(1, min(32, kernel.spec.trust.limits.memory_mb // 64)) * MIB
        named = sum(path in asked or any(map(path.lower().__contains__, words)) for path in wanted)
        arguments = [wanted, ALL_FILES_SECONDS * 0.8, piece, named]
        # Inside, what other programs have taken of the time doesn't count (`Watch` in `clock_inside.py`).
        busy = min(MOST_BUSY, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        await kernel.evaluate(source, arguments, seconds=ALL_FILES_SECONDS * busy, chunks=taken.take)
    if cache is not None and kernel.is_owned and not kernel.last_cell:
        # Once a cell has run, a profile may be what its code says.
        for path, key in listing.keys(made_with).items():
            found = None if path in known else taken.by_path.get(path)
            if found is not None and found.kind and not was_late(found):
                cache.keep(key, found)
        await asyncio.to_thread(cache.tidy)
    for path, found in taken.by_path.items():
        found.size = found.size or listing.sizes.get(path, 0)
    for path in wanted:
        if not any(f"{each}/".startswith(f"{path}/") for each in taken.by_path):
            taken.by_path[path] = FileProfile(path=path, size=listing.sizes.get(path, 0), note=NOT_LISTED)
    files = {**taken.by_path, **known}
    order = {path: number for number, path in enumerate(listing.sizes)}
    ordered = sorted(files.values(), key=lambda each: order.get(each.path, len(order)))
    return Profiles(ordered, more=listing.more, cached=len(known), copies=listing.copies())


def was_late(found: FileProfile) -> bool:
    """Whether there was no time for a file, or for a sheet of it: asked again, a sandbox may say more of it."""
    return any(note.startswith(UNREAD) for note in (found.note, *(each.note for each in found.tables)))


def schemas(profiles: Profiles) -> dict[str, list[ColumnType]]:
    """The columns of those files that are tables, by path; of several tables, with the table's name."""
    found: dict[str, list[ColumnType]] = {}
    left = MAX_SCHEMA
    for each in profiles.files:
        tables = each.tables[:1] if each.kind == "Excel" else each.tables
        columns = [
            ColumnType(
                f"{table.name}.{column.name}" if len(each.tables) > 1 and each.kind != "Excel" else column.name,
                column.dtype,
            )
            for table in tables
            for column in table.columns
        ][:left]
        if columns:
            found[each.path] = columns
            left -= len(columns)
    return found


@dataclass
class _Files:
    """The files that there are, as the sandbox says."""

    sizes: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    more: int = 0

    @classmethod
    def of(cls, said: Any) -> _Files:
        listing = cls()
        match said:
            case {"files": list(files), "more": int(more)}:
                listing.more = more
                for each in files[:MAX_FILES]:
                    match each:
                        case [str(path), int(size), str(digest)]:
                            listing.sizes[path] = size
                            if len(digest) == 64 and digest.isalnum():
                                listing.hashes[path] = digest
        return listing

    def copies(self) -> list[list[str]]:
        """The paths of files that aren't empty and have the same content."""
        by_hash: dict[str, list[str]] = {}
        for path, digest in self.hashes.items():
            if self.sizes[path]:
                by_hash.setdefault(digest, []).append(path)
        return [each for each in by_hash.values() if len(each) > 1]

    def keys(self, made_with: str) -> Mapping[str, str]:
        """The names under which profiles of files with a hash are remembered."""
        notes: dict[str, list[str]] = {}
        for path, digest in self.hashes.items():
            if may_be_note(path):
                notes.setdefault(posixpath.dirname(path), []).append(digest)
        # The ending decides how a file is read, and what its read call says; of some texts, the notes beside it do.
        found = {}
        for path, digest in self.hashes.items():
            folder = posixpath.dirname(path)
            beside = [*notes.get(folder, ()), *notes.get(posixpath.dirname(folder), ())]
            by = "" if _TYPED.search(path) else " ".join(beside)
            found[path] = hashlib.sha256(f"{made_with} {digest} {path} {by}".encode()).hexdigest()
        return found


class _Taken:
    """The published profiles by path, within bounds; a later one of the same file replaces an earlier one."""

    def __init__(self) -> None:
        self.by_path: dict[str, FileProfile] = {}
        self._left = MAX_PROFILES_BYTES
        self._columns = MAX_ALL_COLUMNS

    def take(self, published: bytes) -> None:
        """Take one published profile; anything else is ignored."""
        self._left -= len(published)
        if self._left < 0:
            return
        with contextlib.suppress(UnreadableError):
            found = parse(published, FileProfile, limit=MAX_PROFILE_BYTES, heft=MAX_PROFILE_HEFT)
            if found.path in self.by_path or len(self.by_path) < MAX_FILES:
                if found.path in self.by_path:
                    self._columns += columns_of(self.by_path[found.path])
                self.by_path[found.path] = bounded(found, columns=self._columns)
                self._columns -= columns_of(found)
