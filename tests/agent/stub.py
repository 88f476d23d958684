"""Stand-ins for the two ends of the agent: a provider that speaks OpenAI's chat completions, and a kernel."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.stubs import openai_chat
from agent.stubs.transport import Say, Stub, python

from nbagent.agent.agent import Agent
from nbagent.agent.turn import Turn
from nbagent.core import events
from nbagent.core.events import (
    Answer,
    Answered,
    Asked,
    CellStatus,
    Event,
    ModelFailed,
    ModelReplied,
    Output,
    Package,
    PhaseEntered,
)

__all__ = ["PNG", "Cell", "Kernel", "Provider", "Say", "answer", "printed", "python"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
"""2 by 3 pixels."""


class Provider(Stub):
    """A server on loopback that speaks OpenAI's chat completions; the other formats are in `stubs`."""

    def __init__(self) -> None:
        super().__init__(openai_chat, keeps_alive=False)

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of a request, without the system's."""
        return [message for message in self.requests[number]["messages"] if message["role"] != "system"]


async def answer(
    agent: Agent,
    question: str,
    *,
    turn: int,
    on_reply: Callable[[ModelReplied], object] = lambda _: None,
    on_failure: Callable[[ModelFailed], object] = lambda _: None,
    told: list[Any] | None = None,
) -> Answer:
    """Ask a question; `told` gets the events that are neither its frame nor replies."""

    def emit(event: Event) -> None:
        if isinstance(event, ModelReplied):
            on_reply(event)
        elif isinstance(event, ModelFailed):
            on_failure(event)
        if told is not None and not isinstance(event, Asked | PhaseEntered | ModelReplied | Answered):
            told.append(event)

    return await agent.answer(question, turn=Turn(turn, emit))


class Cell(events.Cell, frozen=True, kw_only=True):
    """What a kernel returns of a cell."""

    cell: int = 1
    status: CellStatus = "ok"


class Kernel:
    """Runs Python in this process, with variables that stay; tests of this floor need no more of a kernel."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.hanging = asyncio.Event()
        self.running = 0
        self.overlapped = False
        self.raises: BaseException | None = None
        self.pause = 0.0
        self.hangs = ""
        """A cell that contains this never ends by itself."""
        self.extra: list[Output] = []
        self.names: dict[str, Any] = {}
        self.asked: list[list[str]] = []

    async def run_cell(self, code: str, *, timeout: float | None = None, tool: str = "python") -> Cell:  # noqa: ARG002, ASYNC109 - KernelPort's
        """Run a cell."""
        self.overlapped |= self.running > 0
        self.running += 1
        self.codes.append(code)
        try:
            if self.hangs and self.hangs in code:
                self.hanging.set()
                await asyncio.sleep(60)
            await asyncio.sleep(self.pause)
            if self.raises:
                raise self.raises
            status, outputs = self._execute(code)
            return Cell(cell=len(self.codes), status=status, outputs=[*outputs, *self.extra])
        finally:
            self.running -= 1

    async def install(self, requirements: list[str]) -> list[Package]:
        """Pretend to install."""
        self.asked.append(requirements)
        if self.raises:
            raise self.raises
        return [Package(name=name, version="1.0", sha256="0" * 64) for name in requirements]

    async def install_module(self, module: str) -> list[Package]:
        """Pretend to install."""
        return await self.install([module])

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:  # noqa: ARG002 - KernelPort's
        """None."""
        return [], 0

    async def count_in_file(self, path: str, text: str) -> int:
        """Of this process's own files."""
        return Path(path).read_text().count(text)

    def _execute(self, code: str) -> tuple[CellStatus, list[Output]]:
        printed = io.StringIO()
        outputs: list[Output] = []
        status: CellStatus = "ok"
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(printed):
                exec(compile(tree, "cell", "exec"), self.names)  # noqa: S102 - the test's own code
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), "cell", "eval"), self.names)  # noqa: S307
                    if value is not None:
                        outputs.append({"output_type": "execute_result", "data": {"text/plain": repr(value)}})
        except Exception as error:
            status = "error"
            name = type(error).__name__
            frame = f"Cell In[{len(self.codes)}], line 1"
            outputs.append({"output_type": "error", "ename": name, "evalue": str(error), "traceback": [frame, name]})
        if text := printed.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text})
        return status, outputs


def printed(*texts: str) -> dict[int, list[dict[str, Any]]]:
    """The outputs of cells that printed a text each, by their numbers from 1."""
    return {at: [{"output_type": "stream", "name": "stdout", "text": text}] for at, text in enumerate(texts, start=1)}
