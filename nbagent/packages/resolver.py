"""Runs uv: resolves a request to wheels, and unpacks exactly these.

Resolution asks the index each time (within the index's own cache lifetime that is often no request at all). Resolving
from the cache would save about 0.1 s, but would accept a release that the index has withdrawn meanwhile, and the
minimum age exists to give the index time to withdraw hostile releases. Fetching does use the cache: a wheel with the
right hash is the right wheel.

The cause of a failure is read from uv's messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.text import ends
from nbagent.packages.requirements import Target

RESOLVE_SECONDS = 60.0
"""Seconds for resolving, with retries and the search for a failure's cause."""
FETCH_SECONDS = 600.0
"""Seconds for downloading and unpacking; uv gives a silent connection up far earlier."""

_PASSED = frozenset({
    "HOME", "LANG", "LOGNAME", "NETRC", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "SSL_CLIENT_CERT", "TMPDIR",
    "USER", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ALL_PROXY", "HTTPS_PROXY",
    "HTTP_PROXY", "NO_PROXY",
})  # fmt: skip
_PASSED_UV = (
    "UV_CACHE_DIR", "UV_CONCURRENT_", "UV_CONFIG_FILE", "UV_CREDENTIALS_DIR", "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_HTTP", "UV_INDEX", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS", "UV_NO_CACHE", "UV_NO_CONFIG", "UV_OFFLINE", "UV_REQUEST_TIMEOUT", "UV_SYSTEM_CERTS",
)  # fmt: skip
"""Variables that uv gets: the person chooses where packages come from, but not what is checked, so
`UV_NO_VERIFY_HASHES` is not among them."""
_UNREACHABLE = re.compile(
    r"error sending request|HTTP status|timed out|connection|Request failed|authentication|credentials|"
    r"network connectivity|dns error|end of file",
    re.IGNORECASE,
)

P = ParamSpec("P")
T = TypeVar("T")


class IndexUnreachableError(InstallError):
    """The index or the way to it failed, so the same request may succeed later."""


class Wheel(NamedTuple):
    """One line of a resolution. `source` is its entry in pylock.toml."""

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
    _write(work / "requirements.in", map(str, asked))
    _write(work / "constraints.txt", (f"{name}=={version}" for name, version in have.items()))
    deadline = asyncio.get_running_loop().time() + RESOLVE_SECONDS
    aged = _age_arguments(have, min_age_days)
    arguments = await in_thread(_compile, target)
    code, output, error = await run_uv([*arguments, *aged], work=work, deadline=deadline)
    if code == 0:
        return [wheel for wheel in read_lock(output) if wheel.name not in have]
    certain = explain(error, asked)
    if certain is not None:
        raise certain
    if aged:
        # Only a resolution without the minimum age tells whether that is the cause, and which releases are too young.
        code, output, error = await run_uv(arguments, work=work, deadline=deadline)
        if code == 0:
            added = [wheel for wheel in read_lock(output) if wheel.name not in have]
            raise too_young([wheel for wheel in added if not old_enough(wheel, min_age_days)], min_age_days)
    raise unsolved(error, target)


def _compile(target: Target) -> list[str]:
    files = ["requirements.in", "--constraints", "constraints.txt", "--format", "pylock.toml", "--no-header"]
    return ["pip", "compile", *files, "--only-binary", ":all:", *target_arguments(target)]


def _age_arguments(have: Iterable[str], min_age_days: float) -> list[str]:
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
        mend="Wait, or lower min_age_days in the install policy.",
    )


# -- fetching


async def fetch(wheels: list[Wheel], *, target: Target, work: Path) -> None:
    """Unpack exactly these wheels into `work/site`, from the cache if it has them all.

    Raises:
        InstallRefused: A wheel has another hash than the index said.
        InstallError: A wheel can't be fetched or unpacked.
    """
    _write(work / "pylock.toml", render_lock(wheels))
    await _unpack(install_arguments(work / "site", "pylock.toml", await in_thread(target_arguments, target)), work)


async def fetch_locked(lines: list[str], *, target: Target, min_age_days: float, work: Path) -> None:
    """Unpack the wheels of lines with versions and hashes into `work/site`, from the cache if it has them all.

    Raises:
        InstallRefused: The index has no such wheel, or one with another hash.
        InstallError: A wheel can't be fetched or unpacked.
    """
    _write(work / "locked.txt", lines)
    aged = _age_arguments((), min_age_days)
    arguments = install_arguments(work / "site", "locked.txt", await in_thread(target_arguments, target))
    await _unpack([*arguments, *aged], work)


async def _unpack(arguments: list[str], work: Path) -> None:
    deadline = asyncio.get_running_loop().time() + FETCH_SECONDS
    code, _, error = await run_uv([*arguments, "--offline"], work=work, deadline=deadline)
    if code:
        await in_thread(shutil.rmtree, work / "site", True)
        code, _, error = await run_uv(arguments, work=work, deadline=deadline)
    if code:
        raise fetch_failure(error)


# -- running uv


def uv() -> str:
    """Path of the uv binary: the one that came with nbagent, else the one on PATH.

    Raises:
        InstallError: There is none.
    """
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if not found:
        raise InstallError("uv, which installs packages, isn't there.", mend="Install it: pip install uv")
    return found


def environment() -> dict[str, str]:
    """The environment for uv: variables about indexes and networks only."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _PASSED or name.startswith(_PASSED_UV)
    }  # fmt: skip
    own = {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    patience = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "3"}  # seconds without a byte; the person may say more
    return patience | kept | own


def target_arguments(target: Target) -> list[str]:
    """The options for the sandbox's Python. The host's is named so that uv doesn't search for one."""
    platform = newest_known(target.platform, _known_platforms(uv()))
    return ["--python", sys.executable, "--python-version", target.python, "--python-platform", platform, "--quiet"]


