"""Measurements of a session, made from its events. Pure.

Durations are in the events, from a monotonic clock, or the difference of two events' times. Each attribute has a
bounded set of values, also where code chooses it, as it does the name of an exception.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from nbagent.core import events

Kind = Literal["histogram", "counter", "level"]


@dataclass(frozen=True)
class Instrument:
    """A kind of measurement: `histogram` is a distribution, `counter` a sum, `level` a value that goes up and down."""

    kind: Kind
    unit: str
    description: str


INSTRUMENTS: dict[str, Instrument] = {
    "nbagent.sandbox.creation.duration": Instrument("histogram", "s", "From the start to the kernel's first answer."),
    "nbagent.sandbox.active": Instrument("level", "{sandbox}", "Sandboxes that run now."),
    "nbagent.sandbox.lost": Instrument("counter", "{kernel}", "Kernels that were replaced, their variables lost."),
    "nbagent.sandbox.memory.peak": Instrument("histogram", "By", "The most a sandbox had used by a cell's end."),
    "nbagent.cell.duration": Instrument("histogram", "s", "How long a cell ran, installs included."),
    "nbagent.cell.errors": Instrument("counter", "{cell}", "Cells that did not end well, by what stopped them."),
    "nbagent.install.duration": Instrument("histogram", "s", "How long an install took, or its refusal."),
    "nbagent.install.packages": Instrument("counter", "{package}", "Distributions that were installed."),
    "nbagent.file.size": Instrument("histogram", "By", "Files that reached the host."),
    "nbagent.turn.duration": Instrument("histogram", "s", "From a question to its answer."),
    "nbagent.turn.retries": Instrument("counter", "{attempt}", "Attempts beyond the first, over all questions."),
    "nbagent.session.duration": Instrument("histogram", "s", "From a session's start to its end."),
    "nbagent.session.cells": Instrument("histogram", "{cell}", "Cells that a session ran."),
    "gen_ai.client.operation.duration": Instrument("histogram", "s", "How long the model took for a reply."),
    "gen_ai.client.token.usage": Instrument("histogram", "{token}", "Tokens of a reply and its request."),
}
"""All instruments, by name. Names with `gen_ai` are from OpenTelemetry's conventions for generative AI."""

KNOWN_ERRORS = frozenset(
    (
        "ColumnNotFoundError ComputeError DuplicateError EmptyDataError InvalidOperationError KernelDied LinAlgError "
        "NoDataError NotFittedError ParserError SchemaError SchemaFieldNotFoundError ShapeError UndefinedVariableError"
    ).split()
)
"""Exceptions of libraries that are counted by name, as Python's own are."""
PROVIDERS = {"google_genai": "gcp.gemini", "google_vertexai": "gcp.vertex_ai", "mistralai": "mistral_ai"}
"""OpenTelemetry's names of providers, where they differ from LangChain's."""


@dataclass(frozen=True)
class Measurement:
    """A value for one of `INSTRUMENTS`."""

    name: str
    value: float
    attributes: dict[str, str] = field(default_factory=dict)


def error_kind(event: events.CellFinished) -> str:
    """The kind of error that ended a cell, of a bounded set of names; empty if none did."""
    if event.status == "ok":
        return ""
    if event.status in ("timeout", "interrupted"):
        return event.status
    name = next((each.get("ename") for each in event.outputs if each.get("output_type") == "error"), None)
    if not isinstance(name, str):
        return "other"
    own = getattr(builtins, name, None)
    known = name in KNOWN_ERRORS or (isinstance(own, type) and issubclass(own, BaseException))
    return name if known else "other"


def model_attributes(model: str) -> dict[str, str]:
    """The attributes of `provider:model` by OpenTelemetry's conventions, without the file of a replay."""
    provider, _, name = model.partition(":")
    if provider == "replay":
        return {"gen_ai.provider.name": "replay", "gen_ai.request.model": "replay"}
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": name or provider}


