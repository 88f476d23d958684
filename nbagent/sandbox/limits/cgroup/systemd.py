"""Control groups that systemd makes: for each sandbox, a scope of the person's own service manager.

Most people may not make a control group with limits, but their service manager may, and makes them on request:

    user@UID.service/nbagent.slice/nbagent-kNAME.scope       the keeper, bwrap, and all of the sandbox

The command becomes a part of the scope before it runs (`systemd-run --scope` executes it), so its parent, its files and
its standard streams are ours as always. A scope disappears with its last process; `systemctl --user` lists all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from nbagent.core.errors import SandboxError
from nbagent.core.limits import Limits
from nbagent.core.policy import MIB
from nbagent.sandbox.limits.cgroup import usage as counts
from nbagent.sandbox.limits.cgroup.control_group import CONTROLLERS, PROBE, ControlGroup, ControlGroups, children, cores
from nbagent.sandbox.limits.cgroup.usage import GroupUsage, groups_of, is_unified, words

SLICE = "nbagent"
BEFORE, AFTER = "nbagent-", ".scope"
"""Around a sandbox's name, in the name of its scope."""
KEEPER = Path(__file__).with_name("keeper.sh")
SPARING = "OOMPolicy=continue"
"""Keeps systemd from ending a scope when one of its processes is killed for its memory. Before version 253 systemd
neither knows the word nor ends the scope."""
SYSTEMD_SECONDS = 10.0
"""Seconds to wait for systemd, which usually takes a few hundredths of one."""
LINGERS = Path("/var/lib/systemd/linger")
_TRIED = Limits(memory_mb=128, pids=64, cpus=1)
_TELL = """
read -r line < /proc/self/cgroup
echo "group ${line#0::}"
cd "/sys/fs/cgroup${line#0::}" || exit 1
for name in memory.max cpu.max pids.max; do
    [ -r $name ] && read -r value < $name && echo "$name $value"
done
"""


@dataclass(frozen=True)
class Scopes(ControlGroups):
    """The person's service manager, which makes scopes.

    Attributes:
        folder: The folder of the slice, in which those of the scopes lie.
        bounded: The controllers that it may use.
        options: Properties of scopes that this version of systemd knows.
    """

    folder: Path
    bounded: frozenset[str]
    options: tuple[str, ...]
    transient: ClassVar[bool] = True

    @property
    def how(self) -> str:
        return "cgroup v2, a scope of systemd's"

    @property
    def lasting(self) -> bool:
        return lingers()

    def make(self, folder: Path, limits: Limits) -> Scope:
        """A scope that is made when the command starts."""
        shutil.rmtree(_counts_folder(folder), ignore_errors=True)
        _counts_folder(folder).mkdir(mode=0o700)
        return Scope(self, folder, limits)

    def take(self, folder: Path) -> Scope:
        return Scope(self, folder, None)

    def existing(self) -> dict[str, float]:
        """All scopes, with the start of their oldest process: the times of their folders are unreliable."""
        found = {}
        for name in children(self.folder):
            if name.startswith(BEFORE) and name.endswith(AFTER):
                running = words(self.folder / name / "cgroup.procs")
                found[name.removeprefix(BEFORE).removesuffix(AFTER)] = min(
                    map(_start_time, running), default=time.time()
                )
        return found


