"""Finds and kills the processes of a bubblewrap sandbox from outside, also from a process that did not start them.

bwrap itself stays outside as the *monitor*. It writes down the number of the sandbox's process 1 before that does
anything, and at the end its exit code. A number may belong to another process later. So each is checked against a fact
that no other process has: the monitor's against its time of start, that of process 1 against its namespace.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.untrusted import parse

STATUS = "status.json"
"""The file in the lease's folder to which bwrap writes its child and its end."""
MAX_STATUS = 64 * 1024
"""Bytes of it that are read; bwrap writes three short lines."""
END_SECONDS = 5.0
"""Seconds to wait until a killed process is gone."""


class Monitor:
    """The monitor of a sandbox that another process started, with some methods of `subprocess.Popen`."""

    def __init__(self, folder: Path, pid: int, started: int) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.pidfd_open(pid) if pid > 0 else None
        if self._descriptor is not None and start_time(pid) != started:
            self.wait()

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if "exit-code" not in read_status(self._folder) and self._descriptor is not None:
            ended, _, _ = select.select([self._descriptor], [], [], 0)
            if not ended:
                return None
        # A monitor that was killed has written no exit code.
        return int(read_status(self._folder).get("exit-code", -signal.SIGKILL))

    def kill(self) -> None:
        """Kill it; the sandbox itself is another process."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> None:
        """Close the handle of the process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def start_time(pid: int) -> int:
    """When a process was started, in ticks since the start of the machine; 0 if there is none."""
    try:
        # The name, in parentheses, may have any character in it.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def read_status(folder: Path) -> dict[str, Any]:
    """What bwrap has written down: `child-pid`, `pid-namespace`, and `exit-code` once it has ended."""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, AttributeError), (folder / STATUS).open("rb") as file:
        for line in file.read(MAX_STATUS).splitlines():
            said = parse(line, limit=MAX_STATUS)
            found |= {name: value for name, value in said.items() if isinstance(value, int)}
    return found


def end(folder: Path, group: cgroup.ControlGroup | None) -> None:
    """Kill all that runs in a sandbox, and wait for that.

    All other processes end with process 1 of the sandbox, which is known once bwrap has written its number. Before that
    no code of the person's runs, and without a controller to hand over to it, the start fails by itself.
    """
    if group is not None:
        group.kill()
    with _process_1(folder) as descriptor:
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], END_SECONDS)


def end_with(monitor: subprocess.Popen[bytes] | Monitor, folder: Path, group: cgroup.ControlGroup | None) -> None:
    """Kill the sandbox until its monitor has ended: while it starts, there may be nothing to kill yet."""
    impatient = time.monotonic() + END_SECONDS
    while True:
        # At least once, even if the monitor has ended: it may have been killed alone.
        end(folder, group)
        if monitor.poll() is not None or time.monotonic() > impatient + END_SECONDS:
            return
        if time.monotonic() > impatient:
            monitor.kill()
        time.sleep(0.005)


@contextlib.contextmanager
def _process_1(folder: Path) -> Iterator[int | None]:
    """A descriptor of a sandbox's process 1; None if that has ended."""
    status = read_status(folder)
    pid = int(status.get("child-pid", 0))
    with contextlib.ExitStack() as stack:
        found: int | None = None
        with contextlib.suppress(OSError):
            if pid > 0 and "exit-code" not in status:
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                if _is_first(pid, status.get("pid-namespace")):
                    found = descriptor
        with contextlib.suppress(ProcessLookupError):
            yield found


def _is_first(pid: int, namespace: int | None) -> bool:
    """Whether a process is the first of its process namespace, and the namespace is the one that bwrap wrote down."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:") and line.split()[2:] != ["1"]:
            return False
    # An older bwrap doesn't write the namespace. A process that has ended and was not collected has none.
    return namespace is None or Path(f"/proc/{pid}/ns/pid").stat().st_ino == namespace
