"""The tool forge for the model: it makes tools, and calls those that there are, in its own notebook.

What is in the library is offered anew with each request, so a tool can be called in the reply after the one that made
it. A call is a cell of the notebook, and a cell that defines the tool stands before the first.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool

from nbagent.agent.runs import Runs, approved_by
from nbagent.agent.tools import tool_cells
from nbagent.agent.tools.any_tool import AnyTool
from nbagent.agent.tools.python import source_of
from nbagent.agent.turn import Turn, turn_of
from nbagent.agent.view import render
from nbagent.core.errors import ForgeError, InstallError, StoreError
from nbagent.core.events import Cell, ToolRefused
from nbagent.core.text import plain
from nbagent.forge import Draft, Listed, Tool, ToolForge, source
from nbagent.forge.adapter import drafts_of
from nbagent.safety.actions import Action, of_cell
from nbagent.safety.consent import Consent

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ToolCallRequest
    from langgraph.types import Command

OFFERED = 20
"""Tools of the library, those that were used last: each is paid for with every request."""
PERSON = "person"
"""Who approves of a tool for the notebook too where it is made, for they have seen it; a policy has not."""
DIVIDER = "\n\n# --- tests ---\n"
"""Between a tool's code and its tests, where a person sees and may edit both."""

MAKERS = ("create_tool", "wrap_package")

Result = tuple[Any, dict[str, Any]]


