"""What a hostile session costs another one of the same process: its cells, with and without, window by window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.conftest import Pair, timed
from kernel.hostile import FLOODS

from nbagent.session.session import Session

ENGINES = ("bubblewrap", "docker")
SECONDS = 3.0
"""How long each window is; an attack is stopped after it."""
ROUNDS = 3


async def quiet(victim: Session, times: list[float]) -> None:
    """Cells while nobody else runs anything."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        times.append(await timed(victim.run("1+1")))


async def attacked(victim: Session, hostile: Session, code: str, times: list[float]) -> None:
    """Cells while the other session attacks, again if that ended it, and until it is over."""
    end = time.monotonic() + SECONDS
    while (left := end - time.monotonic()) > 0.1:
        attack = asyncio.create_task(hostile.run(code, timeout=left))
        while not attack.done():
            times.append(await timed(victim.run("1+1")))
        await attack


@pytest.mark.parametrize("attack", FLOODS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_hostile_session(
    engine: str,
    attack: str,
    benchmark: Any,
    loop: asyncio.AbstractEventLoop,
    say: Callable[..., None],
    tmp_path: Path,
) -> None:
    """It makes another session's trivial cells at most twice as slow, at p95."""
    pair = Pair()
    victim, hostile = (Session(engine=engine, state_dir=tmp_path) for _ in range(2))
    try:
        for session in (victim, hostile):
            loop.run_until_complete(session.start())
            loop.run_until_complete(session.run("1+1"))
        benchmark.pedantic(
            lambda: loop.run_until_complete(attacked(victim, hostile, FLOODS[attack], pair.ours)),
            setup=lambda: loop.run_until_complete(quiet(victim, pair.floor)),
            rounds=ROUNDS,
        )
    finally:
        for session in (victim, hostile):
            loop.run_until_complete(session.stop())
    say(f"trivial cell beside a session with {attack}, {engine}, p95", pair.ratio(0.95), limit=2.0)
