"""Puts the results of cells into a folder of the person's on the host, and never over the person's own files.

Code chooses the names, and the folder may hold anything, such as the links of a cloned repository. So each part of a
path is cleaned, folders are opened one below the other and never through a link, and a file takes a name that is free.
It replaces only the file that this session put there for the same path, and only if nobody has changed that since.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO

from nbagent.core import fileio
from nbagent.core.events import FileSaved
from nbagent.packages import import_names

MAX_FOLDER_DEPTH = 16
"""Levels of folders; the names of deeper folders become part of the file's name."""
MAX_NAME_TRIES = 1_000
"""Names like the wanted one that are tried while they are taken."""
RUN_UNASKED = (
    *("head", "conftest.py", "test*.py", "*_test.py", "test*.txt", "*_test.go"),
    *(f"*.{kind}.{ending}" for kind in ("test", "spec", "config") for ending in ("[jt]s", "[jt]sx", "[cm][jt]s")),
    *("__init__.*", "*.pth", "ipython*_config.*", "jupyter*_config.*", "build.rs", "*pydev*.py*"),
    *("project.toml", "manifest.toml"),
    *("*.gradle", "*.gradle.kts", "build.sbt", "mix.exs", "package.swift", "*.[cfv][sb]proj", "directory.build.*"),
    # Settings of tests, types, style, figures and packages name code that is run, or a server that packages come from.
    *("pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml", "mypy.ini", "pylintrc*", "uv.toml"),
    # Editors ask these for the programs of a build, and run them.
    *("cargo.toml", "gemfile", "gems.rb", "*.gemspec", "rebar.config", "*.cabal", "build.zig*"),
    *("matplotlibrc", "cmakelists.txt", "pom.xml", "gulpfile.*", "gruntfile.*", "jakefile*", "hie.yaml", "stack.yaml"),
    # MATLAB, Stata, SAS, Maple and Quarto run these, or what these name, in the folder where they are started.
    *("startup.m", "finish.m", "pathdef.m", "profile.do", "sysprofile.do", "autoexec.sas", "sasv9.cfg", "maple.ini"),
    "_quarto*.y*ml",
    *("desktop.ini", "autorun.inf", "*.desktop", "*.lnk", "*.url", "*.scf", "*.library-ms"),
)
"""Names of files that a person's own programs run, or act on, without being asked to.

`HEAD` makes its folder a Git repository, and Git runs programs that a repository's settings name, for example when a
shell's prompt shows the branch. Test runners collect files by their names, editors build what looks like a project, and
Python, Jupyter and desktops read the other ones in the folder where they are started or which they open.
"""
MODULE_NAMES = frozenset(
    name.casefold().replace("-", "_")
    for name in (
        *("sitecustomize", "usercustomize", "nbagent", "storemagic", "astroid", "ctags", "nest_asyncio2", "appnope"),
        *(*sys.stdlib_module_names, *import_names.KNOWN),
        *(each.partition(".")[0] for each in import_names.DISTRIBUTIONS),
    )
)
"""Names of Python's own modules and of popular packages: Python prefers a file of such a name in the folder where it is
started. A folder of such a name is preferred only with an `__init__` file in it, which `RUN_UNASKED` has."""
MODULE_ENDINGS = ("py", "pyc", "pyw", "so", "pyd")
INERT_WORD = "saved"
"""The word that is put before such a name, or behind it."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Landed:
    """Where a result was put.

    Attributes:
        path: Its absolute path on the host.
        name: Its path in the folder of results.
        freed: Bytes of the file that it replaced.
    """

    path: Path
    name: str
    freed: int = 0


class ResultFolder:
    """One session's files in a folder of results, which is made when the first one comes.

    A session that was resumed has put `past` there before.
    """

    def __init__(self, folder: Path, *, past: Iterable[FileSaved] = ()) -> None:
        self.folder = folder.absolute()
        self._files: dict[str, tuple[tuple[str, ...], str]] = {}
        self._folders: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
        self._taken: dict[tuple[str, ...], str] = {}
        for each in past:
            path = Path(each.path)
            if each.source and path.is_relative_to(self.folder):
                self._remember(each.source, path.relative_to(self.folder).parts, each.sha256)

    def where(self, source: str) -> Path | None:
        """Where the result is that a file of the sandbox became, if there is one."""
        known = self._files.get(source)
        return self.folder.joinpath(*known[0]) if known else None

    @contextlib.contextmanager
    def staged(self) -> Iterator[tuple[IO[bytes], Path]]:
        """A temporary file for a result, and its path; it is removed unless `put` gives it its name.

        Raises:
            OSError: The folder can't be made or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with fileio.staged(self.folder) as found:
            yield found

    def put(self, staged: Path, source: str, parts: tuple[str, ...], sha256: str) -> Landed:
        """Give a staged file its name. This may take long, since a file that is to be replaced is read first.

        Args:
            staged: The path from `staged`, after the file was written and closed.
            source: The file's path in the sandbox.
            parts: The same path, from the folder that was collected.
            sha256: The hash of its contents, in hexadecimal.

        Raises:
            OSError: The folder can't be written.
        """
        staged.chmod(0o644)
        known = self._files.get(source)
        if known is not None and (freed := self._replace(staged, known[0], known[1])) is not None:
            place = known[0]
            self._remember(source, place, sha256)
        else:
            place, is_new = self._put_new(staged, source, parts, sha256)
            # A file that was there with the same contents is the person's: it isn't replaced later.
            self._remember(source, place, sha256 if is_new else "")
            freed = 0 if is_new else staged.stat().st_size
        return Landed(self.folder.joinpath(*place), "/".join(place), freed)

    def _remember(self, source: str, place: tuple[str, ...], sha256: str) -> None:
        self._files[source] = place, sha256
        self._taken[_casefold(place)] = source

    def _replace(self, staged: Path, place: tuple[str, ...], sha256: str) -> int | None:
        """Replace this session's own file; returns its bytes, or None if it is gone or was changed since."""
        if not sha256:
            return None
        try:
            folder = self._open(place[:-1])
        except OSError:
            return None
        try:
            size = os.stat(place[-1], dir_fd=folder, follow_symlinks=False).st_size
            if _hash(place[-1], folder, size) != sha256:
                return None
            os.replace(staged, place[-1], dst_dir_fd=folder)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)
        return size

    def _put_new(self, staged: Path, source: str, parts: tuple[str, ...], sha256: str) -> tuple[tuple[str, ...], bool]:
        """Take the first name that is free, or whose file has the same contents; returns it and whether it was free."""
        *above, last = parts[: MAX_FOLDER_DEPTH - 1] + (
            ("/".join(parts[MAX_FOLDER_DEPTH - 1 :]),) if len(parts) >= MAX_FOLDER_DEPTH else ()
        )
        where = self._make(tuple(above))
        folder, size = self._open(where), staged.stat().st_size
        try:
            for name in _names(last):
                if self._taken.get(_casefold((*where, name)), source) != source:
                    continue
                if (is_new := _link(staged, name, folder)) or _hash(name, folder, size) == sha256:
                    return (*where, name), is_new
        finally:
            os.close(folder)
        raise FileExistsError(17, "too many files of that name", str(self.folder.joinpath(*where, last)))

    def _make(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The folder of results for a folder of the sandbox; made if it isn't there yet."""
        if parts in self._folders:
            return self._folders[parts]
        above = self._make(parts[:-1])
        at = self._open(above)
        try:
            for name in _names(parts[-1], dotted=False):
                place = (*above, name)
                if self._taken.get(_casefold(place)) is None and _make_folder(name, at):
                    self._folders[parts], self._taken[_casefold(place)] = place, "/"
                    return place
        finally:
            os.close(at)
        raise FileExistsError(17, "too many folders of that name", str(self.folder.joinpath(*above, parts[-1])))

    def _open(self, place: tuple[str, ...]) -> int:
        """A descriptor of a folder of results, opened part by part and not through links."""
        at = os.open(self.folder, FOLDER_FLAGS & ~os.O_NOFOLLOW)
        for part in place:
            try:
                below = os.open(part, FOLDER_FLAGS, dir_fd=at)
            finally:
                os.close(at)
            at = below
        return at


def _casefold(place: tuple[str, ...]) -> tuple[str, ...]:
    """A place as a file system compares it that ignores case."""
    return tuple(part.casefold() for part in place)


def _names(wanted: str, *, dotted: bool = True) -> Iterator[str]:
    """A name made safe, then others like it."""
    name = inert_name(safe_name(wanted))
    yield name
    stem, ending = (PurePath(name).stem, PurePath(name).suffix) if dotted else (name, "")
    for number in range(1, MAX_NAME_TRIES):
        yield f"{stem}-{number}{ending}"


def _make_folder(name: str, at: int) -> bool:
    """Make a folder, or take the one that is there; False if a link or anything else is there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=at)
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)


def _link(staged: Path, name: str, folder: int) -> bool:
    """Give a file its name if that is free, also on file systems without hard links; returns whether it was free."""
    try:
        os.link(staged, name, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600, dir_fd=folder))
        except FileExistsError:
            return False
        os.replace(staged, name, dst_dir_fd=folder)
    return True


def _hash(name: str, folder: int, size: int) -> str:
    """The SHA-256 of a plain file of so many bytes; empty for anything else, and for a file that can't be read."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return ""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def safe_name(name: str) -> str:
    """A file's name without characters that trouble file systems, shells, terminals or readers; never empty or hidden.

    A path becomes one name: `plots/a.png` is `plots_a.png`.
    """
    text = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode())
    # Control and format characters: newlines, escapes, and those that turn the direction of writing.
    text = "".join("_" if unicodedata.category(each)[0] == "C" else each for each in text)
    text = re.sub(r'[/\\:*?"<>|]+', "_", text).strip(" .").lstrip("-. ") or "file"
    stem, ending = PurePath(text).stem, PurePath(text).suffix
    return stem.encode()[:150].decode(errors="ignore") + ending.encode()[:20].decode(errors="ignore")


def inert_name(name: str) -> str:
    """A safe name that no program of the person's runs unasked; case is ignored, as on some file systems."""
    return next(each for each in (name, f"{INERT_WORD}-{name}", f"{name}.{INERT_WORD}") if not _is_run_unasked(each))


def _is_run_unasked(name: str) -> bool:
    first, *_, ending = name.casefold().split(".") if "." in name else (name.casefold(), "")
    is_module = ending in MODULE_ENDINGS and first in MODULE_NAMES
    return is_module or any(fnmatch.fnmatchcase(name.casefold(), each) for each in RUN_UNASKED)
