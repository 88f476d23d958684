"""Looks for a text in data files: they are read inside the sandbox, and what it says of them is untrusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel

SECONDS = 10.0


@dataclass(frozen=True)
class Hit:
    """A file that has a text in it: how often, how often as whole words, and the first such line with its number."""

    path: str
    count: int
    words: int
    line: int
    text: str


@dataclass(frozen=True)
class Hits:
    """What was found, in how many files it was looked for, and whether these are all that are text."""

    found: Sequence[Hit] = ()
    looked: int = 0
    is_all: bool = False


async def find(kernel: Kernel, paths: Sequence[str], text: str) -> Hits:
    """Look for a text, whatever its case, in those of these files that are text."""
    source = inside_calls.source_of("find_inside.py")
    said = await kernel.evaluate(source, [list(paths), text, SECONDS], seconds=2 * SECONDS)
    match said:
        case {"found": list(found), "looked": int(looked), "all": bool(is_all)}:
            hits = []
            for each in found:
                match each:
                    case [str(path), int(count), int(words), int(line), str(first)]:
                        hits.append(Hit(path, count, words, line, first))
            return Hits(hits, looked, is_all)
    return Hits()
