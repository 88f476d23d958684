"""The agent: decides what to run. LangChain and LangGraph are imported here and in `state/` only, when they are needed.

`providers/models` opens the model that a person names, `providers/replay` is the model that hands out recorded replies,
`prompts` says what the model is told, `tools/` is what it can do, `view` is what it sees of a cell, `middleware/`
surrounds the loop, and `build` puts them together.

For agents of other people's: `KernelMiddleware` and `kernel_tools`, see `published`. `GeneratedCode` is what a model
without tool calls replies with, see `generated` and `middleware/structured`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbagent.agent.generated import GeneratedCode
    from nbagent.agent.published import KernelMiddleware, kernel_tools

__all__ = ["GeneratedCode", "KernelMiddleware", "kernel_tools"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nbagent.agent' has no attribute {name!r}")
    if name == "GeneratedCode":
        from nbagent.agent.generated import GeneratedCode

        return GeneratedCode
    from nbagent.agent import published

    return getattr(published, name)
