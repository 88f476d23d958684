"""Middleware that offers the model the tools of the forge, and those that make tools.

The library is read anew for each request, so a tool can be called in the reply after the one that made it.
"""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest

from nbagent.agent.middleware.types import Middleware, ModelHandler, ToolHandler, ToolOutcome, with_status
from nbagent.agent.ports import KernelPort
from nbagent.agent.tools.forged import MAKERS, ForgedTools
from nbagent.agent.turn import Turn, turn_of
from nbagent.core.errors import ForgeError, StoreError
from nbagent.core.events import ToolRefused
from nbagent.forge import Tool, ToolEntry, ToolForge
from nbagent.safety.approvals import Consent

OFFERED = 20
"""Tools of the library that are offered, those that were used last: each is paid for with every request."""


class ForgeTools(Middleware):
    """Offers the model `create_tool`, `wrap_package`, and the tools of the library."""

    def __init__(self, forge: ToolForge, kernel: KernelPort, *, consent: Consent, images: bool = False) -> None:
        super().__init__()
        self._forge = forge
        self._tools = ForgedTools(forge, kernel, consent=consent, images=images)
        self._known: dict[str, tuple[str, Tool]] = {}  # by name: the digest in the index, and the tool
        self._refused: set[tuple[str, str]] = set()

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Add the tools that the library has now, if the model is offered any tools."""
        if request.tools:
            turn = request.runtime.context
            found = [self._tools.callable_by_model(each, turn) for each in await self._active(turn)]
            request = request.override(tools=[*request.tools, *self._tools.makers(turn).values(), *found])
        return await handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolOutcome:
        """Run a call of one of these tools; pass others on."""
        name, turn = str(request.tool_call["name"]), turn_of(request)
        if name in MAKERS:
            request = request.override(tool=self._tools.makers(turn)[name])
        elif name in self._known:
            request = request.override(tool=self._tools.callable_by_model(self._known[name][1], turn))
        else:
            self._tools.forget(str(request.tool_call["args"].get("code", "")))
            return await handler(request)
        return with_status(await handler(request))

    async def _active(self, turn: Turn) -> list[Tool]:
        """The tools that can be used; a tool that can't is reported once."""
        try:
            listed = (await self._forge.list())[:OFFERED]
        except (ForgeError, StoreError) as error:
            self._refuse("", str(error), turn)
            listed = []
        found = [each for entry in listed if (each := await self._load(entry, turn)) is not None]
        self._known = {each.name: self._known[each.name] for each in found}
        return sorted(found, key=lambda each: each.name)

    async def _load(self, entry: ToolEntry, turn: Turn) -> Tool | None:
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
