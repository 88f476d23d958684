"""Content that is too large for a database: files named by their hash, with their descriptions in the store.

    DIR/artifacts/3f/3f786850e3…      the content; private to this user, written whole or not at all
    ("nbagent", "artifacts") ID       name, content type, size, sha256, agent, task, times

The same content is kept once. Deleting an artifact removes its description at once, and the file if no other artifact
refers to it. A lock of the folder keeps one process from removing a file while another saves the same content.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.core.fileio import cannot_write
from nbagent.state.scopes import ROOT, check_name, decode, encode, has_expired, items

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

ARTIFACT_LIMIT = 512 * 1024 * 1024
"""Bytes of one artifact."""
ARTIFACT_TTL = 30 * 24 * 3600.0
"""Seconds that an artifact lives by default."""
_WHERE = (ROOT, "artifacts")


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """The description of an artifact.

    Attributes:
        id: The id to load it by.
        agent_id: The agent that saved it.
        task_id: The task at which it was saved.
        name: Its author's name for it; never used as a path.
        content_type: Its MIME type, as its author said.
        size: Bytes.
        sha256: The hash of its content, in hexadecimal.
        created: When it was saved, in seconds since the epoch.
        expires: When it ends, in seconds since the epoch; None for never.
        cell: For an artifact of a session, the cell that saved or showed it; 0 if none did.
    """

    id: str
    agent_id: str
    task_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    created: float
    expires: float | None
    cell: int = 0


class ArtifactStore:
    """The artifacts of one state folder."""

    def __init__(self, store: BaseStore, folder: Path) -> None:
        self._store = store
        self._folder = folder

    async def save(
        self, content: bytes, *, agent_id: str, task_id: str, name: str, content_type: str, ttl: float | None
    ) -> Artifact:
        """Keep content under a new id; see `StateManager.save_artifact`."""
        if len(content) > ARTIFACT_LIMIT:
            raise StoreError(f"{name[:80]} has {len(content):,} bytes; an artifact may have {ARTIFACT_LIMIT:,}.")
        now = time.time()
        artifact = Artifact(
            id=secrets.token_hex(12),
            agent_id=check_name(agent_id, "agent_id"),
            task_id=check_name(task_id, "task_id"),
            name=check_name(name, "name"),
            content_type=check_name(content_type, "content_type"),
            size=len(content),
            sha256=await asyncio.to_thread(_sha256, content),
            created=now,
            expires=None if ttl is None else now + ttl,
        )
        # The fields by which artifacts are searched stand beside the JSON.
        value = {
            "artifact": encode(asdict(artifact), what="The artifact"),
            "agent": agent_id,
            "task": task_id,
            "sha256": artifact.sha256,
            "expires": artifact.expires,
        }
        async with self._locked(shared=True):
            await asyncio.to_thread(_write, self._path(artifact.sha256), content)
            await self._store.aput(_WHERE, artifact.id, value)
        return artifact

    async def find(self, artifact_id: str) -> Artifact | None:
        """The description of an artifact; None if there is none of that id, or if it has expired."""
        item = await self._store.aget(_WHERE, check_name(artifact_id, "artifact_id"))
        artifact = _artifact(item.value) if item else None
        return None if artifact is None or has_expired(artifact.expires) else artifact

    async def load(self, artifact_id: str) -> tuple[Artifact, bytes]:
        """An artifact and its content; see `StateManager.load_artifact`."""
        artifact = await self.find(artifact_id)
        if artifact is None:
            raise StoreError(f"There is no artifact {artifact_id!r}; it was deleted, or it expired.")
        path = self._path(artifact.sha256)
        try:
            content = await asyncio.to_thread(path.read_bytes)
        except FileNotFoundError:
            raise StoreError(
                f"The content of {artifact.name} is not in {self._folder}.",
                mend="If another machine saved it, share that folder between the machines.",
            ) from None
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror}.") from error
        if await asyncio.to_thread(_sha256, content) != artifact.sha256:
            raise StoreError(f"{path} was changed: it doesn't have the hash that {artifact.name} was saved with.")
        return artifact, content

    async def find_all(self, *, agent_id: str | None = None, task_id: str | None = None) -> list[Artifact]:
        """The artifacts, the oldest first; those of one agent or one task, if named."""
        named = {name: value for name, value in (("agent", agent_id), ("task", task_id)) if value is not None}
        found = [_artifact(item.value) async for item in items(self._store, _WHERE, wanted=named)]
        living = [artifact for artifact in found if not has_expired(artifact.expires)]
        return sorted(living, key=lambda artifact: (artifact.created, artifact.id))

    async def delete(self, artifact_id: str) -> bool:
        """Delete an artifact, and its content if no other refers to it; returns whether there was one."""
        artifact = await self.find(artifact_id)
        if artifact is None:
            return False
        async with self._locked():
            await self._store.adelete(_WHERE, artifact_id)
            if not await self._store.asearch(_WHERE, filter={"sha256": artifact.sha256}, limit=1):
                await asyncio.to_thread(self._path(artifact.sha256).unlink, missing_ok=True)
        return True

    async def sweep(self) -> None:
        """Remove files to which no artifact refers. `StateManager.sweep` removes expired descriptions before."""
        if not await asyncio.to_thread(self._folder.is_dir):
            return
        async with self._locked():
            used = {str(item.value.get("sha256")) async for item in items(self._store, _WHERE)}
            await asyncio.to_thread(self._remove_others, used)

    def _remove_others(self, used: set[str]) -> None:
        for path in self._folder.glob("??/*"):
            if path.name not in used:
                path.unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    @contextlib.asynccontextmanager
    async def _locked(self, *, shared: bool = False) -> AsyncIterator[None]:
        """Hold the folder's lock: shared by those who save, alone by who deletes."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                fileio.make_folder(self._folder)
                await stack.enter_async_context(fileio.locked(self._folder / "lock", shared=shared))
            except OSError as error:
                raise cannot_write(self._folder, error) from error
            yield


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _artifact(value: dict[str, Any]) -> Artifact:
    known = decode(value.get("artifact"), what="The description of an artifact")
    try:
        return Artifact(**known)
    except TypeError:
        raise StoreError("The description of an artifact can't be read: another version of nbagent wrote it.") from None


def _write(path: Path, content: bytes) -> None:
    """Write a file of the content, unless it is there."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not _holds(path, content):
            fileio.write(path, content, mode=fileio.PRIVATE_MODE, sync=True)
    except OSError as error:
        mend = "Make room, or name another folder." if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else ""
        raise cannot_write(path, error, mend=mend) from error


def _holds(path: Path, content: bytes) -> bool:
    """Whether the file is there and whole; a damaged one is written again."""
    if not path.exists() or path.stat().st_size != len(content):
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.name
