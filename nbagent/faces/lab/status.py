"""What a page needs to know of this server before anything else."""

from __future__ import annotations

from typing import Any

import nbagent
from nbagent.core import folders, settings
from nbagent.core.errors import UsageError
from nbagent.faces.lab.base_handler import Handler, may
from nbagent.faces.lab.messages import EngineList, ModelList, Status

MAX_MODELS = 1000
"""Models that are told at most, and by default."""


class StatusHandler(Handler):
    """`GET status?kernel=`, of whose last end the page wants to know, to tell the person of it."""

    async def get(self) -> None:
        """Tell the version and what new sessions begin with."""
        problem = ""
        try:
            options = settings.override(settings.load(), **self.lab.defaults)
            holds: dict[str, Any] = {name: getattr(options, name) for name in ("model", "trust", "engine", "approvals")}
            holds["budget"] = str(options.budget)
        except UsageError as error:
            problem, holds = str(error), {}
        holds |= {"max_upload_mb": self.lab.max_upload_mb, "making": folders.progress(), "loss": await self._loss()}
        self.reply(Status(version=nbagent.__version__, problem=problem, **holds))

    async def _loss(self) -> str:
        kernel = self.get_query_argument("kernel", "")
        if kernel not in self.kernel_manager or not await may(self, "read", "kernels"):
            return ""
        tell = getattr(self.kernel_manager.get_kernel(kernel).provisioner, "tell_loss", str)
        return str(tell())


class EnginesHandler(Handler):
    """`GET engines?again=`; takes a second or two the first time."""

    async def get(self) -> None:
        """Tell which engines would start a sandbox here, and why the others would not."""
        self.reply(EngineList(await self.available.engines.get(again=self.wants("again"))))


class ModelsHandler(Handler):
    """`GET models?search=&limit=&again=`; providers are asked the first time, which takes seconds."""

    async def get(self) -> None:
        """Tell which models can be named."""
        listed = await self.available.models.get(again=self.wants("again"))
        words = self.get_query_argument("search", "").casefold().split()
        found = [each for each in listed.models if all(word in each.casefold() for word in words)]
        shown = found[: self.limit(MAX_MODELS)]
        self.reply(ModelList(models=shown, total=len(found), default=listed.default, providers=listed.providers))
