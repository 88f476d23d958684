"""Brings the files that cells left to the host, over the kernel's own connection, and says what did not come.

What a cell leaves in /tmp/output or in its working folder is a result. Nothing on the host follows a name, a link or a
size that the sandbox claims: names are cleaned, sizes bounded, and what is written is a plain file (`results.py`).
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
from nbagent.kernel.transfer.paths import Place, shown
from nbagent.kernel.transfer.results import Landed, Results, inert_name, safe_name
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.kernel.transfer.watch import Fresh, Watch

SECONDS = 60.0
"""For one file, and a second more for each of its `PACE` bytes."""
PACE = 4 * MIB
ENTRY = 4096
"""Bytes of the host's disk for a name, of a file or of a folder above it, whatever is in it."""
NAMED = 3
"""Changed files that the note names."""
ROUNDS = 50
"""How often files that wait are collected at the end, `Limits.result_files` at a time."""
LOST = "it is lost with the sandbox"
OUTPUT, WORK = "/tmp/output", "/workspace"  # noqa: S108 - paths inside, as people know them


@dataclass(frozen=True)
class Saved:
    """A file that reached the host.

    Attributes:
        name: Its path in the host's folder of results.
        path: Where it is.
        size: Bytes.
        sha256: Of its contents, in hexadecimal.
        source: Where code has it.
    """

    name: str
    path: Path
    size: int
    sha256: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What came of one run's files.

    Attributes:
        saved: What reached the host.
        left: What did not, and why.
        note: Sentences about files that wait, and about files that changed elsewhere.
        total: Files that there are in /tmp/output in all.
        changed: Files that are new or changed elsewhere, as many as are named.
        more: How many more of these there are.
        waiting: Files that are to be collected the next time.
    """

    saved: list[Saved] = field(default_factory=list)
    left: list[FileLeft] = field(default_factory=list)
    note: str = ""
    total: int = 0
    changed: list[FileSeen] = field(default_factory=list)
    more: int = 0
    waiting: int = 0


class Collector:
    """Collects one session's results, each when it is new or has changed.

    Args:
        kernel: The session's.
        folder: Where they go on the host.
        source: The output folder as the sandbox sees it.
        work: The working folder as the sandbox sees it; None if nothing is collected from it.
        others: Folders in which changes are only noticed, by the name that people know them by.
        quota: What may be kept.
        past: What the session put there before.

    Attributes:
        left: What did not reach the host so far and is still to be had, by its path: why.
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
        self._results = Results(folder, past=past)
        self._source, self._work = source, work
        self._quota = quota or Quota(limits.session_mb * MIB)
        self._digests = {each.source: each.sha256 for each in past}
        self._waits = 0
        self.left: dict[str, str] = {}
        self.watch = Watch(kernel, source, bound=limits.result_files, work=work, others=others)

    async def collect(self, *, after: float = 0.0, report: str = "") -> Collected:
        """Fetch what is new, and notice what changed elsewhere.

        Args:
            after: Seconds that the cell took.
            report: What the reply to the cell told of its files.

        Raises:
            OSError: The host's folder can't be written.
        """
        fresh, work, changed, more = await self.watch.look(after=after, report=report)
        saved: list[Saved] = []
        left: list[FileLeft] = []
        for named, base, found in ((OUTPUT, self._source, fresh), (WORK, self._work or "", work)):
            for name, size, _ in found.files[: self._limits.result_files]:
                why = await self._collect_one(Place(f"{named}/{name}", base, tuple(name.split("/"))), size, saved)
                left += [FileLeft(shown(f"{named}/{name}"), why)] if why else []
            left += [FileLeft(shown(f"{named}/{name}"), _ODD[kind]) for name, kind in found.odd]
        self.left |= {each.path: each.why for each in left}
        self._waits = sum(max(0, each.fresh - self._limits.result_files) for each in (fresh, work))
        notes = [self._waiting(named, found) for named, found in ((OUTPUT, fresh), (WORK, work))]
        if changed:
            notes.append(_named(changed, more))
        notes.append(_renamed(saved))
        return Collected(
            saved=saved,
            left=left,
            note=" ".join(filter(None, notes)),
            total=fresh.total,
            changed=changed,
            more=more,
            waiting=self._waits,
        )

    def _waiting(self, named: str, found: Fresh) -> str:
        """A sentence about files that wait."""
        bound = self._limits.result_files
        if found.fresh <= bound:
            return ""
        least = "" if found.whole else "at least "
        of = f" of {least}{found.total:,}" if found.total > found.fresh else ""
        return f"{found.fresh:,}{of} files are new in {named}; {bound} were collected, others come after the next run."

    async def _collect_one(self, place: Place, size: int, saved: list[Saved]) -> str:
        """Fetch a file; returns why it can't be had, or nothing."""
        kept = size + self._names_of(place)
        if why := self._too_much(size, kept):
            return why
        try:
            one = await self._fetch(place, size)
        except TransferError:
            return self._too_much(size, kept) or "it could not be fetched, as it changed or went meanwhile"
        self.left.pop(shown(place.path), None)
        # A cell that is run again writes its files again; those that are the same are nothing new.
        if self._digests.get(place.path) != one.sha256:
            saved.append(one)
        self._digests[place.path] = one.sha256
        return ""

    def _names_of(self, place: Place) -> int:
        """Bytes on the host's disk for a file's name and those of its folders, if it isn't there yet."""
        return 0 if self._results.where(place.path) else ENTRY * len(place.parts)

    def _too_much(self, size: int, kept: int) -> str:
        """Why a file of this size, which takes so much of the host's disk, isn't kept, or nothing."""
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
        """The sandbox was replaced: tell what it still held for the person, which is gone for good."""
        lost = [path for path, why in self.left.items() if why != LOST]
        lost += [f"{self._waits:,} more files"] if self._waits else []
        self._waits = 0
        self.left |= dict.fromkeys(lost, LOST)
        return [FileLeft(path, LOST) for path in lost]

    async def rest(self) -> list[Collected]:
        """At the end, collect what waits; afterwards `left` has what nobody will get."""
        found = []
        for _ in range(ROUNDS):
            found.append(await self.collect())
            if not found[-1].waiting or not found[-1].saved:
                break
        if self._waits:
            self.left[f"{self._waits:,} more files"] = "there are too many"
        await self._forget_gone()
        return found

    async def _forget_gone(self) -> None:
        """Forget the files that a cell has deleted itself: nobody waits for them."""
        there: set[str] = set()
        for named, base in ((OUTPUT, self._source), (WORK, self._work or "")):
            if base and self.left:
                entries, total, whole = await self._transfer.entries(Place(named, base, ()), bound=20_000)
                there |= {shown(each.path) for each in entries}
                if not whole or total > len(entries):
                    return
        known = self.left.items()
        self.left = {path: why for path, why in known if path in there or why == LOST or not path.startswith("/")}

    def host_path(self, source: str, *, size: int) -> Path | None:
        """Where a file of the sandbox is on the host, if it was collected with this size."""
        path = self._results.where(source)
        return path if path is not None and path.is_file() and path.stat().st_size == size else None

    async def _fetch(self, place: Place, size: int) -> Saved:
        """One file, written beside its place and moved there when it is whole."""
        if not set(place.parts).isdisjoint(("", ".", "..")):
            raise TransferError(f"{shown(place.path)} is no name.")
        bound = min(self._limits.result_mb * MIB, self._quota.left)
        with self._results.staged() as (file, staged):
            seconds = SECONDS + size / PACE
            carried = await self._transfer.download(place, file.write, bound=bound, seconds=seconds)
            file.close()
            if not self._quota.take(carried.size + self._names_of(place)):
                raise TransferError("There is no room for it.")
            landed: Landed = await asyncio.to_thread(self._results.put, staged, place.path, place.parts, carried.sha256)
        self._quota.add(-landed.freed)
        return Saved(landed.name, landed.path, carried.size, carried.sha256, shown(place.path))


_ODD = {
    "link": "it is a link, and links are not followed; save a copy of the file",
    "hard link": "it is a hard link, whose file has another name too; save a copy of it",
    "special file": "it is no plain file",
}


def _named(changed: list[FileSeen], more: int) -> str:
    """A short sentence about changed files, for the model and the person."""
    named = ", ".join(f"{each.path} ({size_of(each.size)})" for each in changed[:NAMED])
    left = len(changed) - NAMED + more
    others = f" and {left:,} more" if left > 0 else ""
    return f"Changed: {named}{others}; fetch with session.download(path), or save to /tmp/output."


def _renamed(saved: list[Saved]) -> str:
    """A sentence about files that did not keep their names, for what other programs would make of these."""
    new = [each.name for each in saved if inert_name(name := safe_name(each.source.rpartition("/")[2])) != name]
    more = f" and {len(new) - NAMED:,} more" if len(new) > NAMED else ""
    return f"Renamed, as other programs run files of such names: {', '.join(new[:NAMED])}{more}." if new else ""
