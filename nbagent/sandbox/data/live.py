"""The mirror of a sandbox's data over the sandbox's life: filled at each start, and kept up to date in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nbagent.core.events import DataLeftOut
from nbagent.sandbox.data.mirror import Mirror
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import LeftOut, facts
from nbagent.sandbox.data.watcher import DataWatcher


class LiveMirror:
    """The mirror of one sandbox's data, over its restarts.

    Args:
        tell: Called on a thread of its own with later files that are not shown.

    Attributes:
        mounts: The mounts that the engine makes, read-only.
        left_out: The files that were not shown when the sandbox started.
    """

    def __init__(self, tell: Callable[[DataLeftOut], None]) -> None:
        self.mounts: tuple[Mount, ...] = ()
        self.left_out: LeftOut = {}
        self._tell = tell
        self._mirror: Mirror | None = None
        self._watcher: DataWatcher | None = None

    def fill(self, folder: Path, data: Sequence[Mount], *, uid: int, mounting: bool = True) -> None:
        """Fill the mirror; blocking.

        Args:
            folder: The mirror's folder on the host.
            data: Files and folders to show.
            uid: The user that the sandbox runs as, on the host.
            mounting: Whether single files can be mounted over it; not if the sandbox runs already.

        Raises:
            DataError: Something isn't there any more, or can't be shown.
        """
        self.stop()
        self.join()
        self._mirror = Mirror(folder, data, uid=uid)
        self.mounts = tuple(self._mirror.fill(mounting=mounting))
        self.left_out = self._mirror.left_out

    def watch(self, folder: Path, data: Sequence[Mount], *, uid: int) -> None:
        """Bring in changes on the host from now on; the mirror was filled, by this process or by another one."""
        self._mirror = self._mirror or Mirror(folder, data, uid=uid)
        self._watcher = DataWatcher(self._mirror, told=self.left_out, tell=self._tell_each)

    def _tell_each(self, news: LeftOut) -> None:
        for each in facts(news):
            self._tell(each)

    def stop(self) -> None:
        """Have the watching end, which takes a moment."""
        if self._watcher is not None:
            self._watcher.stop()

    def join(self) -> None:
        """Wait for the end of the watching; blocking."""
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
