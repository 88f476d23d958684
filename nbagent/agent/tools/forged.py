"""Tools of the forge in a notebook: made for the model, defined in a cell, and called by a cell each.

The session's consent is asked before a tool is made, defined or called. What goes wrong is text that the model can act
on; only an error of the sandbox is raised, and ends the turn.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from langchain_core.tools import BaseTool, tool

from nbagent.agent.cell_view import render
from nbagent.agent.ports import KernelPort
from nbagent.agent.tools import tool_cells
from nbagent.agent.tools.any_tool import AnyTool
from nbagent.agent.tools.code import runnable
from nbagent.agent.turn import Turn, approved_by
from nbagent.core.errors import ForgeError, InstallError, StoreError
from nbagent.core.events import Cell
from nbagent.core.text import plain
from nbagent.forge import Draft, Tool, ToolForge, source
from nbagent.forge.adapter import drafts_of
from nbagent.safety.actions import Action, of_cell
from nbagent.safety.approvals import Consent

MAKERS = ("create_tool", "wrap_package")
PERSON = "person"
"""The approver of a tool's definition where a person approved of making the tool, and so has seen its code."""
DIVIDER = "\n\n# --- tests ---\n"
"""The line between a tool's code and its tests in the text that a person sees and may edit."""

ToolResult = tuple[Any, dict[str, Any]]
"""The content and the artifact of a tool's message."""


