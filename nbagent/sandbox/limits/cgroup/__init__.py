"""Control groups: the bounds on memory, CPU and processes for engines that don't bring their own.

There are two ways to a group, behind one interface (`groups.py`): this process makes it (`tree.py`), as root or below a
group that was delegated to it, with version 1 and 2; or the person's own systemd does (`scopes.py`), which is there for
everybody who has logged in to most Linux systems of today. Where neither can be had, `find` says so, and the engine
decides what that means.
"""

from __future__ import annotations

from nbagent.sandbox.limits.cgroup import own, scopes
from nbagent.sandbox.limits.cgroup.groups import CONTROLLERS, PROBE, Group, Groups
from nbagent.sandbox.limits.cgroup.scopes import lingers
from nbagent.sandbox.limits.cgroup.usage import Usage, can_bound_connections

__all__ = ["CONTROLLERS", "PROBE", "Group", "Groups", "Usage", "can_bound_connections", "find", "lingers", "why_not"]


def find() -> Groups | None:
    """The best way here to a group for each sandbox, or None."""
    return own.find() or scopes.find()


def why_not() -> str:
    """Why `find` has found nothing, as part of a sentence."""
    return f"this user may not make control groups, and {scopes.why_not()}"
