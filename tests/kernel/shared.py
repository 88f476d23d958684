"""What the tests of this floor share: the events of a kernel, and values of every kind."""

from __future__ import annotations

import time
from typing import TypeVar

from hypothesis import strategies as st

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


junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters()),
        st.binary(),
        st.just(object()),
        st.just({1, 2}),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(st.characters()), st.integers(), st.none(), st.floats()), inner, max_size=4),
        st.dictionaries(st.sampled_from(["text/plain", "application/json", "a/b", "application/x+json\n"]), inner),
    ),
    max_leaves=12,
)
"""Values of every kind that could stand in a message, those that JSON can't hold too."""
