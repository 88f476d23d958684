"""Remembers profiles of data files for later questions and sessions, in the person's private cache folder.

A profile has values of the data in it. So the folder is the person's alone, and what was not needed for a month goes.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec
import platformdirs

from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.core.policy import MIB
from nbagent.kernel.profile import MAX_PROFILE_HEFT, FileProfile, bounded
from nbagent.sandbox.untrusted import UnreadableError, parse

KEPT_SECONDS = 30 * 24 * 3600
MAX_BYTES = 4 * MIB
"""Bytes of one profile that are read."""
MAX_FILES = 20_000
"""Profiles that are kept; the oldest go first."""


class ProfileCache:
    """Profiles by the hashes of their files."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_cache_path("nbagent") / "profiles"

    def find(self, key: str, path: str) -> FileProfile | None:
        """The profile that is kept under a key, of the file that is at a path now."""
        file = self._folder / key[:2] / key
        with contextlib.suppress(OSError, UnreadableError):
            if file.stat().st_size <= MAX_BYTES:
                found = bounded(parse(file.read_bytes(), FileProfile, limit=MAX_BYTES, heft=MAX_PROFILE_HEFT))
                os.utime(file)
                return found if found.path == path else None
        return None

    def keep(self, key: str, found: FileProfile) -> None:
        """Keep a profile; without a word where that is impossible, since it can be made again."""
        with contextlib.suppress(StoreError, OSError):
            folder = self._folder / key[:2]
            fileio.make_folder(folder)
            fileio.write(folder / key, msgspec.json.encode(found), mode=fileio.PRIVATE_MODE)

    def tidy(self) -> None:
        """Remove what nobody has asked for in a month, and the oldest of too many."""
        kept: list[tuple[float, Path]] = []
        for file in self._folder.glob("??/*"):
            with contextlib.suppress(OSError):
                kept.append((file.stat().st_mtime, file))
        kept.sort(reverse=True)
        for at, (used, file) in enumerate(kept):
            if at >= MAX_FILES or time.time() - used > KEPT_SECONDS:
                with contextlib.suppress(OSError):
                    file.unlink()
