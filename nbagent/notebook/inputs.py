"""Finds the data that a notebook is to run on, and says whether it is what it was."""

from __future__ import annotations

import ast
import fnmatch
import itertools
import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.core.errors import DataError
from nbagent.core.folders import RESULTS
from nbagent.notebook.lock import COMMANDS, imports, nodes, statements
from nbagent.notebook.place import ENDING
from nbagent.sandbox.data import mounts, needs
from nbagent.sandbox.data.locate import locate
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.paths import DATA

MOST_BESIDE = 10_000
"""Names of a folder that are held against what code names."""
MOST_GLOBS = 100
"""Patterns such as `*.csv` of a program that each of these names is held against."""
_ALL = re.compile(r"\b(?:listdir|scandir|iterdir|getcwd|cwd)\(\s*\)|\bos\.walk\(")


@dataclass
class Inputs:
    """A notebook's data.

    Attributes:
        mounts: What its sandbox is to see.
        problems: What is not as it was, in sentences.
    """

    mounts: list[Mount] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def inputs(
    notebook: Path, *, given: Sequence[Path], root: Path, foreign: bool, only: Container[str] | None = None
) -> Inputs:
    """The data of a notebook.

    Args:
        notebook: Where it lies.
        given: Folders in which the data is looked for by name, and files of it.
        root: The person's state, which remembers what was exported where.
        foreign: Whether it isn't nbagent's: then it sees the given folder, or its own.
        only: Names of the data that is looked for; None for all.

    Raises:
        DataError: Some isn't there, or is a link that leads out of its folder.
    """
    if missing := [each for each in given if not each.exists()]:
        raise DataError(f"There is no file or folder {str(missing[0])!r}.", mend="Check the name and where you are.")
    if foreign:
        return Inputs(_of_others(notebook, given))
    found, wanted = locate(notebook.absolute(), root), needs.needed(notebook)
    inputs = Inputs()
    for each in wanted:
        name = each.path.removeprefix(f"{DATA}/")
        if only is not None and name not in only:
            continue
        place = _given(name, given) or found.places.get(each.path)
        if place is None:
            raise DataError(
                f"It was made with {name}, which isn't here as it was.", mend="Name its folder with --data."
            )
        inputs.mounts.append(Mount(place.resolve(), each.path))
        if (now := needs.digest(place)) != each.sha256 or (place.is_file() and place.stat().st_size != each.size):
            told = f"SHA-256 {each.sha256[:12] or 'unknown'} → {now[:12] or 'unknown'}"
            inputs.problems.append(f"The data {name} is not what it was when the notebook was made ({told}).")
    return inputs


def beside(source: Path, code: Iterable[str]) -> list[Path]:
    """The files and folders beside a script or notebook that its code names, as what it opens, lists or imports.

    None of them has a name that begins with a dot or is a link, and there are none in a private folder
    (`mounts.is_private`): who wrote the code may be a stranger.
    """
    folder = source.absolute().parent.resolve()
    if mounts.is_private(folder):
        return []
    patterns = {pattern for each in code for pattern in _patterns(each, folder)}
    plain = {each for each in patterns if set(each).isdisjoint("*?[")}
    globs = [re.compile(fnmatch.translate(each)) for each in sorted(patterns - plain)[:MOST_GLOBS]]
    found = []
    for each in _entries(folder):
        named = each.name in plain or (any(glob.match(each.name) for glob in globs) and not _is_written(each.name))
        if named and not each.name.startswith(".") and each.name != source.name and _is_plain(each):
            found.append(folder / each.name)
    return sorted(found)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The first entries of a folder; none of one that can't be read."""
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, MOST_BESIDE))
    except OSError:
        return []


def _is_written(name: str) -> bool:
    """Whether nbagent itself writes what is called so: it would be another one in each run."""
    return name.endswith(ENDING) or name == RESULTS


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def _patterns(code: str, folder: Path) -> Iterator[str]:
    """The names directly in a folder that code may mean, or patterns of such names."""
    if _ALL.search(code):
        yield "*"
    for module in imports(code):
        yield from (module, f"{module}.py")
    texts = [each.value for each in nodes(code) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    commands = "\n".join(COMMANDS.findall(code)) if statements(code) else code
    for text in (*texts, *(word.strip("\"'") for word in commands.split())):
        if len(text) > 1000 or "\n" in text:
            continue
        path = os.path.normpath(text.removeprefix(f"{folder}/")) if text else ""
        yield "*" if path == "." else path.partition("/")[0]


def _given(name: str, given: Sequence[Path]) -> Path | None:
    """Where a person's own folders and files have what is called so.

    Raises:
        DataError: It is a link that leads out of its folder: who made the notebook may have made it, too.
    """
    for each in given:
        source = mounts.named(each)
        place = source / name if source.is_dir() and each.name != name else each
        if place.name == name and place.exists():
            return mounts.named(place)
    return None


def _of_others(notebook: Path, given: Sequence[Path]) -> list[Mount]:
    folders = [each for each in given if each.is_dir()]
    if len(folders) == 1 and len(given) == 1:
        return [Mount(mounts.named(folders[0]), DATA)]
    if given:
        return [Mount(mounts.named(each), f"{DATA}/{each.name}") for each in given]
    return mounts.for_client(notebook.resolve().parent)
