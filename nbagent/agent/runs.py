"""What the session gives to whoever runs cells for a model: the tools, the forge, agents of other people's."""

from __future__ import annotations

from typing import Protocol

from nbagent.events import Cell, Package


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
