"""Packages that are added to a session."""

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
    """The package index is asked for these names, which leave the machine.

    It is asked for their dependencies too, which their publishers chose, not the code.
    """

    cell: int
    names: list[str]
    unknown: list[str] = []
    """Those of the names that are unpopular and so count, see `packages/allowance.py`."""


class PackagesInstalled(Fact, frozen=True, kw_only=True):
    """Packages were added to the session's site folder. `cell` is 0 outside of a cell."""

    cell: int
    packages: list[Package]
    reason: str = ""
    seconds: float = 0.0


class InstallFailed(Fact, frozen=True, kw_only=True):
    """Packages were asked for and not installed; the environment is as it was."""

    cell: int
    requirements: list[str]
    reason: str
    refused: bool = False
    seconds: float = 0.0