class ForgedTools:
    """The forge's tools in one notebook."""

    def __init__(self, forge: ToolForge, kernel: KernelPort, *, consent: Consent, images: bool) -> None:
        self._forge = forge
        self._kernel = kernel
        self._consent = consent
        self._images = images
        self._defined: dict[str, Tool] = {}  # whole tools, since a version's number may be used again after a removal

    def makers(self, turn: Turn) -> dict[str, BaseTool]:
        """The tools `create_tool` and `wrap_package`."""

        @tool(response_format="content_and_artifact")
        async def create_tool(
            name: Annotated[str, "The name of the tool and its function: small letters, digits and underscores."],
            description: Annotated[str, "What it does, for whoever chooses among tools later."],
            code: Annotated[
                str, "A Python module with that function; its parameters have type hints that JSON can hold."
            ],
            tests: Annotated[str, "A pytest module that imports it, `from NAME import NAME`, and calls it."],
            dependencies: Annotated[list[str], "Names on PyPI that it needs, such as ['humanize>=4']."] = [],  # noqa: B006
        ) -> tuple[str, Any]:
            """Make a tool that is kept for later questions and sessions. Only if the person wants a tool.

            It is installed and tested in a sandbox of its own, without data and without a network unless you have one
            too; if its tests fail, you see why and nothing is kept. Once it is active you call it like any other tool,
            each call is a cell, and your cells can call its function. The same name again makes a new version.
            """
            module, refusal = runnable(code)
            written, wrong = runnable(tests)
            if refusal or wrong:
                return refusal or wrong, {"status": "error"}
            return await self._create(
                turn,
                Draft(name=name, description=description, code=module, tests=written, dependencies=tuple(dependencies)),
            )

        @tool(response_format="content_and_artifact")
        async def wrap_package(
            package: Annotated[str, "Its name on PyPI, with a version if it matters: 'humanize>=4'."],
            functions: Annotated[list[str], "With their modules: ['humanize.naturalsize']."],
            description: Annotated[str, "What they do."] = "",
        ) -> tuple[str, Any]:
            """Make tools of functions of a PyPI package, kept for later. Only if the person wants tools."""
            return await self._wrap(turn, package, functions, description)

        for each in (create_tool, wrap_package):
            # A docstring's indentation would be paid for with every request.
            each.description = inspect.cleandoc(each.description)
        return {"create_tool": create_tool, "wrap_package": wrap_package}

    def callable_by_model(self, forged: Tool, turn: Turn) -> BaseTool:
        """A tool of the library, as the model is offered it."""

        async def call(arguments: dict[str, Any]) -> ToolResult:
            return await self._call(forged, arguments, turn)

        words = forged.description if forged.doc in forged.description else f"{forged.description}\n{forged.doc}"
        return AnyTool(name=forged.name, description=words, args_schema=dict(forged.schema), call=call)

    def forget(self, code: str) -> None:
        """Note that a cell is about to run which may give tools' names to something else: they are defined again."""
        self._defined = {name: each for name, each in self._defined.items() if not source.binds(code, name)}

    # -- making -------------------------------------------------------------------------------------------------

    async def _create(self, turn: Turn, draft: Draft) -> ToolResult:
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
            return _rejection("made", verdict.reason)
        if verdict.decision == "edit":
            code, divider, tests = verdict.code.partition(DIVIDER)
            draft = msgspec.structs.replace(draft, code=code, tests=tests if divider else draft.tests)
        return await self._make([draft], turn, by=verdict.by)

    async def _wrap(self, turn: Turn, package: str, functions: list[str], description: str) -> ToolResult:
        try:
            drafts = drafts_of(package, functions, description=description)
        except ForgeError as error:
            return _failure(error)
        what = f"{package}: {', '.join(functions)}"
        verdict = await self._consent.ask(Action(kind="tool", tool="wrap_package", what=what, turn=turn.number))
        if not verdict.granted:
            return _rejection("made", verdict.reason)
        return await self._make(drafts, turn, by=verdict.by)

    async def _make(self, drafts: list[Draft], turn: Turn, *, by: str) -> ToolResult:
        """Make tools, and define them in the notebook."""
        lines: list[str] = []
        for draft in drafts:
            try:
                made = await self._forge.make(draft)
            except (ForgeError, StoreError) as error:
                return _failure(error, before=lines)
            count = len(made.tested)
            lines.append(
                f"The tool {made.name}, version {made.version}, is active: {count} test{'s' * (count != 1)} passed. "
                f"Call it from your next reply on; cells can call its function with their variables."
            )
            # A policy that lets tools be made says nothing of cells, and a definition is a cell.
            if problem := await self._define(made, turn, by=by if by == PERSON else ""):
                lines.append(f"It could not be defined in this notebook: {problem}")
        return "\n".join(lines), {"status": "ok"}

    # -- calling ------------------------------------------------------------------------------------------------

    async def _call(self, forged: Tool, arguments: Mapping[str, Any], turn: Turn) -> ToolResult:
        try:
            code = tool_cells.call(forged, arguments)
        except ForgeError as error:
            return f"Not called. {error}", {"status": "error"}
        verdict = await self._consent.ask(_action(forged, code, turn=turn.number))
        if not verdict.granted:
            return _rejection("called", verdict.reason)
        code = verdict.code if verdict.decision == "edit" else code
        for again in (False, True):
            if self._defined.get(forged.name) != forged and (problem := await self._define(forged, turn)):
                return f"Not called: {problem}", {"status": "error"}
            with approved_by(verdict.by):
                cell = await self._kernel.run_cell(code, tool=forged.name)
            if again or not _is_gone(cell, forged.name):
                break
            # The kernel was replaced, or another cell took the name: the tool is defined and called once more.
            self._defined.pop(forged.name, None)
        with contextlib.suppress(ForgeError, StoreError):
            await self._forge.used(forged.name)
        return render(cell, images=self._images), {"cell": cell.cell, "status": cell.status}

    async def _define(self, forged: Tool, turn: Turn, *, by: str = "") -> str:
        """Install what a tool needs, and define it in the notebook; returns why that failed, or nothing.

        Args:
            forged: The tool.
            turn: The turn for which it is defined.
            by: Who has seen its code and approved of it, if anybody did.
        """
        code = tool_cells.define(forged)
        if not by:
            verdict = await self._consent.ask(_action(forged, code, turn=turn.number))
            if not verdict.granted:
                return f"its definition was not approved. {verdict.reason}".strip()
            code, by = (verdict.code if verdict.decision == "edit" else code), verdict.by
        try:
            if forged.packages:
                await self._kernel.install(forged.pins)
        except InstallError as error:
            return f"what it needs is not installed. {error}"
        with approved_by(by):
            cell = await self._kernel.run_cell(code, tool=forged.name)
        if cell.status != "ok":
            return f"its definition failed.\n{render(cell)}"
        self._defined[forged.name] = forged
        return ""


def _action(forged: Tool, code: str, *, turn: int) -> Action:
    """What a cell of a tool does, including the programs that the tool itself starts."""
    found = of_cell(forged.code, tool=forged.name, turn=turn)
    note = f"{forged.name} {forged.version}: {forged.description}"
    return replace(found, what=code.partition("\n")[0], code=code, note=note)


def _is_gone(cell: Cell, name: str) -> bool:
    """Whether a call found no tool: its name is unknown, or something else's now. Nothing of the tool has run then."""
    error = next((each for each in cell.outputs if each.get("output_type") == "error"), {})
    words, lines = str(error.get("evalue", "")), map(str, error.get("traceback", []))
    lost = words == f"name {name!r} is not defined" or words.endswith("object is not callable")
    return lost and not any(f"{name}.py" in line for line in lines)


def _failure(error: ForgeError | StoreError, *, before: list[str] | None = None) -> ToolResult:
    output = plain(error.output) if isinstance(error, ForgeError) else ""
    lines = [*(before or []), f"Not made. {plain(str(error))}", *([output] if output else [])]
    return "\n".join(lines), {"status": "error"}


def _rejection(verb: str, reason: str) -> ToolResult:
    return f"Not {verb}: this was not approved. {reason}".strip(), {"status": "error"}
