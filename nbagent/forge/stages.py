"""The stages of a tool's life, and which may follow which. Pure.

DORMANT → CREATING → INSTALLING → TESTING → ACTIVE
└──────────┴───────────┴───────┴→ CLEANUP → DORMANT
"""

from __future__ import annotations

import enum


class Stage(enum.StrEnum):
    """Where a tool is in its life."""

    DORMANT = "dormant"
    """There is no sandbox, and no tool."""
    CREATING = "creating"
    """A fresh sandbox is started."""
    INSTALLING = "installing"
    """What the tool depends on is installed for it."""
    TESTING = "testing"
    """The tool is loaded in there, and its tests run."""
    ACTIVE = "active"
    """It passed, is in the library, and can be used."""
    CLEANUP = "cleanup"
    """It failed, or was removed: nothing of it is kept."""


_NEXT: dict[Stage, frozenset[Stage]] = {
    Stage.DORMANT: frozenset({Stage.CREATING}),
    Stage.CREATING: frozenset({Stage.INSTALLING, Stage.CLEANUP}),
    Stage.INSTALLING: frozenset({Stage.TESTING, Stage.CLEANUP}),
    Stage.TESTING: frozenset({Stage.ACTIVE, Stage.CLEANUP}),
    Stage.ACTIVE: frozenset({Stage.CLEANUP}),
    Stage.CLEANUP: frozenset({Stage.DORMANT}),
}


def advance(now: Stage, then: Stage) -> Stage:
    """The next stage.

    Raises:
        ValueError: It can't follow.
    """
    if then not in _NEXT[now]:
        raise ValueError(f"{then} can't follow {now}")
    return then
