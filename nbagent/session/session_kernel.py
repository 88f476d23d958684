"""Runs a session's cells one after the other, and collects the files of each: for a person, and for an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from nbagent.agent.ports import Evidence, Surroundings
from nbagent.agent.turn import Turn, approver
from nbagent.core.events import Cell, DataDescribed, DataSeen, Event, Package, WidgetsChanged
from nbagent.kernel.describe import Profiles, describe, schemas
from nbagent.kernel.find_text import Hits, find
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.profile_cache import ProfileCache
from nbagent.notebook.record import Recording
from nbagent.sandbox.paths import OUTPUT
from nbagent.session.files.session_files import SessionFiles


class SessionKernel:
    """Runs the cells of one session, a person's and the agent's. The agent knows it as `agent.ports.SessionPort`.

    Args:
        files: Collects what a cell left in /tmp/output.
        alone: Held while a cell runs, and while files move.
        hosts: Rules of the hosts that the code may reach; None for the whole network.

    Attributes:
        turn: The question that is being answered, to which the agent's cells are added; None between two questions.
    """

    def __init__(
        self,
        kernel: Kernel,
        files: SessionFiles,
        *,
        recording: Recording,
        emit: Callable[[Event], object],
        alone: asyncio.Lock,
        hosts: tuple[str, ...] | None = (),
    ) -> None:
        self._kernel = kernel
        self._files = files
        self._recording = recording
        self._emit = emit
        self._alone = alone
        self._hosts = hosts
        self._notes: list[str] = []
        self._names: set[str] = set()
        self.turn: Turn | None = None

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's own
        turn: Turn | None = None,
        **who: str,
    ) -> Cell:
        """Run a cell to its end.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """
        # Its files are collected before the next cell runs, and belong to it alone.
        async with self._alone:
            return await self._run(code, timeout=timeout, turn=turn, who=who)

    async def _run(self, code: str, *, timeout: float | None, turn: Turn | None, who: dict[str, str]) -> Cell:  # noqa: ASYNC109
        number = turn.number if turn else 0
        saved: list[Path] = []
        try:
            tool, approver = who.get("tool", "person"), who.get("approver", "person")
            metadata = self._files.metadata()
            cell = await self._kernel.run(
                code, timeout=timeout, turn=number, tool=tool, approver=approver, metadata=metadata
            )
        except BaseException:
            last = self._recording.cells[-1:]
            if turn and last and last[0].turn == number:
                # A cell that was given up belongs to the turn too.
                turn.cells.append(last[0])
            raise
        # A cell that was left to itself, or never began, has no report, and the kernel may be busy for long.
        left = not self._kernel.is_owned and cell.status in ("timeout", "interrupted") and not self._kernel.report
        if self._kernel.is_alive and not left:
            cell, saved = await self._files.collect(cell)
        if (state := self._kernel.take_widget_state()) is not None:
            self._emit(WidgetsChanged(state=state))
        if turn:
            turn.files += saved
            turn.cells.append(cell)
        return cell

    async def rebuild(self, cells: Mapping[int, str], reason: str) -> None:
        """Replace the kernel by one that has what these cells made, and the files that were uploaded.

        Raises:
            SandboxError: The new one did not start.
        """
        async with self._alone, self._files.kept.carried() as put_back:
            await self._kernel.rebuild(cells, reason, prepare=put_back)

    # -- for agents, the session's own and other people's -------------------------------------------------------

    @property
    def data(self) -> Sequence[DataSeen]:
        """What the sandbox sees read-only."""
        return self._recording.data

    async def run_cell(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's own
        tool: str = "python",
    ) -> Cell:
        """Run a cell for the question that is being answered."""
        if self.turn is not None:
            self.turn.phases.reason(tool)
        return await self.run(code, timeout=timeout, turn=self.turn, tool=tool, approver=approver())

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session."""
        return self._installed(await self._kernel.install(requirements))

    async def install_module(self, module: str) -> list[Package]:
        """Install what has a module."""
        return self._installed(await self._kernel.install_module(module))

    def _installed(self, packages: list[Package]) -> list[Package]:
        if self.turn is not None:
            self.turn.installed += packages
        return packages

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        """Files in /tmp/output: the first by their names there, and how many there are."""
        return await self._files.output_files(limit=limit)

    async def count_in_file(self, path: str, text: str) -> int:
        """How often a text stands in a file of the sandbox."""
        return await self._files.count(path, text)

    async def describe(self, first: Collection[str] = ()) -> Surroundings:
        """The sandbox, and the data as it is described inside of it; some files are read before the others."""
        seen = await self._describe(first)
        trust, about = self._kernel.spec.trust, self._kernel.about
        return Surroundings(
            data=seen,
            timeout=trust.limits.timeout,
            python=self._kernel.python,
            versions=self._kernel.pins,
            hosts=self._hosts,
            programs=trust.allow_subprocess,
            isolation=about.isolation,
            output=about.output_folder if about.isolation else OUTPUT,
            variables=[] if self._kernel.is_owned else await self._kernel.variables(),
            left_out=self._recording.left_out,
        )

    async def find(self, paths: Sequence[str], text: str) -> Hits:
        """Look for a text in data files."""
        return await find(self._kernel, paths, text)

    async def learn_schemas(self) -> None:
        """Have the columns of the data in the log, for the lock of the notebook; not while a cell runs."""
        if not self._alone.locked():
            async with self._alone:
                await self._describe()

    async def _describe(self, first: Collection[str] = ()) -> Profiles:
        paths = [each.path for each in self._recording.data]
        seen = await describe(self._kernel, paths, cache=ProfileCache(), first=first)
        self._notes = [each.text for each in seen.files if each.is_note and not each.tables]
        files = [PurePosixPath(each.path) for each in seen.files]
        self._names = {name for each in files for name in (each.name, each.stem)}
        if not self._recording.schemas and (found := schemas(seen)):
            self._emit(DataDescribed(schemas=found))
        return seen

    def evidence(self) -> Evidence:
        """What the numbers of an answer may come from: outputs, questions and code so far."""
        known = self._recording
        cells = known.cells
        return Evidence(
            outputs={cell.cell: known.outputs(cell) for cell in cells},
            given=[*known.heard, *(each.question for each in known.questions)],
            notes=self._notes,
            code={cell.cell: cell.code for cell in cells},
            has_data=bool(known.data or known.uploads or known.heard),
            names=self._names,
        )
