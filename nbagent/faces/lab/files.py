"""Files of a session: uploaded, listed, and downloaded; and records that were too large to be sent.

What is downloaded was made by code under suspicion. A browser saves it and shows none of it as a page: HTML in it must
not run as a page of the Jupyter server.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from tornado import web

from nbagent.core.errors import OwnerGone, StoreError, UsageError
from nbagent.core.policy import MIB
from nbagent.core.session_log import SENT_PREFIX, Tail
from nbagent.faces.lab.base_handler import Handler
from nbagent.faces.lab.messages import ArtifactEntry, FileEntry, FileList, UploadedFile
from nbagent.faces.lab.records import harmless
from nbagent.session.catalog import lookup
from nbagent.session.files.sandbox_files import MAX_BYTES_IN_MEMORY
from nbagent.session.sharing.attach import Attached

CHUNK = MIB
"""Bytes that are read and sent at once."""
MAX_LISTED = 1000
"""Files that are listed."""


class FileHandler(Handler):
    """The base class of the endpoints here."""

    def attached(self, id: str, *, runs: bool = True) -> Attached:
        """The session, not yet attached to."""
        folder = self.lab.folder(id)
        if runs and not lookup.is_running(folder):
            raise OwnerGone("No process runs this session now.", mend="Resume it.")
        return Attached(folder.name, state_dir=self.lab.root)

    async def send(self, file: IO[bytes], name: str) -> None:
        """Send a file, to be saved under a name."""
        self.set_header("Content-Disposition", f"attachment; filename*=utf-8''{quote(name, safe='')}")
        self.set_header("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "private, no-store")
        self.set_header("Content-Type", "application/octet-stream")
        with file:
            while data := await asyncio.to_thread(file.read, CHUNK):
                self.write(data)
                await self.flush()
        self.finish(set_content_type="application/octet-stream")


@web.stream_request_body
class UploadsHandler(FileHandler):
    """`POST sessions/ID/uploads?name=NAME&unpack=`, with the file as the body."""

    _folder: Path | None = None
    _failed: StoreError | None = None

    @property
    def max_body_bytes(self) -> int:
        """Bytes that a file may have."""
        return self.lab.max_upload_mb * MIB

    async def prepare(self) -> None:  # type: ignore[override]
        """Open a file where the session's owner can read it."""
        await super().prepare()
        if self.request.method == "POST":
            folder = self.attached(self.path_kwargs["id"]).folder
            self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=SENT_PREFIX, dir=folder))
            self._file = (self._folder / "file").open("wb")
            self._size = 0

    def data_received(self, chunk: bytes) -> None:
        """Write a part of the file."""
        self._size += len(chunk)
        if self._size > self.max_body_bytes:
            raise self.too_large()
        try:
            if self._failed is None:
                self._file.write(chunk)
        except OSError as error:
            self._failed = StoreError(f"The file can't be kept: {error.strerror}.", mend="Make room.")

    async def post(self, id: str) -> None:
        """Have the owner put the file into the sandbox."""
        try:
            self._file.close()
        except OSError as error:
            raise StoreError(f"The file can't be kept: {error.strerror}.", mend="Make room.") from error
        if self._failed is not None:
            raise self._failed
        name = self.get_query_argument("name", "")
        if not name:
            raise UsageError("The file has no name.", mend="Give one: uploads?name=NAME")
        async with self.attached(id) as session:
            done = await session.upload(self._file.name, name, unpack=self.wants("unpack"))
        self.reply(UploadedFile(done.path, done.size, done.sha256, done.unpacked), HTTPStatus.CREATED)

    def on_finish(self) -> None:
        """Remove what was received."""
        self._remove()

    def on_connection_close(self) -> None:
        """Remove what was received of a file whose sender went away."""
        super().on_connection_close()
        self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            self._file.close()
            shutil.rmtree(self._folder, ignore_errors=True)


class FilesHandler(FileHandler):
    """`GET sessions/ID/files?folder=`."""

    async def get(self, id: str) -> None:
        """List what is in the sandbox, if it runs, and what reached the host."""
        session = self.attached(id, runs=False)
        artifacts = [
            ArtifactEntry(**{name: getattr(each, name) for name in ArtifactEntry.__struct_fields__})
            for each in await session.artifacts()
        ]
        found: Any = None
        if lookup.is_running(session.folder):
            async with session:
                found = await session.files(self.get_query_argument("folder", None), limit=MAX_LISTED)
        files = [FileEntry(each.path, each.kind, each.size, each.modified) for each in found or ()]
        self.reply(FileList(files, found.total if found else 0, artifacts, is_running=found is not None))


class DownloadHandler(FileHandler):
    """`GET sessions/ID/download?path=PATH`."""

    async def get(self, id: str) -> None:
        """Send a file of the sandbox."""
        path = self.get_query_argument("path", "")
        async with self.attached(id) as session:
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=SENT_PREFIX, dir=session.folder))
            try:
                # Not as bytes: several pages may load several files at once.
                place = await session.download(path, folder / "file", bound=MAX_BYTES_IN_MEMORY)
                await self.send(place.open("rb"), path.rpartition("/")[2])
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class ArtifactHandler(FileHandler):
    """`GET sessions/ID/artifacts/ARTIFACT`."""

    async def get(self, id: str, artifact: str) -> None:
        """Send a file that reached the host, or a figure."""
        session = self.attached(id, runs=False)
        if artifact.partition(":")[0] != id:
            raise UsageError("This artifact is of another session.")
        found, file = await session.open_artifact(artifact)
        await self.send(file, found.name)


class RecordHandler(FileHandler):
    """`GET sessions/ID/records/NUMBER`."""

    async def get(self, id: str, number: str) -> None:
        """Send one record, its outputs harmless and whole."""
        lines = Tail(self.lab.folder(id)).lines(since=int(number) - 1)
        line = await asyncio.to_thread(lambda: next((harmless(each) for each in itertools.islice(lines, 1)), None))
        if line is None:
            raise UsageError(f"The session has no record {int(number)}.")
        self.write(line)
        self.finish()
