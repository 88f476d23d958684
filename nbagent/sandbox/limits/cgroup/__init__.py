"""Control groups: the limits on memory, CPU and processes for engines that don't bring their own.

There are two ways to make a group, behind one interface (`control_group.py`). This process makes it (`cgroupfs.py`), as
root or below a group that was delegated to it. Or the person's own systemd makes it (`systemd.py`), which runs on most
Linux systems for everybody who has logged in. If neither works, `find` returns None.
"""

from __future__ import annotations

from nbagent.sandbox.limits.cgroup import cgroupfs, systemd
from nbagent.sandbox.limits.cgroup.control_group import CONTROLLERS, PROBE, ControlGroup, ControlGroups
from nbagent.sandbox.limits.cgroup.systemd import lingers
from nbagent.sandbox.limits.cgroup.usage import GroupUsage, can_bound_connections

__all__ = [
    "CONTROLLERS",
    "PROBE",
    "ControlGroup",
    "ControlGroups",
    "GroupUsage",
    "can_bound_connections",
    "find",
    "lingers",
    "why_not",
]


def find() -> ControlGroups | None:
    """The better way to control groups that works here, or None."""
    return cgroupfs.find() or systemd.find()


def why_not() -> str:
    """Why `find` returned None, as part of a sentence."""
    return f"this user may not make control groups, and {systemd.why_not()}"
