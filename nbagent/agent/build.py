"""Puts the agent together: which middleware it has, in which order, with which of the session's ports.

The loop is LangChain's `create_agent`. Retries, budgets, and what is done about replies that are empty, broken off
or cut, are nbagent's own, in `middleware/` (`attempts.py`, `spending.py` and their neighbours).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware

from nbagent.agent.agent import Agent
from nbagent.agent.history import noted, remember
from nbagent.agent.memory import InProcess, Memory
from nbagent.agent.middleware.approve import Approvals
from nbagent.agent.middleware.attempts import Attempts
from nbagent.agent.middleware.evaluate import Check, Evaluation
from nbagent.agent.middleware.outgoing import Outgoing
from nbagent.agent.middleware.reflexion import Reflexion
from nbagent.agent.middleware.replies import Replies, Wire
from nbagent.agent.middleware.spending import Counted, Spending
from nbagent.agent.middleware.stack import Stack
from nbagent.agent.options import AgentOptions
from nbagent.agent.prompts import data_section, prompt_of
from nbagent.agent.providers.models import Model
from nbagent.agent.runs import Desk, Runs
from nbagent.agent.tools.python import InOrder, make_tools
from nbagent.core.errors import ModelError
from nbagent.core.events import Claim, DataSeen
from nbagent.safety.consent import Consent

if TYPE_CHECKING:
    from nbagent.agent.opener import ModelOpener
    from nbagent.forge import ToolForge
    from nbagent.mcp.client import McpClient


async def build(
    desk: Desk,
    models: ModelOpener,
    *,
    options: AgentOptions,
    consent: Consent,
    tools: McpClient | None = None,
    forge: ToolForge | None = None,
    open_memory: Callable[[], Awaitable[Memory]] | None = None,
    past: Sequence[tuple[str, str]] = (),
    note: str = "",
) -> Agent:
    """A session's agent; the data is described for it.

    Args:
        desk: The session.
        models: Opens the models.
        options: How the agent works.
        consent: Who lets the model's tools do something.
        tools: MCP servers, whose tools the model is offered besides.
        forge: Makes tools for the model, and has those of the library; None if it is not to have them.
        open_memory: Opens where the conversation is kept; in this process by default.
        past: Questions so far, each with its answer.
        note: What has become of the kernel since those, for the model to know.

    Raises:
        ModelError: There is no model, or it can't be had.
    """
    model = await models.open()
    fallback, critic, images = models.fallback, models.critic, model.images != "no"
    seen = await desk.describe()
    described = data_section(seen.data)
    # A critic may cost something where the model is free.
    spending = Spending(options.budget, models=[model, *fallback, *([critic] if critic else [])], consent=consent)
    outgoing = Outgoing([model, *fallback], redact=options.redact, described=described)
    reflexion = Reflexion(
        critic=critic, max_attempts=options.max_attempts, checked=outgoing.critique, spending=spending
    )
    check = Check(desk, described)
    agent = build_agent(
        model,
        desk,
        system_prompt=prompt_of(
            seen, images=images, outside=tools is not None and not model.structured, structured=model.structured
        ),
        programs=seen.programs,
        evaluation=Evaluation(model, check.checkable, rounds=options.max_iterations),
        approvals=Approvals(consent),
        memory=await open_memory() if open_memory and not model.is_replay else None,
        spending=spending,
        outgoing=outgoing,
        fallback=fallback,
        middleware=[
            reflexion,
            *_offering(model, desk, options, fallback=fallback, consent=consent, tools=tools, forge=forge),
        ],
        claims=check.claims,
        data=desk.data,
    )
    if past and await agent.recall():
        agent.history = noted(agent.history, note=note)
    else:
        agent.history = remember(past, note=note)
    return agent


def _offering(
    model: Model,
    runs: Runs,
    options: AgentOptions,
    *,
    fallback: Sequence[Model],
    consent: Consent,
    tools: McpClient | None,
    forge: ToolForge | None,
) -> list[AgentMiddleware[Any, Any, Any]]:
    """What offers the model tools that aren't the kernel's own; or reads the objects of one that calls no tools."""
    if model.structured:
        from nbagent.agent.middleware.structured import Structured

        return [Structured([model, *fallback])]
    found: list[AgentMiddleware[Any, Any, Any]] = []
    if tools is not None:
        from nbagent.agent.middleware.mcp_tools import McpTools

        found.append(McpTools(tools, constraints=options.constraints, consent=consent, images=model.images != "no"))
    if forge is not None:
        from nbagent.agent.middleware.forge_tools import ForgeTools

        found.append(ForgeTools(forge, runs, consent=consent, images=model.images != "no"))
    return found


def build_agent(
    model: Model,
    runs: Runs,
    *,
    system_prompt: str,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    fallback: Sequence[Model] = (),
    spending: Spending | None = None,
    outgoing: Outgoing | None = None,
    programs: bool = True,
    evaluation: Evaluation | None = None,
    approvals: Approvals | None = None,
    memory: Memory | None = None,
    claims: Callable[[str], Sequence[Claim]] = lambda _: (),
    data: Sequence[DataSeen] = (),
) -> Agent:
    """An agent whose questions continue one conversation.

    Args:
        model: An opened model.
        runs: The session's side of the tools.
        system_prompt: What `prompts.system_prompt` wrote.
        middleware: Further LangChain middleware, such as approvals.
        fallback: Models that are asked in this order for a reply that the first one does not give.
        spending: Keeps each question within its budget; by default one of calls alone.
        outgoing: Redacts what leaves, and writes it down; without it nobody does.
        programs: Whether the sandbox runs programs.
        evaluation: Looks at answers; without it none is sent back.
        approvals: Asks before calls run.
        memory: Where the conversation is kept; in this process by default.
        claims: Finds the numbers of an answer in the outputs.
        data: What the sandbox sees read-only.

    Raises:
        ModelError: A recording has a fallback, or is one: it can't go on where another model left off.
    """
    models = (model, *fallback)
    if fallback and any(each.is_replay for each in models):
        raise ModelError("A recorded model neither has nor is a fallback.", mend="Leave the fallback out.")
    in_order, wire, memory, spending = InOrder(), Wire(models), memory or InProcess(), spending or Spending()
    # The order matters. `wrap_model_call` runs from the outside to the inside: a reply is looked at before it is
    # retried, a model is tried again before the next one is asked, and what leaves is written down each time.
    stack: list[AgentMiddleware[Any, Any, Any]] = [
        spending,
        Replies(model, offered=lambda: wire.offered),
        *([evaluation] if evaluation else []),
        in_order,
        *([approvals] if approvals else []),
        *middleware,
        Counted(spending),
        *([ModelFallbackMiddleware(*(each.chat for each in fallback))] if fallback else []),
        Attempts(models, spending),
        wire,
        *([outgoing] if outgoing else []),
    ]
    graph = create_agent(
        model.chat,
        make_tools(runs, images=model.images != "no", programs=programs),
        system_prompt=system_prompt,
        middleware=[Stack(stack)],
        checkpointer=memory.checkpointer,
    )
    return Agent(
        graph=graph,
        model=model,
        spending=spending,
        finished=in_order.finished,
        approvals=approvals,
        memory=memory,
        claims=claims,
        data=data,
    )
