"""Carries files into a sandbox and out of it, over the kernel's own connection, piece by piece.

This works in every engine and at every trust level, since it needs neither a program nor a socket inside. On this
machine a large file goes over a Unix socket instead (`sandbox/channels/byte_stream.py`), several times as fast.

The host follows no name, link or size that the sandbox claims, and holds one piece of a file in memory at a time. An
archive is unpacked inside: if it is hostile, it can harm the sandbox only.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbagent.core.concurrency import Hashing
from nbagent.core.errors import NbagentError, TransferError, TransferLimit
from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.queries import Evaluate
from nbagent.kernel.transfer.over_socket import PIECE_BYTES, REQUEST_SECONDS, beside, patience, send
from nbagent.kernel.transfer.sandbox_paths import MAX_FILE_BYTES, SandboxPath, clamp_time, display
from nbagent.sandbox.channels.byte_stream import SealedMemory

if TYPE_CHECKING:
    from nbagent.sandbox.channels.byte_stream import ByteStream

MAX_UNPACKED_FILES = 10_000
"""Members of an archive."""
MAX_UNPACK_RATIO = 200
"""How many times its own size an archive may unpack to; 64 MB are always allowed."""
UNPACK_SECONDS = 60.0
ENOSPC, ENOENT, EROFS = 28, 2, 30


@dataclass(frozen=True)
class Carried:
    """A file that was carried.

    Attributes:
        size: Bytes.
        sha256: The hash of its contents as the host saw them, in hexadecimal; empty if they were not hashed.
        files: How many files it was unpacked to; 0 if it was not unpacked.
        changed: When an upload was complete, by the sandbox's clock, in nanoseconds.
    """

    size: int
    sha256: str
    files: int = 0
    changed: int = 0


class Transfer:
    """Carries files between the host and one kernel's sandbox.

    Each piece is a request like a cell's; the caller sees to it that no cell runs in between. While the kernel is
    replaced, it is called by the `evaluate` that `Prepare` gets.
    """

    def __init__(self, kernel: Kernel, evaluate: Evaluate | None = None) -> None:
        self._kernel = kernel
        self._evaluate = evaluate or kernel.evaluate

    @property
    def bound(self) -> int:
        """Bytes of the largest file that fits into the sandbox's folders."""
        return self._kernel.spec.trust.limits.tmp_mb * MIB

    async def upload(
        self, pieces: AsyncIterator[bytes], place: SandboxPath, *, size: int | None = None, unpack: bool = False
    ) -> Carried:
        """Write a file inside; it is there whole or not at all.

        Args:
            pieces: Its contents, in pieces of any size.
            place: Where to; with `unpack`, a folder that isn't there yet.
            size: Its size if it is known; one that is too large is refused before it is sent.
            unpack: Unpack it as an archive instead.

        Raises:
            TransferLimit: It is too large, or its place or what it unpacks to is not allowed.
            TransferError: It can't be written.
        """
        self._check_size(size or 0, place)
        token = secrets.token_hex(8)
        begun = await self._do(place, "begin", token, place.base, list(place.parts))
        self._check_room(size or 0, begun, place)
        digest, sent = Hashing(), 0

        async def parts() -> AsyncIterator[bytes]:
            nonlocal sent
            async for piece in pieces:
                for start in range(0, len(piece), PIECE_BYTES):
                    part = piece[start : start + PIECE_BYTES]
                    sent += len(part)
                    self._check_size(sent, place)
                    digest.update(part)
                    yield part

        try:
            stream = self.stream() if (size or 0) > PIECE_BYTES else None
            if stream is not None:
                filling = self._do(place, "fill", token, stream.address, seconds=patience(size or self.bound))
                await beside(stream, filling, send(stream, parts()))
            else:
                async for part in parts():
                    await self._do(place, "put", token, buffers=[part])
            sha256 = digest.hexdigest()
            # Sealed memory arrives as it was sent.
            checked = "" if stream is not None else sha256
            if unpack:
                found = await self._unpack(place, token, sent, checked)
            else:
                found = await self._do(place, "finish", token, place.base, list(place.parts), sent, checked)
        except BaseException:
            digest.close()
            await self._drop()
            raise
        if unpack:
            await self._drop()
        return Carried(sent, sha256, _count(found.get("files")), _count(found.get("changed")))

    async def hold(self, memory: SealedMemory, place: SandboxPath) -> Carried | None:
        """Have code inside hold sealed memory under a name until a cell that names it has ended; nothing is copied.

        Only the kernel's own process can read it by that name.

        Returns:
            What was handed over, not hashed; None where that is not worth while or can't be, and the memory must be
            uploaded.

        Raises:
            TransferError: The name can't be had.
        """
        if memory.size <= PIECE_BYTES or (stream := self.stream()) is None:
            return None
        holding = self._do(place, "hold", place.base, list(place.parts), stream.address)
        found = await beside(stream, holding, stream.send(memory))
        return Carried(memory.size, "") if found.get("held") is True else None

    async def download(
        self,
        place: SandboxPath,
        take: Callable[[bytes], object],
        *,
        bound: int | None = None,
        seconds: float = float("inf"),
    ) -> Carried:
        """Read a file inside, and give its contents to `take` piece by piece.

        Args:
            place: Where it is.
            take: Gets the pieces.
            bound: The most bytes that it may have; by default, as many as the sandbox's folders hold.
            seconds: How long all of it may take.

        Raises:
            TransferLimit: It is larger than that, or no plain file.
            TransferError: It isn't there, changed while it was read, or did not come in time.
            Exception: What `take` raises.
        """
        end = time.monotonic() + seconds
        found = await self._do(place, "look", place.base, list(place.parts))
        size, known = found.get("size"), found.get("identity")
        if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES or not isinstance(known, list):
            raise TransferError(f"The sandbox's answer about {display(place.path)} makes no sense.")
        self._check_size(size, place, bound=bound)
        digest, received = Hashing(), 0

        def took(chunk: bytes) -> None:
            nonlocal received
            # Bytes beyond those that were asked for are not the file's.
            chunk = chunk[: size - received]
            received += len(chunk)
            digest.update(chunk)
            take(chunk)

        try:
            if size > PIECE_BYTES and (stream := self.stream()) is not None:
                left = min(patience(size), end - time.monotonic())
                pouring = self._do(place, "pour", place.base, list(place.parts), known, stream.address, seconds=left)
                await beside(stream, pouring, stream.receive(size, took, seconds=REQUEST_SECONDS))
                if received != size:
                    raise TransferError(f"{display(place.path)} did not come whole.", mend="Download it again.")
            while received < size:
                before, left = received, min(REQUEST_SECONDS, end - time.monotonic())
                if left <= 0:
                    raise TransferError(f"{display(place.path)} did not come in time.")
                part = min(PIECE_BYTES, size - received)
                arguments = (place.base, list(place.parts), received, part, known)
                await self._do(place, "send", *arguments, chunks=took, seconds=left)
                if received - before != part:
                    raise TransferError(f"{display(place.path)} did not come whole.", mend="Download it again.")
        finally:
            digest.close()
        return Carried(size, digest.hexdigest())

    async def entries(
        self, place: SandboxPath, *, bound: int, seconds: float = 5.0
    ) -> tuple[list[FolderEntry], int, bool]:
        """The entries below a folder, at most `bound`; how many there are; and whether all have been counted.

        Raises:
            TransferError: There is no such folder.
        """
        found = await self._do(place, "entries", place.base, list(place.parts), bound, seconds)
        rows = found.get("entries")
        rows = rows[:bound] if isinstance(rows, list) else []
        listed = [each for row in rows if (each := _entry(place, row)) is not None]
        return listed, max(_count(found.get("total")), len(listed)), found.get("whole") is True

    def stream(self) -> ByteStream | None:
        """A socket, where there can be one."""
        with contextlib.suppress(OSError):
            return self._kernel.byte_stream()
        return None

    async def _unpack(self, place: SandboxPath, token: str, size: int, sha256: str) -> dict[str, Any]:
        opened = await self._do(place, "archive", token, size, sha256)
        bounds = {
            "files": MAX_UNPACKED_FILES,
            "bytes": self.bound,
            "ratio": MAX_UNPACK_RATIO,
            "seconds": UNPACK_SECONDS,
        }
        arguments = [opened.get("file"), opened.get("folder"), place.parts[-1], bounds]
        source = inside_calls.source_of("unpack_inside.py")
        found = await self._evaluate(source, arguments, seconds=2 * UNPACK_SECONDS)
        answer = self._answer(found, place)
        if answer.get("limit"):
            raise TransferLimit(f"The archive was not unpacked: {_error_text(answer)}.")
        if "error" in answer:
            raise self._error(answer, place)
        return answer

    async def _do(self, place: SandboxPath, verb: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        """Send a request to the code inside; returns its answer."""
        source = inside_calls.source_of("transfer_inside.py")
        found = await self._evaluate(source, [verb, *arguments], **{"seconds": REQUEST_SECONDS, **more})
        answer = self._answer(found, place)
        if "error" in answer:
            raise self._error(answer, place)
        return answer

    @staticmethod
    def _answer(found: Any, place: SandboxPath) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise TransferError(
                f"The sandbox did not answer about {display(place.path)}.",
                mend="Run a cell to see whether it is alive.",
            )
        return found

    def _error(self, answer: dict[str, Any], place: SandboxPath) -> TransferError:
        path, number = display(place.path), answer.get("errno")
        if number == ENOSPC:
            return self._too_large(path)
        if number == ENOENT:
            return TransferError(f"There is no {path} in the sandbox.", mend="See what there is with session.files().")
        kind = TransferLimit if not number or number == EROFS else TransferError
        return kind(f"{path} was not carried: {_error_text(answer)}.")

    def _too_large(self, path: str) -> TransferLimit:
        limit = self._kernel.spec.trust.limits.tmp_mb
        return TransferLimit(
            f"{path} does not fit: the folders of this sandbox hold {limit:,} MB each (limit tmp_mb).",
            mend="Delete files in there, or raise it: Limits(tmp_mb=…).",
        )

    def _check_size(self, size: int, place: SandboxPath, *, bound: int | None = None) -> None:
        if bound is not None and bound < self.bound and size > bound:
            raise TransferLimit(
                f"{display(place.path)} has {size:,} bytes, and {bound:,} is the limit here.",
                mend="Name a file for it: to=PATH.",
            )
        if size > self.bound:
            raise self._too_large(display(place.path))

    def _check_room(self, size: int, begun: dict[str, Any], place: SandboxPath) -> None:
        free = begun.get("free")
        if type(free) is int and size > free:
            raise self._too_large(display(place.path))

    async def _drop(self) -> None:
        """Have the sandbox drop what it holds of an upload, if its kernel still runs."""
        if self._kernel.is_alive:
            with contextlib.suppress(NbagentError):
                await self._evaluate(inside_calls.source_of("transfer_inside.py"), ["drop"], seconds=5)


@dataclass(frozen=True)
class FolderEntry:
    """An entry of a folder in the sandbox.

    Attributes:
        path: Its path, as people name it.
        kind: `file`, `folder`, `link` or `special file`.
        size: Bytes of a file.
        modified: When it was last written to, in nanoseconds since the epoch.
    """

    path: str
    kind: str
    size: int
    modified: int


def _entry(place: SandboxPath, row: Any) -> FolderEntry | None:
    match row:
        case [str(name), "file" | "folder" | "link" | "special file" as kind, int(size), int(modified)] if (
            0 <= size <= MAX_FILE_BYTES
        ):
            return FolderEntry(f"{place.path}/{name}", kind, size, clamp_time(modified))
    return None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MAX_FILE_BYTES else 0


def _error_text(answer: dict[str, Any]) -> str:
    return display(str(answer.get("error", ""))).rstrip(".")
