"""The tool forge: makes tools in sandboxes of their own, and keeps those that pass in the library of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from nbagent.core import settings
from nbagent.core.errors import ForgeError
from nbagent.core.events import Event, ToolStageEntered
from nbagent.forge import adapter, porting, workshop
from nbagent.forge.library import Library, ToolEntry
from nbagent.forge.stages import Stage
from nbagent.forge.tool import Draft, Tool, digest, encode
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed
from nbagent.sandbox import registry
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec


class ToolForge:
    r"""Makes tools and manages the library; no session is needed.

        forge = ToolForge()
        tool = await forge.create(
            "word_count",
            description="Counts the words of a text.",
            code="def word_count(text: str) -> int:\n    return len(text.split())\n",
            tests="from word_count import word_count\n\ndef test_words():\n    assert word_count('a b') == 2\n",
        )

    An *active* tool was loaded in a fresh sandbox with exactly the packages that are kept with it, and its own tests
    called it and passed. That does not mean that the tool is right or harmless: its author wrote the tests too, and
    code under test can cheat tests that run in its process. Protection comes from the sandbox: a tool runs nowhere
    else, and at the trust level of its user.

    Args:
        root: The folder of all state; that of the settings by default.
        engine: The engine of the sandboxes, or its name; the best that works here by default.
        spec: The sandboxes' spec; by the settings by default.
        notify: Called with a `ToolStageEntered` for each stage of each tool.
        confirm: Called with a tool's packages before they are installed; may raise `InstallRefused`.
        exceed: Called with names beyond the allowance; raises `InstallRefused` unless a person allows them.
        allowance: Bounds what tools may ask the package index for; a new one by default.

    Raises:
        ForgeError: The engine isolates nothing.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        engine: Engine | str | None = None,
        spec: SandboxSpec | None = None,
        notify: Callable[[Event], object] = lambda _: None,
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._library = Library(root or settings.state_root())
        self._engine = workshop.isolating(engine) if isinstance(engine, Engine) else engine
        self._spec = spec
        self._notify = notify
        self._confirm = confirm
        self._exceed = exceed
        self._allowance = allowance
        self._making = asyncio.Lock()

    # -- making -------------------------------------------------------------------------------------------------

    async def create(
        self, name: str, *, description: str, code: str, tests: str, dependencies: Sequence[str] = ()
    ) -> Tool:
        """Make a tool, or a new version of one, and put it into the library.

        Args:
            name: The name of the tool and of its function.
            description: What it does.
            code: A module with that function, whose parameters have type hints.
            tests: A pytest module that imports it: `from NAME import NAME`.
            dependencies: Distributions that it needs, as `name` or `name>=version`.

        Raises:
            ForgeError: The draft is malformed, a dependency can't be installed, or a test failed; nothing is kept.
            SandboxError: The sandbox can't be started.
            StoreError: The library can't be read or written.
        """
        draft = Draft(name=name, description=description, code=code, tests=tests, dependencies=tuple(dependencies))
        return await self.make(draft)

    async def pypi_install(
        self, requirement: str, functions: Sequence[str], *, description: str = "", tests: str = ""
    ) -> tuple[Tool, ...]:
        """Make tools that call functions of a package.

        Args:
            requirement: The distribution, as `name` or `name>=version`.
            functions: The functions, with their modules: `humanize.naturalsize`.
            description: What they do; by default, where they come from.
            tests: Tests of a single function; by default it is only checked that the functions exist.

        Raises:
            NbagentError: As for `create`; tools made before the failure are kept.
        """
        drafts = adapter.drafts_of(requirement, functions, description=description, tests=tests)
        return tuple([await self.make(draft) for draft in drafts])

    async def make(self, draft: Draft) -> Tool:
        """Make a tool from a draft; see `create`."""
        async with self._making:
            engine, spec = await self._sandbox()
            version = await asyncio.to_thread(self._library.next_version, draft.name)
            progress = workshop.Progress(draft, version, self._notify)
            tool = await workshop.make(
                progress, engine, spec, confirm=self._confirm, exceed=self._exceed, allowance=self._allowance
            )
            await self._keep(tool, progress)
            return tool

    async def _keep(self, tool: Tool, progress: workshop.Progress) -> None:
        """Put a tool into the library, and emit its stage, even if the caller was cancelled meanwhile."""
        adding = asyncio.get_running_loop().run_in_executor(None, self._library.add, tool)
        try:
            await asyncio.shield(adding)
        except asyncio.CancelledError:
            await asyncio.wait([adding])
            raise
        finally:
            if adding.done() and (error := adding.exception()) is not None:
                progress.enter(Stage.CLEANUP, reason=str(error))
                progress.enter(Stage.DORMANT)
            else:
                progress.enter(Stage.ACTIVE, sha256=digest(encode(tool)))

    async def _sandbox(self) -> tuple[Engine, SandboxSpec]:
        """The engine and the spec of a sandbox for a tool, both chosen by the settings where they weren't given."""
        spec = self._spec or SandboxSpec.of(settings.load())
        if not isinstance(self._engine, Engine):
            name = self._engine or settings.load().engine
            self._engine = await registry.choose(name, image=spec.image, specs=[spec])
        self._allowance = self._allowance or Allowance(spec.install)
        return self._engine, spec

    # -- the library --------------------------------------------------------------------------------------------

    async def list(self) -> Sequence[ToolEntry]:
        """The tools in the library, the last used first.

        Raises:
            StoreError: The library can't be read.
            ForgeError: Another user could have written it.
        """
        return await asyncio.to_thread(self._library.listed)

    async def get(self, name: str, *, version: int | None = None) -> Tool:
        """A tool of the library, by default in its newest version.

        Raises:
            ForgeError: There is none, or its file was changed.
            StoreError: The library can't be read.
        """
        return await asyncio.to_thread(self._library.load, name, version=version)

    async def used(self, name: str) -> None:
        """Note that a tool is used now.

        Raises:
            StoreError: The library can't be written.
        """
        await asyncio.to_thread(self._library.touch, name)

    async def remove(self, name: str, *, reason: str = "It was removed.") -> None:
        """Take a tool out of the library, all its versions.

        Raises:
            ForgeError: There is none of that name.
            StoreError: The library can't be written.
        """
        entry = await asyncio.to_thread(self._library.remove, name)
        self._notify(ToolStageEntered(tool=name, version=entry.version, stage="cleanup", reason=reason))
        self._notify(ToolStageEntered(tool=name, version=entry.version, stage="dormant"))

    async def export(self, name: str, to: str | Path, *, version: int | None = None) -> Path:
        """Write a tool into a new folder, or a zip archive if the name ends in `.zip`; returns its path.

        Raises:
            ForgeError: There is no such tool.
            StoreError: It can't be written, or the path exists.
        """
        tool = await self.get(name, version=version)
        return await asyncio.to_thread(porting.export, tool, Path(to).expanduser())

    async def add(self, path: str | Path) -> Tool:
        """Make a tool from an export, or from NAME.py with test_NAME.py beside it; it is tested anew.

        Raises:
            NbagentError: As for `create`; a ForgeError if the path has no tool.
        """
        return await self.make(await asyncio.to_thread(porting.draft_of, Path(path).expanduser()))

    async def cleanup(self, *, max_age: float) -> Sequence[str]:
        """Remove the tools that were not used for so many seconds; returns their names.

        Raises:
            StoreError: The library can't be read or written.
        """
        gone = []
        for name in await asyncio.to_thread(self._library.unused, max_age=max_age):
            try:
                await self.remove(name, reason=f"It was not used for {max_age / 86400:g} days.")
            except ForgeError:
                continue  # another process has removed it
            gone.append(name)
        return gone
