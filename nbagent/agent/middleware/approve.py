"""Asks for approval before a tool runs, with LangChain's own middleware for that.

It interrupts the graph before any call of a reply runs; `Agent.answer` has each question answered, and goes on. The
kernel's installer asks about installs, since it knows the versions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage

from nbagent.agent.messages.reply import last_reply
from nbagent.agent.middleware.types import ToolHandler, ToolOutcome
from nbagent.agent.tools.code import runnable
from nbagent.agent.tools.scripts import words_of
from nbagent.agent.turn import NOBODY, Turn, approved_by, turn_of
from nbagent.core.events import Approval
from nbagent.safety.actions import Action, of_cell
from nbagent.safety.approvals import Consent

ASKED = ("python", "sandbox_exec", "sandbox_write_file", "sandbox_edit_file")
"""Tools whose calls are asked about before they run."""
CODE = {"python": "code", "sandbox_write_file": "content", "sandbox_edit_file": "new_string"}
"""By tool, the argument that a person may edit; the command of sandbox_exec is edited as a line of a shell's."""
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*"|\\[^\n]""")
_SHELL_SIGNS = re.compile(r"[;&|<>()$`*?\[\]{}~#!\n]")
"""Signs that, not quoted, only a shell obeys."""


def action_of(name: str, args: Mapping[str, Any], *, turn: int) -> Action | None:
    """What a call would do; None if it needs no consent here."""
    match name:
        case "python":
            source, refusal = runnable(str(args.get("code", "")))
            return None if refusal else of_cell(source, tool=name, turn=turn)
        case "sandbox_exec":
            words = words_of(args.get("command", ""))
            return Action(kind="shell", tool=name, what=shlex.join(words), code=shlex.join(words), turn=turn)
        case "sandbox_write_file":
            path, code = str(args.get("file_path", "")), str(args.get("content", ""))
            return Action(kind="edit", tool=name, what=path, path=path, code=code, turn=turn)
        case "sandbox_edit_file":
            path, old, new = (str(args.get(each, "")) for each in ("file_path", "old_string", "new_string"))
            return Action(kind="edit", tool=name, what=f"{path}, in place of {old!r}", path=path, code=new, turn=turn)
        case _:
            return None


class ApprovalMiddleware(HumanInTheLoopMiddleware[Any, Any, Any]):
    """LangChain's middleware for approvals, with the rules of the session's consent, which asks the person."""

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
        """Withdraw what is still asked, such as an install that the turn's code began in the background."""
        self._consent.close()

    def _asks(self, request: ToolCallRequest) -> bool:
        """Whether a call is asked about; the same when the graph goes on, whatever was allowed meanwhile."""
        call = request.tool_call
        # Some servers count the ids of calls anew in each reply, so the policies found hold for one reply.
        reply = last_reply(request.state["messages"])
        if reply != self._reply:
            self._reply, self._policies, self._by, self._waiting = reply, {}, {}, []
        key = str(call["id"])
        if key not in self._policies:
            policy = self._policies[key] = self._policy(call["name"], call["args"], turn_of(request))
            self._by[key] = policy
            self._waiting += [] if policy else [key]
        return not self._policies[key]

    def _policy(self, name: str, args: Mapping[str, Any], turn: Turn) -> str:
        """The policy that lets a call run without a question; empty if a person is asked."""
        if not self._consent.asks:
            return NOBODY  # without reading the code
        action = action_of(name, args, turn=turn.number)
        return self._consent.policy(action) if action else NOBODY

    async def decide(self, requests: Sequence[Mapping[str, Any]], turn: Turn) -> list[dict[str, Any]]:
        """Have each action request of an interrupt answered, one after the other; returns LangChain's decisions."""
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
        return {"type": "edit", "edited_action": {"name": name, "args": args | _edits(name, verdict)}}

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolOutcome:
        """Run a call, with a note of who approved of it."""
        with approved_by(self._by.get(str(request.tool_call["id"]), NOBODY)):
            return await super().awrap_tool_call(request, handler)


def _edits(name: str, verdict: Approval) -> dict[str, Any]:
    """The arguments that a person changed."""
    if name != "sandbox_exec":
        return {CODE[name]: verdict.code}
    return {"command": typed_words(verdict.code)}


def typed_words(line: str) -> list[str]:
    """The words of a program as a person types it; where only a shell understands the line, those that start one."""
    line = line.strip()
    try:
        words = [] if _SHELL_SIGNS.search(_QUOTED.sub("", line)) else shlex.split(line)
    except ValueError:
        words = []
    return words or ["sh", "-c", line]
