"""Notices that a tool is no longer what it was: a server may change a description after a person has accepted it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbagent import fileio
from nbagent.errors import StoreError


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is different since a server was last looked at; names of tools, sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class Seen:
    """The digests of tools, by server and tool, as they were when first seen or last accepted.

    Args:
        file: Where they are kept; None to keep them for this process only.

    Raises:
        StoreError: The file can't be read.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._accepted: dict[str, dict[str, str]] = _read(file) if file else {}
        self._last: dict[str, dict[str, str]] = {}

    def look(self, server: str, digests: Mapping[str, str]) -> Changes:
        """Compare a server's tools with the last look, or with what was kept if this is the first one.

        A tool that was never seen is taken as it is. The digest of one that is gone is kept: it may come back changed.

        Raises:
            StoreError: The digests can't be written.
        """
        accepted = self._accepted.get(server)
        before = self._last.get(server, accepted)
        self._last[server] = dict(digests)
        self._accepted[server] = {**digests, **(accepted or {})}
        if self._accepted[server] != accepted:
            self._write()
        if before is None:
            return Changes()
        return Changes(
            added=tuple(sorted(digests.keys() - before.keys())),
            removed=tuple(sorted(before.keys() - digests.keys())),
            changed=tuple(
                sorted(
                    name
                    for name, digest in digests.items()
                    # Against the last look, so that it is told once, and against what was accepted, for a tool that
                    # was away meanwhile.
                    if digest != self._accepted[server][name] and digest != before.get(name)
                )
            ),
        )

    def is_changed(self, server: str, tool: str, digest: str) -> bool:
        """Whether a tool is not what was accepted."""
        return self._accepted.get(server, {}).get(tool, digest) != digest

    def accept(self, server: str, tool: str, digest: str) -> None:
        """A person has seen what the tool is now.

        Raises:
            StoreError: It can't be written.
        """
        self._accepted.setdefault(server, {})[tool] = digest
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = json.dumps(self._accepted, indent=1, sort_keys=True).encode()
            fileio.write(self._file, data, mode=fileio.PRIVATE)
        except OSError as error:
            raise StoreError(f"The digests of MCP tools can't be written to {self._file}: {error}.") from error


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        content = json.loads(file.read_text())
        return {server: {tool: str(digest) for tool, digest in tools.items()} for server, tools in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(
            f"The digests of MCP tools can't be read from {file}: {error}.", mend="Remove the file to begin anew."
        ) from error
