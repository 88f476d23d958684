"""Mounts of the host's Python for bwrap: the interpreter, its standard library and the libraries that these need.

The host's prefix has more in it, which a sandbox must not see: the person's programs, packages and configuration.
"""

from __future__ import annotations

from pathlib import Path

from nbagent.sandbox.paths import PYTHON

LIBRARIES = ("lib", "lib64")
HIDDEN = ("site-packages", "dist-packages", "test")
"""Folders in the standard library that don't belong to it, or that are of no use for data analysis."""
CONDA = ("ssl", "share/zoneinfo")
"""What conda's Python has in its prefix, and others take from the system; beside shared libraries."""


def arguments(base: Path, python: str) -> list[str]:
    """The mounts of /opt/python, as arguments of bwrap."""
    name = f"python{'.'.join(python.split('.')[:2])}"
    of_conda = (base / "conda-meta").is_dir()
    found = []
    for folder in (PYTHON, f"{PYTHON}/bin", *(f"{PYTHON}/{each}" for each in LIBRARIES)):
        if not (base / Path(folder).relative_to(PYTHON)).is_symlink():
            found += ["--perms", "0755", "--dir", folder]
    found += _bind(base, f"bin/{name}")
    for library in LIBRARIES:
        if (base / library).is_symlink():
            found += ["--symlink", str((base / library).readlink()), f"{PYTHON}/{library}"]
            continue
        found += _standard_library(base, f"{library}/{name}")
        for path in sorted((base / library).glob("*.so*" if of_conda else "libpython*.so*")):
            found += _bind(base, f"{library}/{path.name}")
    for each in CONDA if of_conda else ():
        found += _bind(base, each)
    return found


def _standard_library(base: Path, folder: str) -> list[str]:
    found = _bind(base, folder)
    for name in HIDDEN:
        if found and (base / folder / name).is_dir():
            at = f"{PYTHON}/{folder}/{name}"
            found += ["--perms", "0755", "--tmpfs", at, "--remount-ro", at]
    return found


def _bind(base: Path, path: str) -> list[str]:
    return ["--ro-bind", str(base / path), f"{PYTHON}/{path}"] if (base / path).exists() else []
