"""Brings the results of cells to the host, over the kernel's own connection, and says which did not come, and why.

A file that a cell leaves in /tmp/output or in its working folder is a result. The host trusts no name, link or size
that the sandbox claims: names are cleaned, sizes bounded, and only plain files written (`results.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.core.errors import TransferError
from nbagent.core.events import FileLeft, FileSaved, FileSeen
from nbagent.core.policy import MIB
from nbagent.core.quota import Quota
from nbagent.core.text import size_of
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.file_watch import FileWatch, FolderChanges
from nbagent.kernel.transfer.sandbox_paths import SandboxPath, display
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.sandbox.inside.file_watch_inside import WHY_ODD
from nbagent.sandbox.results.folder import Landed, ResultFolder, inert_name, safe_name

FILE_SECONDS = 60.0
"""Seconds for one file, and one second more for each `BYTES_PER_SECOND` bytes of it."""
BYTES_PER_SECOND = 4 * MIB
NAME_BYTES = 4096
"""What the name of a file, and of each new folder above it, counts against the quota, in bytes."""
NAMED_FILES = 3
"""Files that a sentence of the note names."""
MAX_ROUNDS = 50
"""How many times waiting files are collected at the session's end, `Limits.result_files` each time."""
LOST_NOTE = "it is lost with the sandbox"
OUTPUT_FOLDER, WORK_FOLDER = "/tmp/output", "/workspace"  # noqa: S108 - paths inside, as people know them


