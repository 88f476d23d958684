"""What the agent itself costs, with a model that takes no time, beside LangChain's bare agent with the same tool."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.conftest import Pair, at
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from nbagent.agent.providers.replay import ReplayModel
from nbagent.agent.tools.python import make_tools
from nbagent.session.session import Session

STEPS = 20
ROUNDS = 12
TURNS = 200


def replies(path: Path, *, turns: int, steps: int) -> Path:
    """An answer, then so many turns of so many cells each, and an answer."""
    calls = [{"tool_calls": [{"name": "python", "args": {"code": f"{step} + 1"}}]} for step in range(steps)]
    answer = {"content": "That is the sum."}
    lines = [json.dumps(each) for each in [answer, *([*calls, answer] * turns)]]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_step_beside_a_bare_agent(benchmark: Any, say: Callable[..., None], tmp_path: Path) -> None:
    """A reply and its cell, in a session with all that surrounds them, and in LangChain's agent without.

    Both have a short question behind them, and each round is a conversation of its own.
    """
    pair = Pair()
    file = replies(tmp_path / "r.jsonl", turns=1, steps=STEPS)

    async def measure_one() -> None:
        async with Session(engine="bubblewrap", model=f"replay:{file}", mcp=False) as session:
            bare = create_agent(
                ReplayModel.open(file),
                make_tools(session.runs)[:1],
                system_prompt="You test.",
                checkpointer=InMemorySaver(),
            )
            config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 1000}

            async def ask_bare(question: str) -> None:
                await bare.ainvoke({"messages": [HumanMessage(question)]}, config, durability="exit")

            both = [(session.ask, pair.ours), (ask_bare, pair.floor)]
            for ask, times in both if len(pair.ours) % 2 else reversed(both):
                await ask("Warm up")
                started = time.perf_counter()
                await ask("Question")
                times.append((time.perf_counter() - started) / (STEPS + 1))

    async def measure() -> None:
        for _ in range(ROUNDS):
            await measure_one()

    benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say("a step of the agent with its cell, p50, to a bare create_agent", pair.ratio(), limit=1.3)


def test_a_long_conversation(benchmark: Any, say: Callable[..., None], tmp_path: Path) -> None:
    """The last twenty turns of 200 take no longer than twenty after the first few."""
    times: list[float] = []

    async def measure() -> None:
        file = replies(tmp_path / "r.jsonl", turns=TURNS, steps=1)
        async with Session(engine="bubblewrap", model=f"replay:{file}", mcp=False) as session:
            await session.ask("Warm up")
            for turn in range(TURNS):
                started = time.perf_counter()
                await session.ask(f"Question {turn}")
                times.append(time.perf_counter() - started)

    benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say("last 20 of 200 turns to turns 20 to 40, p50", at(times[-20:], 0.5) / at(times[20:40], 0.5), limit=1.25)
