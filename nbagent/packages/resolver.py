"""Resolves a request to wheels, with uv.

Resolution asks the index each time (within the index's own cache lifetime that is often no request at all). Resolving
from the cache would save about 0.1 s, but would accept a release that the index has withdrawn meanwhile, and the
minimum age exists to give the index time to withdraw hostile releases. `download` does use the cache.

The cause of a failure is read from uv's messages.
"""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import InstallError, InstallRefused
from nbagent.packages import uv
from nbagent.packages.requirements import Target
from nbagent.packages.uv import IndexUnreachableError, shorten

ANYWHERE = ("--index-strategy", "unsafe-first-match")
"""Has uv look for a name on all indexes, not just on the first that has it: for files that are known by their hash."""


class Wheel(NamedTuple):
    """A wheel that a resolution chose. `source` is its entry in pylock.toml."""

    name: str
    version: str
    sha256: str
    uploaded: datetime | None
    source: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of the file as the index states them; 0 if it doesn't."""
        return int(self.source.get("size", 0))


# -- resolving


async def resolve(
    asked: list[Requirement], *, have: Mapping[str, str], target: Target, min_age_days: float, work: Path
) -> list[Wheel]:
    """Resolve requests to the wheels that must be added.

    Args:
        asked: The requests.
        have: What is there, as normalised name → version; these versions stay.
        target: The sandbox's Python.
        min_age_days: Days that a release must be old.
        work: A private folder with a `uv.toml` of its own.

    Raises:
        InstallRefused: There is no such wheel, or only one that is too young.
        InstallError: No versions fit together, or the index failed.
    """
    write(work / "requirements.in", map(str, asked))
    write(work / "constraints.txt", (f"{name}=={version}" for name, version in have.items()))
    deadline = asyncio.get_running_loop().time() + uv.RESOLVE_SECONDS
    aged = age_arguments(have, min_age_days)
    arguments = await to_the_end(compile_arguments, target, "requirements.in", "--constraints", "constraints.txt")
    code, output, error = await uv.run([*arguments, *aged], work=work, deadline=deadline)
    if code == 0:
        return [wheel for wheel in read_lock(output) if wheel.name not in have]
    if uv.has_further_indexes():
        same = await _same_elsewhere(arguments, aged, have, target, work, deadline)
        if same is not None:
            return same
    certain = explain(error, asked)
    if certain is not None:
        raise certain
    if aged:
        # Only a resolution without the minimum age tells whether that is the cause, and which releases are too young.
        code, output, error = await uv.run(arguments, work=work, deadline=deadline)
        if code == 0:
            added = [wheel for wheel in read_lock(output) if wheel.name not in have]
            raise too_young([wheel for wheel in added if not old_enough(wheel, min_age_days)], min_age_days)
    raise unsolved(error, target)


async def _same_elsewhere(
    arguments: list[str], aged: list[str], have: Mapping[str, str], target: Target, work: Path, deadline: float
) -> list[Wheel] | None:
    """The wheels of a resolution for which one index alone is not enough; None if there is no such resolution.

    The versions that are there already may stand on any index, since they are not fetched. What is added is the very
    file that the first index with its name has, whichever index says that it is old enough: nobody can put another one
    on a public index in the place of a private package.
    """
    code, output, _ = await uv.run([*arguments, *ANYWHERE], work=work, deadline=deadline)
    if code:
        return None
    added = [wheel for wheel in read_lock(output) if wheel.name not in have]
    if not added:
        return []
    write(work / "added.in", (f"{wheel.name}=={wheel.version}" for wheel in added))
    exact = [*await to_the_end(compile_arguments, target, "added.in"), "--no-deps"]
    no_first, first, _ = await uv.run([*exact, "--index-strategy", "first-index"], work=work, deadline=deadline)
    no_old, old, _ = await uv.run([*exact, *ANYWHERE, *aged], work=work, deadline=deadline)
    if no_first or no_old:
        return None
    known = {(wheel.name, wheel.sha256) for wheel in read_lock(first)}
    found = read_lock(old)
    return found if all((wheel.name, wheel.sha256) in known for wheel in found) else None


async def needs(asked: list[Requirement], *, target: Target, most: int | None, work: Path) -> set[str]:
    """The names of what these packages need, themselves included, as the index says; none if it doesn't say.

    Args:
        asked: The packages.
        target: The sandbox's Python.
        most: Bytes that may come: some indexes have only whole wheels to read this from.
        work: A private folder with a `uv.toml` of its own.

    Raises:
        InstallError: The index doesn't answer, or with too much.
    """
    write(work / "needs.in", map(str, asked))
    deadline = asyncio.get_running_loop().time() + uv.RESOLVE_SECONDS
    arguments = await to_the_end(compile_arguments, target, "needs.in")
    code, output, _ = await uv.run(arguments, work=work, deadline=deadline, most=most)
    return set() if code else {wheel.name for wheel in read_lock(output)}


