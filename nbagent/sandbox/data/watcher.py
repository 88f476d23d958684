"""The mirror of a sandbox's data over the sandbox's life: filled at each start, and kept up to date by a thread."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nbagent.core.events import DataLeftOut
from nbagent.sandbox.data.mirror import Mirror
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import HiddenReason, LeftOut, facts

log = logging.getLogger(__name__)

FIRST = 0.3
"""Seconds after a start until the watching begins, so that it doesn't delay the kernel."""
STEP = 0.1
"""Seconds without a further change after which the mirror is updated."""
LATEST = 0.4
"""Seconds after the first change until then, however many changes follow."""
LOOK = 5.0
"""Seconds between two updates without a change: Linux tells of none that another machine makes on a shared disk."""
POLL = 0.5
"""Seconds between two updates if Linux can't tell of changes at all, since too many folders are watched already."""
EASE = 20
"""The pause between two such updates, as a multiple of the time that one takes."""


class LiveMirror:
    """The mirror of one sandbox's data, over its restarts: filled at each start, and kept up to date by a thread.

    Args:
        tell: Called on that thread with later files that are not shown.

    Attributes:
        mounts: The mounts that the engine makes, read-only.
        left_out: The files that were not shown when the sandbox started.
    """

    def __init__(self, tell: Callable[[DataLeftOut], None]) -> None:
        self.mounts: tuple[Mount, ...] = ()
        self.left_out: LeftOut = {}
        self._tell = tell
        self._mirror: Mirror | None = None
        self._thread: threading.Thread | None = None
        self._told: dict[HiddenReason, set[str]] = {}
        self._over = threading.Event()
        self._took = 0.0

    def fill(self, folder: Path, data: Sequence[Mount], *, uid: int, mounting: bool = True) -> None:
        """Fill the mirror, which lies in a folder of the host; blocking. See `Mirror`, and `Mirror.fill` for errors."""
        self.stop()
        self.join()
        self._mirror = Mirror(folder, data, uid=uid)
        self.mounts = tuple(self._mirror.fill(mounting=mounting))
        self.left_out = self._mirror.left_out

    def watch(self, folder: Path, data: Sequence[Mount], *, uid: int) -> None:
        """Bring in changes on the host from now on; the mirror was filled, by this process or by another one."""
        self._mirror = self._mirror or Mirror(folder, data, uid=uid)
        self._told = {why: set(paths) for why, paths in self.left_out.items()}
        self._over.clear()
        _ALIVE.add(self)
        self._thread = threading.Thread(target=self._work, args=[self._mirror], name="nbagent-data", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the watching end, which takes a moment."""
        self._over.set()

    def join(self) -> None:
        """Wait for the end of the watching; blocking."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self, mirror: Mirror) -> None:
        self._over.wait(FIRST)
        try:
            while not self._over.is_set():
                try:
                    self._watch(mirror)
                except Exception as error:
                    # Too many folders are watched, or one is gone by now: changes are found all the same.
                    log.debug("Data is looked at in turns: %s", error)
                    self._look(mirror)
                    self._over.wait(max(POLL, EASE * self._took))
        finally:
            _ALIVE.discard(self)

    def _watch(self, mirror: Mirror) -> None:
        """Update the mirror on changes, until other folders have to be watched."""
        # Only now: no start waits for it.
        from watchfiles import watch

        folders = _names(mirror.folders)
        looked = 0.0
        # Never all that is below a folder at once: that would follow links, and watch what is hidden.
        changes = watch(
            *folders,
            recursive=False,
            watch_filter=None,
            step=round(1000 * STEP),
            debounce=round(1000 * LATEST),
            rust_timeout=round(1000 * LATEST),
            yield_on_timeout=True,
            stop_event=self._over,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        with contextlib.closing(changes):
            for changed in changes:
                if not changed and time.monotonic() - looked < max(LOOK, EASE * self._took):
                    continue
                self._look(mirror)
                looked = time.monotonic()
                if self._over.wait(self._took) or _names(mirror.folders) != folders:
                    return

    def _look(self, mirror: Mirror) -> None:
        started = time.monotonic()
        try:
            mirror.update()
        except OSError as error:
            log.warning("What changed in the data can't be shown to the sandbox: %s", error.strerror)
        self._took = time.monotonic() - started
        news: LeftOut = {}
        for why in (HiddenReason.LINK, HiddenReason.LARGE, HiddenReason.MANY):
            known = self._told.setdefault(why, set())
            new = [path for path in mirror.left_out.get(why, ()) if path not in known]
            if new:
                known.update(new)
                news[why] = new
        for each in facts(news):
            self._tell(each)


def _names(folders: Iterable[Path]) -> list[str]:
    """The names of the folders, without those that aren't text, which the watching library can't take."""
    return sorted({str(each) for each in folders if _is_text(str(each))})


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


_ALIVE: set[LiveMirror] = set()


@atexit.register
def _end_at_exit() -> None:
    """End all threads. A thread that is in the watching library when Python ends would end the process by a signal."""
    alive = list(_ALIVE)
    for each in alive:
        each.stop()
    for each in alive:
        each.join()