class Scope(ControlGroup):
    """A sandbox's scope."""

    def __init__(self, scopes: Scopes, folder: Path, limits: Limits | None) -> None:
        self._unit = f"{BEFORE}{folder.name}{AFTER}"
        self._folder = scopes.folder / self._unit
        self._wanted = {} if limits is None else _files(limits, scopes.bounded)
        self.usage = GroupUsage(2, self._folder, cpu=self._folder, left=_counts_folder(folder))
        self.environment = _environment()
        bounds = [] if limits is None else _properties(limits, scopes.bounded)
        self.prefix = [*_run(self._unit, *scopes.options, *bounds), "/bin/sh", str(KEEPER), str(_counts_folder(folder))]

    def settle(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + SYSTEMD_SECONDS
        while _folder_of(process.pid) != self._folder:
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                process.wait()
                self.remove()
                raise SandboxError("systemd made no scope for the sandbox.", mend="See why with: nbagent doctor")
            time.sleep(0.002)
        for name, wanted in self._wanted.items():
            if words(self._folder / name)[:1] != [wanted]:
                self.remove()
                raise SandboxError(f"systemd didn't set the sandbox's limit {name}.", mend="See: nbagent doctor")

    def processes(self) -> list[int]:
        return [int(pid) for pid in words(self._folder / "cgroup.procs")]

    def kill(self) -> None:
        """Kill all processes in it; also the keeper, which then can't write the counts."""
        self.usage.remember()
        super().kill()

    def _delete(self) -> bool:
        # Even if the folder is gone already: systemd may still know the name.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            _call("systemctl", "--user", "--quiet", "stop", self._unit)
        return not self._folder.exists()


def find() -> Scopes | None:
    """The person's service manager, if it makes scopes with at least a limit on memory; asked once."""
    manager = _manager()
    if os.getuid() == 0 or not is_unified() or shutil.which("systemd-run") is None:
        return None
    with contextlib.suppress(OSError):
        # After the person has logged out and in again, it is another one.
        return _probe(manager.stat().st_ino)
    return None


def why_not() -> str:
    """Why `find` has found nothing, as part of a sentence."""
    if not is_unified():
        return "systemd could make them only with cgroup v2"
    if not _manager().exists():
        return "no service manager of systemd's runs for them (a login starts it, or: loginctl enable-linger)"
    return "their service manager of systemd's doesn't either"


def lingers() -> bool:
    """Whether the person's service manager goes on after they have logged out."""
    import pwd

    with contextlib.suppress(KeyError):
        return (LINGERS / pwd.getpwuid(os.getuid()).pw_name).exists()
    return False


@functools.cache
def _probe(manager: int) -> Scopes | None:  # noqa: ARG001 - the answer is remembered for it
    """Have a scope made, and read its limits."""
    wanted = _files(_TRIED, frozenset(CONTROLLERS))
    for options in ((SPARING,), ()):
        unit = f"{BEFORE}{PROBE}{os.getpid()}-{threading.get_ident()}{AFTER}"
        command = [*_run(unit, *options, *_properties(_TRIED, frozenset(CONTROLLERS))), "/bin/sh", "-s"]
        try:
            # On its standard input, since systemd-run replaces words with a $ in a command.
            told = _call(*command, text=_TELL)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = dict(line.split()[:2] for line in told.splitlines())
        if not (group := found.get("group")):
            continue
        bounded = {name for name in CONTROLLERS if found.get(f"{name}.max") == wanted[f"{name}.max"]}
        if "memory" not in bounded:
            return None
        return Scopes((counts.ROOT / group.lstrip("/")).parent, frozenset(bounded), options)
    return None


def _manager() -> Path:
    """The socket of the person's service manager."""
    return Path(_environment()["XDG_RUNTIME_DIR"], "systemd", "private")


def _environment() -> Mapping[str, str]:
    # The person's own variables may be missing or name another person's manager, as after `su`.
    return {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}


def _run(unit: str, *properties: str) -> list[str]:
    command = ["systemd-run", "--user", "--scope", "--quiet", "--collect", f"--slice={SLICE}", f"--unit={unit}"]
    # At the person's logout, nothing in a sandbox needs time to end.
    return [*command, *(f"--property={each}" for each in ("KillSignal=SIGKILL", *properties)), "--"]


def _properties(limits: Limits, bounded: frozenset[str]) -> list[str]:
    """The limits as systemd.resource-control(5) has them."""
    found = {
        "memory": [f"MemoryMax={limits.memory_mb * MIB}", "MemorySwapMax=0"],
        "cpu": [f"CPUQuota={_percent(limits)}%"],
        "pids": [f"TasksMax={limits.pids}"],
    }
    return [each for name in CONTROLLERS if name in bounded for each in found[name]]


def _percent(limits: Limits) -> int:
    return max(1, int(cores(limits) * 100))


def _files(limits: Limits, bounded: frozenset[str]) -> dict[str, str]:
    """The first word that each file has once the limits hold."""
    found = {"memory": str(limits.memory_mb * MIB), "cpu": str(_percent(limits) * 1000), "pids": str(limits.pids)}
    return {f"{name}.max": value for name, value in found.items() if name in bounded}


def _call(*command: str, text: str = "") -> str:
    environment = {"PATH": os.environ.get("PATH", os.defpath), **_environment()}
    done = subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, timeout=SYSTEMD_SECONDS, check=False
    )
    return done.stdout


def _start_time(pid: str) -> float:
    """When a process was started, in seconds since the epoch; now if it has ended."""
    now = time.time()
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return now - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return now


def _folder_of(pid: int) -> Path:
    return counts.ROOT / groups_of(str(pid)).get("", "/").lstrip("/")


def _counts_folder(folder: Path) -> Path:
    """The folder to which the keeper writes what Linux has counted."""
    return folder / "counted"
