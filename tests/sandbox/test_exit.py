"""How the end of a kernel is told."""

from __future__ import annotations

import signal

import pytest

from nbagent.sandbox.exit import Exit


@pytest.mark.parametrize(
    ("exit_", "told"),
    [
        (Exit.told(0), "exited with code 0"),
        (Exit.told(3), "exited with code 3"),
        (Exit.told(128 + signal.SIGSEGV), "was killed by SIGSEGV"),
        (Exit.told(-signal.SIGKILL), "was killed by SIGKILL"),
        (Exit.told(137, killed=True), "ran out of memory"),
        (Exit.told(139, killed=True), "was killed by SIGSEGV"),
        (Exit.told(128 + 35), "was killed by signal 35"),
        (Exit.told(255), "exited with code 255"),
        (Exit(71, overuse="it had 65 terminals"), "was ended for what it took of the machine: it had 65 terminals"),
    ],
)
def test_an_end_is_told_in_words(exit_: Exit, told: str) -> None:
    """Signals by name, codes by number, and memory only if Linux killed for it."""
    assert str(exit_) == told