class ModelClock:
    """Knows since when the model has worked on its reply: since the last event that it had to wait for."""

    def __init__(self) -> None:
        self.since = 0.0

    def on_event(self, record: events.Record) -> None:
        """Take an event. The model never waits for those that may come at any time."""
        if not isinstance(record.event, events.LateOutputAdded | events.OutputUpdated | events.CommandRun):
            self.since = record.at


class Measures:
    """Turns one session's events into measurements."""

    def __init__(self) -> None:
        self._model: dict[str, str] = {}
        self._clock = ModelClock()
        self._tool = "person"
        self._started: float | None = None
        self._engine = ""
        self._cells = 0
        self._at = 0.0

    def on_event(self, record: events.Record) -> Iterator[Measurement]:
        """The measurements of an event."""
        self._at = record.at
        match record.event:
            case events.SessionStarted() as event:
                yield from self._start(event)
            case events.SessionResumed() as event:
                yield from self._open(event.engine)
            case events.SessionEnded():
                yield from self.close()
            case events.Asked(model=model):
                self._model = model_attributes(model)
            case events.ModelReplied() as event:
                yield from self._reply(event)
            case events.CellStarted(tool=tool):
                self._cells += 1
                self._tool = tool or "python"
            case events.CellFinished() as event:
                yield from self._cell(event)
            case events.PackagesInstalled() as event:
                yield Measurement("nbagent.install.duration", event.seconds, {"outcome": "installed"})
                yield Measurement("nbagent.install.packages", len(event.packages))
            case events.InstallFailed() as event:
                outcome = "refused" if event.refused else "failed"
                yield Measurement("nbagent.install.duration", event.seconds, {"outcome": outcome})
            case events.FileSaved(size=size):
                yield Measurement("nbagent.file.size", size)
            case events.StateLost():
                yield Measurement("nbagent.sandbox.lost", 1, {"engine": self._engine})
            case events.Answered() as event:
                yield Measurement("nbagent.turn.duration", event.seconds, {"success": str(event.success).lower()})
                yield Measurement("nbagent.turn.retries", event.attempts - 1)
        self._clock.on_event(record)

    def _start(self, event: events.SessionStarted) -> Iterator[Measurement]:
        yield from self._open(event.engine)
        where = {"engine": event.engine, "trust": event.trust}
        yield Measurement("nbagent.sandbox.creation.duration", event.seconds, where)

    def _open(self, engine: str) -> Iterator[Measurement]:
        yield from self.close()
        self._engine, self._started, self._cells = engine, self._at, 0
        yield Measurement("nbagent.sandbox.active", 1, {"engine": engine})

    def _reply(self, event: events.ModelReplied) -> Iterator[Measurement]:
        what = {"gen_ai.operation.name": "chat", **self._model}
        yield Measurement("gen_ai.client.operation.duration", max(0.0, self._at - self._clock.since), what)
        for kind, tokens in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
            if tokens:
                yield Measurement("gen_ai.client.token.usage", tokens, {**what, "gen_ai.token.type": kind})

    def _cell(self, event: events.CellFinished) -> Iterator[Measurement]:
        yield Measurement("nbagent.cell.duration", event.duration, {"status": event.status, "tool": self._tool})
        if kind := error_kind(event):
            yield Measurement("nbagent.cell.errors", 1, {"error.type": kind})
        if event.memory_peak is not None:
            yield Measurement("nbagent.sandbox.memory.peak", event.memory_peak, {"engine": self._engine})

    def close(self) -> Iterator[Measurement]:
        """The measurements at the session's end; none the second time."""
        if self._started is not None:
            yield Measurement("nbagent.sandbox.active", -1, {"engine": self._engine})
            yield Measurement("nbagent.session.duration", max(0.0, self._at - self._started))
            yield Measurement("nbagent.session.cells", self._cells)
        self._started = None
