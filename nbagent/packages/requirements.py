"""Reads requests for packages, and the list of packages that a sandbox has."""

from __future__ import annotations

import contextlib
import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from nbagent.core.errors import EnvironmentMissing, InstallRefused

ACCEPTED = "Give a name on the index, with extras and versions if need be, such as 'pandas[excel]>=2.2,<3'."
"""The mend of a malformed request."""

_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9 <>=!~,.*+()\[\]_-]{0,199}")
_LONGEST_NAME = 100
_BLOCK = re.compile(r"^# /// script\n((?:#(?! ///)(?: .*)?\n)+)# ///$", re.MULTILINE)
"""A block of PEP 723. It ends where another one begins, so that many beginnings don't take quadratic time."""
_MOST_BLOCK, _MOST_DOTS = 32 * 1024, 2_000
"""Characters of a block, and dots among them: of a key with 20,000 dots, Python's reader makes 1.6 GB."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The sandbox's Python, which may differ from the host's.

    Attributes:
        python: Its version, `3.11` or `3.11.2`.
        platform: Its machine and glibc, for example `x86_64-manylinux_2_41`.
        pins: A requirements file of what the sandbox already has: `name==version`, hashes and markers allowed.
    """

    python: str
    platform: str
    pins: Path


def parse(text: str) -> Requirement:
    """Read a request: a name with optional extras and versions.

    Raises:
        InstallRefused: It is anything else: an option, a URL, a path, a marker, two lines, nothing.
    """
    plain = text.strip(" ")
    try:
        requirement = Requirement(plain if _FORM.fullmatch(plain) else "")
        if len(requirement.name) > _LONGEST_NAME:
            raise InvalidRequirement("its name is too long")
    except InvalidRequirement:
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise InstallRefused(f"{shown!r} is not a plain package name.", mend=ACCEPTED) from None
    return requirement


def script_block(code: str) -> dict[str, Any]:
    """The table in the first PEP 723 block of a script; empty if it has none.

    Raises:
        ValueError: The block isn't TOML, or is too large to be read.
    """
    block = _BLOCK.search(code)
    if block is None:
        return {}
    if len(block[1]) > _MOST_BLOCK or block[1].count(".") > _MOST_DOTS:
        raise ValueError("its script block is too large")
    return tomllib.loads("\n".join(line[2:] for line in block[1].splitlines()))


def script_requirements(code: str) -> list[Requirement]:
    """The well-formed requirements in a script's PEP 723 block."""
    found: list[Requirement] = []
    with contextlib.suppress(TypeError, ValueError, RecursionError):  # the kernel that runs it says what is wrong
        wanted = script_block(code).get("dependencies", [])
        for each in wanted if isinstance(wanted, list) else []:
            with contextlib.suppress(InstallRefused):
                found.append(parse(str(each)))
    return found


def read_pins(target: Target) -> dict[str, str]:
    """The packages that the sandbox has, as normalised name → version; no lines whose marker doesn't hold there."""
    try:
        found = target.pins.stat()
        return dict(_read_pins(target, found.st_mtime_ns, found.st_size))
    except OSError as error:
        raise EnvironmentMissing(f"The list of the sandbox's packages can't be read: {error}") from error


@functools.lru_cache(maxsize=8)
def _read_pins(target: Target, changed: int, size: int) -> dict[str, str]:  # noqa: ARG001 - another file is read anew
    lines = target.pins.read_text().replace("\\\n", " ").splitlines()
    pins: dict[str, str] = {}
    for line in lines:
        plain = re.split(r"(?:^|\s)(?:#|--)", line, maxsplit=1)[0].strip()
        if not plain:
            continue
        exact = re.fullmatch(r"([\w.-]+)(?:\[.*?\])?\s*==\s*([\w.!+-]+)\s*(;.*)?", plain)
        if exact is None:
            raise EnvironmentMissing(f"{target.pins} is not a list of exact versions: {plain[:80]!r}")
        if _applies(plain, target):
            pins[canonicalize_name(exact[1])] = exact[2]
    return pins


def _applies(line: str, target: Target) -> bool:
    """Whether a requirement's marker holds in the sandbox (CPython on Linux)."""
    marker = Requirement(line).marker
    version = target.python.split(".")
    return marker is None or marker.evaluate(
        {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": "aarch64" if target.platform.startswith("aarch64") else "x86_64",
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": ".".join([*version, "0"][:3]),
            "python_version": ".".join(version[:2]),
            "sys_platform": "linux",
        }
    )
