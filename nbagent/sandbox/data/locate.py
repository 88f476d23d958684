"""Finds the data of a notebook that is run again: beside the notebook, where it was, or among nbagent's own demo.

A notebook may come from anybody. It names its data by name and hash; where to look is decided here and by what this
machine remembers of its own exports, never by a path in the notebook.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.core import folders
from nbagent.sandbox.data.needs import HASHED, Needed, digest, is_name, needed
from nbagent.sandbox.paths import DATA

log = logging.getLogger(__name__)

DEMO = Path(__file__).resolve().parents[2] / "faces" / "demo"
MAX_NOTEBOOKS, MAX_READ = 100, 64 * 1024 * 1024
"""Notebooks of a folder that are read when a kernel is started there, and their bytes: a server waits for it."""


@dataclass
class Located:
    """Where a notebook's data is.

    Attributes:
        places: The paths on the host, by the paths at which code reads them.
        changed: Names of files whose contents have changed since the notebook was made.
        missing: Names of files that were not found.
    """

    places: dict[str, Path] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def locate(notebook: Path, root: Path) -> Located:
    """Find the data of a notebook, also by the list of exports in `root`, the folder of the person's state."""
    found = Located()
    remembered = folders.recall_exports(root, notebook.parent)
    for each in needed(notebook):
        name = each.path.removeprefix(f"{DATA}/")
        known = Path(remembered.get(each.path, "/dev/null"))
        beside = [notebook.parent / other for other in (name, each.name) if is_name(other)]
        if there := [place for place in beside if _is_same(place, each)]:
            found.places[each.path] = there[0]
        elif (place := packaged(name, each.sha256)) is not None:
            found.places[each.path] = place
        elif is_still_there(known) and (known.is_dir() or known.is_file()):
            found.places[each.path] = known
            same = digest(known) == each.sha256 or not each.sha256 if known.is_dir() else _is_same(known, each)
            found.changed += [] if same else [name]
        else:
            found.missing.append(name)
    return found


def is_still_there(source: Path) -> bool:
    """Whether the data of an exported notebook is still where it was, and no link came into its path since."""
    if not source.exists():
        return False
    if source.resolve() != source:
        log.warning("The data at %s leads through a link now and is not shown: export its notebook again.", source)
        return False
    return True


def _is_same(place: Path, wanted: Needed) -> bool:
    """Whether a path is the plain file that a notebook names; a link or a folder never is."""
    if place.is_symlink() or not place.is_file():
        return False
    return digest(place) == wanted.sha256 if wanted.sha256 else place.stat().st_size == wanted.size > HASHED


def packaged(name: str, sha256: str) -> Path | None:
    """The file of nbagent's own demo that has this name and hash, if there is one."""
    place = DEMO / name
    return place if sha256 and place.is_file() and digest(place) == sha256 else None


def packaged_for(folder: Path) -> dict[str, Path]:
    """Files of nbagent's own demo that notebooks in a folder need and the folder lacks, by the path of their code."""
    return dict(_packaged_for(folder))


def _packaged_for(folder: Path) -> Iterator[tuple[str, Path]]:
    read = 0
    for notebook in itertools.islice(folder.glob("*.ipynb"), MAX_NOTEBOOKS):
        read += notebook.lstat().st_size
        for each in needed(notebook) if not notebook.is_symlink() and read <= MAX_READ else ():
            name = each.path.removeprefix(f"{DATA}/")
            if not (folder / name).exists() and (place := packaged(name, each.sha256)) is not None:
                yield each.path, place
