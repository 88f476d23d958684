"""How a session's agent works: what a person gave, checked, and their settings for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from nbagent.errors import UsageError
from nbagent.safety.budget import Budget
from nbagent.safety.redaction import Redactor
from nbagent.settings import Settings

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

    @classmethod
    def of(
        cls,
        chosen: Settings,
        *,
        model: str | None = None,
        fallback: Sequence[str] | None = None,
        critic: str | None = None,
        replies: Replies | None = None,
        max_attempts: int | None = None,
        max_iterations: int | None = None,
        budget: Budget | str | None = None,
        redact: str | None = None,
        forge: bool | None = None,
    ) -> AgentOptions:
        """What was given, and where it is None, what the settings say.

        Raises:
            UsageError: Something of this is wrong.
        """
        attempts = chosen.max_attempts if max_attempts is None else max_attempts
        if attempts < 1:
            raise UsageError(f"max_attempts must be at least 1, not {attempts}.")
        form = known_replies(chosen.replies if replies is None else replies)
        if forge and form == "structured":
            raise UsageError(
                "A model with structured replies calls no tools, so it can't make any.", mend="Leave one out."
            )
        return cls(
            model=model or chosen.model,
            fallback=chosen.fallback if fallback is None else fallback,
            critic=(chosen.critic if critic is None else critic) or "",
            replies=form,
            max_attempts=attempts,
            max_iterations=chosen.max_iterations if max_iterations is None else max_iterations,
            budget=budget if isinstance(budget, Budget) else Budget.parse(budget or "", base=_own_budget(chosen)),
            redact=Redactor(chosen.redact if redact is None else redact),
            forge=chosen.forge if forge is None else forge,
        )


def _own_budget(chosen: Settings) -> Budget:
    """The person's own budget, for what they did not name anew."""
    try:
        return Budget.parse(chosen.budget)
    except UsageError as error:
        raise UsageError(f"The setting budget is wrong. {error.message}", mend=error.mend) from None


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
