"""Finds the data that a notebook is to run on, and says whether it is what it was."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.core.errors import DataError
from nbagent.sandbox.data import mounts, needs
from nbagent.sandbox.data.locate import locate
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.paths import DATA


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
