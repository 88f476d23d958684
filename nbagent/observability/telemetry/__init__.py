"""Telemetry: structured logs, traces and metrics, all made from a session's events.

It costs nothing unless it is used: structlog is imported if a log level was set, and OpenTelemetry is used if the host
program has configured its SDK; nbagent never configures it. Telemetry has no code and no outputs. The log has the
beginning of a question, without known forms of secrets.

    logs.py          events as structlog's entries, without secrets
    spans.py         events as OpenTelemetry's spans
    measure.py       events as measurements, pure; each kind is in its table `INSTRUMENTS`
    metrics.py       adds measurements up in this process, without any SDK
    otel.py          gives measurements to the instruments of an SDK, if there is one
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nbagent.core.events import Record
from nbagent.observability.telemetry.measure import Measures
from nbagent.observability.telemetry.metrics import Counts, Metrics

__all__ = ["Metrics", "Telemetry", "snapshot"]

_PROCESS = Counts()


def snapshot() -> Metrics:
    """The metrics of all sessions of this process so far."""
    return _PROCESS.snapshot()


class Telemetry:
    """The telemetry of one session. It must be given each event.

    Args:
        level: The lowest level that is logged: `debug`, `info`, `warning` or `error`; None for no log.
        format: `console` or `json`.

    Attributes:
        metrics: The session's numbers.

    Raises:
        UsageError: There is no such level.
    """

    def __init__(self, session: str, *, level: str | None = None, format: str = "console") -> None:
        self.metrics = Counts()
        self._session = session
        self._measures = Measures()
        self._sinks: list[Callable[[Record], None]] = []
        self._closers: list[Callable[[], None]] = []
        if level is not None:
            from nbagent.observability.telemetry.logs import Log

            self._sinks.append(Log(session, level=level, format=format).on_event)
        self._takers = [self.metrics.take, _PROCESS.take]
        self._sinks.append(self._measure)
        self._opened = False

    def _open(self) -> None:
        """Look for a configured SDK: at the first event, since a program may configure it after making its session."""
        from nbagent.observability.telemetry import otel

        self._opened = True
        if (instruments := otel.instruments()) is not None:
            self._takers.append(instruments.take)
        if (tracer := otel.tracer()) is not None:
            from nbagent.observability.telemetry.spans import Spans

            spans = Spans(self._session, tracer)
            self._sinks.append(spans.on_event)
            self._closers.append(spans.close)

    def on_event(self, record: Record) -> None:
        """Take an event. A failure here is logged once, and doesn't fail the session."""
        if not self._opened:
            self._guard(self._open)
        for sink in list(self._sinks):
            if not self._guard(sink, record):
                self._sinks.remove(sink)

    def close(self) -> None:
        """End what is still open, such as spans."""
        for measurement in self._measures.close():
            for take in self._takers:
                self._guard(take, measurement)
        for closer in self._closers:
            self._guard(closer)
        self._closers.clear()

    def _measure(self, record: Record) -> None:
        for measurement in self._measures.on_event(record):
            for take in self._takers:
                take(measurement)

    @staticmethod
    def _guard(work: Callable[..., object], *arguments: object) -> bool:
        try:
            work(*arguments)
        except Exception:
            logging.getLogger(__name__).warning("Telemetry failed and goes on without this part.", exc_info=True)
            return False
        return True
