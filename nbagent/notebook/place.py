"""Where a notebook may be written: never over data, nor over anything that nbagent did not write itself."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import UsageError

ENDING = ".ipynb"
ENDINGS = (ENDING, ".html", ".md", ".py", ".zip")
"""Of all that a session is exported as."""
MAX_SIZE = 512 * 1024 * 1024
"""Bytes of the largest notebook that is read to find out whether nbagent wrote it."""


class _Cell(msgspec.Struct):
    source: str | list[str]
    cell_type: str = ""


class _Mark(msgspec.Struct):
    version: str
    cells_sha256: str = ""


class _Metadata(msgspec.Struct):
    nbagent: _Mark | None = None


class _Notebook(msgspec.Struct):
    cells: list[_Cell]
    nbformat: int
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def check(path: Path, *, data: Iterable[Path] = (), force: bool = False) -> Path:
    """Check that a notebook may be written to a path; its folder is made. To be called before the work is done.

    Args:
        path: Where the notebook is to go, or what is made of it.
        data: Files and folders that the code works on.
        force: Whether a notebook may be replaced that isn't nbagent's, or that a person has changed since; and
            anything that has another ending.

    Returns:
        The absolute path, links resolved, so that a notebook is written to the target of a link.

    Raises:
        UsageError: The name has none of these endings, the path is data or a link that leads out of its folder, or the
            file there must not be replaced.
        StoreError: The path is a folder, or can't be written to.
    """
    path = path.expanduser()
    fileio.check_file(path)
    if path.suffix != ENDING:
        check_no_link(path)
    place = path.resolve()
    if path.suffix not in ENDINGS or place.suffix != path.suffix:
        others = f"{', '.join(ENDINGS[1:-1])} or {ENDINGS[-1]}"
        raise UsageError(f"A notebook can't be called {path.name!r}.", mend=f"End its name with {ENDING}, {others}.")
    _check_replaced(place, list(data), force=force)
    if path.is_symlink() and not place.is_relative_to(path.parent.resolve()):
        # Whoever made the folder, a repository perhaps, made the link, and may mean another notebook of the person's.
        raise UsageError(f"{path} is a link to {place}, outside of its folder.", mend="Name that, if it is meant.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        raise fileio.cannot_write(path, error, mend="Choose another place with --out.") from error
    return place


def check_no_link(path: Path) -> None:
    """Check that a path is no link: of what is no notebook, nobody can tell whether it may be replaced."""
    if path.is_symlink():
        raise UsageError(f"{path} is a link, and nothing is written through one.", mend="Choose another name.")


def _check_replaced(place: Path, data: list[Path], *, force: bool) -> None:
    """Raise if the file at a place must not be replaced."""
    files = [each for each in data if not each.is_dir()]
    fileio.check_not_data(place, files)
    if not place.exists():
        return
    if not place.is_file():
        raise UsageError(f"{place} is no plain file.", mend="Choose another name.")
    if not place.stat().st_size:
        return
    if place.suffix != ENDING:
        fileio.check_not_data(place, data)
        if not force:
            raise UsageError(f"{place} is there already.", mend="Choose another name, or replace it with --force.")
        return
    mark = None if (found := _read(place)) is None else found.metadata.nbagent
    if found is None:
        raise UsageError(f"{place} is there already, and is no notebook.", mend="Choose another name.")
    if mark is not None and mark.cells_sha256 in ("", digest([(each.cell_type, each.source) for each in found.cells])):
        return
    # A notebook in a folder of data is data too, unless nbagent wrote it.
    fileio.check_not_data(place, data)
    if not force:
        whose = "isn't nbagent's" if mark is None else "was changed since nbagent wrote it"
        raise UsageError(f"The notebook {place} {whose}.", mend="Choose another name, or replace it with --force.")


def _read(place: Path) -> _Notebook | None:
    """Read the parts of a notebook that matter here; None if the file is no notebook."""
    try:
        if place.stat().st_size > MAX_SIZE:
            return None
        return msgspec.json.decode(place.read_bytes(), type=_Notebook)
    except (OSError, ValueError, RecursionError):
        return None


def digest(cells: Iterable[tuple[str, str | list[str]]]) -> str:
    """A hash of the cells' types and sources: it changes when a person edits the notebook, not when they run it."""
    plain = [(kind, source if isinstance(source, str) else "".join(source)) for kind, source in cells]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def source_digest(source: str) -> str:
    """The hash of one cell's source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def mark(notebook: Any) -> None:
    """Write the hashes into a notebook by which `check` knows that nbagent wrote it, and anybody which cell changed."""
    for cell in notebook["cells"]:
        if cell["metadata"]["nbagent"].get("role") != "skipped":  # no cell of the session
            cell["metadata"]["nbagent"]["sha256"] = source_digest(cell["source"])
    cells = [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]]
    notebook["metadata"]["nbagent"]["cells_sha256"] = digest(cells)
    notebook["metadata"]["nbagent"]["cells"] = [cell["id"] for cell in notebook["cells"]]


def free(path: Path) -> Path:
    """The path, or the next numbered one that may be written to."""
    number = 1
    wanted = path
    while True:
        try:
            return check(wanted)
        except UsageError:
            number += 1
            wanted = path.with_stem(f"{path.stem}-{number}")
