"""What the tests ask of the machine: an engine that works, and what sandboxes have left on it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from nbagent.core.errors import EngineUnavailable
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.engines import daemon
from nbagent.sandbox.engines.bubblewrap import LEASE_VARIABLE
from nbagent.sandbox.engines.docker import LABEL
from nbagent.sandbox.leases import origin, users
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.limits.cgroup.cgroupfs import OwnGroups
from nbagent.sandbox.registry import engines

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ISOLATING = ("bubblewrap", "docker")
T = TypeVar("T")


WAIT = 90
"""Seconds for what is waited for: more than a slow machine needs, and so few that a fault holds nobody up for long."""


def pace() -> float:
    """Seconds of this thread's processor time that a fixed piece of work takes here and now: the measure of other work.

    About 0.05 where the limits were chosen. A limit is a multiple of it, so that a slow machine doesn't break what a
    fast one kept. A part of the work is memory that is new to the process, slow on other machines than computing is.
    """
    started = time.thread_time()
    sum(number * number for number in range(1_000_000))
    bytearray(b"x") * 32_000_000
    return time.thread_time() - started


def within(paces: float, work: Callable[[], T]) -> T:
    """What `work` returns, once it takes no more of this thread's time than that many times the `pace()`.

    It has five goes: where others use the same cores and caches, one go tells how busy these are, and the quickest of
    some what the work itself takes.
    """
    took = []
    for _ in range(5):
        allowed, started = paces * pace(), time.thread_time()
        done = work()
        took.append((time.thread_time() - started) / allowed)
        if took[-1] <= 1:
            return done
    raise AssertionError(f"It took {min(took):.1f} times as long as it may, at the best of five goes.")


def chromium(playwright: Playwright, *flags: str) -> Browser:
    """Debian's Chromium without the windows of a browser, which takes half the processor time of the one with them."""
    given = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run", *flags]
    return playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=given)


def descriptors() -> int:
    """How many files, sockets and pipes this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def works(name: str) -> Engine:
    """The engine of that name; a test that needs one that doesn't work here fails with its report."""
    engine = engines()[name]
    report = engine.check()
    assert report.available, f"the engine {name} doesn't work here: {report.reason} {report.mend}"
    return engine


def own_threads() -> list[str]:
    """The names of this process's threads, but for those that asyncio keeps for later."""
    return sorted(each.name for each in threading.enumerate() if not each.name.startswith("asyncio_"))


async def swept() -> None:
    """Wait until the sweep that every start begins has ended, and with it what it had open."""
    while any(each.name == "nbagent-reaper" for each in threading.enumerate()):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)


def wait_for_nothing(folder: Path) -> list[str]:
    """What is left of this run's sandboxes, once what is ending has had a moment to end."""
    end = time.monotonic() + 60
    while (left := leftovers(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def leftovers(folder: Path) -> list[str]:
    """All that there is of the sandboxes of a run, each with its kind, by the run's own folder.

    What other runs on this machine have at the same time is none of it: their runtime folder is another one.
    """
    runtime = folder / "runtime"
    folders = [*runtime.glob("nbagent-*/*"), *(folder / "cache" / "nbagent").glob("sandboxes/*")]
    return [
        *(f"folder {each}" for each in folders),
        *(f"process {each}" for each in processes(str(runtime))),
        *(f"container {each}" for each in containers(str(runtime))),
        *(f"user {each}" for each in taken_users(str(runtime))),
        *(f"control group {each}" for each in left_groups(runtime)),
    ]


def processes(runtime: str) -> list[int]:
    """Of bubblewrap and of local kernels, those that were started from this runtime folder."""
    found = []
    for process in psutil.process_iter(["pid", "name", "environ", "cmdline"]):
        lease = (process.info["environ"] or {}).get(LEASE_VARIABLE, "")
        words = process.info["cmdline"] or ()
        is_local = any(each.startswith(runtime) and each.endswith("/inside.py") for each in words)
        if is_local or (process.info["name"] == "bwrap" and lease.startswith(runtime)):
            found.append(process.info["pid"])
    return found


def containers(runtime: str) -> list[str]:
    """Containers, running or not, that were started from this runtime folder; none where no daemon answers."""
    try:
        client = daemon.connect()
    except EngineUnavailable:
        return []
    try:
        made = client.containers(all=True, filters={"label": LABEL})
        return [each["Id"] for each in made if any(runtime in at.get("Source", "") for at in each["Mounts"])]
    finally:
        client.close()


def taken_users(runtime: str) -> list[str]:
    """Users that are reserved for leases in this runtime folder."""
    return [at.name for at in users.SHARED.glob("[0-9]*") if str(origin.read_note(at)).startswith(runtime)]


def groups() -> set[str]:
    """Names of the sandboxes' control groups, whoever makes them here."""
    found = cgroup.find()
    return set(found.existing()) if found else set()


def left_groups(runtime: Path) -> set[str]:
    """Groups that are none of other runs'; theirs are there for a moment without the folder of a lease, too."""
    end = time.monotonic() + 30
    while True:
        found = {each for each in groups() - _BEFORE if not _of_others(each, runtime)}
        if all(any(runtime.glob(f"nbagent-*/{each}")) for each in found) or time.monotonic() > end:
            return found
        time.sleep(0.05)


def _of_others(name: str, runtime: Path) -> bool:
    if name.startswith("probe-"):
        return True
    roots = (*Path(tempfile.gettempdir()).glob("nbagent-*"), *Path("/tmp").glob("nbt-*/runtime/nbagent-*"))
    if any((root / name).exists() for root in roots if runtime not in root.parents):
        return True
    # One whose folder was taken away from it, or that runs outside of this bare Debian, where its folder is.
    running = _processes(name)
    return running is None or any(not lease.startswith(str(runtime)) for lease in _leases(running))


def _processes(group: str) -> list[int] | None:
    """What runs in a control group; None if that is in another process namespace, whose processes have no id here."""
    groups = cgroup.find()
    assert groups is not None
    try:
        running = groups.take(Path(group)).processes()
        counted = (
            int((groups.folders["pids"] / group / "pids.current").read_text()) if isinstance(groups, OwnGroups) else 0
        )
    except OSError:
        return []
    return None if 0 in running or (counted and not running) else running


def _leases(running: list[int]) -> list[str]:
    """The leases of what runs in a control group, as its bwrap has them in its environment."""
    found = []
    with contextlib.suppress(OSError, psutil.Error):
        for pid in running:
            found.append(psutil.Process(pid).environ().get(LEASE_VARIABLE, ""))
    return [each for each in found if each]


_BEFORE = groups()


@contextlib.contextmanager
def no_room(size: int) -> Iterator[None]:
    """As on a disk that is full: no file of this process can grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
