"""Takes what is saved in a kernel that another client started, such as JupyterLab, and puts it beside the notebook.

No session is there to fetch it. So the kernel sends each file after the cell that wrote it (`results_inside.py`), over
the socket of its requests, and the cell says what came of it:

    sandbox     {"save": "/workspace/plots/a.png", "size": 4096}
    host        {"go": true}, or {"error": "…"}
    sandbox     4096 bytes
    host        {"saved": "plots/a.png"}, or {"error": "…"}

Code inside can send the same. So a name is cleaned and never one that is taken (`folder.py`), and a quota holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from nbagent.core import folders
from nbagent.core.limits import Limits
from nbagent.core.policy import MIB
from nbagent.core.quota import Quota
from nbagent.core.text import size_of
from nbagent.sandbox.paths import OUTPUT, WORKSPACE
from nbagent.sandbox.results.folder import ResultFolder

FILE_SECONDS = 60.0
"""Seconds for one file, and one second more for each `BYTES_PER_SECOND` bytes of it."""
BYTES_PER_SECOND = 4 * MIB
CHUNK_BYTES = 1024 * 1024
NAME_BYTES = 4096
"""What the name of a file, and of each folder above it, counts against the quota, in bytes."""
MAX_PATH_BYTES = 4000
KEPT_BYTES, MAX_KEPT = 1000, 32 * MIB
"""What this process remembers of each file and folder beside its name, and of all of them, in bytes: it is the Jupyter
server's, and code can save empty files for as long as it likes."""


class RefusedError(Exception):
    """Why a file isn't kept, in words that end a sentence."""


class Receiver:
    """Takes the files of one kernel, over its restarts; one at a time, each on a thread of its own.

    Args:
        here: The folder that the kernel was started for.
        folder: Where files go; from there, if it isn't absolute.
        limits: How large a file may be, and all of them together.

    Attributes:
        label: What people call the folder.
        files: How many files a cell may save before others wait for the next ones.
    """

    def __init__(self, here: Path, folder: Path, limits: Limits) -> None:
        self.label = str(folder)
        self.files = limits.result_files
        self._here, self._folder = here, folder
        self._limits = limits
        self._quota = Quota(limits.session_mb * MIB)
        self._results = ResultFolder(here / folder)
        self._kept = 0
        self._busy = threading.Lock()

    def receive(self, connection: socket.socket, path: Any, size: Any) -> None:
        """Take a file on a thread of its own, which closes the connection."""
        if not self._busy.acquire(blocking=False):
            with connection, contextlib.suppress(OSError):
                _answer(connection, {"error": "another file is on its way"})
            return
        threading.Thread(
            target=self._receive, args=(connection, path, size), name="nbagent-result", daemon=True
        ).start()

    def _receive(self, connection: socket.socket, path: Any, size: Any) -> None:
        with connection, contextlib.suppress(OSError):
            try:
                answer = {"saved": self._take(connection, *_checked(path, size))}
            except RefusedError as error:
                answer = {"error": str(error)}
            except OSError as error:
                answer = {"error": f"the folder {self.label} can't be written: {error.strerror or error}"}
            except Exception as error:  # the kernel waits for an answer
                answer = {"error": f"nbagent failed: {type(error).__name__}"}
            finally:
                # Before the answer, after which the kernel sends the next file.
                self._busy.release()
            _answer(connection, answer)

    def _take(self, connection: socket.socket, path: str, parts: tuple[str, ...], size: int) -> str:
        """Take a file and return its name in the folder."""
        # A folder of this name may have come with somebody else's project, as a link that leads elsewhere.
        if not self._folder.is_absolute() and not folders.is_straight(self._folder, here=self._here):
            raise RefusedError(f"{self.label} is a link here")
        is_new = self._results.where(path) is None
        kept = size + NAME_BYTES * len(parts) * is_new
        remembered = (2 * sys.getsizeof(path) + KEPT_BYTES * len(parts)) * is_new
        if self._kept + remembered > MAX_KEPT:
            raise RefusedError("this kernel has saved too many files; restart it, or save them as one archive")
        if size > self._limits.result_mb * MIB:
            raise RefusedError(f"it has {size_of(size)}, and may have {self._limits.result_mb:,} MB (limit result_mb)")
        if kept > self._quota.left:
            raise RefusedError(
                f"it has {size_of(size)}, and of the {self._limits.session_mb:,} MB that a kernel may save "
                f"{size_of(self._quota.left)} are left (limit session_mb)"
            )
        with self._results.staged() as (file, staged):
            _answer(connection, {"go": True})
            digest = _copy(connection, file, size)
            file.close()
            self._quota.take(kept)
            self._kept += remembered
            landed = self._results.put(staged, path, parts, digest)
        self._quota.add(-landed.freed)
        return landed.name


def _checked(path: Any, size: Any) -> tuple[str, tuple[str, ...], int]:
    """The path, its parts below the folder that is collected, and the size."""
    if (
        isinstance(path, str)
        and type(size) is int
        and size >= 0
        and len(path.encode(errors="replace")) <= MAX_PATH_BYTES
    ):
        for root in (OUTPUT, WORKSPACE):
            parts = tuple(path.removeprefix(f"{root}/").split("/"))
            if path.startswith(f"{root}/") and set(parts).isdisjoint(("", ".", "..")):
                return path, parts, size
    raise RefusedError("it can't be a file's path")


def _copy(connection: socket.socket, file: IO[bytes], size: int) -> str:
    """Write so many bytes of a connection to a file; returns their SHA-256 in hexadecimal."""
    digest, left = hashlib.sha256(), size
    end = time.monotonic() + FILE_SECONDS + size / BYTES_PER_SECOND
    while left:
        connection.settimeout(max(0.001, end - time.monotonic()))
        try:
            data = connection.recv(min(left, CHUNK_BYTES))
        except OSError:
            data = b""
        if not data:
            raise RefusedError("it changed, or did not come in time")
        digest.update(data)
        file.write(data)
        left -= len(data)
    return digest.hexdigest()


def _answer(connection: socket.socket, value: dict[str, Any]) -> None:
    connection.settimeout(FILE_SECONDS)
    connection.sendall(json.dumps(value).encode() + b"\n")
