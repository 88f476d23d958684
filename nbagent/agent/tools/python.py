"""The tools `python` and `install`. Each returns short text for the model, and as artifact the number of its cell.

An error of the code is an output of its cell, and a refused install is text that the model can act on; an error of the
sandbox is raised, and ends the turn.

The artifact is plain data, `{"cell": 3, "status": "ok"}`: LangGraph writes it into its checkpoints, which are no place
for the outputs themselves. The session's log has them under that number.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.tools import BaseTool, tool

from nbagent.agent.cell_view import Block, installed, render
from nbagent.agent.tools.code import runnable
from nbagent.agent.tools.sandbox_tools import make_sandbox_tools
from nbagent.core.errors import InstallError

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort


def make_tools(kernel: KernelPort, *, images: bool = False, programs: bool = True) -> list[BaseTool]:
    """The tools `python` and `install`, and those for scripts and programs.

    Args:
        kernel: Where they run.
        images: Whether the model is shown figures, or told of them.
        programs: Whether the sandbox runs programs; without, the three tools for that are not offered.
    """

    @tool(response_format="content_and_artifact")
    async def python(
        code: Annotated[str, "Plain Python source of one notebook cell, without Markdown fences."],
    ) -> tuple[str | list[Block], Any]:
        """Run Python as one cell of a Jupyter notebook and see its outputs.

        The value of the last expression is shown, like in a notebook; use print for more. Figures that matplotlib
        draws are shown without saving them. Shell commands work with a leading `!`. Several calls run one after the
        other, in the order in which they are written.
        """
        source, refusal = runnable(code)
        if refusal:
            return refusal, None
        try:
            cell = await kernel.run_cell(source)
        except InstallError as error:
            return str(error), None
        return render(cell, images=images), {"cell": cell.cell, "status": cell.status}

    @tool(response_format="content_and_artifact")
    async def install(
        packages: Annotated[list[str], "Names on PyPI, with a version if it matters: ['humanize>=4', 'lifelines']."],
    ) -> tuple[str, Any]:
        """Install Python packages from PyPI for this notebook.

        Seldom needed: importing a missing package in a cell installs it. Use this when the name on PyPI differs
        from the import's name and the import failed, or when a certain version is needed. Only wheels, only by name
        and version: no URLs, paths or options.
        """
        try:
            added = await kernel.install(packages)
        except InstallError as error:
            return f"Not installed. {error}", None
        text = installed(added) if added else "Nothing to do: all of this is installed."
        return text, {"packages": [f"{package.name}=={package.version}" for package in added]}

    tools = [python, install, *(make_sandbox_tools(kernel) if programs else [])]
    for each in tools:
        # A docstring's indentation would be paid for with every request.
        each.description = inspect.cleandoc(each.description)
    return tools
