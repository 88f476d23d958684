"""Middleware that offers the tools for scripts and programs only where a question needs them.

They cost a fifth of a first request, and nearly every question is answered with cells alone. A call of one that was not
offered runs all the same.
"""

from __future__ import annotations

import re
from typing import Any, Final

from langchain.agents.middleware import ModelRequest, ModelResponse

from nbagent.agent.messages.asides import is_question
from nbagent.agent.middleware.types import Middleware, ModelHandler

SCRIPT_TOOLS: Final = frozenset({"sandbox_exec", "sandbox_write_file", "sandbox_edit_file"})
_NEEDED: Final = re.compile(
    r"\b(?:sandbox_\w+|scripts?|skripte?s?|programs?|programme?s?|shell|bash|command|commands|terminal|cli|compil\w+|"
    r"executables?|pipelines?|makefile|git|\w+\.(?:py|sh|r|js|c|cpp|rs|go))\b",
    re.IGNORECASE,
)
"""Words of a question that is likely to need scripts or programs."""


class Offering(Middleware):
    """Leaves the tools for scripts out of requests whose conversation has no question that needs them."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model, with the tools that this conversation needs."""
        asked = [str(each.text) for each in request.messages if is_question(each)]
        if any(_NEEDED.search(each) for each in asked):
            return await handler(request)
        return await handler(
            request.override(tools=[each for each in request.tools if _name(each) not in SCRIPT_TOOLS])
        )


def _name(tool: Any) -> str:
    return str(tool.get("name", "")) if isinstance(tool, dict) else str(tool.name)
