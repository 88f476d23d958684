"""The host program's OpenTelemetry, if it has configured an SDK; otherwise nothing is imported.

nbagent never configures a provider. The host program says where traces and metrics go, for example by
`opentelemetry-instrument nbagent run …`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nbagent import __version__
from nbagent.observability.telemetry.measure import INSTRUMENTS, Measurement

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


def tracer() -> Tracer | None:
    """The tracer of the SDK that the program has configured; None if it has configured no SDK."""
    # A program that has configured the SDK has imported this.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return None if _is_placeholder(provider) else provider.get_tracer("nbagent", __version__)


def instruments() -> Instruments | None:
    """The instruments of the configured SDK; None if there is none."""
    if "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return None if _is_placeholder(provider) else Instruments(provider.get_meter("nbagent", __version__))


def _is_placeholder(provider: object) -> bool:
    """Whether a provider is the API's own, which does nothing until an SDK replaces it."""
    return type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


class Instruments:
    """An OpenTelemetry instrument for each of `INSTRUMENTS`."""

    def __init__(self, meter: Any) -> None:
        make = {
            "histogram": meter.create_histogram,
            "counter": meter.create_counter,
            "level": meter.create_up_down_counter,
        }
        self._takes: dict[str, Any] = {}
        for name, each in INSTRUMENTS.items():
            made = make[each.kind](name, unit=each.unit, description=each.description)
            self._takes[name] = made.record if each.kind == "histogram" else made.add

    def take(self, measurement: Measurement) -> None:
        """Record a measurement."""
        self._takes[measurement.name](measurement.value, measurement.attributes)
