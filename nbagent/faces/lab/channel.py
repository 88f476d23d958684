"""`WS sessions/ID/channel?since=N`: one session and one page, over one WebSocket; `relay.py` has what goes over it."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import cast

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nbagent.core.errors import NbagentError, StoreError, UsageError
from nbagent.core.events import to_json
from nbagent.faces.lab.base_handler import RESOURCE, contents, may, number
from nbagent.faces.lab.channel_messages import StateTold
from nbagent.faces.lab.config import SETTING, Config
from nbagent.faces.lab.relay import Relay

MAX_MESSAGE_BYTES = 2 * 1024 * 1024
"""Bytes of one message of a page's."""
GONE = 4404
"""The code with which the socket closes when there is no such session any more."""


class PageChannel(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """The socket of one page."""

    auth_resource = RESOURCE
    max_message_size = MAX_MESSAGE_BYTES
    _relay: Relay | None = None
    _serving: asyncio.Task[None] | None = None

    def set_default_headers(self) -> None:
        """Set none: they make no sense for a socket."""

    async def prepare(self) -> None:  # type: ignore[override]
        """Let the page in, or not: who looks must be logged in, and may `read`."""
        await super().prepare()
        if not await may(self, "read"):
            raise web.HTTPError(HTTPStatus.FORBIDDEN)

    async def get(self, id: str) -> None:
        """Check the request; tornado checks its origin and makes it a socket."""
        try:
            self._id, self._since = id, number(self.get_query_argument("since", "0"))
        except UsageError as error:
            raise web.HTTPError(HTTPStatus.BAD_REQUEST, error.message) from error
        self._may_call = await may(self, "execute")
        self._contents = await contents(self)
        await super().get(id)

    async def open(self, *_: str, **__: str) -> None:
        """Begin to relay."""
        super().open()
        lab = cast(Config, self.settings[SETTING])
        try:
            folder = lab.folder(self._id)
        except NbagentError as error:
            await self._send(to_json(StateTold("gone", mend=str(error))))
            self.close(GONE)
            return
        self._relay = Relay(
            folder, since=self._since, send=self._send, may_call=self._may_call, contents=self._contents
        )
        self._serving = asyncio.create_task(self._serve(self._relay))

    async def _serve(self, relay: Relay) -> None:
        try:
            await relay.serve()
            message = StateTold("gone")
        except StoreError as error:
            message = StateTold("gone", mend=str(error))
        except Exception:
            self.log.exception("nbagent: the channel of the session %s failed", self._id)
            self.close(1011)
            return
        await self._send(to_json(message))
        self.close(GONE)

    async def _send(self, message: bytes) -> None:
        with contextlib.suppress(WebSocketClosedError):
            await self.write_message(message)

    async def on_message(self, message: str | bytes) -> None:
        """Take a call."""
        if self._relay is not None:
            await self._relay.hear(message)

    def on_close(self) -> None:
        """Let go of the session; what runs goes on."""
        if self._serving is not None:
            self._serving.cancel()
