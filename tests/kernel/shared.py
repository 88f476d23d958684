"""What the tests of this floor share: a kernel's sandbox and events, looks at its cells, and values of every kind."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

from hypothesis import strategies as st

from nbagent.core.events import Cell, Event
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.spec import SandboxSpec

Kind = TypeVar("Kind", bound=Event)

SWALLOW = """
import time
while True:
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        pass
"""
"""Code that can't be interrupted."""


class Events(list[Event]):
    """What a kernel told, in order.

    Attributes:
        last: When, on the monotonic clock, each kind of event was told last.
        pause: Seconds that it takes over each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[type[Event], float] = {}
        self.pause = 0.0

    def append(self, event: Event) -> None:
        """Take an event."""
        super().append(event)
        self.last[type(event)] = time.monotonic()
        time.sleep(self.pause)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind."""
        return [each for each in self if isinstance(each, kind)]


async def a_cell_takes(kernel: Kernel, *, cells: int = 10) -> float:
    """Seconds of a trivial cell, on the average."""
    started = time.monotonic()
    for _ in range(cells):
        assert (await kernel.run("print(2)")).text == "2"
    return (time.monotonic() - started) / cells


def short(**limits: Any) -> SandboxSpec:
    """A sandbox with other limits."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **{"timeout": 20, "grace": 1, **limits}))


async def ended(kernel: Kernel) -> None:
    """Wait until the kernel's process has ended."""
    async with asyncio.timeout(60):
        while not await kernel._process.has_ended():
            await asyncio.sleep(0.05)


def errors(cell: Cell) -> list[str]:
    """Names of a cell's errors."""
    return [each["ename"] for each in cell.outputs if each["output_type"] == "error"]


def data(cell: Cell) -> dict[str, Any]:
    """The MIME bundle of a cell's only rich output."""
    (found,) = [each["data"] for each in cell.outputs if "data" in each]
    assert isinstance(found, dict)
    return found


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
