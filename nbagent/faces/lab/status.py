"""What a page needs to know of this server before anything else."""

from __future__ import annotations

from typing import Any

import nbagent
from nbagent.core import folders, settings
from nbagent.core.errors import UsageError
from nbagent.core.options import Options
from nbagent.core.policy import Network, TrustLevel, trust_for
from nbagent.faces.lab.base_handler import ForbiddenError, Handler, may
from nbagent.faces.lab.messages import EngineList, Loss, ModelList, Status

MAX_MODELS = 1000
"""Models that are told at most, and by default."""


class StatusHandler(Handler):
    """`GET status`."""

    async def get(self) -> None:
        """Tell the version and what new sessions begin with."""
        problem = ""
        try:
            options = settings.override(settings.load(), **self.lab.defaults)
            holds: dict[str, Any] = {name: getattr(options, name) for name in ("model", "trust", "engine", "approvals")}
            holds["budget"] = str(options.budget)
            holds["lists_hosts"] = _lists_hosts(options)
        except UsageError as error:
            problem, holds = str(error), {}
        holds |= {"max_upload_mb": self.lab.max_upload_mb, "making": folders.progress()}
        self.reply(Status(version=nbagent.__version__, problem=problem, **holds))


def _lists_hosts(options: Options) -> bool:
    """Whether hosts are listed that a session without a network of its own reaches."""
    return trust_for(TrustLevel.ISOLATED, security=options.security_options).network is Network.LISTED


class LossHandler(Handler):
    """`POST kernels/ID/loss`: the page tells the person of it, so that the next kernel does not."""

    async def post(self, id: str) -> None:
        """Tell how the kernel before the one that runs ended."""
        if not await may(self, "read", "kernels"):
            raise ForbiddenError("You may not see the kernels of this server.")
        if id not in self.kernel_manager:
            raise UsageError(f"This server has no kernel {id[:80]!r}.")
        tell = getattr(self.kernel_manager.get_kernel(id).provisioner, "tell_loss", str)
        self.reply(Loss(str(tell())))


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
