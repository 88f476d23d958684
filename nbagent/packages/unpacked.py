"""Checks wheels that were unpacked, leaves out what is of no use, and moves the rest into the site folder."""

from __future__ import annotations

import filecmp
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from nbagent.core import fileio
from nbagent.core.errors import InstallError, InstallRefused
from nbagent.packages.import_names import DISTRIBUTIONS

KERNEL_MODULES = frozenset({
    "IPython", "asttokens", "comm", "dateutil", "debugpy", "decorator", "executing", "ipykernel",
    "ipykernel_launcher", "ipython_pygments_lexers", "jedi", "jupyter", "jupyter_client", "jupyter_core",
    "matplotlib_inline", "nbagent", "nest_asyncio", "packaging", "parso", "pexpect", "platformdirs",
    "prompt_toolkit", "psutil", "ptyprocess", "pure_eval", "pygments", "six", "stack_data", "tornado", "traitlets",
    "typing_extensions", "wcwidth", "zmq",
})  # fmt: skip
"""The kernel's own modules, which only the distribution that each belongs to may provide."""
START_UP_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports when it starts; no distribution may provide them."""
STRAY = frozenset({
    "benchmarks", "doc", "docs", "example", "examples", "scripts", "test", "testing", "tests", "tools",
})  # fmt: skip
"""Top-level folders that wheels contain by mistake; if two do, the first stays."""
MAX_DEPTH = 100
"""Folders in each other; a path as long as Linux takes has 2,000, which other programs can't remove."""
FILE_BYTES = 4096
"""What a file counts beside its content: a disk has a bounded number of files, and a wheel may have a million."""
MAX_RECORD = 8 * 1024 * 1024
"""Characters of the list of a distribution's files that are searched."""
HARMLESS_PTH = frozenset({"distutils-precedence.pth", "a1_coverage.pth"})
""".pth files of setuptools and coverage, left out like setuptools' `*-nspkg.pth`; any other is a reason to refuse."""


def tidy(folder: Path) -> None:
    """Remove uv's lock, scripts that name the host's Python, and harmless .pth files."""
    (folder / ".lock").unlink(missing_ok=True)
    for entry in folder.glob("*.pth"):
        if entry.is_file() and (entry.name in HARMLESS_PTH or entry.name.endswith("-nspkg.pth")):
            entry.unlink()
    for script in folder.glob("bin/*"):
        if script.is_file() and not script.is_symlink():
            with script.open("rb") as file:
                names_interpreter = file.read(2) == b"#!"
            if names_interpreter:
                script.unlink()
    if not any(folder.glob("bin/*")):
        shutil.rmtree(folder / "bin", ignore_errors=True)


def refuse_hostile(folder: Path, *, names: set[str]) -> None:
    """Refuse unpacked distributions, of these normalised names, that reach beyond their own modules.

    Raises:
        InstallRefused: There is a `.pth` file, a kernel's or start-up module, or a link.
    """
    for entry in sorted(folder.iterdir()):
        top = entry.name.split(".")[0]
        if entry.suffix in {".dist-info", ".egg-info"}:
            continue
        if entry.suffix == ".pth":
            raise InstallRefused(f"{_owner(folder, entry.name)} contains {entry.name}, which would run at every start.")
        owner = canonicalize_name(DISTRIBUTIONS.get(top, top))
        if top in START_UP_MODULES or (top in KERNEL_MODULES and owner not in names):
            raise InstallRefused(
                f"{_owner(folder, entry.name)} would bring {entry.name}, which the kernel itself uses."
            )
    for parent, below, files in fileio.walk(folder):
        parts = Path(parent).relative_to(folder).parts
        if len(parts) > MAX_DEPTH:
            raise InstallRefused(f"{_owner(folder, parts[0])} has more than {MAX_DEPTH} folders in each other.")
        for name in (*below, *files):
            if Path(parent, name).is_symlink():
                raise InstallRefused(f"{_owner(folder, (*parts, name)[0])} contains a link.")


def _owner(folder: Path, top: str) -> str:
    """The distribution whose RECORD names a top-level entry."""
    for record in folder.glob("*.dist-info/RECORD"):
        if record.is_file() and _names(record, top):
            return record.parent.name.removesuffix(".dist-info").replace("-", " ")
    return "A package"


def _names(record: Path, top: str) -> bool:
    """Whether the beginning of a RECORD names a top-level entry; the file may be made as large as packages may be."""
    with record.open(errors="replace") as file:
        return re.search(rf"^\"?{re.escape(top)}[/,\"]", file.read(MAX_RECORD), re.MULTILINE) is not None


def provides(folder: Path, module: str) -> bool:
    """Whether the folder has the top level of a module: a package, a file or an extension."""
    top = module.split(".")[0]
    return (folder / top).is_dir() or any(folder.glob(f"{top}.*py")) or any(folder.glob(f"{top}.*so"))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder, and what each file and folder counts beside."""
    each = (Path(parent, name).lstat().st_size for parent, _, files in fileio.walk(folder) for name in files)
    folders = sum(len(below) for _, below, _ in fileio.walk(folder))
    return sum(size + FILE_BYTES for size in each) + FILE_BYTES * folders


def make_readable(folder: Path) -> None:
    """Make files readable for all users, since the sandbox has another uid, but not writable, set-uid or set-gid."""
    folder.chmod(0o755)
    for parent, folders, files in fileio.walk(folder):
        for name in folders:
            Path(parent, name).chmod(0o755)
        for name in files:
            path = Path(parent, name)
            path.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)


def move_into(staging: Path, site: Path) -> None:
    """Rename each entry into the site folder, so that a running kernel sees it whole or not at all.

    Folders that are there already (namespace packages, `share`) are merged. If a rename fails, earlier ones are undone.

    Raises:
        InstallError: A file is there already with other content, or the file system failed.
    """
    moves = list(_moves(staging, site))  # finds all collisions before anything moves
    done: list[Path] = []
    try:
        for source, place in sorted(moves, key=lambda move: move[0].suffix == ".dist-info"):
            source.rename(place)
            done.append(place)
    except OSError as error:
        for place in done:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        raise InstallError(f"The packages can't be moved to the session's folder: {error}") from error


def _moves(source: Path, place: Path, *, top: bool = True) -> Iterator[tuple[Path, Path]]:
    for entry in sorted(source.iterdir()):
        there = place / entry.name
        if not there.exists():
            yield entry, there
        elif top and (entry.name.split(".")[0] in STRAY or not (entry.is_dir() or entry.suffix in {".py", ".so"})):
            continue  # such as LICENSE: the first one stays
        elif entry.is_dir() and there.is_dir():
            yield from _moves(entry, there, top=False)
        elif not (entry.is_file() and there.is_file() and filecmp.cmp(entry, there, shallow=False)):
            raise InstallError(
                f"{entry.name} in {place.name} is there already, from another package of this session.",
                mend="Install only one of the two, in a new session.",
            )
