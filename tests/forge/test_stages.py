"""The stages of a tool's life."""

from __future__ import annotations

import itertools

import pytest

from nbagent.forge.stages import Stage, advance

ROADS = (
    "dormant creating installing testing active",
    "dormant creating installing testing cleanup dormant",
    "dormant creating installing cleanup dormant",
    "dormant creating cleanup dormant",
    "active cleanup dormant",
)


def test_the_roads_there_are() -> None:
    """From nothing to active, or by a cleanup back to nothing; every other step is an error."""
    known = {pair for road in ROADS for pair in itertools.pairwise(map(Stage, road.split()))}
    for now, then in itertools.product(Stage, Stage):
        if (now, then) in known:
            assert advance(now, then) is then
        else:
            with pytest.raises(ValueError, match=f"{then} can't follow {now}"):
                advance(now, then)
