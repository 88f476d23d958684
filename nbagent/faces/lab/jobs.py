"""Work that may take as long as the cells of a notebook: exports and verifications. A page asks for its end.

A server that ends stops its jobs; nothing but a job's own result is lost with that.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core.errors import NbagentError, UsageError
from nbagent.faces.lab import programs
from nbagent.faces.lab.config import Config
from nbagent.faces.lab.job_messages import Exported, JobEntry, Verified
from nbagent.faces.lab.messages import Refusal

SETTING = "nbagent_jobs"
"""The setting of the web application that has the `Jobs`."""
MAX_JOBS = 32
"""Jobs that are known at a time; the oldest that has ended is forgotten for a new one."""
MAX_RUNNING = 4
"""Jobs that run at a time."""
SECONDS = 3600.0
"""Seconds for a job."""
PICTURE = re.compile(r"[0-9]{1,5}-[0-9]{1,5}\.png")
"""The names of the pictures of a verification: the cell's place, and a number."""


class VerifyOutput(msgspec.Struct, frozen=True):
    """What `nbagent verify --json` prints."""

    notebooks: list[Verified]


class Job:
    """One piece of work.

    Args:
        work: Does it, with a folder for what lies beside its result.
    """

    def __init__(self, work: Callable[[Path], Awaitable[Exported | Verified]]) -> None:
        self.id = secrets.token_hex(8)
        self.folder = Path(tempfile.mkdtemp(prefix="nbagent-job-"))
        self._task = asyncio.ensure_future(work(self.folder))
        # A page may never ask how it ended.
        self._task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return not self._task.done()

    @property
    def entry(self) -> JobEntry:
        """What a page is told of it."""
        if self.is_running:
            return JobEntry(self.id, "running")
        if self._task.cancelled():
            return JobEntry(self.id, "failed", refusal=Refusal("It was stopped."))
        match self._task.exception():
            case None:
                found = self._task.result()
                pictures = sorted(each.name for each in self.folder.glob("*/*.png"))
                return JobEntry(
                    self.id,
                    "done",
                    exported=found if isinstance(found, Exported) else None,
                    verified=found if isinstance(found, Verified) else None,
                    pictures=pictures,
                )
            case NbagentError() as error:
                return JobEntry(self.id, "failed", refusal=Refusal.of(error))
            case error:
                return JobEntry(self.id, "failed", refusal=Refusal(f"nbagent itself failed: {error!r}"[:500]))

    def picture(self, name: str) -> Path:
        """A picture of it."""
        found = next((each for each in self.folder.glob("*/*.png") if each.name == name), None)
        if found is None or not PICTURE.fullmatch(name):
            raise NoJobError("There is no such picture.")
        return found

    async def end(self) -> None:
        """Stop it, and remove what lies beside its result."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


class NoJobError(UsageError):
    """There is no job of that id."""


class Jobs:
    """The jobs of this server."""

    def __init__(self, lab: Config) -> None:
        self._lab = lab
        self._jobs: dict[str, Job] = {}

    def find(self, id: str) -> Job:
        """A job."""
        if id not in self._jobs:
            raise NoJobError(f"There is no job {id[:80]!r}.", mend="The server was started again: begin anew.")
        return self._jobs[id]

    async def begin(self, work: Callable[[Path], Awaitable[Exported | Verified]]) -> Job:
        """Begin a job."""
        if sum(each.is_running for each in self._jobs.values()) >= MAX_RUNNING:
            raise UsageError(f"{MAX_RUNNING} jobs run already.", mend="Wait for one of them, or stop it.")
        if len(self._jobs) >= MAX_JOBS:
            await self.remove(next(id for id, each in self._jobs.items() if not each.is_running))
        job = Job(work)
        self._jobs[job.id] = job
        return job

    async def remove(self, id: str) -> None:
        """Stop and forget a job."""
        job = self.find(id)
        del self._jobs[id]
        await job.end()

    async def close(self) -> None:
        """Stop all jobs."""
        for id in list(self._jobs):
            await self.remove(id)

    async def export(self, session: str, place: Path, path: str, *flags: str) -> Job:
        """Begin to write the notebook of a session to a place, for pages `path`; the flags are `nbagent export`'s."""

        async def work(_: Path) -> Exported:
            done = await programs.run("export", session, "--out", place, *flags, root=self._lab.root, seconds=SECONDS)
            if done.code:
                raise done.error()
            return Exported(path, [line for line in done.err.splitlines() if line.strip()])

        return await self.begin(work)

    async def verify(self, place: Path, path: str, *flags: str) -> Job:
        """Begin to verify a notebook; arguments as for `export`, the flags being those of `nbagent verify`."""

        async def work(folder: Path) -> Verified:
            words: list[Any] = ["verify", "--json", "--pictures", folder, *flags, place]
            done = await programs.run(*words, root=self._lab.root, seconds=SECONDS)
            (found,) = done.read(VerifyOutput).notebooks
            return msgspec.structs.replace(found, notebook=path, error=found.error.replace(str(place), path))

        return await self.begin(work)
