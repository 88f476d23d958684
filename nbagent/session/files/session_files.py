"""The files of a session: uploaded, downloaded, listed, and collected after cells."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nbagent.core import events, fileio
from nbagent.core.errors import TransferError, TransferLimit, UsageError
from nbagent.core.policy import MIB
from nbagent.core.quota import Quota
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer import outside
from nbagent.kernel.transfer.collector import Collected, Collector
from nbagent.kernel.transfer.outside import UploadSource
from nbagent.kernel.transfer.sandbox_paths import INVALID, SandboxPath, display, file_at, folder_at
from nbagent.kernel.transfer.transfer import Carried, FolderEntry, Transfer
from nbagent.kernel.transfer.variable import fetch_variable
from nbagent.notebook.record import Recording
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.paths import DATA, OUTPUT, VARIABLES
from nbagent.sandbox.results.folder import safe_name
from nbagent.session.files.given_variables import Given, free_name
from nbagent.session.files.kept_files import KeptFiles
from nbagent.session.files.sandbox_files import MAX_BYTES_IN_MEMORY, Listing, Pulled, SandboxFile, Uploaded

DEFAULT_LISTED_FILES = 1000
"""Files and folders that are listed by default."""
ARCHIVE_ENDINGS = (".tar.gz", ".tar.bz2", ".tgz", ".tbz2", ".tar", ".zip")
T = TypeVar("T")
Attachment = UploadSource | tuple[str, UploadSource]
"""A file that goes along with a question: as for `AnySession.upload`, with a name if it has none of its own."""


class SessionFiles:
    """The files of one session, behind `AnySession.upload`, `download` and `files`.

    Each call waits until the running cell has ended, as a cell would: `alone` is held while a cell runs or files move.

    Attributes:
        given: The variables that notebooks gave.
        kept: What is there again when the sandbox is replaced.
    """

    def __init__(
        self,
        kernel: Kernel,
        output: Path,
        *,
        data: Sequence[Mount],
        emit: Callable[[events.Event], object],
        alone: asyncio.Lock,
        quota: Quota,
        recording: Recording,
    ) -> None:
        self._kernel = kernel
        self._output = output
        about = kernel.about
        # Without isolation /tmp is the host's own, and what others do there is no cell's doing.
        watched = {"/tmp": "/tmp"} if kernel.engine.isolates else {}  # noqa: S108 - a path inside
        self._collector = Collector(
            kernel,
            output,
            source=about.output_folder,
            work=about.workspace_folder,
            others=watched,
            quota=quota,
            past=list(recording.files.values()),
        )
        self._recording = recording
        self.given = Given(kernel.spec.trust.limits.memory_mb * MIB // 2, emit)
        self._data = data
        self._emit = emit
        self._quota = quota
        self._alone = alone
        self._transfer = Transfer(kernel)
        self.kept = KeptFiles(kernel, self.given, recording=recording, watch=self._collector.watch, emit=emit)
        self._moving: asyncio.Future[Any] | None = None
        self._uploaded: dict[str, tuple[Path, int, int]] = {}
        self._told: set[str] = set()

    def interrupt(self) -> None:
        """Stop the file that is moving; no part of it stays."""
        if self._moving is not None:
            self._moving.cancel()

    def metadata(self) -> dict[str, Any]:
        """What goes along with a cell's request, so that the reply tells which files the cell changed."""
        return self._collector.watch.metadata()

    async def pass_over(self) -> None:
        """Don't collect what is there by now: in a kernel that others use, too, it is no result of a cell to come."""
        await self._collector.watch.look()

    async def collect(self, cell: events.Cell) -> tuple[events.Cell, list[Path]]:
        """Collect the files of a cell that has just ended, and note which others it changed; the caller holds the lock.

        Returns:
            The cell with its files and notes, and the paths of the collected files.
        """
        lost = self._collector.lose() if cell.state_lost else []
        try:
            found = await self._collector.collect(after=cell.duration, report=self._kernel.report)
        except OSError as error:
            raise fileio.cannot_write(self._output, error) from error
        notes = self._tell(found, cell.cell, lost)
        if found.changed:
            self._emit(events.FilesChanged(cell=cell.cell, files=found.changed, more=found.more))
        cell = msgspec.structs.replace(
            cell,
            outputs=[*cell.outputs, *notes],
            files=[one.name for one in found.saved],
            total_files=found.total,
            changed=found.changed,
            note=f"{cell.note} {found.note}".strip(),
        )
        return cell, [one.path for one in found.saved]

    def _tell(self, found: Collected, cell: int, lost: Sequence[events.FileLeft] = ()) -> list[events.Output]:
        """Emit the events of the files; returns the output that tells in the cell which ones were not collected."""
        for one in found.saved:
            path = os.fsencode(one.path).decode("utf-8", "replace")
            self._emit(events.FileSaved(path=path, size=one.size, sha256=one.sha256, cell=cell, source=one.source))
        if not (left := [*lost, *found.left]):
            return []
        self._told |= {each.path for each in left}
        event = events.FilesLeft(cell=cell, files=left)
        self._emit(event)
        return [events.left_output(event)]

    async def deliver(self) -> dict[str, str]:
        """See `AnySession.deliver`."""
        if self._kernel.is_alive:
            try:
                for found in await self._one_at_a_time(self._collector.rest):
                    self._tell(found, self._kernel.last_cell)
            except OSError as error:
                raise fileio.cannot_write(self._output, error) from error
        left = self._collector.left
        if untold := [events.FileLeft(path, why) for path, why in left.items() if path not in self._told]:
            self._emit(events.FilesLeft(cell=self._kernel.last_cell, files=untold))
        return dict(left)

    async def upload(self, source: UploadSource, name: str | None = None, *, to: str, unpack: bool) -> Uploaded:
        """See `AnySession.upload`."""
        name = outside.name_of(source, name)
        place = file_at(_path_for(name, to, unpack=unpack), self._kernel.about)
        origin = Path(source).expanduser().absolute() if isinstance(source, str | Path) else None

        async def work() -> Carried:
            nonlocal place, origin
            if to == VARIABLES:  # no other upload is under way, which might take the same name
                free = free_name(place.path, {each.path for each in self._recording.uploads})
                place = file_at(free, self._kernel.about)
            with outside.open_source(source) as (pieces, size, memory):
                if memory is not None:
                    origin = None
                    if to == VARIABLES:
                        done = await self._transfer.hold(memory, place)
                        done = done or await self._transfer.upload(pieces, place, size=size)
                        self.given.hold(place.path, memory, sha256=done.sha256)
                        return done
                return await self._transfer.upload(pieces, place, size=size, unpack=unpack)

        carried = await self._one_at_a_time(work)
        self._collector.watch.know(place, until=carried.changed)
        if origin is not None:
            origin = origin.resolve()
            self._uploaded[place.path] = (origin, carried.size, carried.changed)
        event = events.FileUploaded(
            path=display(place.path),
            name=display((place.path if to == VARIABLES else name).rpartition("/")[2]),
            size=carried.size,
            sha256=carried.sha256,
            source="" if origin is None else str(origin).encode("utf-8", "replace").decode(),
            unpacked=carried.files,
        )
        self._emit(event)
        return Uploaded(path=place.path, size=carried.size, sha256=carried.sha256, unpacked=carried.files)

    async def keep_given(self, folder: Path) -> None:
        """Write what notebooks gave into a folder, for a re-run of an export; tell once of each that can't be."""
        for each in self._recording.uploads:
            memory = self.given.get(each.path)
            if memory is None or each.source:
                continue
            place, why = folder / each.name, "there is no room for a re-run's copy of it (session_mb)"
            if self._quota.take(memory.size):
                try:
                    await asyncio.to_thread(folder.mkdir, exist_ok=True)
                    await asyncio.to_thread(memory.save, place)
                except OSError as error:
                    self._quota.add(-memory.size)
                    why = f"it can't be kept for a re-run: {error.strerror or error}"
                else:
                    self._emit(events.FileDownloaded(path=each.path, size=each.size, sha256=each.sha256, to=str(place)))
                    continue
            if each.path not in self._told:
                self._tell(Collected(), self._kernel.last_cell, [events.FileLeft(each.path, why)])

    async def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        """See `AnySession.download`."""
        place = file_at(path, self._kernel.about)
        if to is None:
            most = MAX_BYTES_IN_MEMORY if bound is None else min(bound, MAX_BYTES_IN_MEMORY)
            return await self._one_at_a_time(lambda: self._download_bytes(place, bound=most))
        target = Path(to).expanduser()
        if target.is_dir():
            target /= safe_name(place.parts[-1])
        outside.check_target(target, overwrite=overwrite)
        fileio.check_not_data(target, [mount.source for mount in self._data])
        return await self._one_at_a_time(
            lambda: self._download_to(place, target.absolute(), overwrite=overwrite, bound=bound)
        )

    async def _download_bytes(self, place: SandboxPath, *, bound: int) -> bytes:
        content = bytearray()
        carried = await self._transfer.download(place, content.extend, bound=bound)
        self._emit(events.FileDownloaded(path=display(place.path), size=carried.size, sha256=carried.sha256))
        return bytes(content)

    async def _download_to(self, place: SandboxPath, target: Path, *, overwrite: bool, bound: int | None) -> Path:
        """Download to a file beside the target, and move it there when it is whole."""
        try:
            with fileio.staged(target.parent, mode=0o666) as (file, staged):
                carried = await self._transfer.download(place, file.write, bound=bound)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
                outside.put(staged, target, overwrite=overwrite)
        except OSError as error:
            raise fileio.cannot_write(target, error, mend="Choose another place.") from error
        shown = os.fsencode(target).decode("utf-8", "replace")
        self._emit(events.FileDownloaded(path=display(place.path), size=carried.size, sha256=carried.sha256, to=shown))
        return target

    async def pull(self, name: str, to: Path) -> Pulled:
        """See `AnySession.pull`; the file may be lost if the machine fails soon afterwards."""

        async def work() -> tuple[str, int]:
            with contextlib.closing(outside.new_memory(to)) as memory:
                kind = await fetch_variable(self._kernel, name, memory)
                if not outside.is_memory(to):
                    await asyncio.to_thread(memory.save, to)
                return kind, memory.size

        try:
            kind, size = await self._one_at_a_time(work)
        except OSError as error:
            raise fileio.cannot_write(to, error, mend="Choose another place.") from error
        shown = "" if outside.is_memory(to) else os.fsencode(to).decode("utf-8", "replace")
        self._emit(events.FileDownloaded(path=display(f"{VARIABLES}/{name}"), size=size, sha256="", to=shown))
        return Pulled(kind=kind, size=size)

    async def files(self, folder: str | None = None, *, limit: int = DEFAULT_LISTED_FILES) -> Listing:
        """See `AnySession.files`."""
        if limit < 0:
            raise UsageError(f"The limit on files can't be {limit}.")
        about = self._kernel.about
        # Without isolation /tmp is the host's own, and others' files are no part of the session.
        isolates = self._kernel.engine.isolates
        wanted = [folder] if folder is not None else ["/workspace", "/tmp" if isolates else OUTPUT]  # noqa: S108
        places = [folder_at(each, about) for each in wanted]
        found = []
        for place in places:
            found.append(await self._one_at_a_time(partial(self._transfer.entries, place, bound=limit)))
        entries = sorted((entry for part, _, _ in found for entry in part), key=lambda entry: entry.path)
        listed = [
            SandboxFile(
                path=each.path, kind=each.kind, size=each.size, modified=each.modified / 1e9, host=self._host(each)
            )
            for each in entries[:limit]
        ]
        return Listing(tuple(listed), sum(total for _, total, _ in found), all(whole for _, _, whole in found))

    async def output_files(self, *, limit: int) -> tuple[list[str], int]:
        """The first files in /tmp/output, by their names there, and how many there are."""
        listing = await self.files(OUTPUT)
        names = [each.path.removeprefix(f"{OUTPUT}/") for each in listing if each.kind == "file"]
        return [display(name) for name in names[:limit]], len(names) + listing.total - len(listing)

    async def count(self, path: str, text: str) -> int:
        """How often a text stands in a text file of the sandbox."""
        place = file_at(path, self._kernel.about)
        arguments = [place.inside, text]
        found = await self._one_at_a_time(
            lambda: self._kernel.evaluate(inside_calls.source_of("count_inside.py"), arguments)
        )
        if isinstance(found, dict) and type(found.get("count")) is int:
            return int(found["count"])
        error = found.get("error") if isinstance(found, dict) else None
        raise TransferError(display(error) if isinstance(error, str) else "The file could not be read.")

    def _host(self, entry: FolderEntry) -> Path | None:
        """The path on the host of the same file, if there is one."""
        if entry.path.startswith(f"{DATA}/"):
            for mount in self._data:
                if f"{entry.path}/".startswith(f"{mount.target}/"):
                    return mount.source / entry.path[len(mount.target) + 1 :]
        uploaded = self._uploaded.get(entry.path)
        if uploaded is not None and uploaded[1:] == (entry.size, entry.modified):
            return uploaded[0]
        return self._collector.host_path(entry.path, size=entry.size) if entry.kind == "file" else None

    async def _one_at_a_time(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._alone:
            self._moving = moving = asyncio.ensure_future(work())
            try:
                return await moving
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise TransferError("It was stopped; nothing of the file stays.") from None
            finally:
                self._moving = None


def _path_for(name: str, to: str, *, unpack: bool) -> str:
    if name.startswith("/"):
        # A name that begins at the root was not meant to lie in a folder.
        raise TransferLimit(INVALID)
    if unpack:
        name = next((name.removesuffix(ending) for ending in ARCHIVE_ENDINGS if name.endswith(ending)), name)
    return f"{to.rstrip('/')}/{name}"
