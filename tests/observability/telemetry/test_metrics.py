"""Numbers of a session without any SDK."""

from __future__ import annotations

import json
import threading

import pytest
import stories

from nbagent.observability.telemetry import Telemetry, snapshot
from nbagent.observability.telemetry.measure import Measurement, Measures
from nbagent.observability.telemetry.metrics import RECENT, Counts, Metrics


def counted(*sessions: list[stories.Event]) -> Metrics:
    """The numbers of sessions with these events."""
    counts = Counts()
    for events in sessions:
        measures = Measures()
        for record in stories.records(events):
            for each in measures.on_event(record):
                counts.take(each)
    return counts.snapshot()


def test_a_session_in_numbers() -> None:
    """Everything that is worth tracking: times, rates, errors by kind, timeouts, retries, installs, tokens, memory."""
    found = counted(stories.whole())
    assert found.cells == {"ok": 1, "died": 1, "timeout": 1}
    assert (found.success_rate, found.timeouts, found.retries, found.kernels_lost) == (pytest.approx(1 / 3), 1, 1, 1)
    assert found.errors == {"KernelDied": 1, "timeout": 1}
    assert (found.installs, found.packages) == ({"installed": 1, "refused": 1}, 1)
    assert (found.creation.total, found.creation.count) == (1.25, 1)
    assert (found.execution.count, found.execution.min, found.execution.max, found.execution.p50) == (3, 0.5, 60, 0.75)
    assert found.tokens == {"input": 600, "output": 35}
    assert (found.model.count, found.turn.total) == (3, 3.5)
    assert found.memory_peak == 95 * stories.MIB
    assert (found.files.count, found.files.total) == (1, 7)
    assert (found.session.count, found.session_cells.max) == (1, 3)
    assert found.active_sandboxes == 0


def test_before_anything_happened_all_is_zero() -> None:
    """No division by nothing, and no rate that nobody measured."""
    found = counted()
    assert found == Metrics()
    assert (found.success_rate, found.execution.mean, found.execution.p95) == (None, 0.0, 0.0)


def test_sessions_add_up() -> None:
    """Those that run are counted as active."""
    found = counted(stories.whole(), stories.whole()[:8], stories.whole()[:1])
    assert found.cells == {"ok": 2, "died": 1, "timeout": 1}
    assert found.active_sandboxes == 2


def test_numbers_can_be_written_as_json() -> None:
    """For a log or a health page."""
    value = json.loads(json.dumps(counted(stories.whole()).as_dict()))
    assert (value["cells"]["ok"], value["execution"]["count"], value["timeouts"]) == (1, 3, 1)


def test_quantiles_are_of_the_last_values_and_memory_is_bounded() -> None:
    """Sums and counts are of all."""
    counts = Counts()
    for value in [1000.0] * RECENT + [1.0] * RECENT:
        counts.take(Measurement("nbagent.cell.duration", value, {"status": "ok"}))
    spread = counts.snapshot().execution
    assert (spread.count, spread.max, spread.p95, spread.mean) == (2 * RECENT, 1000.0, 1.0, 500.5)


def test_any_thread_may_count() -> None:
    """Sessions that run in threads of their own lose no number."""
    counts = Counts()

    def work() -> None:
        for _ in range(2000):
            counts.take(Measurement("nbagent.cell.duration", 1.0, {"status": "ok"}))
            counts.snapshot() if _ % 500 == 0 else None

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts.snapshot().cells == {"ok": 8000}


def test_the_process_counts_all_its_sessions() -> None:
    """`snapshot()` has what each session's own numbers have, and those before it."""
    before = snapshot()
    session = Telemetry("s")
    for record in stories.records(stories.whole()[:-1]):
        session.on_event(record)
    assert snapshot().active_sandboxes == before.active_sandboxes + 1
    session.close()
    session.close()
    after = snapshot()
    assert after.active_sandboxes == before.active_sandboxes
    assert after.execution.count == before.execution.count + 3
    assert session.metrics.snapshot().session.count == 1
