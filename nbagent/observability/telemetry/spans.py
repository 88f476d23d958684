"""Events as OpenTelemetry's spans: session > question > cell, install and the model's reply.

Names and attributes follow OpenTelemetry's conventions for generative AI if these have one (`invoke_agent`, `chat`,
`execute_tool`), otherwise they begin with `nbagent`. Spans leave the machine, so none has code, outputs, questions or
the text of an error, which may contain data. The event log and the audit log have these, under the session's id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from nbagent.core import events
from nbagent.observability.telemetry.measure import ModelClock, error_kind, model_attributes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

AGENT = "nbagent"


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)


class Spans:
    """Makes one session's spans. The session's span is a child of the span that is current when this is made."""

    def __init__(self, session: str, tracer: Tracer) -> None:
        self._tracer = tracer
        self._outer: Context = context.get_current()
        self._id = {"gen_ai.conversation.id": session}
        self._session: Span | None = None
        self._turn: Span | None = None
        self._cell: Span | None = None
        self._model: dict[str, str] = {}
        self._clock = ModelClock()
        self._at = 0.0

    def on_event(self, record: events.Record) -> None:
        """Begin or end the span that an event begins or ends."""
        self._at = record.at
        match record.event:
            case events.SessionStarted() as event:
                self._start_session(event)
            case events.SessionResumed() as event:
                self.close()
                found = {"nbagent.engine": event.engine, "nbagent.sandbox": event.sandbox, "nbagent.kept": event.kept}
                self._session = self._start("nbagent session", self._at, found)
            case events.Asked() as event:
                self._start_turn(event)
            case events.ModelReplied() as event:
                self._reply(event)
            case events.CellStarted() as event:
                self._start_cell(event)
            case events.CellFinished() as event:
                self._end_cell(event)
            case events.PackagesInstalled() as event:
                packages = {"nbagent.packages": [f"{each.name}=={each.version}" for each in event.packages]}
                self._install(event.seconds, packages, error="")
            case events.InstallFailed() as event:
                self._install(event.seconds, {}, error="refused" if event.refused else "failed")
            case events.StateLost(cell=cell):
                self._note("nbagent.state_lost", {"nbagent.cell.number": cell})
            case events.FileSaved() as event:
                self._note("nbagent.file_saved", {"nbagent.file.size": event.size, "nbagent.cell.number": event.cell})
            case events.Answered() as event:
                self._end_turn(event)
            case events.SessionEnded():
                self.close()
        self._clock.on_event(record)

    def close(self) -> None:
        """End all open spans, innermost first."""
        for span in (self._cell, self._turn, self._session):
            if span is not None:
                span.end(_nanoseconds(self._at))
        self._cell = self._turn = self._session = None

    def _start(self, name: str, at: float, attributes: dict[str, Any], *, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        """Begin a span below the innermost open one."""
        parent = self._cell or self._turn or self._session
        where = self._outer if parent is None else trace.set_span_in_context(parent, self._outer)
        return self._tracer.start_span(
            name, context=where, kind=kind, attributes={**self._id, **attributes}, start_time=_nanoseconds(at)
        )

    def _fail(self, span: Span, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.add_event("exception", {"exception.type": kind}, timestamp=_nanoseconds(self._at))
        span.set_status(Status(StatusCode.ERROR, kind))

    def _note(self, name: str, attributes: dict[str, Any]) -> None:
        if (span := self._turn or self._session) is not None:
            span.add_event(name, attributes, timestamp=_nanoseconds(self._at))

    def _start_session(self, event: events.SessionStarted) -> None:
        self.close()
        found: dict[str, Any] = {
            "nbagent.engine": event.engine,
            "nbagent.trust": event.trust,
            "nbagent.sandbox": event.sandbox,
            "nbagent.environment": event.environment,
            "nbagent.sandbox.creation.duration": event.seconds,
        }
        found |= {f"nbagent.limit.{name}": value for name, value in event.limits.items() if value is not None}
        self._session = self._start("nbagent session", self._at - event.seconds, found)

    def _start_turn(self, event: events.Asked) -> None:
        self._model = model_attributes(event.model)
        found = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT, "nbagent.turn": event.turn}
        self._turn = self._start(f"invoke_agent {AGENT}", self._at, {**found, **self._model})

    def _end_turn(self, event: events.Answered) -> None:
        if self._turn is None:
            return
        self._turn.set_attributes(
            {
                "nbagent.success": event.success,
                "nbagent.attempts": event.attempts,
                "gen_ai.usage.input_tokens": event.usage.input_tokens,
                "gen_ai.usage.output_tokens": event.usage.output_tokens,
            }
        )
        if not event.success:
            self._fail(self._turn, "no_answer")
        self._turn.end(_nanoseconds(self._at))
        self._turn = None

    def _reply(self, event: events.ModelReplied) -> None:
        found = {
            "gen_ai.operation.name": "chat",
            **self._model,
            "gen_ai.usage.input_tokens": event.usage.input_tokens,
            "gen_ai.usage.output_tokens": event.usage.output_tokens,
        }
        name = f"chat {self._model.get('gen_ai.request.model', '')}".strip()
        span = self._start(name, self._clock.since or self._at, found, kind=SpanKind.CLIENT)
        span.end(_nanoseconds(self._at))

    def _start_cell(self, event: events.CellStarted) -> None:
        found: dict[str, Any] = {"nbagent.cell.number": event.cell, "nbagent.code.lines": len(event.code.splitlines())}
        if not event.turn:
            self._cell = self._start("cell", self._at, found)
            return
        tool = event.tool or "python"
        found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
        self._cell = self._start(f"execute_tool {tool}", self._at, found)

    def _end_cell(self, event: events.CellFinished) -> None:
        if self._cell is None:
            return
        self._cell.set_attribute("nbagent.cell.status", event.status)
        for name, value in (("exit_code", event.exit_code), ("memory.peak", event.memory_peak)):
            if value is not None:
                self._cell.set_attribute(f"nbagent.cell.{name}", value)
        if kind := error_kind(event):
            self._fail(self._cell, kind)
        self._cell.end(_nanoseconds(self._at))
        self._cell = None

    def _install(self, seconds: float, attributes: dict[str, Any], *, error: str) -> None:
        span = self._start("install", self._at - seconds, attributes)
        if error:
            self._fail(span, f"install_{error}")
        span.end(_nanoseconds(self._at))
