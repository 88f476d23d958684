"""Spans and instruments, as OpenTelemetry's own SDK receives them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import stories
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from nbagent.core.events import CellFinished, CellStarted, Event, SessionResumed
from nbagent.observability.telemetry import Telemetry
from nbagent.observability.telemetry.measure import INSTRUMENTS, Measures
from nbagent.observability.telemetry.otel import Instruments, instruments, tracer
from nbagent.observability.telemetry.spans import Spans


class Sdk:
    """A configured SDK that keeps what it gets."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that ended, by their start."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """The first of that name."""
        return next(span for span in self.spans if span.name == name)

    def tell(self, events: list[Event], *, close: bool = True) -> None:
        """Have a session with these events."""
        spans = Spans("s-1", self.tracer)
        for record in stories.records(events):
            spans.on_event(record)
        if close:
            spans.close()


@pytest.fixture
def sdk() -> Sdk:
    """A fresh one."""
    return Sdk()


@pytest.fixture
def whole(sdk: Sdk) -> Sdk:
    """With a whole session in it."""
    sdk.tell(stories.whole())
    return sdk


def at(span: ReadableSpan) -> tuple[float, float]:
    """Start and end in seconds since the story's begin."""
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time / 1e9 - 1_800_000_000, span.end_time / 1e9 - 1_800_000_000)


def test_the_tree(whole: Sdk) -> None:
    """Session above question above replies and cells, a cell above its install; a person's cell is the session's."""
    by_id = {span.context.span_id: span.name for span in whole.spans if span.context}
    tree = [(span.name, by_id[span.parent.span_id] if span.parent else None) for span in whole.spans]
    assert sorted(tree, key=str) == sorted(
        [
            ("nbagent session", None),
            ("invoke_agent nbagent", "nbagent session"),
            ("chat gpt-5.1", "invoke_agent nbagent"),
            ("execute_tool python", "invoke_agent nbagent"),
            ("install", "execute_tool python"),
            ("chat gpt-5.1", "invoke_agent nbagent"),
            ("execute_tool python", "invoke_agent nbagent"),
            ("install", "execute_tool python"),
            ("chat gpt-5.1", "invoke_agent nbagent"),
            ("cell", "nbagent session"),
        ],
        key=str,
    )
    assert len({span.context.trace_id for span in whole.spans if span.context}) == 1


def test_times_are_those_of_the_events(whole: Sdk) -> None:
    """Not those at which somebody read them; what took a time before its event began that much earlier."""
    assert at(whole.named("nbagent session")) == pytest.approx((-0.75, 9.5))
    assert at(whole.named("invoke_agent nbagent")) == pytest.approx((1.0, 8.0))
    assert at(whole.named("chat gpt-5.1")) == pytest.approx((1.0, 1.5))
    assert at(whole.named("execute_tool python")) == pytest.approx((2.0, 4.0))
    assert at(whole.named("install")) == pytest.approx((2.25, 2.5))


def test_attributes_have_the_names_of_the_conventions(whole: Sdk) -> None:
    """`gen_ai.*` where OpenTelemetry has a name for it."""
    chat = whole.named("chat gpt-5.1")
    assert chat.kind is SpanKind.CLIENT
    assert dict(chat.attributes or {}) == {
        "gen_ai.conversation.id": "s-1",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }
    cell = whole.named("execute_tool python").attributes or {}
    assert (cell["gen_ai.operation.name"], cell["gen_ai.tool.name"]) == ("execute_tool", "python")
    assert (cell["nbagent.cell.number"], cell["nbagent.cell.status"]) == (1, "ok")
    session = whole.named("nbagent session").attributes or {}
    assert (session["nbagent.engine"], session["nbagent.limit.memory_mb"]) == ("bubblewrap", 2048)
    assert "nbagent.limit.cpus" not in session


def test_errors_are_recorded(whole: Sdk) -> None:
    """A cell that died, one that ran too long and an install that was refused are errors of their kind; others not."""
    failed = {span.name: span for span in whole.spans if span.status.status_code is StatusCode.ERROR}
    kinds = {name: (span.attributes or {})["error.type"] for name, span in failed.items()}
    assert kinds == {"execute_tool python": "KernelDied", "cell": "timeout", "install": "install_refused"}
    died = failed["execute_tool python"]
    assert (died.attributes or {})["nbagent.cell.exit_code"] == -9
    assert [(event.name, dict(event.attributes or {})) for event in died.events] == [
        ("exception", {"exception.type": "KernelDied"})
    ]


