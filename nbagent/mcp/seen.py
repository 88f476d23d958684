"""Notices changed tools: a server may change a tool's description after a person has accepted it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbagent.core import fileio
from nbagent.core.errors import StoreError


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The names of a server's tools that are new, changed or gone since the last look, sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class AcceptedTools:
    """The digests of tools, by server and tool, from when they were first seen or last accepted.

    They are kept in a file, or else in memory.

    Raises:
        StoreError: The file can't be read.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._accepted: dict[str, dict[str, str]] = _read(file) if file else {}
        self._last: dict[str, dict[str, str]] = {}

    def look(self, server: str, digests: Mapping[str, str]) -> Changes:
        """Compare a server's tools with the last look, or with the file if this is the first one.

        A tool that was never seen is accepted as it is. The digest of one that is gone is kept, should it come back.
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
                    # Compared with the last look, so that a change is reported once, and with what was accepted, for a
                    # tool that was gone meanwhile.
                    if digest != self._accepted[server][name] and digest != before.get(name)
                )
            ),
        )

    def is_changed(self, server: str, tool: str, digest: str) -> bool:
        """Whether a tool has another digest than the accepted one."""
        return self._accepted.get(server, {}).get(tool, digest) != digest

    def accept(self, server: str, tool: str, digest: str) -> None:
        """Note that a person has accepted a tool with this digest."""
        self._accepted.setdefault(server, {})[tool] = digest
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            fileio.make_folder(self._file.parent)
            data = json.dumps(self._accepted, indent=1, sort_keys=True).encode()
            fileio.write(self._file, data, mode=fileio.PRIVATE_MODE)
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