@dataclass(frozen=True)
class Saved:
    """A file that reached the host.

    Attributes:
        name: Its path in the host's folder of results.
        path: Its whole path on the host.
        size: Bytes.
        sha256: The hash of its contents, in hexadecimal.
        source: Its path in the sandbox.
    """

    name: str
    path: Path
    size: int
    sha256: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The files that were collected after a cell, and those that were not.

    Attributes:
        saved: The files that reached the host.
        left: Those that did not, and why.
        note: Sentences about files that wait, files that changed elsewhere, and files that were renamed.
        total: How many files there are in /tmp/output.
        changed: New or changed files elsewhere, as many as are named.
        more: How many more there are of these.
        waiting: How many files wait for the next collection.
    """

    saved: list[Saved] = field(default_factory=list)
    left: list[FileLeft] = field(default_factory=list)
    note: str = ""
    total: int = 0
    changed: list[FileSeen] = field(default_factory=list)
    more: int = 0
    waiting: int = 0


class Collector:
    """Collects the files that one session's cells save: each file once, and again after it has changed.

    See `FileWatch` for the folders inside; `folder` is where results go on the host.

    Args:
        quota: Counts the bytes that are kept on the host.
        past: What the session put into the folder before, for one that was resumed.

    Attributes:
        left: Why each result that has not reached the host did not, by its path.
    """

    def __init__(
        self,
        kernel: Kernel,
        folder: Path,
        *,
        source: str,
        work: str | None = None,
        others: dict[str, str] | None = None,
        quota: Quota | None = None,
        past: Iterable[FileSaved] = (),
    ) -> None:
        self._transfer = Transfer(kernel)
        self._limits = limits = kernel.spec.trust.limits
        past = list(past)
        self._results = ResultFolder(folder, past=past)
        self._source, self._work = source, work
        self._quota = quota or Quota(limits.session_mb * MIB)
        self._digests = {each.source: each.sha256 for each in past}
        self._waits = 0
        self.left: dict[str, str] = {}
        self.watch = FileWatch(kernel, source, bound=limits.result_files, work=work, others=others)

    async def collect(self, *, after: float = 0.0, report: str = "") -> Collected:
        """Fetch new results, and notice files that changed elsewhere, after a cell that took `after` seconds.

        Raises:
            OSError: The host's folder can't be written.
        """
        output, work, changed, more = await self.watch.look(after=after, report=report)
        saved: list[Saved] = []
        left: list[FileLeft] = []
        for named, base, found in ((OUTPUT_FOLDER, self._source, output), (WORK_FOLDER, self._work or "", work)):
            for name, size, _ in found.files[: self._limits.result_files]:
                why = await self._collect_one(SandboxPath(f"{named}/{name}", base, tuple(name.split("/"))), size, saved)
                left += [FileLeft(display(f"{named}/{name}"), why)] if why else []
            left += [FileLeft(display(f"{named}/{name}"), WHY_ODD[kind]) for name, kind in found.odd]
        self.left |= {each.path: each.why for each in left}
        self._waits = sum(max(0, each.fresh - self._limits.result_files) for each in (output, work))
        notes = [self._waiting_note(named, found) for named, found in ((OUTPUT_FOLDER, output), (WORK_FOLDER, work))]
        if changed:
            notes.append(_changed_note(changed, more))
        notes.append(_renamed_note(saved))
        return Collected(
            saved=saved,
            left=left,
            note=" ".join(filter(None, notes)),
            total=output.total,
            changed=changed,
            more=more,
            waiting=self._waits,
        )

    def _waiting_note(self, named: str, found: FolderChanges) -> str:
        bound = self._limits.result_files
        if found.fresh <= bound:
            return ""
        least = "" if found.whole else "at least "
        of = f" of {least}{found.total:,}" if found.total > found.fresh else ""
        return f"{found.fresh:,}{of} files are new in {named}; {bound} were collected, others come after the next run."

    async def _collect_one(self, place: SandboxPath, size: int, saved: list[Saved]) -> str:
        """Fetch a file; returns why that failed, or an empty text."""
        kept = size + self._names_of(place)
        if why := self._too_much(size, kept):
            return why
        try:
            one = await self._fetch(place, size)
        except TransferError:
            return self._too_much(size, kept) or "it could not be fetched, as it changed or went meanwhile"
        self.left.pop(display(place.path), None)
        # A cell that is run again writes the same files again, which are nothing new.
        if self._digests.get(place.path) != one.sha256:
            saved.append(one)
        self._digests[place.path] = one.sha256
        return ""

    def _names_of(self, place: SandboxPath) -> int:
        """What the names of a new file and of its folders count against the quota, in bytes."""
        return 0 if self._results.where(place.path) else NAME_BYTES * len(place.parts)

    def _too_much(self, size: int, kept: int) -> str:
        """Why a file isn't kept that has `size` bytes and counts `kept` against the quota; empty if it is kept."""
        if size > self._limits.result_mb * MIB:
            return (
                f"it has {size_of(size)}, and a result at most {self._limits.result_mb:,} MB (limit result_mb; raise "
                "it with NBAGENT_RESULT_MB or Limits(result_mb=…))"
            )
        if kept > self._quota.left:
            return (
                f"it has {size_of(size)}, and of the {self._quota.limit // MIB:,} MB that this session may keep on "
                f"disk {size_of(self._quota.left)} are left (limit session_mb)"
            )
        return ""

    def lose(self) -> list[FileLeft]:
        """Return the results that were lost with a sandbox that was replaced."""
        lost = [path for path, why in self.left.items() if why != LOST_NOTE]
        lost += [f"{self._waits:,} more files"] if self._waits else []
        self._waits = 0
        self.left |= dict.fromkeys(lost, LOST_NOTE)
        return [FileLeft(path, LOST_NOTE) for path in lost]

    async def rest(self) -> list[Collected]:
        """At the session's end, collect the files that wait; afterwards `left` has what nobody will get."""
        found = []
        for _ in range(MAX_ROUNDS):
            found.append(await self.collect())
            if not found[-1].waiting or not found[-1].saved:
                break
        if self._waits:
            self.left[f"{self._waits:,} more files"] = "there are too many"
        await self._forget_gone()
        return found

    async def _forget_gone(self) -> None:
        """Drop from `left` the files that cells have deleted."""
        there: set[str] = set()
        for named, base in ((OUTPUT_FOLDER, self._source), (WORK_FOLDER, self._work or "")):
            if base and self.left:
                entries, total, whole = await self._transfer.entries(SandboxPath(named, base, ()), bound=20_000)
                there |= {display(each.path) for each in entries}
                if not whole or total > len(entries):
                    return
        known = self.left.items()
        self.left = {path: why for path, why in known if path in there or why == LOST_NOTE or not path.startswith("/")}

    def host_path(self, source: str, *, size: int) -> Path | None:
        """Where on the host a file of the sandbox is, if it was collected with this size."""
        path = self._results.where(source)
        return path if path is not None and path.is_file() and path.stat().st_size == size else None

    async def _fetch(self, place: SandboxPath, size: int) -> Saved:
        """Fetch one file into a temporary one, and move it to its place when it is whole."""
        if not set(place.parts).isdisjoint(("", ".", "..")):
            raise TransferError(f"{display(place.path)} can't be a file's path.")
        bound = min(self._limits.result_mb * MIB, self._quota.left)
        with self._results.staged() as (file, staged):
            seconds = FILE_SECONDS + size / BYTES_PER_SECOND
            carried = await self._transfer.download(place, file.write, bound=bound, seconds=seconds)
            file.close()
            if not self._quota.take(carried.size + self._names_of(place)):
                raise TransferError("There is no room for it.")
            landed: Landed = await asyncio.to_thread(self._results.put, staged, place.path, place.parts, carried.sha256)
        self._quota.add(-landed.freed)
        return Saved(landed.name, landed.path, carried.size, carried.sha256, display(place.path))


def _changed_note(changed: list[FileSeen], more: int) -> str:
    named = ", ".join(f"{each.path} ({size_of(each.size)})" for each in changed[:NAMED_FILES])
    unnamed = len(changed) - NAMED_FILES + more
    others = f" and {unnamed:,} more" if unnamed > 0 else ""
    return f"Changed: {named}{others}; fetch with session.download(path), or save to /tmp/output."


def _renamed_note(saved: list[Saved]) -> str:
    new = [each.name for each in saved if inert_name(name := safe_name(each.source.rpartition("/")[2])) != name]
    more = f" and {len(new) - NAMED_FILES:,} more" if len(new) > NAMED_FILES else ""
    return f"Renamed, as other programs run files of such names: {', '.join(new[:NAMED_FILES])}{more}." if new else ""
