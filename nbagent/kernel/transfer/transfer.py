"""Carries files into a sandbox and out of it, over the kernel's own connection, piece by piece.

It works in every engine and at every trust level: inside it takes neither a program nor a socket, and on the host no
name, link or size that the sandbox claims is followed. What the controller holds of a file at any time is one piece.
An archive is unpacked inside, since the host opens nothing that may be hostile: there, a parser that is misled, or
memory that runs out, costs the sandbox and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from nbagent.core.errors import NbagentError, TransferError, TransferLimit
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.paths import MAX_SIZE, Place, shown, within

PIECE = 4 * MIB
"""Bytes that travel with one request, in either direction."""
SECONDS = 30.0
"""For one request."""
UNPACK_FILES = 10_000
"""Members of an archive."""
UNPACK_RATIO = 200
"""How many times its own size an archive may unpack to; 64 MB it may always."""
UNPACK_SECONDS = 60.0
ENOSPC, ENOENT, EROFS = 28, 2, 30

Take = Callable[[bytes], object]


@dataclass(frozen=True)
class Carried:
    """A file that was carried.

    Attributes:
        size: Bytes.
        sha256: Of its contents, in hexadecimal, as the host saw them.
        files: How many files it was unpacked to; 0 if it was not.
        changed: When it was there, by the sandbox's own clock, in nanoseconds.
    """

    size: int
    sha256: str
    files: int = 0
    changed: int = 0


class Transfer:
    """Carries files between the host and one kernel's sandbox.

    The caller sees to it that no cell runs in between: a piece is a request like a cell's.

    Args:
        kernel: The session's.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def bound(self) -> int:
        """Bytes of the largest file: no larger one fits into the sandbox's folders."""
        return self._kernel.spec.trust.limits.tmp_mb * MIB

    async def upload(
        self, pieces: AsyncIterator[bytes], place: Place, *, size: int | None = None, unpack: bool = False
    ) -> Carried:
        """Write a file inside; it is there whole or not at all.

        Args:
            pieces: Its contents, in pieces of any size.
            place: Where to; with `unpack` a folder that isn't there yet.
            size: Its size as far as it is known, to complain early.
            unpack: Unpack it as an archive instead.

        Raises:
            TransferLimit: It is too large, or its place or what it unpacks to is not allowed.
            TransferError: It can't be written.
        """
        self._check_size(size or 0, place)
        token = secrets.token_hex(8)
        begun = await self._do(place, "begin", token, place.base, list(place.parts))
        self._check_room(size or 0, begun, place)
        digest, sent = hashlib.sha256(), 0
        try:
            async for piece in pieces:
                for start in range(0, len(piece), PIECE):
                    part = piece[start : start + PIECE]
                    sent += len(part)
                    self._check_size(sent, place)
                    digest.update(part)
                    await self._do(place, "put", token, buffers=[part])
            sha256 = digest.hexdigest()
            if unpack:
                found = await self._unpack(place, token, sent, sha256)
            else:
                found = await self._do(place, "finish", token, place.base, list(place.parts), sent, sha256)
        except BaseException:
            await self._drop()
            raise
        if unpack:
            await self._drop()
        return Carried(sent, sha256, _count(found.get("files")), _count(found.get("changed")))

    async def download(
        self, place: Place, take: Take, *, bound: int | None = None, seconds: float = float("inf")
    ) -> Carried:
        """Read a file inside, and give its contents to `take` piece by piece.

        Args:
            place: Where it is.
            take: Gets the pieces.
            bound: Bytes it may have; what the sandbox's folders can hold by default.
            seconds: For all of it.

        Raises:
            TransferLimit: It is larger than that, or no plain file.
            TransferError: It isn't there, changed while it was read, or did not come in time.
            Exception: What `take` raises.
        """
        end = time.monotonic() + seconds
        found = await self._do(place, "look", place.base, list(place.parts))
        size, known = found.get("size"), found.get("identity")
        if type(size) is not int or not 0 <= size <= MAX_SIZE or not isinstance(known, list):
            raise TransferError(f"The sandbox gave no sense about {shown(place.path)}.")
        self._check_size(size, place, bound=bound)
        digest, received = hashlib.sha256(), 0

        def took(chunk: bytes) -> None:
            nonlocal received
            # More than what was asked for is not of the file.
            chunk = chunk[: size - received]
            received += len(chunk)
            digest.update(chunk)
            take(chunk)

        while received < size:
            before, left = received, min(SECONDS, end - time.monotonic())
            if left <= 0:
                raise TransferError(f"{shown(place.path)} did not come in time.")
            part = min(PIECE, size - received)
            arguments = (place.base, list(place.parts), received, part, known)
            await self._do(place, "send", *arguments, chunks=took, seconds=left)
            if received - before != part:
                raise TransferError(f"{shown(place.path)} did not come whole.", mend="Download it again.")
        return Carried(size, digest.hexdigest())

    async def entries(self, place: Place, *, bound: int, seconds: float = 5.0) -> tuple[list[Entry], int, bool]:
        """What there is below a folder: the entries, how many there are, and whether these have all been counted.

        Raises:
            TransferError: There is no such folder.
        """
        found = await self._do(place, "entries", place.base, list(place.parts), bound, seconds)
        listed = [each for row in _list(found.get("entries"))[:bound] if (each := _entry(place, row)) is not None]
        return listed, max(_count(found.get("total")), len(listed)), found.get("whole") is True

    async def _unpack(self, place: Place, token: str, size: int, sha256: str) -> dict[str, Any]:
        opened = await self._do(place, "archive", token, size, sha256)
        bounds = {"files": UNPACK_FILES, "bytes": self.bound, "ratio": UNPACK_RATIO, "seconds": UNPACK_SECONDS}
        arguments = [opened.get("file"), opened.get("folder"), place.parts[-1], bounds]
        source = inside_calls.source_of("unpack_inside.py")
        found = await self._kernel.evaluate(source, arguments, seconds=2 * UNPACK_SECONDS)
        answer = self._checked(found, place)
        if answer.get("limit"):
            raise TransferLimit(f"The archive was not unpacked: {_sentence(answer)}.")
        if "error" in answer:
            raise self._error(answer, place)
        return answer

    async def _do(self, place: Place, verb: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        """One request; returns its answer.

        Raises:
            TransferError: There was none, or it is an error.
        """
        source = inside_calls.source_of("transfer_inside.py")
        found = await self._kernel.evaluate(source, [verb, *arguments], **{"seconds": SECONDS, **more})
        answer = self._checked(found, place)
        if "error" in answer:
            raise self._error(answer, place)
        return answer

    @staticmethod
    def _checked(found: Any, place: Place) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise TransferError(
                f"The sandbox did not answer about {shown(place.path)}.", mend="Run a cell to see whether it is alive."
            )
        return found

    def _error(self, answer: dict[str, Any], place: Place) -> TransferError:
        path, number = shown(place.path), answer.get("errno")
        if number == ENOSPC:
            return self._too_large(path)
        if number == ENOENT:
            return TransferError(f"There is no {path} in the sandbox.", mend="See what there is with session.files().")
        kind = TransferLimit if not number or number == EROFS else TransferError
        return kind(f"{path} was not carried: {_sentence(answer)}.")

    def _too_large(self, path: str) -> TransferLimit:
        limit = self._kernel.spec.trust.limits.tmp_mb
        return TransferLimit(
            f"{path} does not fit: the folders of this sandbox hold {limit:,} MB each (limit tmp_mb).",
            mend="Delete files in there, or raise it: Limits(tmp_mb=…).",
        )

    def _check_size(self, size: int, place: Place, *, bound: int | None = None) -> None:
        if bound is not None and bound < self.bound and size > bound:
            raise TransferLimit(
                f"{shown(place.path)} has {size:,} bytes, and {bound:,} is the limit here.",
                mend="Name a file for it: to=PATH.",
            )
        if size > self.bound:
            raise self._too_large(shown(place.path))

    def _check_room(self, size: int, begun: dict[str, Any], place: Place) -> None:
        free = begun.get("free")
        if type(free) is int and size > free:
            raise self._too_large(shown(place.path))

    async def _drop(self) -> None:
        """Forget an upload inside; whoever gave it up may have ended the kernel too."""
        if self._kernel.is_alive:
            with contextlib.suppress(NbagentError):
                await self._kernel.evaluate(inside_calls.source_of("transfer_inside.py"), ["drop"], seconds=5)


@dataclass(frozen=True)
class Entry:
    """Something in a folder of the sandbox.

    Attributes:
        path: Its path, as people name it.
        kind: `file`, `folder`, `link` or `special file`.
        size: Bytes of a file.
        modified: When it was written to last, in nanoseconds since the epoch.
    """

    path: str
    kind: str
    size: int
    modified: int


def _entry(place: Place, row: Any) -> Entry | None:
    match row:
        case [str(name), "file" | "folder" | "link" | "special file" as kind, int(size), int(modified)] if (
            0 <= size <= MAX_SIZE
        ):
            return Entry(f"{place.path}/{name}", kind, size, within(modified))
    return None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MAX_SIZE else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sentence(answer: dict[str, Any]) -> str:
    return shown(str(answer.get("error", ""))).rstrip(".")
