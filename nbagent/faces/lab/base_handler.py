"""What each endpoint of the extension checks before anything else, how it reads a body, and how it refuses.

A request is authenticated and authorized as Jupyter's own are, before its body is read; one that changes something also
needs the XSRF token. No method of a handler has to think of that.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, TypeVar, cast

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.utils import HTTP_METHOD_TO_AUTH_ACTION
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado import web

from nbagent.core.errors import DataError, NbagentError, OwnerGone, SandboxError, StoreError, TransferLimit, UsageError
from nbagent.core.events import to_json
from nbagent.faces.lab.available import SETTING as AVAILABLE
from nbagent.faces.lab.available import Available
from nbagent.faces.lab.config import SETTING, Config, NoSessionError
from nbagent.faces.lab.contents import Contents
from nbagent.faces.lab.jobs import SETTING as JOBS
from nbagent.faces.lab.jobs import Jobs, NoJobError
from nbagent.faces.lab.messages import Refusal

RESOURCE = "nbagent"
"""The resource that an authorizer of the server is asked about: to `read`, to `write`, and to `execute` calls."""
MAX_BODY_BYTES = 1024 * 1024
"""Bytes of a request's body; uploads have a bound of their own."""
MAX_DIGITS = 16
T = TypeVar("T")


class TooLargeError(UsageError):
    """A body that is larger than what is taken."""


class ForbiddenError(UsageError):
    """What the server's authorizer doesn't let a person do, who is logged in."""


_STATUS: tuple[tuple[type[NbagentError], HTTPStatus], ...] = (
    (NoSessionError, HTTPStatus.NOT_FOUND),
    (NoJobError, HTTPStatus.NOT_FOUND),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (TransferLimit, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (DataError, HTTPStatus.BAD_REQUEST),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (OwnerGone, HTTPStatus.CONFLICT),
    (SandboxError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The HTTP status of each kind of error, the special ones first."""


def status_of(error: NbagentError) -> HTTPStatus:
    """The HTTP status that says of what kind an error is."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)


async def may(handler: JupyterHandler, action: str, resource: str = RESOURCE) -> bool:
    """Whether the person who sent a request is logged in, and may do this."""
    user = handler.current_user
    if user is None:
        return False
    return bool(await ensure_async(handler.authorizer.is_authorized(handler, user, action, resource)))


async def contents(handler: JupyterHandler, action: str = "read") -> Contents:
    """The files that a page can name, as far as the person may read or write the files of this server."""
    refused = "" if await may(handler, action, "contents") else action
    return Contents(handler.contents_manager, refused=refused)


def number(text: str) -> int:
    """A number in a query."""
    if not (text.isascii() and text.isdigit() and len(text) < MAX_DIGITS):
        raise UsageError(f"{text[:80]!r} is no number.")
    return int(text)


@web.stream_request_body
class Handler(APIHandler):
    """The base class of the REST endpoints."""

    auth_resource = RESOURCE

    def initialize(self) -> None:
        """Begin with an empty body."""
        self.body = bytearray()

    @property
    def lab(self) -> Config:
        """What is set."""
        return cast(Config, self.settings[SETTING])

    @property
    def available(self) -> Available:
        """What is known of this machine and of providers."""
        return cast(Available, self.settings[AVAILABLE])

    @property
    def jobs(self) -> Jobs:
        """The exports and verifications that go on."""
        return cast(Jobs, self.settings[JOBS])

    @property
    def max_body_bytes(self) -> int:
        """Bytes that a body may have."""
        return MAX_BODY_BYTES

    async def prepare(self) -> None:  # type: ignore[override]
        """Let the request in, or not, before its body is read."""
        await super().prepare()
        method = str(self.request.method)
        if method != "OPTIONS" and not await may(self, HTTP_METHOD_TO_AUTH_ACTION[method]):
            if self.current_user is None:
                raise web.HTTPError(HTTPStatus.FORBIDDEN, "You may not do this.")
            raise ForbiddenError("You may not do this.", mend="Ask whoever runs this Jupyter server.")
        if int(self.request.headers.get("Content-Length") or 0) > self.max_body_bytes:
            raise self.too_large()
        self.request.connection.set_max_body_size(self.max_body_bytes)  # type: ignore[union-attr]  # a body may come in chunks

    def too_large(self) -> TooLargeError:
        """The error of a body that has too many bytes."""
        return TooLargeError(f"More than {self.max_body_bytes:,} bytes were sent.", mend="Send less.")

    def data_received(self, chunk: bytes) -> None:
        """Take a part of the body."""
        if len(self.body) + len(chunk) > self.max_body_bytes:
            raise self.too_large()
        self.body += chunk

    def limit(self, most: int) -> int:
        """How many are wanted, by `limit` in the query."""
        return min(number(self.get_query_argument("limit", str(most))), most)

    def wants(self, name: str) -> bool:
        """Whether the query asks for something by a name, as in `?again=1`."""
        return self.get_query_argument(name, "") not in ("", "0", "false")

    def read(self, kind: type[T]) -> T:
        """The body as a value."""
        try:
            return msgspec.json.decode(bytes(self.body) or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"The request's body is wrong: {error}.") from error

    def reply(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Answer with a value as JSON."""
        self.set_status(status)
        self.finish(to_json(value))

    def write_error(self, status_code: int, **given: Any) -> None:
        """Answer with a `Refusal`; what a bug of nbagent's says is for the server's log alone."""
        error = (given.get("exc_info") or (None, None))[1]
        match error:
            case NbagentError():
                refusal = Refusal.of(error)
                status_code = status_of(error)
            case web.HTTPError():
                message = str(error.log_message or "") or HTTPStatus(status_code).phrase
                refusal = Refusal(message, "Log in again." if self.current_user is None else "")
            case _:
                refusal = Refusal("nbagent itself failed.", "See the log of the Jupyter server.")
        self.reply(refusal, HTTPStatus(status_code))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """Log a bug; what a person did wrong is in the reply."""
        if not isinstance(error, NbagentError):
            super().log_exception(kind, error, trace)
