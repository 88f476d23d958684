"""Opens a session's models once: at its start if one was named, otherwise for the first question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbagent.agent.providers.models import Model

SAME = "same"
"""The critic's name by which the model criticises itself."""


class ModelOpener:
    """Opens the model that was named, or finds one. LangChain is imported only then.

    Args:
        name: `provider:model` or `replay:FILE`; None to find a model.
        record: A file to which the model's replies are written.
        fallback: Names of models that are asked, in this order, if the model before them fails.
        critic: The name of the model that criticises code that failed; `same` for the model itself.
        priced: Whether the price of each model must be known.
        structured: Whether the models reply with objects instead of calls.
    """

    def __init__(
        self,
        name: str | None,
        *,
        record: Path | None = None,
        fallback: Sequence[str] = (),
        critic: str | None = None,
        priced: bool = False,
        structured: bool = False,
    ) -> None:
        self.name = name
        self._given = partial(
            ModelOpener, record=record, fallback=fallback, critic=critic, priced=priced, structured=structured
        )
        self.fallback: list[Model] = []
        self.critic: Model | None = None
        self._critic = critic
        self._record = record
        self._priced = priced
        self._structured = structured
        self._others = tuple(fallback)
        self._model: Model | None = None

    @property
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""
        return (self.name or "").strip().startswith("replay:")

    def renamed(self, name: str) -> ModelOpener:
        """An opener of another model, with the same fallback models and critic."""
        return self._given(name)

    def check(self) -> None:
        """Check the names before anything is started.

        Raises:
            ModelError: A name is malformed, or its provider can't be used.
        """
        critic = [self._critic] if self._critic and self._critic != SAME else []
        names = [*([self.name] if self.name else []), *self._others, *critic]
        if names:
            from nbagent.agent.providers.models import check_name

            for name in names:
                check_name(name)

    async def open(self) -> Model:
        """The model; opened in a thread, since its imports take seconds.

        Raises:
            ModelError: No model was found, or it can't be opened.
            ReplayError: The recorded replies can't be read.
        """
        if self._model is None:
            self._model = await asyncio.to_thread(self._open)
        return self._model

    def _open(self) -> Model:
        from nbagent.agent.providers import models

        structured = self._structured
        self.name = self.name or models.find_model(structured=structured)
        model = models.open_model(self.name, record=self._record, structured=structured)
        self.fallback = [models.open_model(name, structured=structured) for name in self._others]
        if self._critic:
            self.critic = model if self._critic == SAME else models.open_model(self._critic, structured=structured)
        if self._priced:
            from nbagent.agent.providers import prices

            prices.check_known([model, *self.fallback, *([self.critic] if self.critic else [])])
        return model

    async def aclose(self) -> None:
        """Close the connections of all models."""
        opened = {id(each): each for each in (self._model, self.critic, *self.fallback) if each is not None}
        self._model, self.critic, self.fallback = None, None, []
        for model in opened.values():
            await model.aclose()
