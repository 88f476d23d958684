"""How the end of a kernel is told."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from nbagent.sandbox import exit as module
from nbagent.sandbox.exit import Exit, KillCount


@pytest.mark.parametrize(
    ("exit_", "told"),
    [
        (Exit.of_status(0), "exited with code 0"),
        (Exit.of_status(3), "exited with code 3"),
        (Exit.of_status(128 + signal.SIGSEGV), "was killed by SIGSEGV"),
        (Exit.of_status(-signal.SIGKILL), "was killed by SIGKILL"),
        (Exit.of_status(137, killed=True), "ran out of memory"),
        (Exit.of_status(139, killed=True), "was killed by SIGSEGV"),
        (Exit.of_status(128 + 35), "was killed by signal 35"),
        (Exit.of_status(255), "exited with code 255"),
        (Exit(71, overuse="it had 65 terminals"), "was ended for what it took of the machine: it had 65 terminals"),
    ],
)
def test_an_end_is_told_in_words(exit_: Exit, told: str) -> None:
    """Signals by name, codes by number, and memory only if Linux killed for it."""
    assert str(exit_) == told


@pytest.mark.parametrize(
    ("alive_at", "out_of_memory"),
    [
        (104.9, True),  # the kernel's own end was told late
        (106.0, False),  # a child's; what killed the kernel later is another matter
        (None, False),  # nobody knows; long after a kill, the kernel's end is another matter
        (5.0, False),  # of another clock
    ],
)
def test_a_late_end_is_still_told_by_its_cause(
    alive_at: float | None, out_of_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine an end is known long after it came; process 1 has seen what came first."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=100.0)
    monkeypatch.setattr(module, "time", clock)
    used: Any = SimpleNamespace(oom_kills=lambda: int(clock.now >= 105.0), memory_peak=lambda: 7)
    count = KillCount()
    for clock.now in (101.0, 104.0, 105.0, 106.0, 109.0):
        count.look(lambda: used)
    words = {"exit": -9} if alive_at is None else {"exit": -9, "alive_at": alive_at}
    ended = count.exit(137, killed=False, usage=used, words=words)
    assert (ended.out_of_memory, ended.memory_peak) == (out_of_memory, 7)
