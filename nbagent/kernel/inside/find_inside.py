"""Looks for a text in data files, inside the sandbox: `kernel/find_text.py` sends this source there.

Never imported on the host.
"""

from __future__ import annotations

import os
import re
import time

PIECE = 4 * 1024 * 1024
MAX_FOUND = 30
LINE = 200


def main(paths: list[str], text: str, seconds: float) -> dict[str, object]:
    """Find a text in files that are text, whatever its case.

    Returns:
        For each file in which it is: its path, how often, how often as whole words, and the number and the text of the
        first line with it, as whole words if there are such; in how many files it was looked for; and whether these
        are all.
    """
    end = time.monotonic() + seconds
    wanted = {text.lower().encode("utf-8", "replace"), text.lower().encode("cp1252", "replace")}
    found: list[list[object]] = []
    partly: list[list[object]] = []
    looked = 0
    for path in paths:
        if time.monotonic() > end or len(found) >= MAX_FOUND:
            break
        try:
            if os.path.isfile(path) and is_text(path):
                looked += 1
                if hit := within(path, wanted, end):
                    (found if hit[1] else partly).append([path, *hit])
        except OSError:
            continue
    else:
        return {"found": [*found, *partly][:MAX_FOUND], "looked": looked, "all": True}
    return {"found": [*found, *partly][:MAX_FOUND], "looked": looked, "all": False}


def is_text(path: str) -> bool:
    """Whether a file has no NUL at its begin."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(4096)


def within(path: str, wanted: set[bytes], end: float) -> list[object]:
    """How often one of several texts is in a file, how often as whole words, and the first line with it; or nothing."""
    patterns = [re.compile(rb"(?<![a-z0-9])%b(?![a-z0-9])" % re.escape(each)) for each in wanted]
    count, whole_words, lines, rest = 0, 0, 0, b""
    first: list[object] = []
    with open(path, "rb") as file:
        while (piece := file.read(PIECE)) and time.monotonic() < end:
            data = rest + piece
            cut = data.rfind(b"\n") + 1
            whole, rest = (data[:cut], data[cut:]) if cut and len(piece) == PIECE else (data, b"")
            lower = whole.lower()
            here = max(lower.count(each) for each in wanted)
            words = [[each.start() for each in pattern.finditer(lower)] for pattern in patterns] if here else [[]]
            if here and (not first or (any(words) and not whole_words)):
                places = [each[0] for each in words if each] or [lower.find(each) for each in wanted if each in lower]
                at = min(places)
                start = whole.rfind(b"\n", 0, at) + 1
                text = whole[start : whole.find(b"\n", at) if b"\n" in whole[at:] else None].decode("utf-8", "replace")
                first = [lines + whole.count(b"\n", 0, at) + 1, text.strip()[:LINE]]
            count += here
            whole_words += max(map(len, words))
            lines += whole.count(b"\n")
    return [count, whole_words, *first] if count else []
