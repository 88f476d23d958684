"""Which engines and models there are: the command `nbagent` finds it out, which takes seconds, and that is kept."""

from __future__ import annotations

import msgspec

from nbagent.faces.lab import programs
from nbagent.faces.lab.config import Config
from nbagent.faces.lab.messages import EngineEntry, ModelProvider
from nbagent.faces.lab.programs import Cached

SETTING = "nbagent_available"
"""The setting of the web application that has what is `Available`."""
SECONDS = 60.0
"""Seconds for a command that asks."""
KEPT_SECONDS = 600.0


class EngineSummary(msgspec.Struct, frozen=True):
    """What `nbagent doctor --json` says of an engine."""

    available: bool
    starts: bool
    chosen: bool
    reason: str = ""
    mend: str = ""
    kernel: str = ""
    why_not: str = ""


class ListedModels(msgspec.Struct, frozen=True):
    """What `nbagent models --json` says."""

    models: list[str]
    default: str | None
    providers: list[ModelProvider]


class Available:
    """The engines and the models that there are, found out at most once at a time and kept for a while."""

    def __init__(self, lab: Config) -> None:
        self._lab = lab
        self.engines = Cached(self._engines, seconds=KEPT_SECONDS)
        self.models = Cached(self._models, seconds=KEPT_SECONDS)

    async def _engines(self) -> list[EngineEntry]:
        trust = ["--trust", self._lab.trust] if self._lab.trust else []
        done = await programs.run("doctor", "--json", *trust, root=self._lab.root, seconds=SECONDS)
        return [
            EngineEntry(
                name=name,
                starts=each.starts,
                chosen=each.chosen,
                kernel=each.kernel,
                why_not=each.reason or each.why_not,  # the latter has the mend already
                mend=each.mend,
            )
            for name, each in done.read(dict[str, EngineSummary]).items()
        ]

    async def _models(self) -> ListedModels:
        done = await programs.run("models", "--json", root=self._lab.root, seconds=SECONDS)
        return done.read(ListedModels)
