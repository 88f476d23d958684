"""Lists and sends files, inside the sandbox: `files.py` sends this source there. Never imported on the host."""

from __future__ import annotations

import os
import stat
from typing import Any

CHUNK = 256 * 1024


def main(verb: str, path: str, limit: int) -> Any:
    """Do what is asked: `list` a folder, or `send` a file."""
    return listing(path, limit) if verb == "list" else send(path, limit)


def listing(folder: str, limit: int) -> list[tuple[str, int, int]]:
    """Name, size and time of change of the plain files below a folder, the oldest first."""
    found = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = os.path.join(root, name)
            status = os.lstat(path)
            # Links, pipes, sockets and devices are not what a cell meant to give away.
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                found.append((os.path.relpath(path, folder), status.st_size, status.st_mtime_ns))
        if len(found) >= limit:
            break
    return sorted(found, key=lambda each: each[2])[:limit]


def send(path: str, size: int) -> int:
    """Publish a file in chunks, as messages that belong to the request that asked for it."""
    from IPython import get_ipython

    kernel = get_ipython().kernel
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    sent = 0
    with os.fdopen(descriptor, "rb") as file:
        while sent < size and (chunk := file.read(min(CHUNK, size - sent))):
            sent += len(chunk)
            kernel.session.send(
                kernel.iopub_socket, "nbagent_chunk", {"size": len(chunk)}, parent=kernel.get_parent(), buffers=[chunk]
            )
    return sent
