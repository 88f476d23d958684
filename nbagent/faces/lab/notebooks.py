"""Notebooks: a session's is exported, and any is verified. Both are jobs, since cells may run for it."""

from __future__ import annotations

from http import HTTPStatus

from nbagent.faces.lab.base_handler import contents
from nbagent.faces.lab.files import FileHandler
from nbagent.faces.lab.job_messages import ExportWanted, VerifyWanted


class ExportHandler(FileHandler):
    """`POST sessions/ID/export`."""

    async def post(self, id: str) -> None:
        """Begin to write the session's notebook."""
        wanted = self.read(ExportWanted)
        place = (await contents(self, "write")).path(wanted.path)
        flags = {"--force": wanted.force, "--keep-attempts": wanted.keep_attempts, "--environment": wanted.environment}
        given = [flag for flag, is_wanted in flags.items() if is_wanted]
        job = await self.jobs.export(self.lab.folder(id).name, place, wanted.path.strip("/"), *given)
        self.reply(job.entry, HTTPStatus.ACCEPTED)


class VerifyHandler(FileHandler):
    """`POST verify`."""

    async def post(self) -> None:
        """Begin to verify a notebook."""
        wanted = self.read(VerifyWanted)
        place = (await contents(self, "write" if wanted.write else "read")).path(wanted.path)
        given = [] if wanted.write else ["--no-write"]
        job = await self.jobs.verify(place, wanted.path.strip("/"), *given, *(["--sweep"] if wanted.sweep else []))
        self.reply(job.entry, HTTPStatus.ACCEPTED)


class JobHandler(FileHandler):
    """`GET` and `DELETE jobs/ID`."""

    async def get(self, id: str) -> None:
        """Tell what has become of it."""
        self.reply(self.jobs.find(id).entry)

    async def delete(self, id: str) -> None:
        """Stop and forget it."""
        await self.jobs.remove(id)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


class PictureHandler(FileHandler):
    """`GET jobs/ID/pictures/NAME`."""

    async def get(self, id: str, picture: str) -> None:
        """Send a picture that shows how a figure differs."""
        place = self.jobs.find(id).picture(picture)
        await self.send(place.open("rb"), picture)
