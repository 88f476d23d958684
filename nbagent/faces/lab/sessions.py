"""The list of sessions: what there is, new ones, other titles, and the end of them."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import settings
from nbagent.core.errors import UsageError
from nbagent.core.policy import Network, TrustLevel, trust_for
from nbagent.faces.lab.base_handler import ForbiddenError, Handler, contents, may
from nbagent.faces.lab.messages import Created, FoundText, FoundTexts, NewSession, NewTitle, SessionEntry, SessionList

DEMO = Path(__file__).parents[1] / "demo"
MAX_LISTED = 1000
"""Sessions that are listed at most, and by default."""


class SessionsHandler(Handler):
    """`GET sessions?search=&limit=`, `POST sessions`."""

    async def get(self) -> None:
        """List the sessions, or find those that have a text."""
        limit = self.limit(MAX_LISTED)
        if text := self.get_query_argument("search", "").strip():
            found = await self.lab.manager.search(text, most=limit)
            self.reply(FoundTexts([FoundText.of(each) for each in found.hits], found.is_whole))
            return
        infos = await self.lab.manager.list()
        self.reply(SessionList([SessionEntry.of(each) for each in infos[:limit]], len(infos)))

    async def post(self) -> None:
        """Start a session in a process of its own."""
        wanted = self.read(NewSession)
        given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
        question, files = "", await contents(self)
        is_demo = given.pop("demo")
        for name in ("model", "critic"):
            if name in given:
                given[name] = files.model(given[name])
        if "fallback" in given:
            given["fallback"] = [files.model(each) for each in given["fallback"]]
        if wanted.data is not None:
            given["data"] = [files.path(each) for each in wanted.data]
        if is_demo:
            given, question = {**given, **_demo()}, (DEMO / "question.txt").read_text(encoding="utf-8").strip()
        defaults = self.lab.defaults
        if wanted.kernel is not None:
            given["kernel"] = await self._connection_file(wanted.kernel)
            # What isolates such a kernel was decided when it was started: only a level that the page names must hold.
            defaults = {name: value for name, value in defaults.items() if name not in ("trust", "engine")}
        given = {**defaults, **given}
        if wanted.kernel is None:
            given.setdefault("ask_hosts", _reaches_listed(given))
        session = await self.lab.manager.create(**given)
        await session.detach()
        self.reply(Created(session.id, question), HTTPStatus.CREATED)

    async def _connection_file(self, kernel: str) -> Path:
        """The connection file of a kernel of this server, in which the person may run code."""
        if not await may(self, "execute", "kernels"):
            raise ForbiddenError(
                "You may not use the kernels of this server.", mend="Use a sandbox of the session's own."
            )
        if kernel not in self.kernel_manager:
            raise UsageError(f"This server has no kernel {kernel[:80]!r}.", mend="Start the notebook's kernel.")
        found = Path(getattr(self.kernel_manager.get_kernel(kernel), "connection_file", "") or "none")
        if not found.is_file():
            mend = "Use a sandbox of the session's own."
            raise UsageError("This kernel runs on another machine, where no session can join it.", mend=mend)
        return found


def _demo() -> dict[str, Any]:
    """The options of the demo, which runs without a key: its data, and recorded replies."""
    return {"data": [DEMO / "penguins.csv"], "model": f"replay:{DEMO / 'replies.jsonl'}"}


class SessionHandler(Handler):
    """`GET`, `PATCH` and `DELETE sessions/ID`."""

    async def get(self, id: str) -> None:
        """Tell of one session."""
        self.reply(SessionEntry.of(await self.lab.manager.find(self.lab.folder(id).name)))

    async def patch(self, id: str) -> None:
        """Give it another title."""
        await self.lab.manager.rename(self.lab.folder(id).name, self.read(NewTitle).title)
        self.reply({})

    async def delete(self, id: str) -> None:
        """End it if it runs, and remove it."""
        await self.lab.manager.delete(self.lab.folder(id).name, force=True)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()


def _reaches_listed(given: dict[str, Any]) -> bool:
    """Whether a new session reaches hosts that are listed: then the person, who is there, is asked about others."""
    chosen = settings.load(**{name: given[name] for name in ("trust", "allow_hosts") if name in given})
    trust = trust_for(TrustLevel.parse(chosen.trust), security=chosen.security_options)
    return trust.network is Network.LISTED
