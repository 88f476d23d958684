"""Notices which files of a sandbox are new or changed: the reply to a cell tells, and a request of its own if not."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from nbagent.core.events import FileSeen
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.paths import MAX_SIZE, Place, shown, within
from nbagent.sandbox.untrusted import UnreadableError, parse

SECONDS = 20.0
"""For a request of its own; what it looks at is bounded by itself, see `watch_inside.py`."""
CARRIED = "nbagent"
"""Where a request's metadata has what its reply is to tell of."""
MAX_LOOKS = 2**53
"""A number of looks that a sandbox claims is below this."""
MAX_REPORT = MIB
"""Characters of what a reply tells."""
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
        self._heard = 0

    def know(self, place: Place, *, until: int) -> None:
        """Be told of what a person put there, by this time in nanoseconds, so that no cell is said to have made it."""
        self._known.append(("/".join([place.base, *place.parts]), until))

    def metadata(self) -> dict[str, Any]:
        """What goes along with a cell's request, so that its reply tells what changed."""
        asked = {"token": self._token, "heard": self._heard, "share": SHARE, "most": MOST, "known": self._known}
        return {CARRIED: asked}

    async def look(self, *, after: float = 0.0, report: str = "") -> tuple[Fresh, Fresh, list[FileSeen], int]:
        """What is new or changed since the last look.

        Args:
            after: Seconds that the cell took: the longer, the more may be spent on finding out what it did.
            report: What the reply to the cell told; the kernel is asked if that is nothing that makes sense.

        Returns:
            What is fresh in the output folder, and in the working folder; changed files elsewhere; how many more of
            these there are.
        """
        trees = self._trees(_parsed(report)) or self._trees(await self._ask(min(after * SHARE, MOST)))
        if trees is None:
            return Fresh(), Fresh(), [], 0
        self._known.clear()
        output, work, *others = trees
        changed, more = [], 0
        for name, tree in zip(self._names, others, strict=True):
            changed += [FileSeen(path=shown(f"{name}/{path}"), size=size) for path, size, _ in tree.files[:CHANGED]]
            more += max(0, tree.fresh - len(tree.files))
        return output, work, changed[:CHANGED], more + len(changed[CHANGED:])

    async def _ask(self, seconds: float) -> Any:
        arguments = [self._token, self._roots, self._bounds, self._heard, seconds, self._known]
        return await self._kernel.evaluate(inside_calls.source_of("watch_inside.py"), arguments, seconds=SECONDS)

    def _trees(self, claimed: Any) -> list[Fresh] | None:
        """What a sandbox claims of its folders; None if it makes no sense. What is heard now is not told again."""
        match claimed:
            case {"number": int(number), "trees": list(rows)} if 0 < number < MAX_LOOKS and len(rows) == len(
                self._roots
            ):
                trees = [_fresh(each) for each in rows]
                if None not in trees:
                    self._heard = number
                    return [each for each in trees if each is not None]
        return None


def _parsed(report: str) -> Any:
    try:
        return parse(report, limit=MAX_REPORT)
    except UnreadableError:
        return None


def _is_odd(row: Any) -> bool:
    match row:
        case [str(), "link" | "hard link" | "special file"]:
            return True
    return False


def _fresh(claimed: Any) -> Fresh | None:
    """What a sandbox claims of a folder, as far as it makes sense; None if nothing of it does."""
    match claimed:
        case {"files": list(rows), "fresh": int(fresh), "total": int(total), "whole": bool(whole), "odd": list(odd)}:
            files = []
            for row in rows:
                match row:
                    case [str(name), int(size), int(changed)] if 0 <= size <= MAX_SIZE:
                        files.append((name, size, within(changed)))
            bound = [min(max(0, each), MOST_FILES) for each in (fresh, total)]
            told = [(each[0], each[1]) for each in odd[:CHANGED] if _is_odd(each)]
            return Fresh(files, max(bound[0], len(files)), max(bound[1], len(files)), whole, told)
    return None
