"""nbagent for other people's LangChain agents: the sandboxed kernel as tools, and as middleware.

    from langchain.agents import create_agent
    from nbagent import Session
    from nbagent.agent import KernelMiddleware

    async with Session(data=["sales.csv"]) as session:
        agent = create_agent("openai:gpt-5.6", middleware=[KernelMiddleware(session)])
        await agent.ainvoke({"messages": [{"role": "user", "content": "Which region grew fastest?"}]})
        session.export("growth.ipynb")

What the agent runs stands in the session's notebook, its log and its audit log. The sandbox starts with the first call
if the session was not started before; who made the session stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool

from nbagent.agent.runs import Runs
from nbagent.agent.tools.python import InOrder, make_tools
from nbagent.core.events import Cell, Package


class Hosted(Protocol):
    """A session, as far as it is needed here."""

    @property
    def status(self) -> str:
        """`new` before it was started."""

    @property
    def runs(self) -> Runs:
        """What runs cells in it."""

    async def start(self) -> None:
        """Start it."""

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model must know of the sandbox and the data."""


class _Lazy:
    """A session's side of the tools, which starts it when it is first needed."""

    def __init__(self, session: Hosted) -> None:
        self._session = session
        self._starting = asyncio.Lock()

    async def ready(self) -> Runs:
        async with self._starting:
            if self._session.status == "new":
                await self._session.start()
        return self._session.runs

    async def run_cell(self, code: str, *, timeout: float | None = None, tool: str = "python") -> Cell:  # noqa: ASYNC109
        return await (await self.ready()).run_cell(code, timeout=timeout, tool=tool)

    async def install(self, requirements: list[str]) -> list[Package]:
        return await (await self.ready()).install(requirements)

    async def install_module(self, module: str) -> list[Package]:
        return await (await self.ready()).install_module(module)

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        return await (await self.ready()).output_files(limit=limit)

    async def count_in_file(self, path: str, text: str) -> int:
        return await (await self.ready()).count_in_file(path, text)


def kernel_tools(session: Hosted, *, images: bool = False, programs: bool = True) -> list[BaseTool]:
    """`python`, `install`, and the three tools for scripts and programs, in a session's sandbox.

    Args:
        session: An `nbagent.Session`, started or not.
        images: Whether results have the figures as image blocks, for a model that takes them in a tool's message.
        programs: Whether the tools for scripts and programs are among them.
    """
    return make_tools(_Lazy(session), images=images, programs=programs)


class KernelMiddleware(InOrder):
    """Gives any agent the sandboxed kernel: its tools, run in order, and what the model must know of them.

    Args:
        session: An `nbagent.Session`, started or not.
        images: As for `kernel_tools`.
        programs: As for `kernel_tools`.
        prompt: Whether what the model must know is added to the agent's own system prompt.
    """

    def __init__(self, session: Hosted, *, images: bool = False, programs: bool = True, prompt: bool = True) -> None:
        super().__init__()
        self._lazy = _Lazy(session)
        self._session = session
        self._images = images
        self._wants_prompt = prompt
        self._prompt = ""
        self.tools = make_tools(self._lazy, images=images, programs=programs)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add what the model must know of the sandbox; described once, when the first question comes."""
        if self._wants_prompt:
            if not self._prompt:
                await self._lazy.ready()
                self._prompt = await self._session.system_prompt(images=self._images)
            own = f"{request.system_message.text}\n\n" if request.system_message else ""
            request = request.override(system_message=SystemMessage(f"{own}{self._prompt}"))
        return await handler(request)
