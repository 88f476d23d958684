"""Bounds what code can tell the package index by the names that it asks for, and the bytes that packages take.

The index is a way out of a sandbox without a network: the host asks it for each package, so the index reads the names,
and the publisher of a package sees which version is fetched. By measurement (`tests/packages/test_allowance.py`), uv
sends the name, and by the file that it fetches the version and extras that it chose among the published ones. It never
sends the words of a version or an extra that doesn't exist.

So popular names are free, and a sandbox may ask for a few others. Each name counts once, found or not; if it is asked
for with another version, the characters of that version count, too. The number of requests is bounded, since their
order could tell something as well, and the bytes of the packages, for the sake of the host's disk.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nbagent.core import fileio
from nbagent.core.errors import InstallError
from nbagent.core.policy import MIB, InstallPolicy
from nbagent.packages.import_names import KNOWN

CHARACTERS = 20
"""Characters of unknown names, versions and extras, for each unknown name that is allowed."""
REQUESTS = 200
"""Packages that may be asked for in all, unless the characters of more unknown names are allowed."""


class _Asked(msgspec.Struct):
    """The requests so far, as they are kept in a file."""

    unknown: list[str] = []
    """Unknown names, each once by itself, and once with each version and extra that was asked for."""
    granted: list[str] = []
    """Those of `unknown` that a person allowed, which don't count."""
    requests: int = 0
    size: int = 0
    """Bytes of the packages that came."""


class Allowance:
    """Counts the requests of one sandbox; may be used from any thread.

    Args:
        policy: The bounds, and the names that a person listed.
        path: A file that keeps the count for whoever resumes the session; by default the count is in memory only.
    """

    def __init__(self, policy: InstallPolicy, path: Path | None = None) -> None:
        self._most = policy.unknown_names
        self._bytes = None if policy.install_mb is None else policy.install_mb * MIB
        self._listed = KNOWN | {canonicalize_name(name) for name in policy.allow}
        self._path = path
        self._asked = _Asked()
        self._lock = threading.Lock()

    def unknown(self, asked: Sequence[Requirement]) -> list[str]:
        """The names that are neither listed by a person nor popular."""
        names = [canonicalize_name(each.name) for each in asked]
        return [name for name in dict.fromkeys(names) if name not in self._listed]

    def take(self, asked: Sequence[Requirement], *, granted: bool = False) -> str:
        """Count a request before it is sent, or one that a person has granted beyond the bounds.

        Returns:
            Why it is refused, as a sentence, and then nothing of it counts; empty if it may be sent.
        """
        if self._most is None:
            return ""
        with self._lock:
            before = self._read()
            requests = before.requests + (0 if granted else len(asked))
            after = _Asked(before.unknown[:], before.granted[:], requests, before.size)
            texts = [text for each in asked for text in self._readable_texts(each) if text not in before.unknown]
            after.unknown += dict.fromkeys(texts)
            after.granted += dict.fromkeys(texts) if granted else []
            reason = "" if granted else self._beyond(after)
            if not reason:
                self._write(after)
            return reason

    def bytes_left(self) -> int | None:
        """Bytes that packages may still have; None for any number."""
        if self._bytes is None:
            return None
        with self._lock:
            return max(0, self._bytes - self._read().size)

    def weigh(self, size: int, *, came: bool = False) -> str:
        """Count the bytes of packages before they come, or those that came beyond what the index stated.

        Those that came already count even if they are too many.

        Returns:
            Why they are too many, as a sentence; empty if they are not.
        """
        if self._bytes is None:
            return ""
        with self._lock:
            asked = self._read()
            total = asked.size + size
            if came or total <= self._bytes:
                self._write(_Asked(asked.unknown, asked.granted, asked.requests, total))
        if total <= self._bytes:
            return ""
        return (
            f"With these, the packages that its code has asked for would have {-(-total // MIB):,} MB, "
            f"and may have {self._bytes // MIB:,} MB."
        )

    def _readable_texts(self, asked: Requirement) -> list[str]:
        """The texts that the index or a publisher could read in a request."""
        name = canonicalize_name(asked.name)
        if name in self._listed:
            return []
        more = ",".join(sorted(asked.extras)) + str(asked.specifier)
        return [name, f"{name} {more}"] if more else [name]

    def _beyond(self, asked: _Asked) -> str:
        assert self._most is not None  # noqa: S101 - `take` has looked
        counted = [each for each in asked.unknown if each not in asked.granted]
        names = sum(" " not in each for each in counted)
        # A version counts without the name before it.
        characters = sum(len(each.rpartition(" ")[2]) for each in counted)
        if names > self._most:
            return f"Its code has asked the index for {self._most} packages that few people use, and may for no more."
        if characters > self._most * CHARACTERS:
            return f"The names and versions its code has asked for have {self._most * CHARACTERS} characters by now."
        most = max(REQUESTS, self._most * CHARACTERS)
        if asked.requests > most:
            return f"Its code has asked the index for {most} packages, and may for no more."
        return ""

    def _read(self) -> _Asked:
        if self._path is None:
            return self._asked
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Asked)
        except FileNotFoundError:
            return _Asked()
        except (OSError, msgspec.DecodeError) as error:
            raise InstallError(f"What was asked of the index before can't be read: {error}.") from error

    def _write(self, asked: _Asked) -> None:
        if self._path is None:
            self._asked = asked
            return
        try:
            fileio.write(self._path, msgspec.json.encode(asked))
        except OSError as error:
            raise InstallError(f"What is asked of the index can't be written down: {error}.") from error
