"""The options of a session's agent, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbagent.core.budget import Budget
from nbagent.core.options import Options
from nbagent.mcp.constraints import Constraints
from nbagent.safety.redaction import Redactor


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """How an agent works.

    Attributes:
        replies: The form of the model's replies: `tools` for calls, `structured` for objects in text.
        max_attempts: Replies in a row whose code may fail before the model must answer in words.
        max_iterations: How often an answer with numbers that stand in no output is sent back.
        check: Whether an answer's numbers are computed a second time; None: if its cells read several files.
        budget: What one question may use.
        redact: Hides secrets in what is sent to models.
        forge: Whether the model may make tools, and use those of the library.
        scripts: Whether the tools for scripts and programs are offered for every question.
        constraints: What each offered tool of an MCP server must meet.
    """

    replies: str = "tools"
    max_attempts: int = 1
    max_iterations: int = 0
    check: bool | None = None
    budget: Budget = field(default_factory=Budget)
    redact: Redactor = field(default_factory=Redactor)
    forge: bool = False
    scripts: bool = False
    constraints: Constraints = field(default_factory=Constraints)

    @classmethod
    def of(cls, chosen: Options) -> AgentOptions:
        """The agent's options among all options.

        Raises:
            UsageError: One of them is wrong.
        """
        return cls(
            replies=chosen.replies,
            max_attempts=chosen.max_attempts,
            max_iterations=chosen.max_iterations,
            check=chosen.check,
            budget=chosen.budget,
            redact=Redactor(chosen.redact),
            forge=chosen.forge,
            scripts=chosen.scripts,
            constraints=Constraints.of(chosen.mcp_constraints),
        )
