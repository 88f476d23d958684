"""What is too large for a database: files named by their content's hash, with what is known of them in the store.

    DIR/artifacts/3f/3f786850e3…      the content; private to this user, written whole or not at all
    ("nbagent", "artifacts") ID       name, content type, size, sha256, agent, task, times

The same content is kept once. Deleting an artifact removes what is known of it at once, and the file when nobody else
refers to it. A lock of the folder keeps a file from being removed while somebody else here saves the same content.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.core.fileio import cannot_write
from nbagent.state.scopes import ROOT, check_name, from_json, to_json

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

ARTIFACT_LIMIT = 512 * 1024 * 1024
"""Bytes of one artifact."""
ARTIFACT_TTL = 30 * 24 * 3600.0
"""Seconds that an artifact lives, unless said otherwise."""
_WHERE = (ROOT, "artifacts")
_PAGE = 500


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What is known of an artifact.

    Attributes:
        id: What it is loaded by.
        agent_id: Who saved it.
        task_id: At which task.
        name: What its author called it; never used as a path.
        content_type: A MIME type, as its author said.
        size: Bytes.
        sha256: Of the content, in hexadecimal digits.
        created: Seconds since the epoch.
        expires: Seconds since the epoch; None is never.
        cell: Of a session's, the cell that left or showed it; 0 if none did.
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


class Artifacts:
    """The artifacts of one state folder.

    Args:
        store: Where what is known of them is.
        folder: Where their content is; made when first needed.
    """

    def __init__(self, store: BaseStore, folder: Path) -> None:
        self._store = store
        self._folder = folder

    async def save(
        self, content: bytes, *, agent_id: str, task_id: str, name: str, content_type: str, ttl: float | None
    ) -> Artifact:
        """Keep content under a new id.

        Raises:
            StoreError: It can't be written, is too large, or what is said of it is no text.
        """
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
            sha256=await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest()),
            created=now,
            expires=None if ttl is None else now + ttl,
        )
        known = to_json(asdict(artifact), what="The artifact")
        async with self._locked(fcntl.LOCK_SH):
            await asyncio.to_thread(_write, self._path(artifact.sha256), content)
            # What is searched for stands beside the text.
            value = {
                "artifact": known,
                "agent": agent_id,
                "task": task_id,
                "sha256": artifact.sha256,
                "expires": artifact.expires,
            }
            await self._store.aput(_WHERE, artifact.id, value)
        return artifact

    async def find(self, artifact_id: str) -> Artifact | None:
        """What is known of an artifact, or None if there is none, or none any more."""
        item = await self._store.aget(_WHERE, check_name(artifact_id, "artifact_id"))
        artifact = _read(item.value) if item else None
        return artifact if artifact and _lives(artifact) else None

    async def load(self, artifact_id: str) -> tuple[Artifact, bytes]:
        """An artifact and its content.

        Raises:
            StoreError: There is none of that id, or its file is gone or isn't what was saved.
        """
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
        if await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest()) != artifact.sha256:
            raise StoreError(f"{path} was changed: it doesn't have the hash that {artifact.name} was saved with.")
        return artifact, content

    async def find_all(self, *, agent_id: str | None = None, task_id: str | None = None) -> list[Artifact]:
        """What there is, the oldest first; of one agent or one task, if named."""
        wanted = {"agent": agent_id, "task": task_id}
        found = [_read(value) for value in await self._search({k: v for k, v in wanted.items() if v is not None})]
        return sorted(filter(_lives, found), key=lambda artifact: (artifact.created, artifact.id))

    async def delete(self, artifact_id: str) -> bool:
        """Forget an artifact; whether there was one."""
        artifact = await self.find(artifact_id)
        if artifact is None:
            return False
        async with self._locked(fcntl.LOCK_EX):
            await self._store.adelete(_WHERE, artifact_id)
            if not await self._search({"sha256": artifact.sha256}, limit=1):
                await asyncio.to_thread(self._path(artifact.sha256).unlink, missing_ok=True)
        return True

    async def sweep(self) -> int:
        """Remove files that no artifact refers to, and return how many. Expired ones must be swept before."""
        if not await asyncio.to_thread(self._folder.is_dir):
            return 0
        async with self._locked(fcntl.LOCK_EX):
            used = {str(value.get("sha256")) for value in await self._search({})}
            return await asyncio.to_thread(self._remove_others, used)

    def _remove_others(self, used: set[str]) -> int:
        removed = 0
        for path in self._folder.glob("??/*"):
            if path.name not in used:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    async def _search(self, wanted: dict[str, Any], *, limit: int | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await self._store.asearch(_WHERE, filter=wanted or None, limit=limit or _PAGE, offset=len(found))
            found += [item.value for item in page]
            if limit is not None or len(page) < _PAGE:
                return found

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    @contextlib.asynccontextmanager
    async def _locked(self, how: int) -> AsyncIterator[None]:
        """Hold the folder's lock. It is asked for again and again: a wait in a thread could not be cancelled."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise cannot_write(self._folder, error) from error
        try:
            while True:
                try:
                    fcntl.flock(lock, how | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.01)
            yield
        finally:
            os.close(lock)


def _read(value: dict[str, Any]) -> Artifact:
    known = from_json(value.get("artifact"), what="What is known of an artifact")
    try:
        return Artifact(**known)
    except TypeError:
        raise StoreError("What is known of an artifact can't be read: another version of nbagent wrote it.") from None


def _lives(artifact: Artifact) -> bool:
    return artifact.expires is None or artifact.expires > time.time()


def _write(path: Path, content: bytes) -> None:
    """Write a file of the content, unless it is there; private, and whole or not at all."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if _holds(path, content):
            return
        fileio.write(path, content, mode=fileio.PRIVATE, sync=True)
    except OSError as error:
        mend = "Make room, or name another folder." if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else ""
        raise cannot_write(path, error, mend=mend) from error


def _holds(path: Path, content: bytes) -> bool:
    """Whether the file is there and whole; one that was damaged is written again."""
    if not path.exists() or path.stat().st_size != len(content):
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == path.name
