"""Tells which files there are, folder by folder, within a budget. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Mapping, Sequence

from nbagent.agent.dataset.groups import Family
from nbagent.agent.dataset.text_forms import quote, size_of, times
from nbagent.core.text import share

TREE = 2_600
"""Characters of all of them."""
SEVERAL = 12
"""Folders from which each is told below the one in which all are, and files of a folder, by their endings."""
ALIKE, DIFFERING, ALIKE_FOLDERS = 4, 3, 40
"""Files that two folders have of the same names at least where one is told by the other, those that only one may have,
and folders up to which they are compared."""
MIN_FOLDER, LEAST_FOLDER, REST = 200, 80, 24
"""Characters that a folder's files have at least, those where folders are many, and those of a count of the rest."""
TABLES = 20
"""Tables of a database that are named."""
LARGE = 100_000
"""Bytes of a file whose size is told also where there is little room."""
PLAIN_NAME = re.compile(r"([A-Za-z0-9]{1,40})([\w.+-]{0,40})(\.[A-Za-z0-9]{1,8})")
"""A file's name that needs no quotation marks: how it begins, how it goes on, its ending."""


def tree_lines(gathered: Sequence[Family], more: int = 0) -> list[str]:
    """Every file by folder, with its size; a true count where there is no room for names.

    Args:
        gathered: The files.
        more: How many others there are that nobody has looked at.
    """
    count = sum(len(each.files) for each in gathered)
    whole = f"{count + more:,} files, {size_of(sum(each.size for each in gathered))}"
    by_folder: dict[str, list[Family]] = {}
    for family in gathered:
        by_folder.setdefault(family.folder, []).append(family)
    # Of many folders, each is told below the one in which all are.
    is_below = len(by_folder) > SEVERAL and all(map(posixpath.isabs, by_folder))
    root = posixpath.join(posixpath.commonpath(by_folder), "") if is_below else ""
    root = "" if root == "/" else root
    whole += f" below {quote(root, limit=200)}" if root else ""
    lines = [f"{whole}, and {more:,} of them not looked at:" if more else f"{whole}:"]
    shown_as = {folder: folder.removeprefix(root) for folder in by_folder}
    told = {folder: folder_line(shown_as[folder], below) for folder, below in by_folder.items()}
    room = TREE - len(lines[0])
    most = share(map(len, told.values()), room)
    like = named_alike(by_folder)
    for folder, line in told.items():
        if len(line) > most or len(by_folder[folder]) > SEVERAL:
            told[folder] = brief_folder_line(shown_as[folder], by_folder[folder], TREE, like.get(folder, ""))
    least = min(MIN_FOLDER, max(room // max(1, len(told)), LEAST_FOLDER))
    most = max(share(map(len, told.values()), room), least)
    for number, (folder, line) in enumerate(told.items()):
        if len(line) > most:
            line = brief_folder_line(shown_as[folder], by_folder[folder], most, like.get(folder, ""))
        if len(line) > room:
            rest = [len(each.files) for other in list(told)[number:] for each in by_folder[other]]
            return [*lines, f"… and {len(told) - number:,} more folders with {sum(rest):,} files"]
        lines.append(line)
        room -= len(line) + 1
    return lines


def folder_line(folder: str, below: Sequence[Family]) -> str:
    """The files of a folder on one line, each with its size."""
    named = (
        f"{quote(each.name, limit=90)}{times(len(each.files))} {size_of(each.size)}{_tables(each)}" for each in below
    )
    return f"{quote(folder + '/', limit=200)}: {', '.join(named)}"


def _tables(family: Family) -> str:
    """The names of a database's tables, without which nobody knows what is in it."""
    file = family.files[0]
    if not file.kind.startswith("SQLite") or len(file.tables) < 2:
        return ""
    named = [quote(each.name)[1:-1] for each in file.tables[:TABLES]]
    return f" [{', '.join(named)}{', …' if len(file.tables) > TABLES else ''}]"


def named_alike(by_folder: Mapping[str, Sequence[Family]]) -> dict[str, str]:
    """What is told of folders whose files are named like those of a larger one, as pages that explain tables are."""
    found: dict[str, str] = {}
    names = {folder: {each.name.partition(".")[0] for each in below} for folder, below in by_folder.items()}
    ordered = sorted(names, key=lambda each: -sum(family.size for family in by_folder[each]))[:ALIKE_FOLDERS]
    for other, folder in itertools.combinations(ordered, 2):
        own, others = names[folder], names[other]
        if not {folder, other} & found.keys() and len(own & others) >= ALIKE and len(own ^ others) <= DIFFERING:
            parts = (("but for", others - own), ("and", own - others))
            more = "".join(f" {word} {', '.join(map(quote, sorted(part)))}" for word, part in parts if part)
            endings = ", ".join(sorted({quote(each.name.partition(".")[2]) for each in by_folder[folder]}))
            found[folder] = f"; {endings}: the names of {quote(other + '/', limit=200)}{more}"
    return found


def brief_folder_line(folder: str, below: Sequence[Family], room: int, like: str) -> str:
    """The files of a folder by their endings, with the sizes of large ones; those without room are counted.

    Args:
        folder: What the folder is called.
        below: Its files.
        room: Characters for the line.
        like: Another folder by which it is told instead.
    """
    line = f"{quote(folder + '/', limit=200)}: {size_of(sum(each.size for each in below))}"
    if like:
        return line + like
    left = sum(len(each.files) for each in below)
    for ending, names in _by_ending(below).items():
        before = f"; {ending}: " if ending else "; "
        for name, count in names:
            if len(line) + len(before) + len(name) + REST > room:
                return f"{line}, … and {left:,} more"
            line += before + name
            left, before = left - count, ", "
    return line


def _by_ending(below: Sequence[Family]) -> dict[str, list[tuple[str, int]]]:
    """The names without their endings, by these, each with its number of files: `birds{,_2019,_survey}` is three."""
    heads: dict[str, dict[str, list[tuple[str, str, int]]]] = {}
    for each in below:
        name = PLAIN_NAME.fullmatch(each.name)
        size = f" ({size_of(each.size)})" if each.size >= LARGE else ""
        size += _tables(each)
        head, rest, ending = (
            name.groups() if name else (f"{quote(each.name, limit=90)}{times(len(each.files))}", "", "")
        )
        heads.setdefault(ending, {}).setdefault(head, []).append((rest, size, len(each.files)))
    found: dict[str, list[tuple[str, int]]] = {}
    for ending, by_head in heads.items():
        for head, rests in by_head.items():
            if len(rests) < 3 or not ending:
                found.setdefault(ending, []).extend((f"{head}{rest}{size}", count) for rest, size, count in rests)
            else:
                entry = ",".join(f"{rest}{size}" for rest, size, _ in rests)
                found.setdefault(ending, []).append((f"{head}{{{entry}}}", sum(count for _, _, count in rests)))
    return found
