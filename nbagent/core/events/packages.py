"""Events of requests to the package index, and of installs. The kernel emits them."""

from __future__ import annotations

import msgspec

from nbagent.core.events.base import Fact


class Package(msgspec.Struct, frozen=True):
    """A distribution that was installed for a session.

    Attributes:
        name: The distribution's normalised name, for example `opencv-python-headless`.
        version: Its exact version.
        sha256: The hash of the wheel that was installed, in hexadecimal.
        requested: Whether it was asked for, and is not only a dependency.
    """

    name: str
    version: str
    sha256: str
    requested: bool = True


class IndexAsked(Fact, frozen=True, kw_only=True):
    """The package index is about to be asked for these names, which so leave the machine.

    The index is asked for their dependencies, too; these names are chosen by publishers, not by code.
    """

    cell: int
    names: list[str]
    unknown: list[str] = []
    """The unpopular names among them, which use up the allowance (`packages/allowance.py`)."""


class PackagesInstalled(Fact, frozen=True, kw_only=True):
    """Packages were added to the folder of the session's packages."""

    cell: int
    """The cell that needed them; 0 outside of a cell."""
    packages: list[Package]
    reason: str = ""
    seconds: float = 0.0


class InstallFailed(Fact, frozen=True, kw_only=True):
    """Packages were requested and not installed; the environment is as it was."""

    cell: int
    requirements: list[str]
    reason: str
    refused: bool = False
    seconds: float = 0.0
