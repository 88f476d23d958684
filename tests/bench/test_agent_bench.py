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

from nbagent.agent.replay import ReplayModel
from nbagent.agent.tools import make_tools
from nbagent.session import Session

STEPS = 20
ROUNDS = 12
TURNS = 200


def replies(path: Path, *, turns: int, steps: int) -> Path:
    """So many turns of so many cells each, and an answer."""
    call = {"tool_calls": [{"name": "python", "args": {"code": "1 + 1"}}]}
    lines = [json.dumps(each) for _ in range(turns) for each in [*[call] * steps, {"content": "The sum is 2."}]]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_step_beside_a_bare_agent(benchmark: Any, say: Callable[..., None], tmp_path: Path) -> None:
    """A reply and its cell, in a session with all that surrounds them, and in LangChain's agent without."""
    pair = Pair()

    async def measure() -> None:
        file = replies(tmp_path / "r.jsonl", turns=ROUNDS + 1, steps=STEPS)
        async with Session(engine="bubblewrap", model=f"replay:{file}", mcp=False) as session:
            runs = session._conversation
            assert runs is not None
            await session.ask("Warm up")
            bare = create_agent(
                ReplayModel.open(file), make_tools(runs)[:1], system_prompt="You test.", checkpointer=InMemorySaver()
            )
            for turn in range(ROUNDS):
                started = time.perf_counter()
                await session.ask(f"Question {turn}")
                pair.ours.append((time.perf_counter() - started) / (STEPS + 1))
                started = time.perf_counter()
                config: Any = {"configurable": {"thread_id": str(turn)}, "recursion_limit": 1000}
                await bare.ainvoke({"messages": [HumanMessage(f"Question {turn}")]}, config, durability="exit")
                pair.floor.append((time.perf_counter() - started) / (STEPS + 1))

    benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say("a step of the agent with its cell, p50, to a bare create_agent", pair.ratio(), limit=1.3)


def test_a_long_conversation(benchmark: Any, say: Callable[..., None], tmp_path: Path) -> None:
    """The last twenty turns of 200 take no longer than twenty after the first few."""
    times: list[float] = []

    async def measure() -> None:
        file = replies(tmp_path / "r.jsonl", turns=TURNS, steps=1)
        async with Session(engine="bubblewrap", model=f"replay:{file}", mcp=False) as session:
            for turn in range(TURNS):
                started = time.perf_counter()
                await session.ask(f"Question {turn}")
                times.append(time.perf_counter() - started)

    benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)
    say("last 20 of 200 turns to turns 20 to 40, p50", at(times[-20:], 0.5) / at(times[20:40], 0.5), limit=1.25)
