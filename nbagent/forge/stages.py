"""The stages of a tool's life, and which may follow which. Pure.

DORMANT → CREATING → INSTALLING → TESTING → ACTIVE
└──────────┴───────────┴───────┴→ CLEANUP → DORMANT
"""

from __future__ import annotations

import enum


class Stage(enum.StrEnum):
    """A stage of a tool."""

    DORMANT = "dormant"
    """There is neither a sandbox nor a tool."""
    CREATING = "creating"
    """A fresh sandbox is started."""
    INSTALLING = "installing"
    """The tool's dependencies are installed."""
    TESTING = "testing"
    """The tool is imported in the sandbox, and its tests run."""
    ACTIVE = "active"
    """The tests passed, and the tool is in the library."""
    CLEANUP = "cleanup"
    """The tool failed or was removed; nothing of it is kept."""


_NEXT: dict[Stage, frozenset[Stage]] = {
    Stage.DORMANT: frozenset({Stage.CREATING}),
    Stage.CREATING: frozenset({Stage.INSTALLING, Stage.CLEANUP}),
    Stage.INSTALLING: frozenset({Stage.TESTING, Stage.CLEANUP}),
    Stage.TESTING: frozenset({Stage.ACTIVE, Stage.CLEANUP}),
    Stage.ACTIVE: frozenset({Stage.CLEANUP}),
    Stage.CLEANUP: frozenset({Stage.DORMANT}),
}


def advance(now: Stage, then: Stage) -> Stage:
    """Check that a stage may follow another; returns it.

    Raises:
        ValueError: It may not.
    """
    if then not in _NEXT[now]:
        raise ValueError(f"{then} can't follow {now}")
    return then
