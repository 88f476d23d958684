"""Runs uv: finds its program, sets its environment, and explains its failures."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from packaging.version import Version

from nbagent.core import fileio
from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.policy import MIB, SIZE_MEND
from nbagent.core.text import ends
from nbagent.packages import pip_settings
from nbagent.packages.requirements import Target

OLDEST = Version("0.11.15")
"""Before it, uv writes the scripts of a hostile wheel to wherever their names lead (CVE-2026-114109)."""
RESOLVE_SECONDS = 60.0
"""Seconds for resolving, with retries and the search for a failure's cause."""
FETCH_SECONDS = 600.0
"""Seconds for downloading and unpacking; uv gives a silent connection up far earlier."""
LOOK_SECONDS = 0.05
"""Seconds between two looks at what uv takes of the machine."""
MAX_MEMORY = 2048 * MIB
"""Bytes of uv's memory, ten times what it takes for large packages: it reads what an index says whole."""
SPARE = 64 * MIB
"""Bytes that uv may write of its own, beside the packages."""
MAX_OUTPUT = 16 * MIB
"""Bytes that uv may print: it prints what it resolved, with names and versions that packages give."""
MAX_MESSAGE = 32 * 1024
"""Characters of uv's errors that are read, of their begin and of their end each."""
MAX_WORD = 300
"""Characters of one word in uv's errors: a version in the metadata of a hostile wheel stands there whole."""
_TEMPORARY = re.compile(r"\.tmp[A-Za-z0-9]{6}")

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


class IndexUnreachableError(InstallError):
    """The index or the way to it failed, so the same request may succeed later."""


class TooMuchError(InstallRefused):
    """What the index sent takes too much of this machine, and uv was ended.

    Attributes:
        written: Bytes that uv had written.
    """

    written = 0


# -- its command line


def binary() -> str:
    """Path of the uv binary: the one that came with nbagent, else the one on PATH.

    Raises:
        InstallError: There is none, or one that is too old to be trusted with hostile packages.
    """
    found: str | None
    try:
        from uv import find_uv_bin

        found = find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if not found:
        raise InstallError("uv, which installs packages, isn't there.", mend="Install it: pip install uv")
    if (version := _version(found, Path(found).stat().st_mtime_ns)) < OLDEST:
        raise InstallError(
            f"{found} is uv {version}, which writes scripts of hostile packages outside of their folder.",
            mend=f"Install {OLDEST} or a later one: pip install --upgrade uv",
        )
    return found