def newest_known(platform: str, known: frozenset[str]) -> str:
    """The platform, or that with the newest older glibc that uv knows: wheels run on a newer glibc, too.

    Args:
        platform: Such as `x86_64-manylinux_2_41`.
        known: The values of uv's `--python-platform`.
    """
    machine, _, version = platform.partition("-manylinux_2_")
    older = [int(each.rpartition("_")[2]) for each in known if each.startswith(f"{machine}-manylinux_2_")]
    fitting = [minor for minor in older if version.isdigit() and minor <= int(version)]
    # If uv knows none, it says so itself.
    return f"{machine}-manylinux_2_{max(fitting)}" if fitting else platform


@functools.cache
def _known_platforms(program: str) -> frozenset[str]:
    """The platforms with glibc that this uv knows, read from its help text."""
    said = subprocess.run(
        [program, "pip", "install", "--help"], env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=RESOLVE_SECONDS,
    )  # fmt: skip
    return frozenset(re.findall(r"\b\w+-manylinux_2_\d+\b", said.stdout))


def install_arguments(folder: Path, requirements: str, target: list[str]) -> list[str]:
    """The command line that unpacks wheels by hash.

    uv copies the files: through hard links, its default, a change of mode would reach its cache.
    """
    checks = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
    return ["pip", "install", "--requirements", requirements, "--target", str(folder), *checks, *target]


async def run_uv(arguments: list[str], *, work: Path, deadline: float) -> tuple[int, str, str]:
    """Run uv; returns its exit code, output and errors. uv never outlives the call, even if that is cancelled.

    Args:
        arguments: Its command line.
        work: Its working folder, with a `uv.toml` of its own so that no project's configuration is found.
        deadline: A time on the event loop's clock.

    Raises:
        IndexUnreachableError: The deadline passed.
    """
    process = start_uv(arguments, work)
    reading = asyncio.get_running_loop().run_in_executor(None, process.communicate)
    try:
        async with asyncio.timeout_at(deadline):
            output, error = await asyncio.shield(reading)
    except TimeoutError:
        raise IndexUnreachableError("The package index did not answer in time.") from None
    finally:
        if not reading.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.wait([reading])
    return process.returncode, output.decode(errors="replace"), error.decode(errors="replace")


def start_uv(arguments: list[str], work: Path) -> subprocess.Popen[bytes]:
    """Start uv in a process group of its own.

    It doesn't use asyncio's subprocesses: if a loop ends while one is being started, Python 3.11 waits for ever.
    """
    return subprocess.Popen(
        [uv(), *arguments],
        cwd=work,
        env=environment(),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread. A cancellation waits for its end, so that it doesn't use a folder that is removed.

    It awaits a future, not a task (as `asyncio.to_thread` does): a loop that ends cancels even shielded tasks.
    """
    working = asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


# -- its lock


def read_lock(text: str) -> list[Wheel]:
    """The wheels of a pylock.toml that uv wrote for one platform.

    Raises:
        InstallRefused: A package in it is no wheel.
    """
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


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


# -- what uv says


def explain(error: str, asked: list[Requirement]) -> InstallError | None:
    """The error for a failed resolution whose cause is not the age of releases, else None."""
    text = " ".join(error.split())
    if re.search(r"lack of valid authentication|network was disabled", text):
        return IndexUnreachableError(f"The package index can't be reached: {shorten(error)}")
    if address := re.search(r"Package `([^`]+)` was included as a URL dependency", text):
        return InstallRefused(
            f"It depends on {address[1][:100]} at an address of its own, and only the index is asked."
        )
    if "No solution found" not in text:
        kind = IndexUnreachableError if _UNREACHABLE.search(text) else InstallError
        return kind(f"The package index can't be read: {shorten(error)}")
    if unknown := re.search(r"([\w.-]+) was not found in the package registry", text):
        name = unknown[1]
        if name in {canonicalize_name(requirement.name) for requirement in asked}:
            return InstallRefused(
                f"There is no distribution called {name} on the index.", mend="Language models invent names; check it."
            )
        return InstallRefused(f"It depends on {name}, which the index doesn't have.")
    return None


def unsolved(error: str, target: Target) -> InstallError:
    """The error for a resolution that found no wheel, or no versions that fit together."""
    text = " ".join(error.split())
    name = r"(?:^|\s)([A-Za-z][\w.-]*)(?:[<>=!~]\S*)?,? (?:has|have)"
    if sources := re.search(rf"{name} no usable wheels", text):
        return InstallRefused(f"{sources[1]} comes as source only where it would fit, and nothing is built here.")
    if others := re.search(rf"{name} no wheels with a matching", text):
        return InstallRefused(f"{others[1]} has no wheel for Python {target.python} on {target.platform}.")
    return InstallError(f"No versions fit together: {shorten(error)}")


def fetch_failure(error: str) -> InstallError:
    """The error for a failed download or unpacking."""
    if "Hash mismatch" in error:
        return InstallRefused(f"A wheel is not the one that the index announced: {shorten(error)}")
    kind = IndexUnreachableError if _UNREACHABLE.search(error) else InstallError
    return kind(f"A wheel can't be fetched: {shorten(error)}")


def shorten(error: str) -> str:
    """The message of uv on one line of bounded length, without credentials in an index's URL."""
    line = re.sub(r"://[^/@\s]*@", "://", " ".join(error.split())).removeprefix("error: ")
    return ends(line, head=300, tail=200, mark=lambda _: " … ")
