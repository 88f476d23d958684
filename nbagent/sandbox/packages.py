"""The host's installer: packages for a sandbox that has no network.

uv resolves and fetches wheels on the host and fills a folder, the *site folder*, that the sandbox sees read-only as
the last entry of its `sys.path`. Nothing from the index runs on the host: source distributions are never built.

In order: the form of the request, policy, resolution against what the sandbox already has, policy again for what
came along, fetching by hash into a staging folder, a look at what was unpacked, and a rename of each top-level entry
into the site folder. Until the renames nothing that a sandbox sees has changed, whatever fails.

Resolution asks the index each time (uv honours the index's own cache lifetime, so this is often no request at all).
Resolving from the cache first would save about 0.1 s, but it would let a release pass the minimum age that the index
has withdrawn since the cache saw it, and withdrawing hostile releases is what the minimum age waits for. Fetching
does look into the cache first: a wheel with the right hash is the right wheel.

What was installed is kept beside the site folder (`NAME.json`), so that a resumed session knows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import filecmp
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from nbagent.errors import EnvironmentMissing, InstallError, InstallRefused
from nbagent.events import Package
from nbagent.policy import InstallPolicy
from nbagent.sandbox.modules import DISTRIBUTIONS, distribution_for

RESOLVE_SECONDS = 60.0
"""For resolving, retries and the explanation of a failure included."""
FETCH_SECONDS = 600.0
"""For downloading and unpacking; a silent connection is given up far earlier, by uv."""

KERNEL_MODULES = frozenset({
    "IPython", "asttokens", "comm", "dateutil", "debugpy", "decorator", "executing", "ipykernel",
    "ipykernel_launcher", "ipython_pygments_lexers", "jedi", "jupyter", "jupyter_client", "jupyter_core",
    "matplotlib_inline", "nbagent", "nest_asyncio", "packaging", "parso", "pexpect", "platformdirs",
    "prompt_toolkit", "psutil", "ptyprocess", "pure_eval", "pygments", "six", "stack_data", "tornado", "traitlets",
    "typing_extensions", "wcwidth", "zmq",
})  # fmt: skip
"""What a kernel is made of. Only the distribution that each belongs to may bring it."""
START_UP_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Python imports these by itself, so no distribution may bring them."""
STRAY = frozenset({
    "benchmarks", "doc", "docs", "example", "examples", "scripts", "test", "testing", "tests", "tools",
})  # fmt: skip
"""Top-level folders that wheels carry by mistake: where two do, the first stays."""
HARMLESS_PTH = frozenset({"distutils-precedence.pth", "a1_coverage.pth"})
""".pth files of setuptools and coverage, left out like setuptools' `*-nspkg.pth`; any other is a reason to refuse."""

_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9 <>=!~,.*+()\[\]_-]{0,199}")
_LONGEST_NAME = 100
_ACCEPTED = "Give a name on the index, with extras and versions if need be, such as 'pandas[excel]>=2.2,<3'."
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
"""Where packages come from is the person's to say. What is checked is not: `UV_NO_VERIFY_HASHES` stays outside."""
_UNREACHABLE = re.compile(
    r"error sending request|HTTP status|timed out|connection|Request failed|authentication|credentials|"
    r"network connectivity|dns error|end of file",
    re.IGNORECASE,
)

P = ParamSpec("P")
T = TypeVar("T")


class IndexUnreachableError(InstallError):
    """The index or the way to it failed, so the same request may succeed later."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The sandbox's Python, which may differ from the host's.

    Attributes:
        python: Its version, `3.11` or `3.11.2`.
        platform: A value for uv's `--python-platform`, for example `x86_64-manylinux_2_36`.
        pins: A requirements file of what the sandbox already has: `name==version`, hashes and markers allowed.
    """

    python: str
    platform: str
    pins: Path


class Wheel(NamedTuple):
    """One line of a resolution. `source` is its entry in pylock.toml."""

    name: str
    version: str
    sha256: str
    uploaded: datetime | None
    source: dict[str, Any]


