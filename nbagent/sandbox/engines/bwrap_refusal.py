"""Finds out why bwrap can't make a sandbox on this machine, and what mends that.

An ordinary user's sandbox needs a user namespace of its own. Distributions forbid those in three ways, each of which
shows in a file of /proc/sys; bwrap itself only says that it wasn't permitted.
"""

from __future__ import annotations

import os
from pathlib import Path

from nbagent.core.errors import EngineUnavailable

SWITCHES = (
    ("user/max_user_namespaces", "0", "10000", "this machine allows no user namespaces"),
    ("kernel/unprivileged_userns_clone", "0", "1", "this machine allows user namespaces to root only"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "0",
        "AppArmor on this machine, as on Ubuntu, forbids user namespaces to programs that it has no rule for",
    ),
)
"""Settings below /proc/sys: the value that forbids user namespaces, the one that allows them, and what that means."""


def why(said: str, *, settings: Path = Path("/proc/sys")) -> EngineUnavailable:
    """The error for a bwrap that can't make a sandbox."""
    for name, forbids, allows, cause in SWITCHES if os.getuid() else ():
        if _read(settings / name) == forbids:
            setting = name.replace("/", ".")
            return EngineUnavailable(
                f"bwrap can't make a sandbox ({said}): {cause} ({setting} is {forbids}).",
                mend=f"Allow it with: sudo sysctl -w {setting}={allows} (and in a file of /etc/sysctl.d, to last).",
            )
    inside = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    where = " It runs in a container: allow that to make namespaces," if inside else " Allow user namespaces,"
    return EngineUnavailable(
        f"bwrap can't make a sandbox ({said}).", mend=f"{where.strip()} run as root, or use the docker engine."
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
