"""The ports through which the agent knows a session: what its tools may use, and what the session's own agent needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nbagent.core.events import Cell, DataSeen, Output, Package
from nbagent.kernel.describe import Profiles
from nbagent.kernel.find_text import Hits


class KernelPort(Protocol):
    """What tools may use of a session: its kernel, packages and result files."""

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
            tool: The name of the tool that the model called for it.

        Raises:
            SandboxError: The sandbox failed; the code is not to blame.
        """

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session."""

    async def install_module(self, module: str) -> list[Package]:
        """Install the distribution that has a module, by the name under which code imports it."""

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        """The names of the first `limit` files in /tmp/output, and how many there are."""

    async def count_in_file(self, path: str, text: str) -> int:
        """How often a text stands in a text file of the sandbox."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a model must know of the sandbox.

    Attributes:
        data: What is known of the files of the data.
        timeout: Seconds that a cell may run.
        python: The version of Python.
        versions: The versions of the packages that are there.
        hosts: Rules of the hosts that the code may reach; None for the whole network.
        programs: Whether the sandbox runs programs.
        isolation: Of a kernel that others use, too, what keeps its code from the machine; empty of a session's own.
        output: The folder of result files, as code names it.
        variables: The variables that others have in it, each as `name: type`; untrusted.
        left_out: What of the data the sandbox doesn't see, in sentences.
    """

    data: Profiles
    timeout: float
    python: str
    versions: Mapping[str, str]
    hosts: tuple[str, ...] | None
    programs: bool
    isolation: str = ""
    output: str = "/tmp/output"  # noqa: S108 - a path inside
    variables: Sequence[str] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The outputs and texts in which the numbers of an answer are looked for.

    Attributes:
        outputs: The outputs of each cell by its number, in order.
        given: Texts whose numbers the model did not make up: questions, results of other programs' tools.
        notes: The notes beside the data.
        code: The code of each cell by its number.
        has_data: Whether the session has data that numbers could come from.
        names: The names of data files, with and without their endings.
    """

    outputs: Mapping[int, Sequence[Output]]
    given: Sequence[str]
    notes: Sequence[str] = ()
    code: Mapping[int, str]
    has_data: bool
    names: Collection[str] = ()


class SessionPort(KernelPort, Protocol):
    """What a session gives to its own agent."""

    @property
    def data(self) -> Sequence[DataSeen]:
        """The data that the sandbox sees, read-only."""

    async def describe(self, first: Collection[str] = ()) -> Surroundings:
        """The sandbox, with the data as it is described inside of it; some files are read before the others."""

    async def find(self, paths: Sequence[str], text: str) -> Hits:
        """Look for a text in data files that are text, whatever its case."""

    def evidence(self) -> Evidence:
        """The outputs and texts of the session so far."""