def compile_arguments(target: Target, *files: str) -> list[str]:
    """Uv's arguments that resolve the files of a working folder."""
    how = ["--format", "pylock.toml", "--no-header"]
    return ["pip", "compile", *files, *how, "--only-binary", ":all:", *uv.target_arguments(target)]


def age_arguments(have: Iterable[str], min_age_days: float) -> list[str]:
    """The options for the minimum age; packages that are there already are exempt."""
    if not min_age_days:
        return []
    exempt = [f"--exclude-newer-package={name}=false" for name in have]
    return ["--exclude-newer", _newest(min_age_days).strftime("%Y-%m-%dT%H:%M:%SZ"), *exempt]


def _newest(min_age_days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=min_age_days)


def old_enough(wheel: Wheel, min_age_days: float) -> bool:
    """Whether a release has the minimum age; one without a date has not."""
    if not min_age_days:
        return True
    return wheel.uploaded is not None and wheel.uploaded <= _newest(min_age_days)


def too_young(wheels: list[Wheel], min_age_days: float) -> InstallRefused:
    """The refusal that names each release, its age and the minimum."""
    ages: list[str] = []
    for wheel in wheels[:5]:
        if wheel.uploaded is None:
            ages.append(f"{wheel.name} {wheel.version} (the index doesn't say when it was uploaded)")
            continue
        days = (datetime.now(UTC) - wheel.uploaded) / timedelta(days=1)
        ages.append(f"{wheel.name} {wheel.version} (released {days:.1f} days ago)")
    return InstallRefused(
        f"Too young: {', '.join(ages)}. A release must be at least {min_age_days:g} days old, and no older one fits.",
        mend="Wait, or lower install_min_age_days in the settings.",
    )


# -- the lock file


def read_lock(text: str) -> list[Wheel]:
    """The wheels of a pylock.toml that uv wrote for one platform."""
    wheels = []
    for package in tomllib.loads(text).get("packages", []):
        name, version = canonicalize_name(package["name"]), package.get("version", "")
        if not package.get("wheels"):
            raise InstallRefused(f"{name} {version} would not come as a wheel.")
        source = package["wheels"][0]  # for one platform, uv lists only the wheel that it chose
        wheels.append(Wheel(name, version, source["hashes"].get("sha256", ""), source.get("upload-time"), source))
    return wheels


def render_lock(wheels: list[Wheel]) -> Iterator[str]:
    """The lines of a pylock.toml with just these wheels; a JSON string is a TOML string, too."""
    yield from ('lock-version = "1.0"', 'created-by = "nbagent"')
    for wheel in wheels:
        where = [f"{key} = {json.dumps(wheel.source[key])}" for key in ("name", "url", "path") if key in wheel.source]
        source = ", ".join([*where, f'hashes = {{ sha256 = "{wheel.sha256}" }}'])
        yield from (
            "[[packages]]",
            f'name = "{wheel.name}"',
            f'version = "{wheel.version}"',
            f"wheels = [{{ {source} }}]",
        )


def write(path: Path, lines: Iterable[str]) -> None:
    """Write a file of these lines."""
    path.write_text("".join(f"{line}\n" for line in lines))


# -- what uv's messages mean


def explain(error: str, asked: list[Requirement]) -> InstallError | None:
    """The error for a failed resolution whose cause is not the age of releases, else None.

    Args:
        error: What uv says, on one line.
        asked: The requirements that were asked for.
    """
    if re.search(r"lack of valid authentication|network was disabled", error):
        return IndexUnreachableError(f"The package index can't be reached: {shorten(error)}", mend=uv.way_out(error))
    if address := re.search(r"Package `([^`]+)` was included as a URL dependency", error):
        return InstallRefused(
            f"It depends on {address[1][:100]} at an address of its own, and only the index is asked."
        )
    if "No solution found" not in error:
        kind = IndexUnreachableError if uv.unreachable(error) else InstallError
        return kind(f"The package index can't be read: {shorten(error)}", mend=uv.way_out(error))
    if unknown := re.search(r"(?<![\w.-])([\w.-]++) was not found in the package registry", error):
        name = unknown[1]
        if name in {canonicalize_name(requirement.name) for requirement in asked}:
            return InstallRefused(
                f"There is no distribution called {name} on the index.", mend="Language models invent names; check it."
            )
        return InstallRefused(f"It depends on {name}, which the index doesn't have.")
    return None


def unsolved(error: str, target: Target) -> InstallError:
    """The error for a resolution that found no wheel, or no versions that fit together."""
    name = r"(?:^|\s)([A-Za-z][\w.-]*)(?:[<>=!~]\S*)?,? (?:has|have)"
    if sources := re.search(rf"{name} no usable wheels", error):
        return InstallRefused(f"{sources[1]} comes as source only where it would fit, and nothing is built here.")
    if others := re.search(rf"{name} no wheels with a matching", error):
        return InstallRefused(f"{others[1]} has no wheel for Python {target.python} on {target.platform}.")
    return InstallError(f"No versions fit together: {shorten(error)}")
