"""Lets code find its data by plain names, through links in its working folder, and write files of the same names.

What it writes takes the place of the link: the data itself is read-only. It is noticed where Python opens the file;
a library that opens files past Python, as Polars does, is told that the file can't be written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR
MAX_LINKS = 5000
"""Links in the working folder, each of which takes memory."""
TICK_NS = 50_000_000
"""Nanoseconds within which a folder may change twice and have the same time."""


class Links:
    """The links of the working folder, which is the current one, to the data."""

    def __init__(self, data: str) -> None:
        self.data, self.here = data, os.getcwd()
        self.known: set[str] = set()
        self.changed = 0
        self.update()

    def update(self) -> None:
        """Link what is new in the folder of the data, and remove the links to what is gone.

        A link that code has removed, or replaced by a file of its own, doesn't come back.
        """
        try:
            changed = os.stat(self.data).st_mtime_ns
            if changed == self.changed:
                return
            names = set(os.listdir(self.data))
        except OSError:
            return
        self.changed = changed if changed < time.time_ns() - TICK_NS else 0
        for name in self.known - names:
            path, self.known = os.path.join(self.here, name), self.known - {name}
            with contextlib.suppress(OSError):
                if os.readlink(path) == os.path.join(self.data, name):
                    os.unlink(path)
        for name in sorted(names - self.known)[: MAX_LINKS - len(self.known)]:
            with contextlib.suppress(OSError):
                self.known.add(name)
                os.symlink(os.path.join(self.data, name), os.path.join(self.here, name))


def follow(shell: Any, data: str) -> None:
    """From now on, keep the links as the data is, and have files that Python writes take their place."""
    links = Links(data)
    shell.events.register("pre_run_cell", lambda _: links.update())
    let_go(data)


def let_go(data: str) -> None:
    """From now on, have files that Python opens to write them take the place of links to the data."""
    here = os.getcwd()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[2], int) or not arguments[2] & WRITES:
            return
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], bytes) else arguments[0]
        if isinstance(path, str) and os.path.realpath(path).startswith(f"{data}/"):
            with contextlib.suppress(OSError):
                _replace(os.path.relpath(path, here).split("/"), keep=not arguments[2] & os.O_TRUNC)

    sys.addaudithook(hook)


def _replace(parts: list[str], *, keep: bool) -> None:
    """Replace the links on the way to a file: by folders of links, the last by a copy if `keep`, else by nothing."""
    for number in range(1, len(parts) + 1):
        path = os.path.join(*parts[:number])
        if not os.path.islink(path):
            continue
        target = os.path.realpath(path)
        os.unlink(path)
        if os.path.isdir(target):
            os.mkdir(path)
            for name in os.listdir(target):
                os.symlink(os.path.join(target, name), os.path.join(path, name))
        elif keep:
            shutil.copyfile(target, path)