class Installer:
    """Adds packages to one session's site folder, one request at a time.

    A version that is already there, in the sandbox or in the site folder, is never replaced: a running kernel may
    have imported it, and half of a package in memory and the other half new on disk helps nobody. Such a request
    fails and says that it takes a new session.

    After a success the kernel must call `importlib.invalidate_caches()`.

    Args:
        site: The site folder on the host; made if it isn't there. Its parent must be on the same file system.
        target: The sandbox's Python and what it has.
        policy: What may be installed.
        protected: Import names that only their own distribution may bring.

    Attributes:
        installed: What the site folder holds, by normalised name.

    Raises:
        EnvironmentMissing: The target's pins can't be read.
    """

    def __init__(
        self, site: Path, *, target: Target, policy: InstallPolicy, protected: frozenset[str] = KERNEL_MODULES
    ) -> None:
        self.site = site
        self.target = target
        self.policy = policy
        self.protected = protected
        self.pins = read_pins(target)
        self.installed: dict[str, Package] = {}
        self._ledger = site.with_name(f"{site.name}.json")
        self._allow = {canonicalize_name(name) for name in policy.allow}
        self._deny = {canonicalize_name(name) for name in policy.deny}
        self._answers: dict[str, InstallError] = {}
        self._lock = asyncio.Lock()
        site.mkdir(parents=True, exist_ok=True)
        site.chmod(0o755)  # the sandbox has another uid, and the person's umask may be 077
        if self._ledger.exists():
            known = msgspec.json.decode(self._ledger.read_bytes(), type=list[Package])
            self.installed = {package.name: package for package in known}

    async def install(self, requirements: Sequence[str]) -> list[Package]:
        """Install by name on the index.

        Args:
            requirements: Names with optional extras and versions; nothing else of PEP 508.

        Returns:
            What was added, dependencies included; empty if all of it was there.

        Raises:
            InstallRefused: The form of the request or policy forbids it, or there is no such wheel.
            InstallError: It failed. The site folder is as it was.
        """
        asked = [parse(text) for text in requirements]
        if not asked:
            raise InstallRefused("Nothing was named to install.", mend=_ACCEPTED)
        return await self._install(asked)

    async def install_module(self, module: str) -> list[Package]:
        """Install what provides a module, at most once a session for each module.

        Args:
            module: The dotted name as the code imports it (see `distribution_for`).

        Returns:
            What was added, never empty.

        Raises:
            InstallRefused: As for `install`; also if no distribution can be told from the name, or the one that
                was found doesn't contain the module.
            InstallError: As for `install`; also if the distribution is there already, or was tried before.
        """
        if module in self._answers:
            before = self._answers[module]
            raise type(before)(before.message, mend=before.mend)
        try:
            added = await self._install_for(module)
        except IndexUnreachableError:
            raise  # not an answer: the index may be back for the next cell
        except InstallError as error:
            self._answers[module] = error
            raise
        self._answers[module] = InstallError(f"The module {module} was installed once in this session already.")
        return added

    async def _install_for(self, module: str) -> list[Package]:
        asked = Requirement(distribution_for(module))
        added = await self._install([asked], module=module)
        if not added:
            version = self._version(canonicalize_name(asked.name))
            raise InstallError(f"{asked.name} {version} is installed, and has no module {module}.")
        return added

    async def _install(self, asked: list[Requirement], *, module: str = "") -> list[Package]:
        """Everything after the form of the request is known to be right."""
        self._permit(asked)
        names = {canonicalize_name(requirement.name) for requirement in asked}
        async with self._lock:
            missing = [requirement for requirement in asked if not self._present(requirement)]
            if not missing:
                return []
            async with scratch_beside(self.site) as work:
                wheels = await self._resolve(missing, work)
                self._permit_resolved(wheels)
                if not wheels:
                    return []
                await self._fetch(wheels, work)
                packages = [Package(w.name, w.version, w.sha256, w.name in names) for w in wheels]
                await in_thread(self._publish, work / "site", packages, module)
                return packages

    # -- what may be installed

    def _permit(self, asked: list[Requirement]) -> None:
        """Refuse by policy what was asked for, before anything runs."""
        if not self.policy.enabled:
            raise InstallRefused("Installing packages is switched off for this session.")
        for requirement in asked:
            name = canonicalize_name(requirement.name)
            if name in self._deny:
                raise InstallRefused(f"The policy denies the package {name}.")
            if self._allow and name not in self._allow and not self._version(name):
                raise InstallRefused(
                    f"The policy does not allow the package {name}.", mend=f"Allowed: {', '.join(sorted(self._allow))}."
                )

    def _permit_resolved(self, wheels: list[Wheel]) -> None:
        """Refuse by policy what would be installed, dependencies included.

        uv has applied the minimum age already; it is checked here too, as the person's uv configuration can exempt
        packages from uv's.
        """
        for wheel in wheels:
            if wheel.name in self._deny:
                raise InstallRefused(f"The policy denies the package {wheel.name}, which is a dependency.")
            if not re.fullmatch(r"[0-9a-f]{64}", wheel.sha256):
                raise InstallRefused(f"The index states no SHA-256 for {wheel.name} {wheel.version}.")
        young = [wheel for wheel in wheels if not self._old_enough(wheel)]
        if young:
            raise self._too_young(young)

    def _version(self, name: str) -> str:
        """The version of a package that the sandbox or the site folder has, or nothing."""
        package = self.installed.get(name)
        return self.pins.get(name) or (package.version if package else "")

    def _present(self, requirement: Requirement) -> bool:
        """Whether nothing must be done for this request.

        Raises:
            InstallError: It is there in a version that the request excludes.
        """
        name = canonicalize_name(requirement.name)
        version = self._version(name)
        if not version:
            return False
        if not requirement.specifier.contains(version, prereleases=True):
            where = "part of the sandbox" if name in self.pins else "installed in this session"
            raise InstallError(
                f"{name} {version} is {where}, and a running kernel's packages are not replaced, so {requirement} "
                "can't be installed.",
                mend="" if name in self.pins else "Restart needed: install it first thing in a new session.",
            )
        return not requirement.extras

    # -- resolving

    async def _resolve(self, asked: list[Requirement], work: Path) -> list[Wheel]:
        """What to install for these requests, without what is there already."""
        have = self.pins | {name: package.version for name, package in self.installed.items()}
        _write(work / "requirements.in", map(str, asked))
        _write(work / "constraints.txt", (f"{name}=={version}" for name, version in have.items()))
        deadline = asyncio.get_running_loop().time() + RESOLVE_SECONDS
        aged = self._age_arguments(have)
        code, output, error = await run_uv(self._compile(*aged), work=work, deadline=deadline)
        if code == 0:
            return [wheel for wheel in read_lock(output) if wheel.name not in have]
        certain = explain(error, asked)
        if certain is not None:
            raise certain
        if aged:
            # Is it the age? Only a resolution without the limit can tell, and name the releases that are too young.
            code, output, error = await run_uv(self._compile(), work=work, deadline=deadline)
            if code == 0:
                raise self._too_young([w for w in read_lock(output) if not (w.name in have or self._old_enough(w))])
        raise unsolved(error, self.target)

    def _compile(self, *more: str) -> list[str]:
        files = ["requirements.in", "--constraints", "constraints.txt", "--format", "pylock.toml", "--no-header"]
        return ["pip", "compile", *files, "--only-binary", ":all:", *target_arguments(self.target), *more]

    def _age_arguments(self, have: Iterable[str]) -> list[str]:
        """The minimum age for uv; what is already there has exactly one candidate, of whatever age."""
        if not self.policy.min_age_days:
            return []
        exempt = [f"--exclude-newer-package={name}=false" for name in have]
        return ["--exclude-newer", self._limit().strftime("%Y-%m-%dT%H:%M:%SZ"), *exempt]

    def _limit(self) -> datetime:
        return datetime.now(UTC) - timedelta(days=self.policy.min_age_days)

    def _old_enough(self, wheel: Wheel) -> bool:
        if not self.policy.min_age_days:
            return True
        return wheel.uploaded is not None and wheel.uploaded <= self._limit()

    def _too_young(self, wheels: list[Wheel]) -> InstallRefused:
        """The refusal that names each release, its age and the minimum."""
        minimum = f"{self.policy.min_age_days:g}"
        ages: list[str] = []
        for wheel in wheels[:5]:
            if wheel.uploaded is None:
                ages.append(f"{wheel.name} {wheel.version} (the index doesn't say when it was uploaded)")
                continue
            days = (datetime.now(UTC) - wheel.uploaded) / timedelta(days=1)
            ages.append(f"{wheel.name} {wheel.version} (released {days:.1f} days ago)")
        return InstallRefused(
            f"Too young: {', '.join(ages)}. A release must be at least {minimum} days old, and no older one fits.",
            mend="Wait, or lower min_age_days in the install policy.",
        )

    # -- fetching and publishing

    async def _fetch(self, wheels: list[Wheel], work: Path) -> None:
        """Unpack exactly these wheels into `work/site`, from the cache if it has them all."""
        _write(work / "pylock.toml", render_lock(wheels))
        deadline = asyncio.get_running_loop().time() + FETCH_SECONDS
        arguments = install_arguments(work / "site", "pylock.toml", target_arguments(self.target))
        code, _, error = await run_uv([*arguments, "--offline"], work=work, deadline=deadline)
        if code:
            await in_thread(shutil.rmtree, work / "site", True)
            code, _, error = await run_uv(arguments, work=work, deadline=deadline)
        if code:
            raise fetch_failure(error)

    def _publish(self, staging: Path, packages: list[Package], module: str) -> None:
        """Look at what was unpacked, move it into the site folder, and write down what it was.

        One call in one thread, so that a cancelled request is either in the site folder and the ledger, or in
        neither.
        """
        tidy(staging)
        names = {package.name for package in packages}
        refuse_hostile(staging, names=names, protected=self.protected)
        if module and not any(_provides(folder, module) for folder in (staging, self.site)):
            asked = next(package for package in packages if package.requested)
            raise InstallRefused(f"{asked.name} {asked.version} doesn't contain the module {module}; not installed.")
        make_readable(staging)
        move_into(staging, self.site)
        self.installed |= {package.name: package for package in packages}
        beside = self._ledger.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(list(self.installed.values())))
        beside.replace(self._ledger)


