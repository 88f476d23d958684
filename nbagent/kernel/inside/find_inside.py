"""Looks for a text in data files, inside the sandbox: `kernel/find_text.py` sends this source there.

Never imported on the host.
"""

from __future__ import annotations

import os
import time

PIECE = 4 * 1024 * 1024
MAX_FOUND = 30
LINE = 200


def main(paths: list[str], text: str, seconds: float) -> dict[str, object]:
    """Find a text in files that are text, whatever its case.

    Returns:
        For each file in which it is: its path, how often, and the number and the text of the first line with it; in
        how many files it was looked for; and whether these are all.
    """
    end = time.monotonic() + seconds
    wanted = {text.lower().encode("utf-8", "replace"), text.lower().encode("cp1252", "replace")}
    found: list[list[object]] = []
    looked = 0
    for path in paths:
        if time.monotonic() > end or len(found) >= MAX_FOUND:
            break
        try:
            if os.path.isfile(path) and is_text(path):
                looked += 1
                count, number, line = within(path, wanted, end)
                if count:
                    found.append([path, count, number, line])
        except OSError:
            continue
    else:
        return {"found": found, "looked": looked, "all": True}
    return {"found": found, "looked": looked, "all": False}


def is_text(path: str) -> bool:
    """Whether a file has no NUL at its begin."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(4096)


def within(path: str, wanted: set[bytes], end: float) -> tuple[int, int, str]:
    """How often one of several texts is in a file, and the first line with it: its number and its text."""
    count, number, line, lines, rest = 0, 0, "", 0, b""
    with open(path, "rb") as file:
        while (piece := file.read(PIECE)) and time.monotonic() < end:
            data = rest + piece
            cut = data.rfind(b"\n") + 1
            whole, rest = (data[:cut], data[cut:]) if cut and len(piece) == PIECE else (data, b"")
            lower = whole.lower()
            count += max(lower.count(each) for each in wanted)
            if count and not number:
                at = min(place for each in wanted if (place := lower.find(each)) >= 0)
                number = lines + whole.count(b"\n", 0, at) + 1
                start = whole.rfind(b"\n", 0, at) + 1
                line = whole[start : whole.find(b"\n", at) if b"\n" in whole[at:] else None].decode("utf-8", "replace")
            lines += whole.count(b"\n")
    return count, number, line.strip()[:LINE]
