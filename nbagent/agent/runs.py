"""What the session gives to whoever runs cells for a model: the tools, the forge, agents of other people's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from nbagent.core.events import Cell, DataSeen, Output, Package


class Runs(Protocol):
    """What the session gives to the tools."""

    async def run_cell(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's
        tool: str = "python",
    ) -> Cell:
        """Run a cell to its end.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; None for the session's limit.
            tool: What the model called to have it run.

        Raises:
            SandboxError: The sandbox failed; the code is not to blame.
        """

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """

    async def install_module(self, module: str) -> list[Package]:
        """Install what has a module, by the name that code imports it by.

        Raises:
            InstallRefused: Policy forbids it, or nothing is known to have it.
            InstallError: It failed; the environment is as it was.
        """

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        """Files in /tmp/output: the first so many by their names there, and how many there are."""

    async def count_in_file(self, path: str, text: str) -> int:
        """How often a text stands in a text file of the sandbox.

        Raises:
            TransferError: There is no such file, it is no text, or it can't be read.
        """


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a model must know of the sandbox.

    Attributes:
        data: The files of the data, each as `kernel/describe.py` describes it.
        timeout: Seconds that a cell may run.
        python: The version of Python.
        versions: Of the packages that are there.
        hosts: What of the network the code may reach: rules, or None for all of it.
        programs: Whether it runs programs.
    """

    data: Sequence[Mapping[str, Any]]
    timeout: float
    python: str
    versions: Mapping[str, str]
    hosts: tuple[str, ...] | None
    programs: bool


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the numbers of an answer are looked for in.

    Attributes:
        outputs: Of each cell by its number, in order.
        given: Texts whose numbers are not the model's: questions, code, what tools of other programs told.
        has_data: Whether there is anything that numbers could come from.
    """

    outputs: Mapping[int, Sequence[Output]]
    given: Sequence[str]
    has_data: bool


class Desk(Runs, Protocol):
    """What the session gives to its own agent."""

    @property
    def data(self) -> Sequence[DataSeen]:
        """What the sandbox sees read-only."""

    async def describe(self) -> Surroundings:
        """The sandbox, and the data as it is described inside of it."""

    def evidence(self) -> Evidence:
        """What the session has come to so far."""


NOBODY = "policy:never-ask"
_approver: ContextVar[str] = ContextVar("nbagent_approver", default=NOBODY)


def approver() -> str:
    """Who let the tool run that runs now, for the log."""
    return _approver.get()


@contextlib.contextmanager
def approved_by(who: str) -> Iterator[None]:
    """What runs meanwhile was let run by somebody, for the log."""
    token = _approver.set(who)
    try:
        yield
    finally:
        _approver.reset(token)
