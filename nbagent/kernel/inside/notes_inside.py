"""Which files are notes about data, by their names; by them other texts are read. Standard library only.

The host imports it, too: the profile of a text is remembered under the notes beside it.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

NAMES = (
    "readme",
    "read_me",
    "read.me",
    "liesmich",
    "lisezmoi",
    "leeme",
    "leiame",
    "leggimi",
    "notes",
    "codebook",
    "dictionary",
    "data_dict",
    "metadata",
    "variable",
    "descrip",
    "manual",
)
"""What is in the names of notes, whatever their ending."""
ENDINGS = frozenset(".md .txt .rst .text .me".split())
"""Endings of texts, which may be notes whatever their names."""
_RULE = re.compile(r"(?m)^[ \t]*[+|][-=:+| ]{3,}[+|]?[ \t]*$")
"""A line between the rows of a table that is drawn with signs."""
_DRAWN = re.compile(r"(?m)^[ \t]*\|(.{1,300})\|[ \t]*$")
_OF_VARIABLES = re.compile(
    r"(?i)variables?|columns?|fields?|labels?|descriptions?|meanings?|definitions?|explanations?"
)
MAX_NOTES, MAX_NAMES = 20, 2_000
"""Notes of a folder and the one above it that are read, and names in a folder that are looked at."""


def is_note(path: str) -> bool:
    """Whether a file's name is that of notes about the data, such as README."""
    name = os.path.basename(path).lower()
    return any(each in name for each in NAMES)


def may_be_note(path: str) -> bool:
    """Whether a file is one by its name, or a text that may be one."""
    return os.path.splitext(path)[1].lower() in ENDINGS or is_note(path)


def draws_dictionary(text: str) -> bool:
    """Whether a text has a table drawn with signs, `| variable | label |`, that explains the columns of another one."""
    head = _DRAWN.search(text) if _RULE.search(text) else None
    return head is not None and any(_OF_VARIABLES.fullmatch(each.strip()) for each in head[1].split("|"))


@lru_cache(maxsize=64)
def notes_beside(folder: str) -> list[str]:
    """The notes of a folder and of the one above it."""
    found: list[str] = []
    for each in (folder, os.path.dirname(folder)):
        try:
            there = sorted(os.listdir(each))[:MAX_NAMES]
        except OSError:
            continue
        for name in there:
            path = os.path.join(each, name)
            if may_be_note(path) and os.path.isfile(path) and len(found) < MAX_NOTES:
                found.append(path)
    return found
