"""nbagent for other people's LangChain agents: the sandboxed kernel as tools, and as middleware.

    from langchain.agents import create_agent
    from nbagent import Session
    from nbagent.agent import KernelMiddleware

    async with Session(data=["sales.csv"]) as session:
        agent = create_agent("openai:gpt-5.6", middleware=[KernelMiddleware(session)])
        await agent.ainvoke({"messages": [{"role": "user", "content": "Which region grew fastest?"}]})
        await session.export("growth.ipynb")

What the agent runs is in the session's notebook, log and audit log. A session that was not started yet starts with the
first call; whoever made the session stops it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool

from nbagent.agent.middleware.in_order import InOrder
from nbagent.agent.middleware.types import ModelHandler
from nbagent.agent.ports import KernelPort
from nbagent.agent.tools.python import make_tools
from nbagent.core.events import Cell, Package


class SessionLike(Protocol):
    """What these tools need of an `nbagent.Session`."""

    @property
    def status(self) -> str:
        """`new` before it was started."""

    @property
    def runs(self) -> KernelPort:
        """Runs its cells."""

    async def start(self) -> None:
        """Start it."""

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model must know of the sandbox and the data."""


class _StartedOnUse:
    """The kernel of a session, which is started when it is first used."""

    def __init__(self, session: SessionLike) -> None:
        self._session = session
        self._starting = asyncio.Lock()

    async def ready(self) -> KernelPort:
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


def kernel_tools(session: SessionLike, *, images: bool = False, programs: bool = True) -> list[BaseTool]:
    """`python`, `install`, and the three tools for scripts and programs, in a session's sandbox.

    Args:
        session: An `nbagent.Session`, started or not.
        images: Whether results have the figures as image blocks, for a model that takes them in a tool's message.
        programs: Whether the tools for scripts and programs are among them.
    """
    return make_tools(_StartedOnUse(session), images=images, programs=programs)


class KernelMiddleware(InOrder):
    """Gives any agent the sandboxed kernel: tools, which run in order, and a prompt about the sandbox and the data.

    Args:
        session: An `nbagent.Session`, started or not.
        images: As for `kernel_tools`.
        programs: As for `kernel_tools`.
        prompt: Whether the prompt about the sandbox is added to the agent's own system prompt.
    """

    def __init__(
        self, session: SessionLike, *, images: bool = False, programs: bool = True, prompt: bool = True
    ) -> None:
        super().__init__()
        self._kernel = _StartedOnUse(session)
        self._session = session
        self._images = images
        self._wants_prompt = prompt
        self._prompt = ""
        self.tools = make_tools(self._kernel, images=images, programs=programs)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        """Add the prompt about the sandbox, which is made once, for the first question."""
        if self._wants_prompt:
            if not self._prompt:
                await self._kernel.ready()
                self._prompt = await self._session.system_prompt(images=self._images)
            own = f"{request.system_message.text}\n\n" if request.system_message else ""
            request = request.override(system_message=SystemMessage(f"{own}{self._prompt}"))
        return await handler(request)
