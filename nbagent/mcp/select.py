"""Chooses the tools that a question needs. Pure and deterministic: no model is asked, so it costs nothing.

A tool's score is the sum of

    10 × certainty   for each capability that the question needs and the tool has; twice that for an explicit one
    5                if the question names the tool's server or the tool itself
    0.5 × likeness   of the question's words to the tool's, from 0 to 1; rare words weigh more than frequent ones
    0.2              if the tool says that it only reads, and the question asks for no change
    −0.2 × slowness  its measured latency in units of ten seconds, at most 1

The certainty of a capability is 1 if a person wrote it into mcp.json, 0.9 if it follows from the tool's name, and 0.6
if it follows from the description only. First, each needed capability gets its best tool; then tools are added by
score, equal scores by name. A tool is chosen only if it has a needed capability, with about the highest certainty, or
if the question names it, or, if it has no known capability, if its words are alike enough. Verbs don't count for that:
many tools search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbagent.mcp.capabilities import VERBS, capabilities_of, needs_of, words_of
from nbagent.mcp.catalog import McpTool
from nbagent.mcp.constraints import Constraints

CONFIGURED, BY_NAME, BY_DESCRIPTION = 1.0, 0.9, 0.6
DOUBT = 0.25
"""A tool whose certainty is lower than the best one's by more than this is not chosen for the same capability."""
ALIKE = 0.3
"""Likeness from which a tool without a known capability is chosen by its words."""
GUESS = 0.2
"""Confidence of a selection for a question in which no capability was found."""
MAX_TOOLS = 12
"""Tools that are chosen at most. Providers take more, but models choose worse among many."""
MAX_GUESSED = 40
"""Tools that are chosen at most if no capability was found: then a longer list is better than a wrong one."""
CHANGES = frozenset({"write", "send", "create", "control"})
_COMMON = frozenset(
    "a an the of to in on for with from by and or is are be it this that what which how me my i you please".split()
)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The result of a selection.

    Attributes:
        selected_tools: The tools, best first.
        confidence: From 0 to 1: the mean certainty of the needed capabilities, 0 for a missing one. If none was found
            in the question: the likeness of the best tool, `GUESS` if there is none.
        missing_capabilities: The needed capabilities that no tool has.
        reasons: The reasons, a sentence each.
    """

    selected_tools: tuple[McpTool, ...] = ()
    confidence: float = 0.0
    missing_capabilities: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _Scored:
    tool: McpTool
    score: float = 0.0
    has: dict[str, float] = field(default_factory=dict)
    """The needed capabilities that the tool has, with their certainty."""
    likeness: float = 0.0
    alike: bool = False
    """Whether its words alone are enough to choose it."""
    named: bool = False


def select(
    question: str,
    tools: Sequence[McpTool],
    explicit: Iterable[str] = (),
    constraints: Constraints | Mapping[str, Any] | None = None,
    *,
    provided: frozenset[str] = frozenset(),
) -> Selection:
    """Choose the tools that a question needs.

    Args:
        question: The question.
        tools: All tools.
        explicit: Capabilities that are needed in any case.
        constraints: The constraints on tools.
        provided: Capabilities that the agent has without these tools, so that they are never missing.

    Raises:
        UsageError: A constraint is unknown or wrong.
    """
    bounds = Constraints.of(constraints)
    demanded = tuple(dict.fromkeys(name.strip().lower() for name in (*explicit, *sorted(bounds.capabilities))))
    needs = needs_of(question)
    needed = tuple(dict.fromkeys((*demanded, *needs.wanted)))
    unwanted = needs.unwanted - set(demanded)
    reasons: list[str] = []
    allowed = [tool for tool in tools if _is_allowed(tool, bounds, unwanted, reasons)]
    scored = _score(question, allowed, needed, frozenset(demanded))
    chosen = _choose(scored, needed, MAX_TOOLS if bounds.max_tools is None else bounds.max_tools)
    if not chosen and not needed and scored:
        # Guess, rather than offer no tools: the question may be in another language, or in unusual words.
        chosen = scored[: MAX_GUESSED if bounds.max_tools is None else bounds.max_tools]
        reasons.append("The question's words tell no capability, so the likeliest tools are offered.")
    reasons += [_reason(each) for each in chosen]
    missing = tuple(name for name in needed if not any(name in each.has for each in chosen) and name not in provided)
    return Selection(
        selected_tools=tuple(each.tool for each in chosen),
        confidence=_confidence(chosen, needed, provided),
        missing_capabilities=missing,
        reasons=tuple(reasons),
    )


def certainties(tool: McpTool) -> dict[str, float]:
    """The capabilities of a tool, with their certainty. Those that a person gave replace all others."""
    if tool.capabilities:
        return dict.fromkeys(tool.capabilities, CONFIGURED)
    by_name, by_description = capabilities_of(tool.tool, tool.description)
    return {**dict.fromkeys(by_description, BY_DESCRIPTION), **dict.fromkeys(by_name, BY_NAME)}


def _is_allowed(tool: McpTool, bounds: Constraints, unwanted: frozenset[str], reasons: list[str]) -> bool:
    """Whether a tool meets the constraints; if not, a reason is added."""
    has = set(certainties(tool))
    slow = bounds.max_latency_ms is not None and tool.latency_ms is not None and tool.latency_ms > bounds.max_latency_ms
    why = ""
    if bounds.allow_servers is not None and tool.server not in bounds.allow_servers:
        why = f"its server {tool.server} is not among those allowed"
    elif {tool.name, tool.tool, tool.server, *has} & bounds.deny:
        why = "it is denied"
    elif bounds.read_only and tool.read_only is not True:
        why = "it doesn't say that it only reads"
    elif slow:
        why = f"its calls take {tool.latency_ms:.0f} ms"
    elif has and has <= unwanted:
        why = f"the question doesn't want {', '.join(sorted(has))}"
    if why:
        reasons.append(f"{tool.name} is left out: {why}.")
    return not why


def _score(question: str, tools: Sequence[McpTool], needed: tuple[str, ...], demanded: frozenset[str]) -> list[_Scored]:
    """All tools with their scores, best first."""
    asked = set(words_of(question)) - _COMMON
    topic = asked - VERBS
    texts = {tool.name: Counter(words_of(f"{tool.tool} {tool.tool} {tool.description}")) for tool in tools}
    spread = Counter(word for text in texts.values() for word in text)
    rare = {word: math.log(1 + len(tools) / spread[word]) for word in spread}
    changes = any(name.partition(":")[2] in CHANGES for name in needed)
    scored = []
    for tool in tools:
        known = certainties(tool)
        each = _Scored(tool=tool, named=_is_named(tool, question, asked))
        each.likeness = _likeness(topic, texts[tool.name], rare)
        each.has = {name: sure for name, sure in known.items() if name in needed}
        each.alike = each.likeness >= ALIKE and max(known.values(), default=0) < BY_NAME
        each.score = sum(10 * sure * (2 if name in demanded else 1) for name, sure in each.has.items())
        each.score += 5 * each.named + 0.5 * each.likeness
        each.score += 0.2 * (tool.read_only is True and not changes)
        each.score -= 0.2 * min(1.0, (tool.latency_ms or 0.0) / 10_000)
        scored.append(each)
    return sorted(scored, key=lambda each: (-round(each.score, 6), each.tool.name))


def _likeness(topic: set[str], text: Counter[str], rare: Mapping[str, float]) -> float:
    """The likeness of a question and a tool: the weighted share of words that they have in common."""
    known = {word: rare[word] for word in topic if word in rare}
    if not known:
        return 0.0
    shared = sum(weight for word, weight in known.items() if word in text)
    own = sum(rare[word] for word in text if word not in _COMMON)
    return shared / math.sqrt(sum(known.values()) * own) if own else 0.0


def _is_named(tool: McpTool, question: str, asked: set[str]) -> bool:
    """Whether the question names the server, or the tool if its name is no plain word."""
    server = set(words_of(tool.server))
    written = "_" in tool.tool or "-" in tool.tool
    return bool(server and server <= asked) or (written and tool.tool.casefold() in question.casefold())


def _choose(scored: list[_Scored], needed: tuple[str, ...], limit: int) -> list[_Scored]:
    surest = {name: max((each.has.get(name, 0.0) for each in scored), default=0.0) for name in needed}
    for each in scored:
        # If other tools certainly have the capability, an uncertain one only distracts the model.
        each.has = {name: sure for name, sure in each.has.items() if sure > surest[name] - DOUBT}
    worth = [each for each in scored if each.has or each.named or each.alike]
    best = [next((each for each in worth if name in each.has), None) for name in needed]
    first = [each for each in worth if any(each is one for one in best)]
    rest = [each for each in worth if not any(each is one for one in best)]
    kept = {each.tool.name for each in [*first, *rest][:limit]}
    return [each for each in worth if each.tool.name in kept]


def _confidence(chosen: list[_Scored], needed: tuple[str, ...], provided: frozenset[str]) -> float:
    if not needed:
        return round(max([GUESS, *(1.0 if each.named else each.likeness for each in chosen)]), 3)
    sure = [max([float(name in provided), *(each.has.get(name, 0.0) for each in chosen)]) for name in needed]
    return round(min(1.0, sum(sure) / len(sure)), 3)


def _reason(each: _Scored) -> str:
    parts = [f"{name} ({sure:.0%})" for name, sure in each.has.items()]
    parts += ["it is named"] if each.named else []
    parts += [f"its words are alike ({each.likeness:.0%})"] if each.alike else []
    return f"{each.tool.name} is offered: {', '.join(parts) or 'nothing speaks against it'}."


class DynamicToolSelector:
    """The selector over a catalogue that changes, such as `McpClient.catalog`."""

    def __init__(self, catalog: Callable[[], Awaitable[Sequence[McpTool]]]) -> None:
        self._catalog = catalog

    async def select_tools_for_task(
        self,
        task_description: str,
        *,
        explicit_capabilities: Iterable[str] = (),
        constraints: Constraints | Mapping[str, Any] | None = None,
        provided: frozenset[str] = frozenset(),
    ) -> Selection:
        """Choose the tools that a task needs, see `select`.

        Raises:
            UsageError: A constraint is unknown or wrong.
        """
        tools = await self._catalog()
        return select(task_description, tools, explicit_capabilities, constraints, provided=provided)