class ForgeTools(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the model `create_tool`, `wrap_package`, and the tools of the library.

    Args:
        forge: Makes and keeps them.
        runs: The session's side of the tools.
        consent: Asked before a tool is made, defined or called.
        images: Whether the model is shown figures.
    """

    def __init__(
        self,
        forge: ToolForge,
        runs: Runs,
        *,
        consent: Consent,
        images: bool = False,
    ) -> None:
        super().__init__()
        self._forge = forge
        self._runs = runs
        self._consent = consent
        self._images = images
        self._known: dict[str, tuple[str, Tool]] = {}
        self._defined: dict[str, Tool] = {}  # whole: the number of a tool that was removed is given again
        self._refused: set[tuple[str, str]] = set()

    async def awrap_model_call(
        self, request: ModelRequest[Turn], handler: Callable[[ModelRequest[Turn]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add the tools that there are now, wherever tools are offered at all."""
        if request.tools:
            turn = request.runtime.context
            found = [self._offer(each, turn) for each in await self._active(turn)]
            request = request.override(tools=[*request.tools, *self._makers(turn).values(), *found])
        return await handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Run a call of one of them; others are passed on."""
        name = str(request.tool_call["name"])
        turn = turn_of(request)
        if name in MAKERS:
            request = request.override(tool=self._makers(turn)[name])
        elif name in self._known:
            request = request.override(tool=self._offer(self._known[name][1], turn))
        else:
            self._forget(str(request.tool_call["args"].get("code", "")))
            return await handler(request)
        result = await handler(request)
        if isinstance(result, ToolMessage) and isinstance(result.artifact, dict) and result.artifact["status"] != "ok":
            result.status = "error"
        return result

    # -- the library --------------------------------------------------------------------------------------------

    async def _active(self, turn: Turn) -> list[Tool]:
        """The tools that can be used; what is wrong with another one is told once."""
        try:
            listed = (await self._forge.list())[:OFFERED]
        except (ForgeError, StoreError) as error:
            self._refuse("", str(error), turn)
            listed = []
        found = [each for entry in listed if (each := await self._tool(entry, turn)) is not None]
        self._known = {each.name: self._known[each.name] for each in found}
        return sorted(found, key=lambda each: each.name)

    async def _tool(self, entry: Listed, turn: Turn) -> Tool | None:
        digest = entry.versions[entry.version]
        if self._known.get(entry.name, ("", None))[0] != digest:
            try:
                self._known[entry.name] = digest, await self._forge.get(entry.name)
            except (ForgeError, StoreError) as error:
                self._known.pop(entry.name, None)
                self._refuse(entry.name, str(error), turn)
                return None
        return self._known[entry.name][1]

    def _refuse(self, name: str, reason: str, turn: Turn) -> None:
        if (name, reason) not in self._refused:
            self._refused.add((name, reason))
            turn.emit(ToolRefused(tool=name, reason=reason))

    def _offer(self, tool: Tool, turn: Turn) -> BaseTool:
        async def call(arguments: dict[str, Any]) -> Result:
            return await self._call(tool, arguments, turn)

        words = tool.description if tool.doc in tool.description else f"{tool.description}\n{tool.doc}"
        return AnyTool(name=tool.name, description=words, args_schema=dict(tool.schema), call=call)

    def _forget(self, code: str) -> None:
        """Have tools defined again whose names a cell is about to give to something else."""
        self._defined = {name: tool for name, tool in self._defined.items() if not source.binds(code, name)}

    # -- making -------------------------------------------------------------------------------------------------

    def _makers(self, turn: Turn) -> dict[str, BaseTool]:
        """The tools that make tools."""
        return {each.name: each for each in _makers(partial(self._create, turn), partial(self._wrap, turn))}

    async def _create(self, turn: Turn, draft: Draft) -> Result:
        action = Action(
            kind="tool",
            tool="create_tool",
            what=draft.name,
            code=f"{draft.code}{DIVIDER}{draft.tests}",
            note=f"{draft.description} Depends on: {', '.join(draft.dependencies) or 'nothing'}.",
            turn=turn.number,
        )
        verdict = await self._consent.ask(action)
        if not verdict.granted:
            return _not_approved("made", verdict.reason)
        if verdict.decision == "edit":
            code, divider, tests = verdict.code.partition(DIVIDER)
            draft = _edited(draft, code=code, tests=tests if divider else draft.tests)
        return await self._made([draft], turn, by=verdict.by)

    async def _wrap(self, turn: Turn, package: str, functions: list[str], description: str) -> Result:
        try:
            drafts = drafts_of(package, functions, description=description)
        except ForgeError as error:
            return _failed(error)
        what = f"{package}: {', '.join(functions)}"
        verdict = await self._consent.ask(Action(kind="tool", tool="wrap_package", what=what, turn=turn.number))
        if not verdict.granted:
            return _not_approved("made", verdict.reason)
        return await self._made(drafts, turn, by=verdict.by)

    async def _made(self, drafts: list[Draft], turn: Turn, *, by: str) -> Result:
        """Make tools, and define them in the notebook."""
        told: list[str] = []
        for draft in drafts:
            try:
                tool = await self._forge.make(draft)
            except (ForgeError, StoreError) as error:
                return _failed(error, before=told)
            count = len(tool.tested)
            told.append(
                f"The tool {tool.name}, version {tool.version}, is active: {count} test{'s' * (count != 1)} passed. "
                f"Call it from your next reply on."
            )
            # A policy that lets tools be made says nothing of cells, and a definition is one.
            if problem := await self._define(tool, turn, by=by if by == PERSON else ""):
                told.append(f"It could not be defined in this notebook: {problem}")
        return "\n".join(told), {"status": "ok"}

    # -- calling ------------------------------------------------------------------------------------------------

    async def _call(self, tool: Tool, arguments: Mapping[str, Any], turn: Turn) -> Result:
        try:
            code = tool_cells.call(tool, arguments)
        except ForgeError as error:
            return f"Not called. {error}", {"status": "error"}
        verdict = await self._consent.ask(_action(tool, code, turn=turn.number))
        if not verdict.granted:
            return _not_approved("called", verdict.reason)
        code = verdict.code if verdict.decision == "edit" else code
        for again in (False, True):
            if self._defined.get(tool.name) != tool and (problem := await self._define(tool, turn)):
                return f"Not called: {problem}", {"status": "error"}
            with approved_by(verdict.by):
                cell = await self._runs.run_cell(code, tool=tool.name)
            if again or not _is_gone(cell, tool.name):
                break
            # The kernel was replaced, or another cell took the name: it is defined again, and called again.
            self._defined.pop(tool.name, None)
        with contextlib.suppress(ForgeError, StoreError):
            await self._forge.used(tool.name)
        return render(cell, images=self._images), {"cell": cell.cell, "status": cell.status}

    async def _define(self, tool: Tool, turn: Turn, *, by: str = "") -> str:
        """Install what a tool needs, and define it in the notebook; returns why not, or nothing.

        Args:
            tool: It.
            turn: The question for which it is.
            by: Who has seen its code and approved of it, if anybody did.
        """
        code = tool_cells.define(tool)
        if not by:
            verdict = await self._consent.ask(_action(tool, code, turn=turn.number))
            if not verdict.granted:
                return f"its definition was not approved. {verdict.reason}".strip()
            code, by = (verdict.code if verdict.decision == "edit" else code), verdict.by
        try:
            if tool.packages:
                await self._runs.install(tool.pins)
        except InstallError as error:
            return f"what it needs is not installed. {error}"
        with approved_by(by):
            cell = await self._runs.run_cell(code, tool=tool.name)
        if cell.status != "ok":
            return f"its definition failed.\n{render(cell)}"
        self._defined[tool.name] = tool
        return ""


def _makers(
    create: Callable[[Draft], Awaitable[Result]], wrap: Callable[[str, list[str], str], Awaitable[Result]]
) -> list[BaseTool]:
    """The tools that make tools."""

    @tool(response_format="content_and_artifact")
    async def create_tool(
        name: Annotated[str, "Of the tool and of its function: small letters, digits and underscores."],
        description: Annotated[str, "What it does, for whoever chooses among tools later."],
        code: Annotated[str, "A Python module with that function; its parameters have type hints that JSON can hold."],
        tests: Annotated[str, "A pytest module that imports it, `from NAME import NAME`, and calls it."],
        dependencies: Annotated[list[str], "Names on PyPI that it needs, such as ['humanize>=4']."] = [],  # noqa: B006
    ) -> tuple[str, Any]:
        """Make a tool that is kept for later questions and sessions. Only if the person wants a tool.

        It is installed and tested in a sandbox of its own, without data and without a network unless you have one
        too; if its tests fail, you see why and nothing is kept. Once it is active you call it like any other tool,
        each call is a cell, and your cells can call its function. The same name again makes a new version.
        """
        module, refusal = source_of(code)
        written, wrong = source_of(tests)
        if refusal or wrong:
            return refusal or wrong, {"status": "error"}
        draft = Draft(name=name, description=description, code=module, tests=written, dependencies=tuple(dependencies))
        return await create(draft)

    @tool(response_format="content_and_artifact")
    async def wrap_package(
        package: Annotated[str, "Its name on PyPI, with a version if it matters: 'humanize>=4'."],
        functions: Annotated[list[str], "With their modules: ['humanize.naturalsize']."],
        description: Annotated[str, "What they do."] = "",
    ) -> tuple[str, Any]:
        """Make tools of functions of a PyPI package, kept for later. Only if the person wants tools."""
        return await wrap(package, functions, description)

    for each in (create_tool, wrap_package):
        # A docstring's indentation would be paid for with every request.
        each.description = inspect.cleandoc(each.description)
    return [create_tool, wrap_package]


def _action(tool: Tool, code: str, *, turn: int) -> Action:
    """What a cell of a tool's does: also the programs that the tool itself starts."""
    found = of_cell(tool.code, tool=tool.name, turn=turn)
    note = f"{tool.name} {tool.version}: {tool.description}"
    return replace(found, what=code.partition("\n")[0], code=code, note=note)


def _edited(draft: Draft, *, code: str, tests: str) -> Draft:
    return Draft(
        name=draft.name, description=draft.description, code=code, tests=tests, dependencies=draft.dependencies
    )


def _is_gone(cell: Cell, name: str) -> bool:
    """Whether a call found no tool: its name is unknown, or something else's now. Nothing of the tool has run then."""
    error = next((each for each in cell.outputs if each.get("output_type") == "error"), {})
    words, lines = str(error.get("evalue", "")), map(str, error.get("traceback", []))
    lost = words == f"name {name!r} is not defined" or words.endswith("object is not callable")
    return lost and not any(f"{name}.py" in line for line in lines)


def _failed(error: ForgeError | StoreError, *, before: list[str] | None = None) -> Result:
    output = plain(error.output) if isinstance(error, ForgeError) else ""
    told = [*(before or []), f"Not made. {plain(str(error))}", *([output] if output else [])]
    return "\n".join(told), {"status": "error"}


def _not_approved(done: str, reason: str) -> Result:
    return f"Not {done}: this was not approved. {reason}".strip(), {"status": "error"}
