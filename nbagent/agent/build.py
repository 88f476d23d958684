"""Puts the agent together: LangChain's `create_agent`, with nbagent's tools, and its middleware in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware

from nbagent.agent.agent import Agent
from nbagent.agent.agent_options import AgentOptions
from nbagent.agent.dataset.section import DataView
from nbagent.agent.dataset.words import words
from nbagent.agent.memory import InProcess, Memory
from nbagent.agent.messages.history import remember, with_note
from nbagent.agent.middleware.approve import ApprovalMiddleware
from nbagent.agent.middleware.evaluate import Evaluation, Numbers, reads_several
from nbagent.agent.middleware.exchange import ProviderExchange
from nbagent.agent.middleware.in_order import InOrder
from nbagent.agent.middleware.offering import Offering
from nbagent.agent.middleware.outgoing import Outgoing
from nbagent.agent.middleware.reflexion import Reflexion
from nbagent.agent.middleware.replies import Replies
from nbagent.agent.middleware.retries import Retries
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.middleware.stack import Stack
from nbagent.agent.middleware.types import Middleware
from nbagent.agent.ports import KernelPort, SessionPort
from nbagent.agent.prompts import system_prompt
from nbagent.agent.providers.models import Model
from nbagent.agent.tools.data_tools import make_data_tools
from nbagent.agent.tools.python import make_tools
from nbagent.agent.turn import Turn
from nbagent.core.errors import ModelError
from nbagent.core.events import Claim, DataSeen
from nbagent.kernel.describe import Profiles
from nbagent.safety.approvals import Consent

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from nbagent.agent.providers.opener import ModelOpener
    from nbagent.forge import ToolForge
    from nbagent.mcp.client import McpClient


async def build(
    session: SessionPort,
    models: ModelOpener,
    *,
    options: AgentOptions,
    consent: Consent,
    tools: McpClient | None = None,
    forge: ToolForge | None = None,
    open_memory: Callable[[], Awaitable[Memory]] | None = None,
    past: Sequence[tuple[str, str]] = (),
    note: str = "",
    question: str = "",
) -> Agent:
    """The agent of a session; the data is described for its prompt.

    Args:
        session: What the agent knows of the session.
        models: Opens the models.
        options: How the agent works.
        consent: Decides what tools may do, and asks the person.
        tools: The MCP servers whose tools the model is offered.
        forge: Makes and keeps tools; None if the model is not offered the forge's tools.
        open_memory: Opens the memory of the conversation; by default it is kept in this process.
        past: The questions so far, each with its answer.
        note: What has become of the kernel since then, for the model.
        question: The question for which it is made; its words say what of the data the prompt tells.

    Raises:
        ModelError: No model was found, or it can't be opened.
    """
    model = await models.open()
    fallback, critic, images = models.fallback, models.critic, model.images != "no"
    seen = await session.describe([each for each in words(question) if len(each) > 3])
    # Beside the event loop: a kernel in hostile hands says so much of its data that this takes seconds.
    view = await asyncio.to_thread(DataView, seen.data, left_out=seen.left_out)
    described = await asyncio.to_thread(view.section, question)
    # The critic's price counts too: it may cost something where the model is free.
    spending = Spending(options.budget, models=[model, *fallback, *([critic] if critic else [])], consent=consent)
    outgoing = Outgoing([model, *fallback], redact=options.redact, described=described)
    reflexion = Reflexion(spending, critic=critic, max_attempts=options.max_attempts, checked=outgoing.critique)
    numbers = Numbers(session, view.counted())
    paths = [each.path for each in view.profiles.files]

    async def read(first: Collection[str]) -> Profiles:
        return (await session.describe(first)).data

    async def checks(turn: Turn) -> bool:
        return options.check if options.check is not None else await reads_several(turn, paths, session.evidence().code)

    agent = build_agent(
        model,
        session,
        system_prompt=system_prompt(
            seen,
            described=described,
            images=images,
            outside=tools is not None and not model.structured,
            structured=model.structured,
            checked=len(paths) > 1 if options.check is None else options.check,
        ),
        programs=seen.programs,
        evaluation=Evaluation(
            model, numbers.checkable, rounds=options.max_iterations, checks=checks, labels=view.labels()
        ),
        approvals=ApprovalMiddleware(consent),
        memory=await open_memory() if open_memory and not model.is_replay else None,
        spending=spending,
        outgoing=outgoing,
        fallback=fallback,
        middleware=[
            *([] if options.scripts else [Offering()]),
            reflexion,
            *_offering(model, session, options, fallback=fallback, consent=consent, tools=tools, forge=forge),
        ],
        claims=numbers.claims,
        data=session.data,
        more_tools=make_data_tools(view, session.find, read) if view.is_large and not model.structured else (),
    )
    if past and await agent.recall():
        agent.history = with_note(agent.history, note=note, stopped=past[-1][1])
    else:
        agent.history = remember(past, note=note)
    return agent


def _offering(
    model: Model,
    kernel: KernelPort,
    options: AgentOptions,
    *,
    fallback: Sequence[Model],
    consent: Consent,
    tools: McpClient | None,
    forge: ToolForge | None,
) -> list[Middleware]:
    """The middleware that offers tools of MCP servers and of the forge, or reads the objects of a structured model."""
    if model.structured:
        from nbagent.agent.middleware.structured import Structured

        return [Structured([model, *fallback])]
    found: list[Middleware] = []
    if tools is not None:
        from nbagent.agent.middleware.mcp_tools import McpTools

        found.append(McpTools(tools, constraints=options.constraints, consent=consent, images=model.images != "no"))
    if forge is not None:
        from nbagent.agent.middleware.forge_tools import ForgeTools

        found.append(ForgeTools(forge, kernel, consent=consent, images=model.images != "no"))
    return found


def build_agent(
    model: Model,
    kernel: KernelPort,
    *,
    system_prompt: str,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    fallback: Sequence[Model] = (),
    spending: Spending | None = None,
    outgoing: Outgoing | None = None,
    programs: bool = True,
    evaluation: Evaluation | None = None,
    approvals: ApprovalMiddleware | None = None,
    memory: Memory | None = None,
    claims: Callable[[str, Turn], Awaitable[Sequence[Claim]]] | None = None,
    data: Sequence[DataSeen] = (),
    more_tools: Sequence[BaseTool] = (),
) -> Agent:
    """An agent whose questions continue one conversation.

    Args:
        model: An opened model.
        kernel: Where the tools run.
        system_prompt: The system prompt, see `prompts.system_prompt`.
        middleware: Further LangChain middleware, outside of what asks the model and inside of what judges its replies.
        fallback: Models that are asked, in this order, for a reply that the first one does not give.
        spending: Keeps each question within its budget; by default within the default budget of requests.
        outgoing: Redacts what leaves, and reports it; without it, nothing is redacted or reported.
        programs: Whether the sandbox runs programs.
        evaluation: Sends answers back; without it, none is sent back.
        approvals: Asks before calls run; without it, no call is asked about.
        memory: Keeps the conversation; by default in this process.
        claims: Finds the numbers of an answer in the outputs; without it, an answer has none.
        data: The data that the sandbox sees, read-only.
        more_tools: Tools beside those of the kernel.
    """
    models = (model, *fallback)
    if fallback and any(each.is_replay for each in models):
        raise ModelError("A recorded model neither has nor is a fallback.", mend="Leave the fallback out.")
    memory, spending = memory or InProcess(), spending or Spending()
    in_order, exchange = InOrder(), ProviderExchange(models)
    # From the outside to the inside, as `wrap_model_call` runs: each request for another reply is within the budget, a
    # model is tried again before the next one is asked, and what leaves is redacted and reported each time.
    stack: list[AgentMiddleware[Any, Any, Any]] = [
        Replies(model, offered=lambda: exchange.offered),
        *([evaluation] if evaluation else []),
        in_order,
        *([approvals] if approvals else []),
        *middleware,
        spending,
        *([ModelFallbackMiddleware(*(each.chat for each in fallback))] if fallback else []),
        Retries(models, spending),
        exchange,
        *([outgoing] if outgoing else []),
    ]
    graph = create_agent(
        model.chat,
        [*make_tools(kernel, images=model.images != "no", programs=programs), *more_tools],
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
