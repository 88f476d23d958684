"""Two interfaces: `ControlGroup`, the group of one sandbox, and `ControlGroups`, a way to make such groups."""

from __future__ import annotations

import abc
import contextlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from nbagent.core.limits import Limits
from nbagent.sandbox.limits.cgroup.usage import GroupUsage

CONTROLLERS = ("memory", "cpu", "pids")
PROBE = "probe-"
"""The prefix of groups that are made only to see whether that works."""
PERIOD = 100_000
"""Microseconds over which the CPU quota is counted, the kernel's own default."""


class ControlGroup(abc.ABC):
    """The control group of one sandbox: a command that is started with `prefix` before it runs in the group.

    Attributes:
        prefix: The words before a command that put it into the group.
        environment: Variables that `prefix` needs.
    """

    usage: GroupUsage
    prefix: list[str]
    environment: Mapping[str, str] = {}

    def settle(self, process: subprocess.Popen[bytes]) -> None:  # noqa: B027 - for groups that come with their process
        """Wait until a command that was started with the prefix is in the group, and the limits hold.

        Raises:
            SandboxError: That never happens.
        """

    @abc.abstractmethod
    def processes(self) -> list[int]:
        """The ids of its processes; one in a foreign process namespace has the id 0, or is missing in version 1."""

    def kill(self) -> None:
        """Kill all processes that are in it."""
        for pid in filter(None, self.processes()):  # 0 would be our own process group
            with contextlib.suppress(OSError):
                os.kill(pid, 9)

    def remove(self) -> bool:
        """Kill what is left in the group and delete it; returns whether it is gone."""
        for _ in range(50):
            self.kill()
            if self._delete():
                return True
            time.sleep(0.02)
        return False

    @abc.abstractmethod
    def _delete(self) -> bool:
        """Try to delete it; returns whether it is gone."""


class ControlGroups(abc.ABC):
    """A way to make a group for each sandbox; the group has the name of the sandbox's private folder.

    Attributes:
        bounded: The controllers whose limits hold.
        transient: Whether a group disappears with its last process.
    """

    transient: ClassVar[bool] = False

    bounded: frozenset[str]

    @property
    @abc.abstractmethod
    def how(self) -> str:
        """What makes the groups, in a word or two."""

    @property
    def lasting(self) -> bool:
        """Whether processes in the groups go on when the person logs out."""
        return True

    @abc.abstractmethod
    def make(self, folder: Path, limits: Limits) -> ControlGroup:
        """Make a group with these limits.

        Raises:
            SandboxError: Linux refuses one of the limits.
        """

    @abc.abstractmethod
    def take(self, folder: Path) -> ControlGroup:
        """The group of a sandbox that exists, or existed."""

    @abc.abstractmethod
    def existing(self) -> dict[str, float]:
        """The names of all groups, each with its time of making in seconds since the epoch."""


def cores(limits: Limits) -> float:
    """How many cores the limits allow."""
    return limits.cpus or float(os.cpu_count() or 1)


def children(folder: Path) -> dict[str, float]:
    """The names of the groups in a group, each with its time of making."""
    found: dict[str, float] = {}
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            with contextlib.suppress(OSError):
                if each.is_dir():
                    found[each.name] = each.stat().st_mtime
    return found
