"""What the model can do: run a cell, and install packages. Each tool returns short text, and as artifact which cell.

The tools know a kernel only as `runs.Runs`, which the session gives them. An error of the code is an output of its
cell, a refused install is text that the model can act on; an error of the sandbox is neither, and ends the turn.

The artifact is plain data, `{"cell": 3, "status": "ok"}`: LangGraph writes it into its checkpoints, which is no place
for the outputs themselves. The session's log has them under that number.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from nbagent.agent.tools.sandbox_tools import make_sandbox_tools
from nbagent.agent.view import Block, installed, render
from nbagent.core.errors import InstallError

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ToolCallRequest
    from langgraph.types import Command

    from nbagent.agent.runs import Runs


def make_tools(runs: Runs, *, images: bool = False, programs: bool = True) -> list[BaseTool]:
    """The tools `python` and `install`, and those for scripts and programs.

    Args:
        runs: The session's side.
        images: Whether the model is shown figures, or told of them.
        programs: Whether the sandbox runs programs; without, the three tools for that are not offered.
    """

    @tool(response_format="content_and_artifact")
    async def python(
        code: Annotated[str, "Plain Python source of one notebook cell, without Markdown fences."],
    ) -> tuple[str | list[Block], Any]:
        """Run Python as one cell of a Jupyter notebook and see its outputs.

        Variables, imports and files stay between cells. The value of the last expression is shown, like in a
        notebook; use print for more. Figures that matplotlib draws are shown without saving them. Shell commands
        work with a leading `!`. A missing package is installed by itself when it is imported.
        Several calls run one after the other, in the order in which they are written.
        """
        source, refusal = source_of(code)
        if refusal:
            return refusal, None
        try:
            cell = await runs.run_cell(source)
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
            packages_now = await runs.install(packages)
        except InstallError as error:
            return f"Not installed. {error}", None
        told = installed(packages_now) if packages_now else "Nothing to do: all of this is installed."
        return told, {"packages": [f"{package.name}=={package.version}" for package in packages_now]}

    tools = [python, install, *(make_sandbox_tools(runs) if programs else [])]
    for each in tools:
        # A docstring's indentation would be paid for with every request.
        each.description = inspect.cleandoc(each.description)
    return tools


_FENCE = re.compile(r"\s*(```+|~~~+)[ \t]*[\w.+-]*[ \t]*\Z")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


def source_of(code: str) -> tuple[str, str]:
    """The Python in what a model sent as code, and why it can't be run (empty if it can).

    A Markdown fence around the whole is taken off. A character that no Python source can hold is told rather than
    removed: the cell that runs must be the cell that the model wrote.
    """
    source = _unfenced(code)
    if not source.strip():
        return "", "Not run: the code is empty."
    if unusable := _UNUSABLE.search(source):
        line = source.count("\n", 0, unusable.start()) + 1
        name = "a NUL character" if unusable[0] == "\0" else "half of a surrogate pair"
        escape = "\\x00" if unusable[0] == "\0" else f"\\u{ord(unusable[0]):04x}"
        return "", f"Not run: line {line} has {name}, which Python source can't hold. Write {escape} instead."
    return source, ""


def _unfenced(code: str) -> str:
    """The code without a Markdown fence around it; what stands behind the fence is not code."""
    lines = code.strip().split("\n")
    fence = _FENCE.match(lines[0])
    if fence is None:
        return code
    ends = [number for number, line in enumerate(lines) if number and line.strip() == fence[1]]
    return "\n".join(lines[1 : ends[-1]] if ends else lines[1:])


class InOrder(AgentMiddleware[AgentState[Any], Any, Any]):
    """Runs the tool calls of one reply one at a time, in the order in which the model wrote them.

    LangGraph starts a task for each call, all at once. A lock would be fair only to the order in which the tasks reach
    it, which other middleware can change; here each call waits for the one before it. If one raises, those behind it
    never start: LangGraph cancels them.

    Attributes:
        finished: The results of this reply's calls so far, by the ids of the reply and the call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.finished: dict[tuple[str | None, str | None], ToolMessage] = {}
        self._reply: tuple[str | None, ...] = ()
        self._turns: list[asyncio.Event] = []

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Wait for this call's turn, run it, and pass the turn on."""
        reply = _pending(request.state["messages"])
        if reply != self._reply:
            self._reply, self._turns = reply, [asyncio.Event() for _ in reply]
            self._turns[0].set()
            self.finished.clear()
        place = reply.index(request.tool_call["id"], 1)
        await self._turns[place - 1].wait()
        result = await handler(request)
        if isinstance(result, ToolMessage):
            self.finished[reply[0], result.tool_call_id] = result
        self._turns[place].set()
        return result


def _pending(messages: Sequence[Any]) -> tuple[str | None, ...]:
    """The id of the last reply, then the ids of its calls that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        if isinstance(message, AIMessage):
            return (message.id, *(call["id"] for call in message.tool_calls if call["id"] not in answered))
    return (None,)
