"""How the end of a kernel is told."""

from __future__ import annotations

import signal

import pytest

from nbagent.sandbox.exit import Exit


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
