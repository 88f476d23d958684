"""The library of tools on this machine: a private folder of the person, with an index.

    STATE/tools/index.json          the tools, with the hash of each file
    STATE/tools/NAME/VERSION.json   a tool

The index is written atomically, after the files that it names. A tool whose hash is wrong, or whose file another user
could have written, is refused: only what was tested is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from nbagent.core.errors import ForgeError, StoreError
from nbagent.core.fileio import PRIVATE_MODE, cannot_write, make_folder, save
from nbagent.forge import tool as tools
from nbagent.forge.tool import Tool

MAX_FILE = 2 * 1024 * 1024
"""Bytes of a tool's file, and of the index."""
KEPT = 10
"""Versions of each tool that are kept."""
FORMAT = 1


class ToolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in the index.

    Attributes:
        versions: The SHA-256 of each version's file.
        made: When the newest version was made, in seconds since the epoch.
        used: When it was last called, or else made, in seconds since the epoch.
    """

    name: str
    description: str
    versions: dict[int, str]
    made: float
    used: float

    @property
    def version(self) -> int:
        """The newest version."""
        return max(self.versions)


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    tools: dict[str, ToolEntry] = {}
    format: int = FORMAT


class Library:
    """The tools of one person, by name. A lock keeps processes apart."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "tools"
        self._path = self.folder / "index.json"

    def listed(self) -> list[ToolEntry]:
        """All tools, the last used first.

        Raises:
            StoreError: The index can't be read.
            ForgeError: Another user could have written it.
        """
        return sorted(self._index().tools.values(), key=lambda each: (-each.used, each.name))

    def load(self, name: str, *, version: int | None = None) -> Tool:
        """Read a tool, by default in its newest version."""
        entry = self._entry(self._index(), name)
        tools.check_name(name)  # a newer Python or nbagent may have reserved it
        number = entry.version if version is None else version
        if number not in entry.versions:
            there = ", ".join(map(str, sorted(entry.versions)))
            raise ForgeError(f"The tool {name} has no version {number}.", mend=f"There are: {there}.")
        changed = ForgeError(
            f"The tool {name} {number} is not what was put into the library, and is not used.",
            mend=f"Have it made and tested again, or remove it: nbagent tools remove {name}",
        )
        try:
            data = _read(self._file(name, number))
            if tools.digest(data) != entry.versions[number]:
                raise changed
            found = tools.decode(data)
        except (OSError, msgspec.DecodeError):
            raise changed from None
        if (found.name, found.version) != (name, number):
            raise changed
        return found

    def next_version(self, name: str) -> int:
        """The number of the next version of a tool."""
        entry = self._index().tools.get(name)
        return entry.version + 1 if entry else 1

    def add(self, tool: Tool) -> None:
        """Put a tool into the library, as the newest version of its name.

        Raises:
            ForgeError: There is a version of that number already.
            StoreError: It can't be written; the library is as it was.
        """
        data = tools.encode(tool)
        with self._writing() as index:
            before = index.tools.get(tool.name)
            versions = dict(before.versions) if before else {}
            if versions and tool.version <= max(versions):
                raise ForgeError(
                    f"The tool {tool.name} was made elsewhere meanwhile, as version {max(versions)}.",
                    mend="Make it again.",
                )
            versions[tool.version] = tools.digest(data)
            gone = sorted(versions)[:-KEPT]
            save(self._file(tool.name, tool.version), data, mode=PRIVATE_MODE)
            kept = {number: digest for number, digest in versions.items() if number not in gone}
            entry = ToolEntry(
                name=tool.name, description=tool.description, versions=kept, made=tool.made, used=time.time()
            )
            self._save({**index.tools, tool.name: entry})
            for number in gone:
                self._file(tool.name, number).unlink(missing_ok=True)

    def touch(self, name: str) -> None:
        """Note that a tool is used now, if it is still there."""
        with self._writing() as index:
            if entry := index.tools.get(name):
                self._save({**index.tools, name: msgspec.structs.replace(entry, used=time.time())})

    def remove(self, name: str) -> ToolEntry:
        """Take a tool out of the library, all its versions."""
        with self._writing() as index:
            entry = self._entry(index, name)
            self._save({each: value for each, value in index.tools.items() if each != name})
            shutil.rmtree(self.folder / name, ignore_errors=True)
        return entry

    def unused(self, *, max_age: float) -> list[str]:
        """The tools that were not used for so many seconds."""
        return [each.name for each in self.listed() if time.time() - each.used > max_age]

    def _entry(self, index: _Index, name: str) -> ToolEntry:
        if name not in index.tools:
            known = ", ".join(sorted(index.tools)[:20]) or "none yet"
            raise ForgeError(f"There is no tool {name[:60]!r} in the library.", mend=f"There are: {known}.")
        return index.tools[name]

    def _file(self, name: str, version: int) -> Path:
        return self.folder / name / f"{version}.json"

    def _index(self) -> _Index:
        try:
            index = msgspec.json.decode(_read(self._path), type=_Index)
        except FileNotFoundError:
            return _Index()
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"The tools' index {self._path} can't be read: {error}.", mend="Remove it.") from None
        for name, entry in index.tools.items():
            tools.check_form(name)  # it becomes part of a path, and of a cell's code
            if entry.name != name or not entry.versions:
                raise StoreError(f"The tools' index {self._path} is wrong about {name}.", mend="Remove it.")
        return index

    def _save(self, entries: dict[str, ToolEntry]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_Index(tools=entries)))
        if len(data) > MAX_FILE:  # `_read` would refuse it
            raise StoreError("The library of tools is full.", mend="Remove some: nbagent tools clean, or tools remove.")
        save(self._path, data, mode=PRIVATE_MODE)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[_Index]:
        """The index, locked against other processes; it is written at the end."""
        try:
            make_folder(self.folder)
            lock = (self.folder / "lock").open("w")
        except OSError as error:
            raise cannot_write(self.folder, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._index()


def _read(path: Path) -> bytes:
    """Read a plain file that only this person could have written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
            raise OSError("it is no plain file of a tool's size")
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ForgeError(
                f"{path} belongs to somebody else or can be written by others, so its tools are not used.",
                mend=f"If all of it is yours: chown -R and chmod -R go-w {path.parent}",
            )
        return file.read(MAX_FILE)
