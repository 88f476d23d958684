"""How a session's agent works: what a person gave, checked, and their settings for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.options import Options
from nbagent.mcp.select import Constraints
from nbagent.safety.redaction import Redactor

Replies = Literal["tools", "structured"]


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What an agent is to be.

    Attributes:
        model: `provider:model` or `replay:FILE`; None if it is to be found.
        fallback: Models that are asked, in this order, where the one before them fails.
        critic: A model that criticises code that failed, or `same` for the model itself; empty for none.
        replies: How the model has code run: by calls of tools, or by objects in its text.
        max_attempts: Replies in a row whose code may fail before the model must answer in words.
        max_iterations: How often an answer is sent back whose numbers stand in no output.
        budget: What one question may use.
        redact: Hides secrets in what is sent to models.
        forge: Whether it may make tools, and use those of the library.
        constraints: What a tool of an MCP server must meet that the model is offered.
    """

    model: str | None = None
    fallback: Sequence[str] = ()
    critic: str = ""
    replies: Replies = "tools"
    max_attempts: int = 1
    max_iterations: int = 0
    budget: Budget = field(default_factory=Budget)
    redact: Redactor = field(default_factory=Redactor)
    forge: bool = False
    constraints: Constraints = field(default_factory=Constraints)

    @classmethod
    def of(cls, chosen: Options) -> AgentOptions:
        """What a person's options make of an agent.

        Raises:
            UsageError: Something of this is wrong.
        """
        if chosen.max_attempts < 1:
            raise UsageError(f"max_attempts must be at least 1, not {chosen.max_attempts}.")
        form = known_replies(chosen.replies)
        return cls(
            model=chosen.model,
            fallback=chosen.fallback,
            critic=chosen.critic,
            replies=form,
            max_attempts=chosen.max_attempts,
            max_iterations=chosen.max_iterations,
            budget=chosen.budget,
            redact=Redactor(chosen.redact),
            forge=chosen.forge,
            constraints=Constraints.of(chosen.mcp_constraints),
        )


def known_replies(form: str) -> Replies:
    """The form of a model's replies.

    Raises:
        UsageError: There is none of that name.
    """
    forms: tuple[Replies, ...] = get_args(Replies)
    for each in forms:
        if each == form:
            return each
    raise UsageError(f"There is no form of replies {form!r}.", mend=f"Use one of: {', '.join(forms)}.")
