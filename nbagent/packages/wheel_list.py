"""Which wheel each of a kernel's own packages is, by the list of published ones beside the kernel's requirements."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from packaging import tags
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from nbagent.core.events import Package
from nbagent.packages.requirements import Target, read_pins

LIST = "wheels.txt"
"""The list's name; each line is a hash and a file name, as `sha256sum` writes them."""
OLDEST = {"5": "manylinux1", "12": "manylinux2010", "17": "manylinux2014"}
"""What the platforms of some versions of glibc are called, too."""


def kernel_packages(target: Target) -> list[Package]:
    """The packages that a kernel has from the start, each with the hash of its wheel, by name.

    The hash is empty where the list doesn't have the wheel, as of somebody's own requirements.
    """
    pins = read_pins(target)
    known = _wheels(target.pins.with_name(LIST), target.python, target.platform)
    return [Package(name, version, known.get((name, version), ""), False) for name, version in sorted(pins.items())]


@functools.lru_cache(maxsize=8)
def _wheels(listed: Path, python: str, platform: str) -> dict[tuple[str, str], str]:
    """The hashes of the wheels that an installer would take, by name and version."""
    rank = {tag: number for number, tag in enumerate(_tags(python, platform))}
    best: dict[tuple[str, str], tuple[int, str]] = {}
    for line in listed.read_text().splitlines() if listed.is_file() else ():
        sha256, _, file = line.partition("  ")
        try:
            name, version, _, found = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        fit = min((rank[tag] for tag in found if tag in rank), default=None)
        key = (str(name), str(version))
        if fit is not None and fit < best.get(key, (len(rank), ""))[0]:
            best[key] = (fit, sha256)
    return {key: sha256 for key, (_, sha256) in best.items()}


def _tags(python: str, platform: str) -> Iterator[Tag]:
    """What fits CPython on a platform such as `x86_64-manylinux_2_41`, the best first."""
    version = tuple(map(int, python.split(".")[:2]))
    platforms = list(_platforms(platform))
    yield from tags.cpython_tags(version, platforms=platforms)
    yield from tags.compatible_tags(version, interpreter=f"cp{''.join(map(str, version))}", platforms=platforms)


def _platforms(platform: str) -> Iterator[str]:
    machine, _, minor = platform.partition("-manylinux_2_")
    for number in range(int(minor) if minor.isdigit() else 17, 4, -1):
        yield f"manylinux_2_{number}_{machine}"
        if alias := OLDEST.get(str(number)):
            yield f"{alias}_{machine}"
    yield f"linux_{machine}"
