"""The host's installer: packages for a sandbox that has no network.

uv resolves and fetches wheels on the host and fills a folder, the *site folder*, that the sandbox sees read-only as
the last entry of its `sys.path`. Nothing from the index runs on the host: source distributions are never built.

An install checks the form of the request (`requirements`) and policy, resolves it against what the sandbox already has
(`resolver`), checks policy for the dependencies, fetches by hash into a staging folder, checks what was unpacked, and
renames each top-level entry into the site folder (`wheels`). If a step before the renames fails, the sandbox sees no
change.

The list of what was installed is kept beside the site folder (`NAME.json`), for resumed sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nbagent.core import fileio
from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.events import Package
from nbagent.core.policy import NAMES_MEND, SIZE_MEND, InstallPolicy
from nbagent.packages.allowance import Allowance
from nbagent.packages.download import fetch, fetch_locked
from nbagent.packages.import_names import distribution_for
from nbagent.packages.requirements import ACCEPTED, Target, parse, read_pins
from nbagent.packages.resolver import Wheel, needs, old_enough, resolve, too_young
from nbagent.packages.unpacked import make_readable, move_into, provides, refuse_hostile, size_of, tidy
from nbagent.packages.uv import IndexUnreachableError, TooMuchError

Confirm = Callable[[list[Package]], Awaitable[None]]
"""Called with packages before they are installed; raises `InstallRefused` to keep them out."""
Exceed = Callable[[list[str], str], Awaitable[None]]
"""Called with names beyond the allowance and the reason; raises `InstallRefused` unless a person allows them."""


class Installer:
    """Adds packages to one session's site folder, one request at a time.

    A version that is already there, in the sandbox or in the site folder, is never replaced: a running kernel may have
    imported half of it. Such a request fails and says that it takes a new session.

    After an install the kernel must call `importlib.invalidate_caches()`.

    Args:
        site: The site folder on the host; made if it isn't there. Its parent must be on the same file system.
        target: The sandbox's Python and the packages that it has.
        policy: What may be installed.
        allowance: Bounds what code may ask the index for; a new one by default, kept beside the site folder.
        answers: What became of the modules that were asked for, by their names, if others are made for the same kernel.

    Attributes:
        installed: The packages in the site folder, by normalised name.
        confirm: Called with the packages before they are installed; may raise `InstallRefused`.
        exceed: Called with names beyond the allowance; raises `InstallRefused` unless a person allows them.
        tell: Called with the names before the index is asked for them.
    """

    def __init__(
        self,
        site: Path,
        *,
        target: Target,
        policy: InstallPolicy,
        allowance: Allowance | None = None,
        answers: dict[str, InstallError] | None = None,
    ) -> None:
        self.site = site
        self.target = target
        self.policy = policy
        self.pins = read_pins(target)
        self.installed: dict[str, Package] = {}
        self._record = site.with_name(f"{site.name}.json")
        self._allow = {canonicalize_name(name) for name in policy.allow}
        self._deny = {canonicalize_name(name) for name in policy.deny}
        self._answers = {} if answers is None else answers
        self._lock = asyncio.Lock()
        self._allowance = allowance or Allowance(policy, site.with_name(f"{site.name}-asked.json"))
        self.confirm: Confirm | None = None
        self.exceed: Exceed | None = None
        self.tell: Callable[[list[str], list[str]], None] | None = None
        site.mkdir(parents=True, exist_ok=True)
        site.chmod(0o755)  # the sandbox has another uid, and the person's umask may be 077
        if self._record.exists():
            known = msgspec.json.decode(self._record.read_bytes(), type=list[Package])
            self.installed = {package.name: package for package in known}

    async def install(self, requirements: Sequence[str], *, by_person: bool = False) -> list[Package]:
        """Install distributions by name.

        Args:
            requirements: Names with optional extras and versions; nothing else of PEP 508.
            by_person: Whether a person named them; then they don't count against the allowance.

        Returns:
            The packages that were added, dependencies included; empty if all of them were there.

        Raises:
            InstallRefused: The request is malformed, policy forbids it, or there is no such wheel.
            InstallError: It failed. The site folder is as it was.
        """
        asked = [parse(text) for text in requirements]
        if not asked:
            raise InstallRefused("Nothing was named to install.", mend=ACCEPTED)
        return await self._install(asked, counted=not by_person)

    async def install_module(self, module: str) -> list[Package]:
        """Install the distribution that provides a module, by its dotted name; each is tried once a session.

        Returns:
            The packages that were added, never empty.

        Raises:
            InstallRefused: As for `install`; also if no distribution is known for the name, or it doesn't contain the
                module.
            InstallError: As for `install`; also if the distribution is there already, or was tried before.
        """
        if module in self._answers:
            before = self._answers[module]
            raise type(before)(before.message, mend=before.mend)
        try:
            added = await self._install_for(module)
        except IndexUnreachableError:
            raise  # not remembered, since the index may answer the next time
        except InstallError as error:
            self._answers[module] = error
            raise
        self._answers[module] = InstallError(f"The module {module} was installed once in this session already.")
        return added

    async def install_locked(self, packages: Sequence[Package]) -> None:
        """Install exactly these wheels, as a lock names them: nothing is resolved, and each is known by its hash.

        They may be other versions of what the sandbox has: whoever wants these to be found first says so to Python.
        Their names count as those that code asks for, since anybody can write a lock; but neither what is in the cache,
        nor what the index says that others of them need.

        Raises:
            InstallRefused: Policy forbids one, one is no plain name, version and hash, the index has another wheel, or
                all of them have too many bytes.
            InstallError: They can't be had.
        """
        wanted = [each for each in packages if self._version(each.name) != each.version]
        for each in wanted:
            self._permit([parse(each.name)])
            if not re.fullmatch(r"[0-9a-f]{64}", each.sha256):
                raise InstallRefused(f"The lock has no SHA-256 of {each.name} {each.version}.")
        if not wanted:
            return
        async with self._lock, scratch_beside(self.site) as work:
            exact = {each: parse(f"{each.name}=={each.version}") for each in wanted}
            lines = [f"{exact[each]} --hash=sha256:{each.sha256}" for each in wanted]
            stated = 0

            async def count() -> None:
                await self._count_locked(exact, work)

            async def weigh(size: int) -> None:
                nonlocal stated
                self._refuse_large(await to_the_end(self._allowance.weigh, size))
                stated = size

            minimum = self.policy.min_age_days
            async with self._most() as most:
                await fetch_locked(
                    lines,
                    target=self.target,
                    min_age_days=minimum,
                    most=most,
                    work=work,
                    before_asking=count,
                    before_download=weigh,
                )
            await self._weigh_rest(stated, work)
            await to_the_end(self._publish, work / "site", wanted, "")

    async def _install_for(self, module: str) -> list[Package]:
        asked = Requirement(distribution_for(module))
        added = await self._install([asked], module=module)
        if not added:
            version = self._version(canonicalize_name(asked.name))
            raise InstallError(f"{asked.name} {version} is installed, and has no module {module}.")
        return added

    async def _install(self, asked: list[Requirement], *, module: str = "", counted: bool = True) -> list[Package]:
        """Install requirements whose form was checked."""
        self._permit(asked)
        names = {canonicalize_name(requirement.name) for requirement in asked}
        async with self._lock:
            missing = [requirement for requirement in asked if not self._is_met(requirement)]
            if not missing:
                return []
            if counted:
                await self._count(missing)
            if self.tell is not None:
                self.tell([canonicalize_name(each.name) for each in missing], self._allowance.unknown(missing))
            async with scratch_beside(self.site) as work:
                resolved = await self._resolve(missing, work)
                self._permit_resolved(resolved)
                if not resolved:
                    return []
                packages = [Package(w.name, w.version, w.sha256, w.name in names) for w in resolved]
                if self.confirm is not None:
                    await self.confirm(packages)
                await self._fetch(resolved, work, counted=counted)
                await to_the_end(self._publish, work / "site", packages, module)
                return packages

    async def _resolve(self, missing: list[Requirement], work: Path) -> list[Wheel]:
        have = self.pins | {name: package.version for name, package in self.installed.items()}
        minimum = self.policy.min_age_days
        return await resolve(missing, have=have, target=self.target, min_age_days=minimum, work=work)

    # -- what may be installed

    def _permit(self, asked: list[Requirement]) -> None:
        """Apply the policy to what was asked for, before anything runs."""
        if not self.policy.enabled:
            raise InstallRefused("Installing packages is switched off for this session.")
        for requirement in asked:
            name = canonicalize_name(requirement.name)
            if name in self._deny:
                raise InstallRefused(f"The policy denies the package {name}.")
            listed = self._allow or self.policy.listed_only
            if listed and name not in self._allow and not self._version(name):
                allowed = ", ".join(sorted(self._allow)) or "none; a person lists them in the setting install_allow"
                raise InstallRefused(f"The policy does not allow the package {name}.", mend=f"Allowed: {allowed}.")

    def _permit_resolved(self, wheels: list[Wheel]) -> None:
        """Apply the policy to what would be installed, dependencies included.

        The minimum age is checked again, since the person's uv configuration can exempt packages from it.
        """
        for wheel in wheels:
            if wheel.name in self._deny:
                raise InstallRefused(f"The policy denies the package {wheel.name}, which is a dependency.")
            if not re.fullmatch(r"[0-9a-f]{64}", wheel.sha256):
                raise InstallRefused(f"The index states no SHA-256 for {wheel.name} {wheel.version}.")
        minimum = self.policy.min_age_days
        young = [wheel for wheel in wheels if not old_enough(wheel, minimum)]
        if young:
            raise too_young(young, minimum)

    async def _count(self, asked: list[Requirement]) -> None:
        """Count a request against the allowance; ask a person about a request that exceeds it."""
        if not asked:
            return
        reason = await to_the_end(self._allowance.take, asked)
        if not reason:
            return
        if self.exceed is None:
            raise InstallRefused(reason, mend=NAMES_MEND)
        await self.exceed([str(each) for each in asked], reason)
        await to_the_end(functools.partial(self._allowance.take, asked, granted=True))

    async def _count_locked(self, packages: Mapping[Package, Requirement], work: Path) -> None:
        """Count the packages of a lock: those that were asked for, then those that the others don't need."""
        unknown = {*self._allowance.unknown([*packages.values()])} - self.pins.keys()
        counted = {each for each, asked in packages.items() if canonicalize_name(asked.name) in unknown}
        await self._count([packages[each] for each in counted if each.requested])
        if rest := [packages[each] for each in counted if not each.requested]:
            roots = [asked for each, asked in packages.items() if each.requested or each not in counted]
            most = await to_the_end(self._allowance.bytes_left)
            needed = await needs(roots, target=self.target, most=most, work=work) if roots else set()
            await self._count([each for each in rest if canonicalize_name(each.name) not in needed])
        if self.tell is not None:
            self.tell([canonicalize_name(each.name) for each in packages.values()], sorted(unknown))

    async def _fetch(self, wheels: list[Wheel], work: Path, *, counted: bool) -> None:
        """Unpack wheels into `work/site`; refuse what is too large, before it comes where the index states its size."""
        stated = sum(wheel.size for wheel in wheels)
        if not counted:
            await fetch(wheels, target=self.target, most=None, work=work)
            return
        async with self._most() as most:
            self._refuse_large(await to_the_end(self._allowance.weigh, stated))
            await fetch(wheels, target=self.target, most=most, work=work)
        await self._weigh_rest(stated, work)

    @contextlib.asynccontextmanager
    async def _most(self) -> AsyncIterator[int | None]:
        """The bytes that packages may have; if they have more, what they had when that was seen counts."""
        most = await to_the_end(self._allowance.bytes_left)
        try:
            yield most
        except TooMuchError as error:
            await to_the_end(functools.partial(self._allowance.weigh, error.written, came=True))
            raise

    async def _weigh_rest(self, stated: int, work: Path) -> None:
        """Count what `work/site` has beyond the bytes that the index stated; refuse all if it is too much."""
        more = await to_the_end(size_of, work / "site") - stated
        self._refuse_large(await to_the_end(functools.partial(self._allowance.weigh, max(0, more), came=True)))

    @staticmethod
    def _refuse_large(reason: str) -> None:
        if reason:
            raise InstallRefused(reason, mend=SIZE_MEND)

    def _version(self, name: str) -> str:
        """The version of a package in the sandbox or the site folder; empty if there is none."""
        package = self.installed.get(name)
        return self.pins.get(name) or (package.version if package else "")

    def _is_met(self, requirement: Requirement) -> bool:
        """Whether a requirement is met by what is there."""
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

    # -- publishing

    def _publish(self, staging: Path, packages: list[Package], module: str) -> None:
        """Check what was unpacked, move it into the site folder, and record it.

        It is one call in a thread, so that a cancelled request is in both the site folder and the record, or in none.
        """
        try:
            self._check_and_move(staging, packages, module)
        except OSError as error:  # whatever a wheel has in the place of what is looked for
            raise InstallError(f"The packages can't be installed: {error.strerror or error}.") from error

    def _check_and_move(self, staging: Path, packages: list[Package], module: str) -> None:
        tidy(staging)
        names = {package.name for package in packages}
        refuse_hostile(staging, names=names)
        if module and not any(provides(folder, module) for folder in (staging, self.site)):
            asked = next(package for package in packages if package.requested)
            raise InstallRefused(f"{asked.name} {asked.version} doesn't contain the module {module}; not installed.")
        make_readable(staging)
        move_into(staging, self.site)
        self.installed |= {package.name: package for package in packages}
        fileio.write(self._record, msgspec.json.encode(list(self.installed.values())))


@contextlib.asynccontextmanager
async def scratch_beside(folder: Path) -> AsyncIterator[Path]:
    """A private temporary folder on the same file system.

    It has an empty `uv.toml` of its own: otherwise uv takes the nearest one upwards, which may be a stranger's.
    """
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    (work / "uv.toml").touch()
    try:
        yield work
    finally:
        await to_the_end(fileio.remove, work)
