"""ReadingShare: who reads much waits while others are active."""

from __future__ import annotations

import time

import pytest

from nbagent.kernel.channels import reading_share
from nbagent.kernel.channels.reading_share import (
    BURST_SECONDS,
    HEAVY_COST_SECONDS,
    HEAVY_SECONDS,
    MAX_SHARE,
    SLICE_SECONDS,
    ReadingShare,
)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[ReadingShare, ReadingShare]:
    """Two connections, alone in their process."""
    monkeypatch.setattr(reading_share, "_LAST", {})
    return ReadingShare(), ReadingShare()


def test_who_is_alone_never_waits(pair: tuple[ReadingShare, ReadingShare]) -> None:
    greedy, _ = pair
    for _ in range(1_000):
        greedy.took(1.0)
        assert greedy.pause() == 0


def test_who_reads_much_waits_for_others(pair: tuple[ReadingShare, ReadingShare]) -> None:
    """After a burst, its turns are a share of the time."""
    greedy, other = pair
    other.took(SLICE_SECONDS)
    for _ in range(int(BURST_SECONDS / SLICE_SECONDS) + 5):
        greedy.took(SLICE_SECONDS)
    before = greedy.pause()
    assert before > 0
    greedy.took(SLICE_SECONDS)
    assert greedy.pause() - before == pytest.approx(SLICE_SECONDS / MAX_SHARE, rel=0.3)
    assert other.pause() == 0


def test_after_the_pause_reading_goes_on(pair: tuple[ReadingShare, ReadingShare]) -> None:
    greedy, other = pair
    other.took(SLICE_SECONDS)
    greedy.took(BURST_SECONDS + 0.01)
    pause = greedy.pause()
    assert 0 < pause <= 0.01 / MAX_SHARE
    time.sleep(pause + 0.005)
    assert greedy.pause() == 0


def test_a_heavy_reading_costs_more_than_its_time(pair: tuple[ReadingShare, ReadingShare]) -> None:
    """So that few cells of others meet one, however short it is."""
    greedy, other = pair
    other.took(SLICE_SECONDS)
    greedy.took(BURST_SECONDS)
    for _ in range(3):
        greedy.took(HEAVY_SECONDS)
    assert greedy.pause() == pytest.approx(3 * HEAVY_COST_SECONDS / MAX_SHARE, rel=0.1)


def test_who_was_not_active_lately_is_not_waited_for(
    pair: tuple[ReadingShare, ReadingShare], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle session, and one that ended, cost nobody anything; what was owed to them is forgotten."""
    greedy, other = pair
    other.took(SLICE_SECONDS)
    greedy.took(10.0)
    assert greedy.pause() > 1
    with monkeypatch.context() as patch:
        patch.setattr(reading_share, "ACTIVE_SECONDS", 0.0)
        time.sleep(0.01)
        assert greedy.pause() == 0
    other.took(SLICE_SECONDS)
    assert greedy.pause() == 0
    greedy.took(10.0)
    other.end()
    assert greedy.pause() == 0


def test_a_share_may_end_twice(pair: tuple[ReadingShare, ReadingShare]) -> None:
    """What has ended, or never began, can end."""
    pair[0].end()
    pair[0].end()
