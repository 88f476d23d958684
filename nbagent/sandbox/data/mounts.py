"""Which files and folders of the host a sandbox sees; always read-only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nbagent.core import folders
from nbagent.core.errors import DataError
from nbagent.sandbox.data.locate import is_still_there, packaged_for
from nbagent.sandbox.paths import DATA

PRIVATE = tuple(map(Path, ("/proc", "/sys", "/dev", "/run", "/etc", "/boot")))
"""Folders of the system, in which nobody keeps notebooks."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that the sandbox sees read-only.

    Attributes:
        source: A file or folder on the host, absolute, links resolved.
        target: Where the sandbox sees it, absolute.
    """

    source: Path
    target: str


def for_client(folder: Path) -> list[Mount]:
    """The mounts of a kernel that another client, such as JupyterLab, starts for a folder.

    The kernel sees the folder, filtered as all data is (`tree.py`), and the data of notebooks that nbagent exported to
    the folder. If the folder is private (the home folder and those above it, hidden folders below it, the system's),
    it sees only that data.
    """
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent.core import settings

    known = folders.recall_exports(settings.state_root(), folder)
    known = {path: str(source) for path, source in packaged_for(folder).items()} | known
    exported = [Mount(Path(source), path) for path, source in known.items() if is_still_there(Path(source))]
    if is_private(folder):
        return exported
    return [Mount(folder, DATA), *(each for each in exported if each.source != _place(folder, each.target))]


def named(given: str | Path) -> Path:
    """The file or folder that a person named, with links resolved; a link must not lead out of its own folder.

    A person who names all of a folder by a glob names its links too, which somebody else may have made. Links in the
    folders above are the person's own.

    Raises:
        DataError: It is a link that leads elsewhere, or to something hidden.
        OSError: It isn't there, or can't be reached.
    """
    path = Path(given).expanduser()
    source = path.resolve(strict=True)
    if path.is_symlink():
        folder = path.parent.resolve(strict=True)
        inner = source.relative_to(folder).parts if source.is_relative_to(folder) else ()
        if not inner or any(part.startswith(".") for part in inner):
            where = "hidden in it" if inner else "outside of its folder"
            raise DataError(f"{str(given)!r} is a link to {str(source)!r}, {where}.", mend="Name that, if it is meant.")
    return source


def _place(folder: Path, path: str) -> Path:
    """The place on the host of a file that the sandbox sees as part of the folder."""
    return folder / path.removeprefix(DATA).lstrip("/")


def is_private(folder: Path) -> bool:
    """Whether a folder isn't one of notebooks: the home folder, those above it, hidden ones below it, the system's."""
    home = Path.home().resolve()
    if folder in (home, *home.parents):
        return True
    if folder.is_relative_to(home):
        return any(part.startswith(".") for part in folder.relative_to(home).parts)
    return any(folder.is_relative_to(each) for each in PRIVATE)
