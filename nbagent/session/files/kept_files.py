"""Puts files back when a session's sandbox is replaced: uploads, and variables that a notebook gave."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO

from nbagent.core.errors import TransferError, TransferLimit, UsageError
from nbagent.core.events import Event, FileLeft, FilesLeft
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.queries import Evaluate
from nbagent.kernel.recovery import Prepare
from nbagent.kernel.transfer import outside
from nbagent.kernel.transfer.file_watch import FileWatch
from nbagent.kernel.transfer.sandbox_paths import SandboxPath, display, file_at
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.notebook.record import Recording
from nbagent.session.files.given_variables import Given


class KeptFiles:
    """Takes a session's uploaded files and given variables over into the sandbox that replaces another.

    When the kernel replaces a lost sandbox by itself, the variables are put back. The watch is told of the files, which
    no cell has made.
    """

    def __init__(
        self, kernel: Kernel, given: Given, *, recording: Recording, watch: FileWatch, emit: Callable[[Event], object]
    ) -> None:
        self._kernel = kernel
        self._given = given
        self._recording = recording
        self._watch = watch
        self._emit = emit
        kernel.prepare_replay(self._put_back_given)

    def check_rerun(self, cells: Mapping[int, str]) -> None:
        """Refuse to run cells again that read a variable of a notebook's that is no longer held."""
        # Only what was not copied into the sandbox is hashed after its upload.
        uncopied = [
            each.path for each in self._recording.uploads if not each.sha256 or each.path in self._recording.hashes
        ]
        if gone := self._given.missing(cells, uncopied):
            raise UsageError(
                f"{'Cell' if len(gone) == 1 else 'Cells'} {', '.join(map(str, gone))} can't run again: what a notebook "
                "gave is held only as long as the session's process lives, and as there is room.",
                mend="Go on in this kernel, or begin a new session.",
            )

    @contextlib.asynccontextmanager
    async def carried(self) -> AsyncIterator[Prepare]:
        """Keep uploaded files while the sandbox is replaced, as code has left them; the caller holds the lock.

        Archives that were unpacked are not kept, nor what is more than the sandbox holds in all, as an event tells.
        Variables of a notebook are there again as they were given.

        Yields:
            What puts them into the new sandbox, and tells by an event which it can't.
        """
        kept: list[tuple[SandboxPath, IO[bytes]]] = []
        transfer = Transfer(self._kernel)
        left, large = transfer.bound, list[FileLeft]()
        with contextlib.ExitStack() as copies:
            for path in dict.fromkeys(each.path for each in self._recording.uploads if not each.unpacked):
                if path in self._given:
                    continue
                try:
                    place, copy = file_at(path, self._kernel.about), copies.enter_context(tempfile.TemporaryFile())
                    left -= (await transfer.download(place, copy.write, bound=left)).size
                    kept.append((place, copy))
                except TransferLimit:  # code may have made each as large as the sandbox, by holes that take no room
                    large.append(FileLeft(display(path), "is too large to be kept"))
                except TransferError:
                    pass  # code may have removed it
            if large:
                self._emit(FilesLeft(cell=self._kernel.last_cell, files=large))

            async def put_back(cells: Mapping[int, str], evaluate: Evaluate) -> None:
                transfer, lost = Transfer(self._kernel, evaluate), list[FileLeft]()
                for place, copy in kept:
                    copy.seek(0)
                    try:
                        with outside.open_source(copy) as (pieces, size, _):
                            carried = await transfer.upload(pieces, place, size=size, unpack=False)
                        self._watch.know(place, until=carried.changed)
                    except TransferError as error:
                        lost.append(FileLeft(display(place.path), f"could not be put back ({error.message})"))
                await self._put_back_given(cells, evaluate, lost)

            yield put_back

    async def _put_back_given(
        self, cells: Mapping[int, str], evaluate: Evaluate, lost: Sequence[FileLeft] = ()
    ) -> None:
        transfer = Transfer(self._kernel, evaluate)
        if lost := [*lost, *await self._given.put_back(cells, transfer, self._kernel.about)]:
            self._emit(FilesLeft(cell=self._kernel.last_cell, files=lost))
