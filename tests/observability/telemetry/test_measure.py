"""What is measured of a session's events."""

from __future__ import annotations

from typing import Any

import pytest
import stories

from nbagent.core.events import (
    Asked,
    CellFinished,
    CellStarted,
    LateOutputAdded,
    ModelReplied,
    Record,
    SessionResumed,
    Usage,
)
from nbagent.observability.telemetry.measure import INSTRUMENTS, Measurement, Measures, error_kind, model_attributes


def measured(records: list[Record]) -> list[Measurement]:
    """All that the events measure."""
    measures = Measures()
    return [each for record in records for each in measures.on_event(record)]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Measurement]]:
    """A whole session's, by name."""
    by_name: dict[str, list[Measurement]] = {name: [] for name in INSTRUMENTS}
    for each in measured(stories.records(stories.whole())):
        by_name[each.name].append(each)
    return by_name


def test_every_instrument_is_used(found: dict[str, list[Measurement]]) -> None:
    """No kind of measurement stands in the table and is never made."""
    assert [name for name, values in found.items() if not values] == []


def test_durations_come_from_the_events(found: dict[str, list[Measurement]]) -> None:
    """Creation, cells, installs and questions have been timed where they happened."""
    values = {name: [each.value for each in found[name]] for name in found}
    assert values["nbagent.sandbox.creation.duration"] == [1.25]
    assert values["nbagent.cell.duration"] == [0.5, 0.75, 60.0]
    assert values["nbagent.install.duration"] == [0.25, 0.125]
    assert values["nbagent.turn.duration"] == [3.5]
    assert values["nbagent.session.duration"] == [9.0]


def test_cells_are_counted_by_their_end_and_who_wanted_them(found: dict[str, list[Measurement]]) -> None:
    """A person's own cell is told from the model's; what stopped a cell is a kind of error."""
    ends = [(each.attributes["status"], each.attributes["tool"]) for each in found["nbagent.cell.duration"]]
    assert ends == [("ok", "python"), ("died", "python"), ("timeout", "person")]
    assert [each.attributes["error.type"] for each in found["nbagent.cell.errors"]] == ["KernelDied", "timeout"]


def test_a_sandbox_is_active_from_its_start_to_its_end(found: dict[str, list[Measurement]]) -> None:
    """Once up and once down, and its cells are counted at the end."""
    assert [each.value for each in found["nbagent.sandbox.active"]] == [1, -1]
    assert [each.value for each in found["nbagent.session.cells"]] == [3]


def test_a_session_that_was_not_ended_is_closed_once() -> None:
    """Whoever stops without an event leaves no sandbox counted as active for ever."""
    measures = Measures()
    list(measures.on_event(Record(1, 0.0, stories.started())))
    assert [each.value for each in measures.close() if each.name == "nbagent.sandbox.active"] == [-1]
    assert list(measures.close()) == []


def test_the_models_time_is_from_what_it_waited_for() -> None:
    """Neither a cell nor output that comes late counts as the model's thinking."""
    events: list[Any] = [
        (0.0, Asked(turn=1, question="?", model="openai:gpt-5.1")),
        (2.0, ModelReplied(turn=1, text="", tools=["python"], usage=Usage(7, 3, 1))),
        (2.5, CellStarted(cell=1, turn=1, code="1")),
        (9.0, CellFinished(cell=1, status="ok", outputs=[], execution_count=1, duration=6.5)),
        (9.5, LateOutputAdded(cell=1, output=stories.TEXT)),
        (10.0, ModelReplied(turn=1, text="Done.")),
    ]
    records = [Record(number, at, event) for number, (at, event) in enumerate(events)]
    found = [each for each in measured(records) if each.name.startswith("gen_ai")]
    assert [each.value for each in found] == [2.0, 7, 3, 1.0]
    assert found[0].attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.1",
    }


def test_no_time_is_negative_when_the_clock_jumps() -> None:
    """A clock that was set back makes a duration zero."""
    records = [Record(1, 100.0, stories.started()), Record(2, 50.0, stories.whole()[-1])]
    assert min(each.value for each in measured(records) if each.name == "nbagent.session.duration") == 0.0


@pytest.mark.parametrize(
    ("ename", "kind"),
    [
        ("ValueError", "ValueError"),
        ("ColumnNotFoundError", "ColumnNotFoundError"),
        ("Invented" * 100, "other"),
        ("print", "other"),
        ("", "other"),
        (None, "other"),
        (["ValueError"], "other"),
    ],
)
def test_the_names_of_errors_are_bounded(ename: Any, kind: str) -> None:
    """Code that raises a new class for each cell doesn't make a new time series for each."""
    output = {"output_type": "error", "ename": ename, "evalue": "", "traceback": []}
    event = CellFinished(cell=1, status="error", outputs=[output], execution_count=1, duration=0.1)
    assert error_kind(event) == kind


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai:gpt-5.1", "openai", "gpt-5.1"),
        ("google_genai:gemini-3", "gcp.gemini", "gemini-3"),
        ("openrouter:qwen/qwen3:free", "openrouter", "qwen/qwen3:free"),
        ("replay:/home/p/secret project.jsonl", "replay", "replay"),
        ("gpt", "gpt", "gpt"),
    ],
)
def test_models_have_the_names_of_the_conventions(model: str, provider: str, name: str) -> None:
    """Provider and model as OpenTelemetry spells them; a file's path is nobody's business."""
    assert model_attributes(model) == {"gen_ai.provider.name": provider, "gen_ai.request.model": name}


def test_a_new_start_ends_what_was_open() -> None:
    """A session that goes on after a kill is one sandbox, not two."""
    again = SessionResumed(kept=True, note="", engine="docker")
    records = stories.records([stories.started(), again])
    active = [each for each in measured(records) if each.name == "nbagent.sandbox.active"]
    assert [(each.value, each.attributes["engine"]) for each in active] == [
        (1, "bubblewrap"),
        (-1, "bubblewrap"),
        (1, "docker"),
    ]