def fill(folder: Path, *, pins: Path, python: str, platform: str, compile_bytecode: bool = False) -> None:
    """Install a whole requirements file with hashes into a folder, which appears at once and complete.

    Args:
        folder: Must not exist, or be empty. If somebody else fills it meanwhile, theirs stays.
        pins: A requirements file that names every package, dependencies included, with hashes.
        python: Version of the Python that will use it.
        platform: A value for uv's `--python-platform`.
        compile_bytecode: Also compile, with the host's Python: useful only where that is the same minor version.

    Raises:
        EnvironmentMissing: It can't be made; the message ends with uv's reason.
    """
    if folder.exists() and any(folder.iterdir()):
        raise EnvironmentMissing(f"{folder} is not empty.", mend="Remove it, or name another folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    target = Target(python=python, platform=platform, pins=pins)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        work = Path(made)
        (work / "uv.toml").touch()
        arguments = install_arguments(work / "site", str(pins.absolute()), target_arguments(target))
        if compile_bytecode:
            arguments.append("--compile-bytecode")
        try:
            done = subprocess.run(
                [uv(), *arguments], cwd=work, env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                check=False, timeout=FETCH_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise EnvironmentMissing(f"Installing {pins} took more than {FETCH_SECONDS:g} s.") from None
        if done.returncode:
            reason = shorten(done.stderr.decode(errors="replace"))
            raise EnvironmentMissing(f"The packages of {pins} can't be installed: {reason}")
        (work / "site" / ".lock").unlink(missing_ok=True)
        make_readable(work / "site")
        try:
            (work / "site").replace(folder)
        except OSError:
            if not folder.is_dir() or not any(folder.iterdir()):
                raise


def parse(text: str) -> Requirement:
    """A request as a requirement, if its form is accepted: name, extras, versions.

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
        raise InstallRefused(f"{shown!r} is not a plain package name.", mend=_ACCEPTED) from None
    return requirement


def read_pins(target: Target) -> dict[str, str]:
    """Normalised name → version of what the sandbox has; lines whose marker doesn't hold there are left out.

    Raises:
        EnvironmentMissing: The file can't be read, or a line is not `name==version`.
    """
    try:
        lines = target.pins.read_text().replace("\\\n", " ").splitlines()
    except OSError as error:
        raise EnvironmentMissing(f"The list of the sandbox's packages can't be read: {error}") from error
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


# -- uv


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
    """The environment for uv: where packages come from and how to get there, and nothing of what is checked."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _PASSED or name.startswith(_PASSED_UV)
    }  # fmt: skip
    own = {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    patience = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "3"}  # seconds without a byte; the person may say more
    return patience | kept | own


def target_arguments(target: Target) -> list[str]:
    """The options that say what the sandbox's Python is. The host's is named so that uv searches for none."""
    return [
        "--python", sys.executable, "--python-version", target.python, "--python-platform", target.platform, "--quiet",
    ]  # fmt: skip


def install_arguments(folder: Path, requirements: str, target: list[str]) -> list[str]:
    """The command line that unpacks wheels by hash.

    Copies, since uv's default falls back to hard links, through which a change of mode would reach uv's cache.
    """
    checks = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
    return ["pip", "install", "--requirements", requirements, "--target", str(folder), *checks, *target]


async def run_uv(arguments: list[str], *, work: Path, deadline: float) -> tuple[int, str, str]:
    """Run uv to its end: exit code, output, errors. It never outlives the call, cancelled or not.

    Args:
        arguments: Its command line.
        work: Its working folder, with a `uv.toml` of its own so that no project's configuration is found.
        deadline: On the event loop's clock.

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

    Not asyncio's own subprocesses: when a loop ends while one is being started, Python 3.11's waits for ever.
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
        source = package["wheels"][0]  # for one platform uv lists only the wheel that it takes
        wheels.append(Wheel(name, version, source["hashes"].get("sha256", ""), source.get("upload-time"), source))
    return wheels


def render_lock(wheels: list[Wheel]) -> Iterator[str]:
    """The lines of a pylock.toml with just these wheels. JSON's strings are TOML's."""
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


# -- what uv says


def explain(error: str, asked: list[Requirement]) -> InstallError | None:
    """What a failed resolution means if the age of releases has no part in it, else None."""
    text = " ".join(error.split())
    if re.search(r"lack of valid authentication|network was disabled", text):
        return IndexUnreachableError(f"The package index can't be reached: {shorten(error)}")
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
    """What a failed resolution means otherwise: no wheel, or no versions that fit together."""
    text = " ".join(error.split())
    name = r"(?:^|\s)([A-Za-z][\w.-]*)(?:[<>=!~]\S*)?,? (?:has|have)"
    if sources := re.search(rf"{name} no usable wheels", text):
        return InstallRefused(f"{sources[1]} comes as source only where it would fit, and nothing is built here.")
    if others := re.search(rf"{name} no wheels with a matching", text):
        return InstallRefused(f"{others[1]} has no wheel for Python {target.python} on {target.platform}.")
    return InstallError(f"No versions fit together: {shorten(error)}")


def fetch_failure(error: str) -> InstallError:
    """What a failed download or unpacking means."""
    if "Hash mismatch" in error:
        return InstallRefused(f"A wheel is not the one that the index announced: {shorten(error)}")
    kind = IndexUnreachableError if _UNREACHABLE.search(error) else InstallError
    return kind(f"A wheel can't be fetched: {shorten(error)}")


def shorten(error: str) -> str:
    """What uv said, on one line of bounded length, without credentials that an index's URL may carry."""
    line = re.sub(r"://[^/@\s]*@", "://", " ".join(error.split())).removeprefix("error: ")
    return line if len(line) <= 500 else f"{line[:300]} … {line[-200:]}"


# -- folders


@contextlib.asynccontextmanager
async def scratch_beside(folder: Path) -> AsyncIterator[Path]:
    """A private folder on the same file system, gone afterwards.

    It has its own, empty `uv.toml`: uv takes the nearest one upwards, which may otherwise be a stranger's.
    """
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    _write(work / "uv.toml", ())
    try:
        yield work
    finally:
        await in_thread(shutil.rmtree, work, True)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread that a cancellation waits for, so that nothing works on in a folder that is being removed.

    A future and no task (as in `asyncio.to_thread`), since a loop that ends cancels every task, shielded or not.
    """
    working = asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def tidy(folder: Path) -> None:
    """Leave out uv's lock, scripts that name the host's Python, and .pth files that a site folder has no use for."""
    (folder / ".lock").unlink(missing_ok=True)
    for entry in folder.glob("*.pth"):
        if entry.name in HARMLESS_PTH or entry.name.endswith("-nspkg.pth"):
            entry.unlink()
    for script in folder.glob("bin/*"):
        if script.is_file() and not script.is_symlink():
            with script.open("rb") as file:
                names_interpreter = file.read(2) == b"#!"
            if names_interpreter:
                script.unlink()
    if not any(folder.glob("bin/*")):
        shutil.rmtree(folder / "bin", ignore_errors=True)


def refuse_hostile(folder: Path, *, names: set[str], protected: frozenset[str]) -> None:
    """Refuse what was unpacked if it reaches beyond its own modules.

    Args:
        folder: Where it was unpacked.
        names: Normalised names of the distributions in it.
        protected: Import names that only their own distribution may bring.

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
        if top in START_UP_MODULES or (top in protected and owner not in names):
            raise InstallRefused(
                f"{_owner(folder, entry.name)} would bring {entry.name}, which the kernel itself uses."
            )
    for entry in folder.rglob("*"):
        if entry.is_symlink():
            raise InstallRefused(f"{_owner(folder, entry.relative_to(folder).parts[0])} contains a link.")


def _owner(folder: Path, top: str) -> str:
    """The distribution whose RECORD names a top-level entry, for a message."""
    for record in folder.glob("*.dist-info/RECORD"):
        if re.search(rf"^\"?{re.escape(top)}[/,\"]", record.read_text(errors="replace"), re.MULTILINE):
            return record.parent.name.removesuffix(".dist-info").replace("-", " ")
    return "A package"


def _provides(folder: Path, module: str) -> bool:
    """Whether the folder has the top level of a module: a package, a file or an extension."""
    top = module.split(".")[0]
    return (folder / top).is_dir() or any(folder.glob(f"{top}.*py")) or any(folder.glob(f"{top}.*so"))


def make_readable(folder: Path) -> None:
    """Let every user read: the sandbox has another uid. Nothing stays writable for others, set-uid or set-gid."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in folders:
            Path(parent, name).chmod(0o755)
        for name in files:
            path = Path(parent, name)
            path.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)


def move_into(staging: Path, site: Path) -> None:
    """Rename each entry into the site folder, so that a running kernel sees it whole or not at all.

    Folders that are there already (namespace packages, `share`) are merged. If a rename fails, those before it are
    taken back.

    Raises:
        InstallError: A file is there already with other content, or the file system failed.
    """
    moves = list(_moves(staging, site))  # all collisions are found before anything moves
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
            continue  # a LICENSE, an example.py: the first one stays
        elif entry.is_dir() and there.is_dir():
            yield from _moves(entry, there, top=False)
        elif not (entry.is_file() and there.is_file() and filecmp.cmp(entry, there, shallow=False)):
            raise InstallError(
                f"{entry.name} in {place.name} is there already, from another package of this session.",
                mend="Install only one of the two, in a new session.",
            )


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