@functools.cache
def _version(program: str, changed: int) -> Version:  # noqa: ARG001 - another file is asked anew
    """The version of a uv; 0 if it says none."""
    try:
        said = subprocess.run(
            [program, "--version"], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=RESOLVE_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{program} can't be run: {error}.", mend="Install it anew: pip install uv") from error
    found = re.match(r"uv (\d+(?:\.\d+)+)", said.stdout)
    return Version(found[1] if found else "0")


def environment() -> dict[str, str]:
    """The environment for uv: variables about indexes and networks only, the person's own and what pip is told."""
    kept = {name: each for name, each in os.environ.items() if name.upper() in _PASSED or name.startswith(_PASSED_UV)}
    kept |= pip_settings.for_uv(os.environ)
    own = {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    patience = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "3"}  # seconds without a byte; the person may say more
    return patience | kept | own


def has_further_indexes() -> bool:
    """Whether more than one index is named, by what uv or pip is told."""
    told = environment()
    if any(told.get(name) for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX")):
        return True
    for table in pip_settings.uv_tables(os.environ):
        listed = table.get("index")
        tables = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        if any(not each.get("default") for each in tables) or table.get("extra-index-url"):
            return True
    return False


def target_arguments(target: Target) -> list[str]:
    """The options for the sandbox's Python. The host's is named so that uv doesn't search for one."""
    platform = newest_known(target.platform, _known_platforms(binary()))
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


def install_arguments(folder: Path, requirements: str, target: list[str], *, link: str = "copy") -> list[str]:
    """The command line that unpacks wheels by hash.

    uv copies the files unless `link` is another of its modes: through hard links, its default, whatever changes a file
    changes the one in its cache.
    """
    checks = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", link]
    return ["pip", "install", "--requirements", requirements, "--target", str(folder), *checks, *target]


# -- its process


async def run(arguments: list[str], *, work: Path, deadline: float, most: int | None = None) -> tuple[int, str, str]:
    """Run uv; returns its exit code, its output, and its errors on one line, long words cut.

    uv never outlives the call, even if that is cancelled.

    Args:
        arguments: Its command line.
        work: Its working folder, with a `uv.toml` of its own so that no project's configuration is found.
        deadline: A time on the event loop's clock.
        most: Bytes that packages may have; None for any number. What an archive unpacks to is known only then.

    Raises:
        IndexUnreachableError: The deadline passed.
        TooMuchError: They have more, or uv takes too much memory or prints too much.
        InstallError: `PIP_CERT` names no file: others' certificates would be trusted in its place.
    """
    if (named := os.environ.get("PIP_CERT")) and not Path(named).expanduser().exists():
        raise InstallError(f"There is no file {named}, which PIP_CERT names.", mend="Name one, or unset the variable.")
    with tempfile.TemporaryFile(dir=work) as output, tempfile.TemporaryFile(dir=work) as errors:
        process = _start(arguments, work, output, errors)
        ending = asyncio.get_running_loop().run_in_executor(None, process.wait)
        try:
            async with asyncio.timeout_at(deadline):
                while not ending.done():
                    await asyncio.wait([ending], timeout=LOOK_SECONDS)
                    _check_use(process.pid, most)
                    _check_size(output, errors)
        except TimeoutError:
            raise IndexUnreachableError("The package index did not answer in time.") from None
        finally:
            if not ending.done():
                half_made = _half_made(process.pid)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.wait([ending])
                for each in half_made:
                    await to_the_end(fileio.remove, each)
        return process.returncode, _printed(output), _message(errors)


def _check_size(*files: BinaryIO) -> None:
    """Raise `TooMuchError` if uv prints too much."""
    if max(os.fstat(each.fileno()).st_size for each in files) > MAX_OUTPUT:
        raise TooMuchError(f"What uv says of these packages is more than {MAX_OUTPUT // MIB} MB.")


def _printed(output: BinaryIO) -> str:
    """What uv printed."""
    _check_size(output)
    output.seek(0)
    return output.read().decode(errors="replace")


def _message(errors: BinaryIO) -> str:
    """Uv's errors on one line: the begin and the end of each word, and of them all."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(0)
    text = errors.read(MAX_MESSAGE).decode(errors="replace")
    if size > MAX_MESSAGE:
        errors.seek(max(size - MAX_MESSAGE, MAX_MESSAGE))
        text += errors.read(MAX_MESSAGE).decode(errors="replace")
    half = MAX_WORD // 2
    return " ".join(ends(word, head=half, tail=half, mark=lambda _: "…") for word in text.split())


def _check_use(pid: int, most: int | None) -> None:
    """Raise `TooMuchError` if uv takes too much of the machine."""
    try:
        written = int(re.search(r"^wchar: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)[1])  # type: ignore[index]
        memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError, TypeError):
        return  # it has just ended
    found = None
    if memory > MAX_MEMORY:
        found = TooMuchError(f"What the index says takes more than {MAX_MEMORY // MIB:,} MB to be read.")
    elif most is not None and written > 2 * most + SPARE:  # once into its cache, and once from there
        found = TooMuchError(f"Unpacked, they have more than the {most // MIB:,} MB that are left.", mend=SIZE_MEND)
    if found is not None:
        found.written = written
        raise found


def _half_made(pid: int) -> set[Path]:
    """The temporary folders in which uv is unpacking an archive: directly in its cache, by whose tag that is known.

    Other folders may be called so, too, such as one that another program made to work in.
    """
    found: set[Path] = set()
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                parents = each.readlink().parents
                found.update(folder for folder in parents if _TEMPORARY.fullmatch(folder.name))
    return {each for each in found if (each.parent / "CACHEDIR.TAG").is_file()}


def _start(arguments: list[str], work: Path, output: BinaryIO, errors: BinaryIO) -> subprocess.Popen[bytes]:
    """Start uv in a process group of its own.

    It doesn't use asyncio's subprocesses: if a loop ends while one is being started, Python 3.11 waits for ever.
    """
    return subprocess.Popen(
        [binary(), *arguments],
        cwd=work,
        env=environment(),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
    )


# -- its failures


def unreachable(error: str) -> bool:
    """Whether a failure, by uv's message, is the index's or the network's."""
    return _UNREACHABLE.search(error) is not None


def way_out(error: str) -> str:
    """What a person can do about a failure of the network; empty for any other."""
    told = environment()
    if re.search(r"certificate|UnknownIssuer", error):
        if (named := told.get("SSL_CERT_FILE")) and not Path(named).is_file():
            return f"There is no file {named}, which SSL_CERT_FILE or pip's `cert` names."
        return "Name your organisation's certificates in PIP_CERT or SSL_CERT_FILE, or set UV_SYSTEM_CERTS=1."
    if re.search(r"authentication|credentials|HTTP status[^:]{0,100}40[137]", error):
        return "Give the index's user and password in its address, in ~/.netrc or by UV_KEYRING_PROVIDER."
    if re.search(r"tunnel error|proxy", error, re.IGNORECASE):
        return "Mend the proxy that HTTPS_PROXY, ALL_PROXY or pip's `proxy` names."
    if unreachable(error):
        return "Name a proxy in HTTPS_PROXY, or a mirror in UV_DEFAULT_INDEX or pip's `index-url`."
    return ""


def shorten(error: str) -> str:
    """The message of uv on one line of bounded length, without credentials in an index's URL."""
    line, _, hint = re.sub(r"://[^/\s]*@", "://", " ".join(error.split())).removeprefix("error: ").partition(" hint: ")
    # Where it names an index that refused to answer, that there is no such version is only what follows from it.
    line = hint if "could not be queried" in hint else line
    shown = ends(line, head=300, tail=200, mark=lambda _: " … ")
    return shown if shown.endswith(".") else f"{shown}."
