"""Which data a notebook of nbagent's needs to run again, and where it is found: beside it, where it was, or in here.

A notebook may come from anybody. What it says of its data is a name and a hash; where that is looked for is decided
here, and by what this machine remembers of its own exports, never by a path in the notebook.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import folders
from nbagent.core.events import DataSeen
from nbagent.sandbox.paths import DATA

DEMO = Path(__file__).resolve().parents[2] / "faces" / "demo"
HASHED = 1024 * 1024 * 1024
"""Bytes of a file up to which it is known by its hash; a larger one by its name and size."""
MAX_SIZE = 64 * 1024 * 1024
"""Bytes of a notebook that is read for what it needs."""
MAX_NOTEBOOKS = 100
MAX_NEEDED = 200


class Needed(msgspec.Struct, frozen=True):
    """A file or folder that a notebook needs.

    Attributes:
        path: Where its code looks for it.
        size: Bytes.
        sha256: In hexadecimal; empty for a folder, and for what is too large.
        name: What it is called in the data's folder, if the path doesn't say so.
    """

    path: str
    size: int = 0
    sha256: str = ""
    name: str = ""


class _Mark(msgspec.Struct):
    version: str
    data: list[Needed] = []
    uploads: list[Needed] = []


class _Metadata(msgspec.Struct):
    nbagent: _Mark | None = None


class _Notebook(msgspec.Struct):
    metadata: _Metadata


@dataclass
class Found:
    """Where a notebook's data is.

    Attributes:
        places: Where it lies on the host, by the path that code looks for.
        changed: Names of what is there, but has other contents than when the notebook was made.
        missing: Names of what isn't there as it was.
    """

    places: dict[str, Path] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def described(seen: DataSeen) -> dict[str, Any]:
    """What a notebook says of its data."""
    return {"path": seen.path, "size": seen.size, "sha256": digest(Path(seen.source))}


def digest(path: Path) -> str:
    """A file's SHA-256 in hexadecimal; empty for a folder, and for what can't be read or is too large."""
    try:
        status = path.stat()
        if not path.is_file() or status.st_size > HASHED:
            return ""
        return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino)
    except OSError:
        return ""


@functools.lru_cache(maxsize=256)
def _digest(path: Path, _size: int, _changed: int, _inode: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def needed(notebook: Path) -> list[Needed]:
    """What a notebook needs by name, each below `/tmp/data`; nothing if it isn't nbagent's or can't be read."""
    try:
        if not notebook.is_file() or notebook.stat().st_size > MAX_SIZE:
            return []
        mark = msgspec.json.decode(notebook.read_bytes(), type=_Notebook).metadata.nbagent
    except (OSError, ValueError, RecursionError):
        return []
    given = [] if mark is None else [*mark.data, *(_as_data(each) for each in mark.uploads)]
    return list({each.path: each for each in given[:MAX_NEEDED] if _is_plain(each.path)}.values())


def _as_data(upload: Needed) -> Needed:
    """An upload as a re-run looks for it: by its own name among the data."""
    name = upload.name or upload.path.rpartition("/")[2]
    return Needed(f"{DATA}/{name}", upload.size, upload.sha256)


def _is_plain(path: str) -> bool:
    name = path.removeprefix(f"{DATA}/")
    return path == f"{DATA}/{name}" and name != "" and not name.startswith(".") and set(name).isdisjoint("/\0")


def find(notebook: Path, root: Path) -> Found:
    """Where the data of a notebook is.

    Args:
        notebook: Where it lies.
        root: The person's state, which remembers what was exported where.
    """
    found = Found()
    remembered = folders.recall_exports(root, notebook.parent)
    for each in needed(notebook):
        name = each.path.removeprefix(f"{DATA}/")
        beside, known = notebook.parent / name, Path(remembered.get(each.path, "/dev/null"))
        if _is_same(beside, each):
            found.places[each.path] = beside
        elif (place := packaged(name, each.sha256)) is not None:
            found.places[each.path] = place
        elif known.is_dir() or known.is_file():
            found.places[each.path] = known
            found.changed += [] if known.is_dir() or _is_same(known, each) else [name]
        else:
            found.missing.append(name)
    return found


def _is_same(place: Path, wanted: Needed) -> bool:
    """Whether a plain file is what a notebook names; of another one, or of a folder, its word is not enough."""
    if place.is_symlink() or not place.is_file():
        return False
    return digest(place) == wanted.sha256 if wanted.sha256 else place.stat().st_size == wanted.size > HASHED


def packaged(name: str, sha256: str) -> Path | None:
    """A file of nbagent's own demo, if it is called so and has these contents."""
    place = DEMO / name
    return place if sha256 and place.is_file() and digest(place) == sha256 else None


def packaged_for(folder: Path) -> dict[str, Path]:
    """What the notebooks in a folder need of nbagent's own demo, by the path that code looks for, if it isn't there."""
    return dict(_packaged_for(folder))


def _packaged_for(folder: Path) -> Iterator[tuple[str, Path]]:
    for notebook in itertools.islice(folder.glob("*.ipynb"), MAX_NOTEBOOKS):
        for each in needed(notebook) if not notebook.is_symlink() else ():
            name = each.path.removeprefix(f"{DATA}/")
            if not (folder / name).exists() and (place := packaged(name, each.sha256)) is not None:
                yield each.path, place
