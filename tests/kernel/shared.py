"""The events of a kernel, as the tests look at them."""

from __future__ import annotations

import time
from typing import TypeVar

from nbagent.events import Event

Kind = TypeVar("Kind", bound=Event)


class Events(list[Event]):
    """What a kernel told, in order.

    Attributes:
        last: When, on the monotonic clock, each kind of event was told last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[type[Event], float] = {}

    def append(self, event: Event) -> None:
        """Take an event."""
        super().append(event)
        self.last[type(event)] = time.monotonic()

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind."""
        return [each for each in self if isinstance(each, kind)]
