"""How a session's agent works: what a person gave, checked, and their settings for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nbagent.errors import UsageError
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
    """

    model: str | None = None
    fallback: Sequence[str] = ()
    critic: str = ""
    replies: Replies = "tools"
    max_attempts: int = 1
    max_iterations: int = 0

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
    ) -> AgentOptions:
        """What was given, and where it is None, what the settings say.

        Raises:
            UsageError: Something of this is wrong.
        """
        attempts = chosen.max_attempts if max_attempts is None else max_attempts
        if attempts < 1:
            raise UsageError(f"max_attempts must be at least 1, not {attempts}.")
        return cls(
            model=model or chosen.model,
            fallback=chosen.fallback if fallback is None else fallback,
            critic=(chosen.critic if critic is None else critic) or "",
            replies=known_replies(chosen.replies if replies is None else replies),
            max_attempts=attempts,
            max_iterations=chosen.max_iterations if max_iterations is None else max_iterations,
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
