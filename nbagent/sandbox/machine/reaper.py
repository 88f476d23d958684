"""Removes what dead controllers left behind: sandboxes, folders, containers, control groups.

A controller that ends by itself leaves nothing. One that is killed leaves what Linux doesn't end with it, and a restart
of the machine leaves what lies on disk or with a daemon. Every start of a sandbox sweeps up what nobody can use any
more; `nbagent clean` also ends sandboxes that wait to be taken over.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbagent.core import fileio
from nbagent.core.errors import NbagentError
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.leases import scratch, users
from nbagent.sandbox.leases.locks import lock, unlock
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.registry import engines

if TYPE_CHECKING:
    from nbagent.sandbox.contract import Engine

NAMELESS = 3600.0
"""Seconds after which a scratch folder that names no lease is abandoned."""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """Something that was swept up.

    Attributes:
        kind: What it is: `sandbox`, `host`, `folder`, or what an engine calls its own.
        session: The session that it belonged to; empty if unknown or none.
        age: Seconds since it was made.
    """

    kind: str
    name: str
    session: str = ""
    age: float = 0.0


def sweep(*, waiting: bool = False, max_age: float = 0.0, engine: str | None = None) -> list[Removed]:
    """Remove what belongs to dead controllers.

    Args:
        waiting: Also end sandboxes that live and wait to be taken over.
        max_age: Seconds; what is younger stays.
        engine: The one engine to ask for leftovers; all by default.

    Returns:
        What was removed.
    """
    newest = time.time() - max_age
    removed = [one for folder in leases.all_folders() if (one := _sweep_sandbox(folder, waiting, newest))]
    removed += [one for folder in scratch.folders() if (one := _sweep_scratch(folder, newest))]
    for name, each in engines().items():
        if engine in (None, name):
            removed += _sweep_strays(each, newest)
    # Last: no process of what was ended above runs as a reserved user any more.
    users.sweep(leases.runtime_root())
    return removed


def _sweep_sandbox(folder: Path, waiting: bool, newest: float) -> Removed | None:
    """End and remove one sandbox, if its controller is dead and nobody can use it."""
    if not leases.abandoned(folder):
        return None
    terms = leases.read_terms(folder)
    if terms is None or not (folder / "lock").exists():
        return _sweep_unknown(folder, newest)
    if terms.created > newest:
        return None
    try:
        lease = leases.Lease.take_over(folder)
    except NbagentError:
        return None  # another sweep was faster, or a process that takes it over
    # Asked while the lock is held: before, another process could have taken the sandbox over in between.
    if not waiting and terms.spec.keep and not terms.origin.is_over and supervisor.is_alive(folder):
        lease.release()
        return None
    supervisor.end(folder)
    if (engine := engines().get(terms.engine)) is not None:
        engine.end(folder, terms)
    lease.remove()
    kind = "host" if lease.name.startswith(leases.HOST) else "sandbox"
    return Removed(kind=kind, name=lease.name, session=terms.spec.owner, age=time.time() - terms.created)


def end(folder: Path) -> bool:
    """End and remove a sandbox that waits to be taken over; returns False if it doesn't, or is somebody's."""
    return _sweep_sandbox(folder, True, time.time()) is not None


def _sweep_unknown(folder: Path, newest: float) -> Removed | None:
    """Remove a lease whose terms can't be read (another version's, or half removed); it may be of any engine."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        made = folder.stat().st_mtime
        if made > newest:
            return None
        with contextlib.suppress(FileNotFoundError):
            stack.callback(unlock, lock(folder))
        supervisor.end(folder)
        for engine in engines().values():
            engine.end(folder, None)
        shutil.rmtree(folder, ignore_errors=True)
        return Removed(kind="folder", name=folder.name, age=time.time() - made)
    return None


def _sweep_scratch(folder: Path, newest: float) -> Removed | None:
    """Remove a scratch folder whose lease is gone."""
    with contextlib.suppress(OSError):
        made = folder.stat().st_mtime
        gone = scratch.is_abandoned(folder)
        if gone is None:
            gone = time.time() - made > NAMELESS
        if gone and made <= newest:
            fileio.remove(folder)
            return Removed(kind="folder", name=folder.name, age=time.time() - made)
    return None


def _sweep_strays(engine: Engine, newest: float) -> list[Removed]:
    """Remove what an engine has left of sandboxes whose lease is gone."""
    removed = []
    for stray in engine.strays():
        if stray.created <= newest and stray.remove():
            removed.append(Removed(kind=stray.kind, name=stray.name, age=time.time() - stray.created))
    return removed


_SWEEPING = threading.Lock()


def sweep_in_background(engine: str) -> None:
    """Sweep in a thread, for which no start waits; nothing happens while another sweep runs."""

    def work() -> None:
        try:
            with contextlib.suppress(Exception):  # a sweep that fails must not disturb a start
                sweep(engine=engine)
        finally:
            _SWEEPING.release()

    if _SWEEPING.acquire(blocking=False):
        threading.Thread(target=work, name="nbagent-reaper", daemon=True).start()
