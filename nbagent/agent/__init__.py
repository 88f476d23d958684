"""The agent: decides what to run. LangChain and LangGraph are imported here and in `state/` only, when they are needed.

    build           puts the agent together
    agent, turn     drives one question; holds what belongs to it, and its `phases`
    ports           what the agent knows of the session
    prompts         what the model is told
    tools/          what the model can do
    cell_view       what it sees of a cell; `mcp_view` of a tool of an MCP server, `readable` of an output
    claims          which output supports which number of an answer; `numerals` reads the numbers, `made_up/` finds
                    those that code has made up, and `names` what a later cell gives another value
    dataset/        what the model is told of the data
    memory          a conversation between questions; `agent_options` the options of the agent
    middleware/     what surrounds each request and each call
    messages/       the conversation: history, replies, nbagent's own notes
    providers/      models: found, opened, watched, priced, recorded
    kernel_middleware  `KernelMiddleware` and `kernel_tools`, for agents of other people

`GeneratedCode` is what a model without tool calls replies with, see `messages/generated` and `middleware/structured`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbagent.core.compat import hush_langchain

if TYPE_CHECKING:
    from nbagent.agent.kernel_middleware import KernelMiddleware, kernel_tools
    from nbagent.agent.messages.generated import GeneratedCode

__all__ = ["GeneratedCode", "KernelMiddleware", "kernel_tools"]

hush_langchain()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nbagent.agent' has no attribute {name!r}")
    if name == "GeneratedCode":
        from nbagent.agent.messages.generated import GeneratedCode

        return GeneratedCode
    from nbagent.agent import kernel_middleware

    return getattr(kernel_middleware, name)
