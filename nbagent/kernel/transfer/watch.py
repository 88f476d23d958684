"""Notices which files of a sandbox are new or changed, by one silent request after each cell."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from nbagent.events import FileSeen
from nbagent.kernel import probe
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.paths import Place, shown

SECONDS = 20.0
"""For the request; what it looks at is bounded by itself, see `watch_inside.py`."""
SHARE = 0.05
"""Of a cell's own time, what looking for files that were written to in their place may take, where there are many."""
MOST = 0.2
"""Seconds that this share comes to at most."""
CHANGED = 20
"""Changed files that are named after one cell."""
MOST_FILES = 1_000_000
"""A count that a sandbox claims is cut here."""


@dataclass(frozen=True)
class Fresh:
    """What is new or changed in one folder and those below it.

    Attributes:
        files: Path in the folder, bytes and time of change in nanoseconds of each, the oldest first, within a bound.
        fresh: How many there are.
        total: How many plain files there are in all.
        whole: Whether all was looked at; else some of it will be the next time.
        odd: Path and kind of what is new there and no plain file with one name: links, pipes, devices.
    """

    files: list[tuple[str, int, int]] = field(default_factory=list)
    fresh: int = 0
    total: int = 0
    whole: bool = True
    odd: list[tuple[str, str]] = field(default_factory=list)


class Watch:
    """Looks at a kernel's folders; each file is told once, and again when it has changed.

    Args:
        kernel: The session's.
        output: The output folder as the sandbox sees it.
        bound: How many of its files are told at a time; the others are told the next time.
        work: The working folder, in which files count that are neither hidden nor a cache's; the same bound holds.
        others: Further folders, by the name that people know them by, where changes are only named.
    """

    def __init__(
        self, kernel: Kernel, output: str, *, bound: int, work: str | None = None, others: dict[str, str] | None = None
    ) -> None:
        self._kernel = kernel
        # A session that goes on after its process finds the kernel knowing what was told so far.
        self._token = kernel.spec.owner or secrets.token_hex(8)
        self._names = list(others or {})
        skip = [output, "/tmp/data"]  # noqa: S108 - a path inside
        # A session without a working folder of its own has an empty one.
        self._roots = [
            [output, [], True, True],
            [work or f"{output}/.nbagent-none", [], False, True],
            *([root, skip, False, False] for root in (others or {}).values()),
        ]
        self._bounds = [bound, bound, *(CHANGED for _ in self._names)]
        self._known: list[tuple[str, int]] = []

    def know(self, place: Place, *, until: int) -> None:
        """Be told of what a person put there, by this time in nanoseconds, so that no cell is said to have made it."""
        self._known.append(("/".join([place.base, *place.parts]), until))

    async def look(self, *, after: float = 0.0) -> tuple[Fresh, Fresh, list[FileSeen], int]:
        """What is new or changed since the last look.

        Args:
            after: Seconds that the cell took: the longer, the more may be spent on finding out what it did.

        Returns:
            What is fresh in the output folder, and in the working folder; changed files elsewhere; how many more of
            these there are.
        """
        seconds = min(after * SHARE, MOST)
        known, self._known = self._known, []
        arguments = [self._token, self._roots, seconds, self._bounds, known]
        found = await self._kernel.evaluate(probe.source_of("watch_inside.py"), arguments, seconds=SECONDS)
        trees = [_fresh(each) for each in found] if isinstance(found, list) else []
        if len(trees) != len(self._roots):
            return Fresh(), Fresh(), [], 0
        output, work, *others = trees
        changed, more = [], 0
        for name, tree in zip(self._names, others, strict=True):
            changed += [FileSeen(path=shown(f"{name}/{path}"), size=size) for path, size, _ in tree.files[:CHANGED]]
            more += max(0, tree.fresh - len(tree.files))
        return output, work, changed[:CHANGED], more + len(changed[CHANGED:])


def _is_odd(row: Any) -> bool:
    match row:
        case [str(), "link" | "hard link" | "special file"]:
            return True
    return False


def _fresh(claimed: Any) -> Fresh:
    """What a sandbox claims of a folder, as far as it makes sense."""
    match claimed:
        case {"files": list(rows), "fresh": int(fresh), "total": int(total), "whole": bool(whole), "odd": list(odd)}:
            files = []
            for row in rows:
                match row:
                    case [str(name), int(size), int(changed)] if size >= 0:
                        files.append((name, size, changed))
            bound = [min(max(0, each), MOST_FILES) for each in (fresh, total)]
            told = [(each[0], each[1]) for each in odd[:CHANGED] if _is_odd(each)]
            return Fresh(files, max(bound[0], len(files)), max(bound[1], len(files)), whole, told)
    return Fresh()
