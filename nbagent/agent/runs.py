"""What the session gives to whoever runs cells for a model: the tools, the forge, agents of other people's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nbagent.events import Output, Package


class CellView(Protocol):
    """A finished cell, as far as the model's side reads it."""

    @property
    def cell(self) -> int:
        """Its number in the session, from 1."""

    @property
    def status(self) -> str:
        """One of `events.CellStatus`."""

    @property
    def outputs(self) -> Sequence[Output]:
        """Final, as nbformat has them."""

    @property
    def duration(self) -> float:
        """Seconds."""

    @property
    def note(self) -> str:
        """What must be told beside the outputs."""

    @property
    def installed(self) -> list[Package]:
        """What was installed so that the cell could run."""

    @property
    def state_lost(self) -> str:
        """Why the kernel was replaced, as a sentence; empty if it was not."""

    @property
    def restored(self) -> str:
        """What of its state was brought back by running cells again, in sentences."""

    @property
    def files(self) -> list[str]:
        """Names of the files that were collected from /tmp/output after it."""


class Runs(Protocol):
    """What the session gives to the tools."""

    async def run_cell(
        self,
        code: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the kernel's
        tool: str = "python",
    ) -> CellView:
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