def test_nothing_of_the_content_leaves(whole: Sdk) -> None:
    """No code, question, output, path or message of an error is in any span."""
    text = "".join(span.to_json() for span in whole.spans)
    for words in ("longest bill", "import", "¿x?", "It died", "/home/p", "Gentoo", "/s/output"):
        assert words not in text


def test_a_session_that_is_cut_off_ends_its_spans(sdk: Sdk) -> None:
    """What is open when the session is stopped ends with the last event, innermost first."""
    sdk.tell(stories.whole()[:4])
    assert [span.name for span in sdk.exporter.get_finished_spans()] == [
        "chat gpt-5.1",
        "execute_tool python",
        "invoke_agent nbagent",
        "nbagent session",
    ]
    assert at(sdk.named("nbagent session"))[1] == 2.0


def test_the_hosts_own_span_is_the_parent(sdk: Sdk) -> None:
    """A service's request span has the session below it."""
    with sdk.tracer.start_as_current_span("request"):
        sdk.tell(stories.whole())
    request = sdk.named("request").context
    parent = sdk.named("nbagent session").parent
    assert request is not None
    assert parent is not None
    assert parent.span_id == request.span_id


def test_a_session_that_goes_on_has_a_span_of_its_own(sdk: Sdk) -> None:
    """With what follows below it."""
    again = SessionResumed(kept=True, note="", engine="docker", sandbox="box1")
    sdk.tell([again, *stories.whole()[-3:]])
    session, cell = sdk.spans
    assert (session.name, cell.name) == ("nbagent session", "cell")
    assert (session.attributes or {})["nbagent.engine"] == "docker"
    assert cell.parent is not None
    assert session.context is not None
    assert cell.parent.span_id == session.context.span_id


def test_events_without_a_start_are_taken(sdk: Sdk) -> None:
    """Whoever follows late sees cells without a session."""
    done = CellFinished(cell=1, status="ok", outputs=[], execution_count=1, duration=1.0)
    sdk.tell([done, CellStarted(cell=2, turn=0, code="1"), done, *stories.whole()[-2:]])
    assert [span.name for span in sdk.spans] == ["cell"]


def test_measurements_reach_the_instruments() -> None:
    """Every instrument of the table is made with its unit and has its values by attribute."""
    reader = InMemoryMetricReader()
    taker = Instruments(MeterProvider([reader]).get_meter("test"))
    measures = Measures()
    for record in stories.records(stories.whole()):
        for each in measures.on_event(record):
            taker.take(each)
    data = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    metrics = {each["name"]: each for each in data["resource_metrics"][0]["scope_metrics"][0]["metrics"]}
    assert {name: each["unit"] for name, each in metrics.items()} == {
        name: each.unit for name, each in INSTRUMENTS.items()
    }
    points = metrics["nbagent.cell.duration"]["data"]["data_points"]
    assert {(each["attributes"]["status"], each["sum"]) for each in points} == {
        ("ok", 0.5),
        ("died", 0.75),
        ("timeout", 60),
    }
    assert [each["value"] for each in metrics["nbagent.sandbox.active"]["data"]["data_points"]] == [0]
    assert sum(each["value"] for each in metrics["nbagent.cell.errors"]["data"]["data_points"]) == 2


def test_without_a_configured_sdk_there_is_nothing() -> None:
    """The API alone, which some library has imported, is no place that spans go to; none is configured by us."""
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    assert (tracer(), instruments()) == (None, None)


CONFIGURED = """
import json, sys
import stories
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from nbagent.observability.telemetry import Telemetry
session = Telemetry("s")  # made before, as a program may
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
for _ in range(2):
    for record in stories.records(stories.whole()[:-1]):
        session.on_event(record)
    session.close()
    session = Telemetry("t")
scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
spans = exporter.get_finished_spans()
print(json.dumps([len(spans), spans[0].instrumentation_scope.name, scope.scope.name, len(scope.metrics)]))
"""


def test_a_configured_sdk_is_found_when_the_session_starts() -> None:
    """Traces and metrics go where the host program says, under the name `nbagent`; two sessions share instruments."""
    command = [sys.executable, "-W", "error", "-c", CONFIGURED]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert json.loads(ran.stdout) == [20, "nbagent", "nbagent", len(INSTRUMENTS)]
    assert ran.stderr == ""


def test_an_sdk_that_fails_is_not_the_sessions_failure(caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong in a sink is said once, and the others go on."""
    session = Telemetry("s")

    def fail(_: object) -> None:
        raise RuntimeError("exporter")

    session._sinks.append(fail)
    for record in stories.records(stories.whole()):
        session.on_event(record)
    session.close()
    assert len(caplog.records) == 1
    assert session.metrics.snapshot().cells["ok"] == 1
