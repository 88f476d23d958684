"""How much a server may send."""

from __future__ import annotations

from nbagent.mcp.meter import BURST_BYTES, BURST_FRAMES, FRAMES_A_SECOND, MALFORMED, Meter


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


def test_much_at_once_is_fine_and_more_is_not() -> None:
    """A large answer passes; one byte beyond the bound is the end, and the first reason stays."""
    meter = Meter(clock=Clock())
    assert meter.take(BURST_BYTES)
    assert not meter.take(1)
    meter.cut("is not well")
    assert meter.why == "sent more than 64 MB"


def test_a_server_that_talks_for_hours_is_not_cut() -> None:
    """The bound is on how fast it sends in the long run."""
    clock = Clock()
    meter = Meter(clock=clock)
    for _ in range(20 * BURST_FRAMES):
        clock.now += 1 / FRAMES_A_SECOND
        assert meter.take(100, frames=1)


def test_a_flood_of_small_messages_is_cut() -> None:
    """Messages count beside bytes."""
    meter = Meter(clock=Clock())
    assert sum(meter.take(1, frames=1) for _ in range(BURST_FRAMES + 10)) == BURST_FRAMES


def test_some_lines_that_are_no_messages_are_passed_over() -> None:
    """A program that greets where its messages go is a server; one that only babbles is not."""
    meter = Meter(clock=Clock())
    assert [meter.malformed() for _ in range(MALFORMED)].count(True) == MALFORMED - 1
    assert "no messages" in meter.why
