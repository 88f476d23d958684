"""What a sandbox is shown of its data, over its life: the mirror, the watch over it, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nbagent.core.events import DataLeftOut
from nbagent.sandbox.data.mirror import Mirror
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import LeftOut, facts
from nbagent.sandbox.data.watcher import Watcher


class Shown:
    """The data of one sandbox, which may be started again.

    Args:
        tell: Gets what is left out of what came later, on a thread of its own.

    Attributes:
        mounts: What an engine mounts, read-only.
        left_out: What was not shown when the sandbox started.
    """

    def __init__(self, tell: Callable[[DataLeftOut], None]) -> None:
        self.mounts: tuple[Mount, ...] = ()
        self.left_out: LeftOut = {}
        self._tell = tell
        self._mirror: Mirror | None = None
        self._watcher: Watcher | None = None

    def fill(self, folder: Path, data: Sequence[Mount], *, uid: int, mounting: bool = True) -> None:
        """Fill the mirror for a start, or for a sandbox that sees it already; blocking.

        Args:
            folder: The mirror's, on the host.
            data: Files and folders.
            uid: The user that the sandbox runs as, on the host.
            mounting: Whether single files can be mounted.

        Raises:
            DataError: Something isn't there any more, or can't be shown.
        """
        self.stop()
        self.join()
        self._mirror = Mirror(folder, data, uid=uid)
        self.mounts = tuple(self._mirror.fill(mounting=mounting))
        self.left_out = self._mirror.left_out

    def watch(self, folder: Path, data: Sequence[Mount], *, uid: int) -> None:
        """From now on, bring in what changes on the host; the mirror was filled, here or by another process."""
        self._mirror = self._mirror or Mirror(folder, data, uid=uid)
        self._watcher = Watcher(self._mirror, told=self.left_out, tell=self._tell_each)

    def _tell_each(self, news: LeftOut) -> None:
        for each in facts(news):
            self._tell(each)

    def stop(self) -> None:
        """Watch no more; it takes a moment."""
        if self._watcher is not None:
            self._watcher.stop()

    def join(self) -> None:
        """Wait until nothing is brought into the mirror any more; blocking."""
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
