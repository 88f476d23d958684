"""Notices which files of a sandbox are new or changed: from the reply to a cell, or else by a request of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nbagent.core.events import FileSeen
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.sandbox_paths import MAX_FILE_BYTES, SandboxPath, clamp_time, display
from nbagent.sandbox.inside.file_watch_inside import METADATA_KEY, WHY_ODD
from nbagent.sandbox.untrusted import UnreadableError, parse

REQUEST_SECONDS = 20.0
"""Seconds for a request of its own; `file_watch_inside.py` bounds how much of the folders that looks at."""
MAX_LOOKS = 2**53
"""The number of a look, which a sandbox claims, must be below this."""
MAX_REPORT_CHARACTERS = MIB
"""Characters of the report in a reply."""
SEARCH_SHARE = 0.05
"""The part of a cell's own time that the search for files which were overwritten in place may take."""
MAX_SEARCH_SECONDS = 0.2
"""Seconds that this search may take at most."""
MAX_NAMED_CHANGES = 20
"""Changed files outside of the folders of results that are named after one cell."""
MAX_FILE_COUNT = 1_000_000
"""A count of files, which a sandbox claims, is cut to this."""


@dataclass(frozen=True)
class FolderChanges:
    """The files that are new or changed in a folder and its subfolders.

    Attributes:
        files: The path in the folder, the bytes, and the time of change in nanoseconds, of the new and changed files;
            the oldest first, at most `bound` of them.
        fresh: How many new and changed files there are in all.
        total: How many plain files there are.
        whole: Whether all of the folder was looked at; the next look begins with the rest.
        odd: The path and kind of new entries that are no plain file with one name: links, pipes, devices.
    """

    files: list[tuple[str, int, int]] = field(default_factory=list)
    fresh: int = 0
    total: int = 0
    whole: bool = True
    odd: list[tuple[str, str]] = field(default_factory=list)


class Look(NamedTuple):
    """What one look found.

    Attributes:
        output: In the output folder.
        work: In the working folder.
        changed: Changed files elsewhere, at most `MAX_NAMED_CHANGES`.
        more: How many more there are of these.
    """

    output: FolderChanges
    work: FolderChanges
    changed: list[FileSeen]
    more: int


class FileWatch:
    """Looks at the folders of a kernel, and reports each file once, and again when it has changed.

    Args:
        output: The output folder, by its path inside.
        bound: How many files of the output folder, and of the working folder, one look reports; the next look reports
            the others.
        work: The working folder, by its path inside; hidden files and caches in it don't count.
        others: Folders of whose changed files only the names are wanted: the paths inside, by the names for people.
    """

    def __init__(
        self, kernel: Kernel, output: str, *, bound: int, work: str | None = None, others: dict[str, str] | None = None
    ) -> None:
        self._kernel = kernel
        # By this name a session that was resumed finds that its kernel remembers what was reported.
        self._token = kernel.spec.owner or secrets.token_hex(8)
        self._names = list(others or {})
        skip = [output, "/tmp/data"]  # noqa: S108 - a path inside
        # Where there is no working folder, one that never exists stands for it.
        self._roots = [
            [output, [], True, True],
            [work or f"{output}/.nbagent-none", [], False, True],
            *([root, skip, False, False] for root in (others or {}).values()),
        ]
        self._bounds = [bound, bound, *(MAX_NAMED_CHANGES for _ in self._names)]
        self._known: list[tuple[str, int]] = []
        self._heard = 0

    def know(self, place: SandboxPath, *, until: int) -> None:
        """Don't report a file that a person uploaded, unless it changes after this time in nanoseconds."""
        self._known.append((place.inside, until))

    def metadata(self) -> dict[str, Any]:
        """Metadata for a cell's request, which has the kernel report changes with its reply."""
        asked = {
            "token": self._token,
            "heard": self._heard,
            "share": SEARCH_SHARE,
            "most": MAX_SEARCH_SECONDS,
            "known": self._known,
            "only_own": not self._kernel.is_owned,
        }
        return {METADATA_KEY: asked}

    async def look(self, *, after: float = 0.0, report: str = "") -> Look:
        """What is new or changed since the last look, on which a part of the seconds that the cell took may be spent.

        If the report in the reply to the cell makes no sense, the kernel is asked.
        """
        trees = self._trees(_parse_report(report)) or self._trees(
            await self._ask(min(after * SEARCH_SHARE, MAX_SEARCH_SECONDS))
        )
        if trees is None:
            return Look(FolderChanges(), FolderChanges(), [], 0)
        self._known.clear()
        output, work, *others = trees
        changed, more = [], 0
        for name, tree in zip(self._names, others, strict=True):
            changed += [
                FileSeen(path=display(f"{name}/{path}"), size=size) for path, size, _ in tree.files[:MAX_NAMED_CHANGES]
            ]
            more += max(0, tree.fresh - len(tree.files))
        return Look(output, work, changed[:MAX_NAMED_CHANGES], more + len(changed[MAX_NAMED_CHANGES:]))

    async def _ask(self, seconds: float) -> Any:
        arguments = [self._token, self._roots, self._bounds, self._heard, seconds, self._known]
        return await self._kernel.evaluate(
            inside_calls.source_of("file_watch_inside.py"), arguments, seconds=REQUEST_SECONDS
        )

    def _trees(self, claimed: Any) -> list[FolderChanges] | None:
        """A sandbox's report on its folders; None if it makes no sense. Else the kernel won't report the same again."""
        match claimed:
            case {"number": int(number), "trees": list(rows)} if 0 < number < MAX_LOOKS and len(rows) == len(
                self._roots
            ):
                trees = [_folder_changes(each) for each in rows]
                if None not in trees:
                    self._heard = number
                    return [each for each in trees if each is not None]
        return None


def _parse_report(report: str) -> Any:
    try:
        return parse(report, limit=MAX_REPORT_CHARACTERS)
    except UnreadableError:
        return None


def _folder_changes(claimed: Any) -> FolderChanges | None:
    """A sandbox's report on one folder, without the entries that make no sense; None if it is no report."""
    match claimed:
        case {"files": list(rows), "fresh": int(fresh), "total": int(total), "whole": bool(whole), "odd": list(odd)}:
            files = []
            for row in rows:
                match row:
                    case [str(name), int(size), int(changed)] if 0 <= size <= MAX_FILE_BYTES:
                        files.append((name, size, clamp_time(changed)))
            bound = [min(max(0, each), MAX_FILE_COUNT) for each in (fresh, total)]
            links = []
            for row in odd[:MAX_NAMED_CHANGES]:
                match row:
                    case [str(name), str(kind)] if kind in WHY_ODD:
                        links.append((name, kind))
            return FolderChanges(files, max(bound[0], len(files)), max(bound[1], len(files)), whole, links)
    return None
