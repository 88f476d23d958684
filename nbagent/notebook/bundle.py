"""A notebook in a zip, with all that another person needs to run and to verify it."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from nbagent.core import fileio
from nbagent.core.errors import DataError, UsageError
from nbagent.core.events import DataSeen
from nbagent.sandbox.data.locate import is_still_there

MOMENT = (1980, 1, 1, 0, 0, 0)
"""The time of all files, so that the same session makes the same zip."""
PIECE = 1024 * 1024
README = """\
{name}.ipynb was written by nbagent; its data lies beside it.

Run it again in a sandbox, and compare each output:  nbagent verify {name}.ipynb --data .
Open it with the packages that it names:             juv run {name}.ipynb
Run it as a script:                                  uv run --script {name}.py

lock.json         all that the results may depend on: packages, Python, machine, limits, seeds, data
requirements.txt  every package with its hash, for uv and pip
environment.yml   the same for conda
"""


def bundle(file: IO[bytes], *, name: str, texts: Mapping[str, str], data: Sequence[DataSeen]) -> None:
    """Write the zip; all is in a folder of its name.

    Raises:
        DataError: Some of the data is no longer there, or can't be read.
        UsageError: A file of the data has the name of one of the others.
    """
    files = {"README.txt": README.format(name=name), **texts}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for inside, text in files.items():
            made.writestr(_entry(f"{name}/{inside}"), text)
        for each in data:
            beside = each.path.rpartition("/")[2]
            if beside in files:
                raise UsageError(f"The data {beside!r} is called as a file of the zip.", mend="Export an .ipynb.")
            try:
                if not is_still_there(Path(each.source)):
                    raise OSError(0, "it is gone, or there is a link in its path now")
                for path, below in _files(Path(each.source)):
                    if "\\" in "".join((beside, *below)):
                        raise ValueError(f"by the \\ in {path.name}, programs on Windows would leave the zip's folder")
                    _add(made, path, "/".join((name, beside, *below)))
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise DataError(f"The data {each.source} can't be read: {reason}.", mend="Export an .ipynb.") from error


def _files(source: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A file, or those of a folder that a sandbox sees: plain ones, neither hidden nor links."""
    if not source.is_dir():
        yield source, ()
        return
    for parent, below, names in fileio.walk(source):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path, path.relative_to(source).parts


def _add(made: zipfile.ZipFile, path: Path, inside: str) -> None:
    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    with open(path, "rb", opener=opened) as read:
        if not stat.S_ISREG(os.fstat(read.fileno()).st_mode):
            raise OSError(0, "it is no plain file")
        with made.open(_entry(inside), "w", force_zip64=True) as written:
            while piece := read.read(PIECE):
                written.write(piece)


def _entry(inside: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(inside, MOMENT)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    return entry
