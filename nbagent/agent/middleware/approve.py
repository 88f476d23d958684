"""Asks before a tool runs, where the session's consent asks for it, by LangChain's own middleware for that.

The middleware interrupts the graph before any call of a reply runs; `Agent.answer` in `agent.py` has each question
answered and goes on. Installs are asked about where their versions are known, by the kernel's installer.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from nbagent.agent.runs import NOBODY, approved_by
from nbagent.agent.tools.python import source_of
from nbagent.agent.tools.scripts import words_of
from nbagent.agent.turn import Turn, turn_of
from nbagent.core.events import Approval
from nbagent.safety.actions import Action, of_cell
from nbagent.safety.consent import Consent

ASKED = ("python", "sandbox_exec", "sandbox_write_file", "sandbox_edit_file")
"""Tools whose calls are asked about before they run."""
CODE = {"python": "code", "sandbox_write_file": "content", "sandbox_edit_file": "new_string"}
"""By tool, the argument that a person may edit; the command of sandbox_exec is a list, and edited as JSON."""


def action_of(name: str, args: Mapping[str, Any], *, turn: int) -> Action | None:
    """What a call would do; None for a call that is asked about elsewhere, or does nothing that needs consent."""
    match name:
        case "python":
            source, refusal = source_of(str(args.get("code", "")))
            return None if refusal else of_cell(source, tool=name, turn=turn)
        case "sandbox_exec":
            words = words_of(args.get("command", ""))
            return Action(kind="shell", tool=name, what=shlex.join(words), code=json.dumps(words), turn=turn)
        case "sandbox_write_file":
            path, code = str(args.get("file_path", "")), str(args.get("content", ""))
            return Action(kind="edit", tool=name, what=path, path=path, code=code, turn=turn)
        case "sandbox_edit_file":
            path, old, new = (str(args.get(each, "")) for each in ("file_path", "old_string", "new_string"))
            return Action(kind="edit", tool=name, what=f"{path}, in place of {old!r}", path=path, code=new, turn=turn)
        case _:
            return None


class Approvals(HumanInTheLoopMiddleware[Any, Any, Any]):
    """LangChain's middleware, by the session's consent.

    Args:
        consent: Says what is asked about, and asks.
    """

    def __init__(self, consent: Consent) -> None:
        self._consent = consent
        self._reply: AIMessage | None = None
        self._policies: dict[str, str] = {}
        self._by: dict[str, str] = {}
        self._waiting: list[str] = []
        config = InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"], when=self._asks)
        super().__init__(dict.fromkeys(ASKED, config))

    def begin(self) -> None:
        """Forget the last question's replies: a server may give the next ones the same ids."""
        self._reply = None

    def close(self) -> None:
        """End what is still asked: also what the turn's code asked for behind its back, by `%pip install`."""
        self._consent.close()

    def _asks(self, request: ToolCallRequest) -> bool:
        """Whether a call is asked about; the same when the graph goes on, whatever was allowed meanwhile."""
        call = request.tool_call
        # Ids of calls are counted anew in each reply by some servers, so what was found holds for its own reply.
        reply = next(each for each in reversed(request.state["messages"]) if isinstance(each, AIMessage))
        if reply != self._reply:
            self._reply, self._policies, self._by, self._waiting = reply, {}, {}, []
        key = str(call["id"])
        if key not in self._policies:
            policy = self._policies[key] = self._policy(call["name"], call["args"], turn_of(request))
            self._by[key] = policy
            self._waiting += [] if policy else [key]
        return not self._policies[key]

    def _policy(self, name: str, args: Mapping[str, Any], turn: Turn) -> str:
        """What lets a call run without a question; empty if nothing does."""
        if not self._consent.asks:
            return NOBODY  # without reading the code
        action = action_of(name, args, turn=turn.number)
        return self._consent.policy(action) if action else NOBODY

    async def decide(self, requests: Sequence[Mapping[str, Any]], turn: Turn) -> list[dict[str, Any]]:
        """Have each of LangChain's action requests of an interrupt answered, one after the other."""
        calls, self._waiting = self._waiting, []
        return [await self._decide(each, turn, call=call) for each, call in zip(requests, calls, strict=True)]

    async def _decide(self, request: Mapping[str, Any], turn: Turn, *, call: str) -> dict[str, Any]:
        name, args = str(request["name"]), dict(request["args"])
        action = action_of(name, args, turn=turn.number)
        assert action is not None  # noqa: S101 - only such calls are asked about
        verdict = await self._consent.ask(action)
        self._by[call] = verdict.by
        if verdict.decision == "reject":
            return {"type": "reject", "message": verdict.reason} if verdict.reason else {"type": "reject"}
        if verdict.decision == "approve":
            return {"type": "approve"}
        return {"type": "edit", "edited_action": {"name": name, "args": args | _edited(name, verdict)}}

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Run a call, and let it know who approved it."""
        with approved_by(self._by.get(str(request.tool_call["id"]), NOBODY)):
            return await super().awrap_tool_call(request, handler)


def _edited(name: str, verdict: Approval) -> dict[str, Any]:
    """The arguments that a person changed."""
    if name != "sandbox_exec":
        return {CODE[name]: verdict.code}
    try:
        words = json.loads(verdict.code)
    except ValueError:
        words = None
    return {"command": words if isinstance(words, list) else ["sh", "-c", verdict.code]}
