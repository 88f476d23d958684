"""The events of a kernel, as the tests look at them."""

from __future__ import annotations

from typing import TypeVar

from nbagent.events import Event

Kind = TypeVar("Kind", bound=Event)


class Events(list[Event]):
    """What a kernel told, in order."""

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind."""
        return [each for each in self if isinstance(each, kind)]
