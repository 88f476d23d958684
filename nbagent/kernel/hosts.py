"""Questions about hosts, on their way from a sandbox's proxy, which has a thread of its own, to who answers them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

from nbagent.core.errors import NbagentError
from nbagent.core.events import Event, HostAsked, HostDecided

if TYPE_CHECKING:
    from nbagent.egress.gate import Verdict
    from nbagent.egress.proxy import Closed, Decision

MAX_TOLD = 1000
"""Answers that become events: code that asks for ever must not fill the log."""


class Hosts:
    """The host questions of one kernel.

    Args:
        loop: Where the events go.
        notify: Gets them.
        asking: Whether somebody answers `HostAsked`; otherwise a host that isn't listed is denied at once.

    Attributes:
        sent: Bytes that have gone to hosts, in connections that have ended.
        received: Bytes that have come from them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, notify: Callable[[Event], object], *, asking: bool) -> None:
        self.asking = asking
        self.sent = self.received = 0
        self._loop = loop
        self._notify = notify
        self._open: dict[str, Future[Verdict]] = {}
        self._asked = 0
        self._series = secrets.token_hex(4)
        self._told: set[tuple[str, int, bool, str]] = set()
        self._ended: dict[tuple[str, int], list[str]] = {}
        self._waits: list[tuple[float, float]] = []
        self._waiting_since = 0.0
        self._lock = threading.Lock()

    # -- on the proxy's thread ----------------------------------------------------------------------------------

    def ask(self, host: str, port: int) -> Future[Verdict] | None:
        """Ask whoever follows the events; the proxy cancels what it waits for no longer."""
        if not self.asking:
            return None
        self._asked += 1
        # No process of the session gives an id again: an answer to an old question must not be one to another.
        name = f"h{self._asked}-{self._series}"
        question: Future[Verdict] = Future()
        with self._lock:
            self._waiting_since = self._waiting_since if self._open else time.monotonic()
            self._open[name] = question
        question.add_done_callback(lambda _: self._close(name, _asked_about(host, port)))
        self._emit(HostAsked(id=name, host=host, port=port))
        return question

    def hear(self, told: Decision | Closed) -> None:
        """Take what the proxy tells: a decision, or the end of a connection."""
        from nbagent.egress.proxy import Closed

        if isinstance(told, Closed):
            self.sent += told.sent
            self.received += told.received
            return
        key = (told.host, told.port, told.allowed, told.by)
        with self._lock:
            ended = self._ended.get(_asked_about(told.host, told.port))
            name = ended.pop(0) if ended else ""
        if not name and (key in self._told or len(self._told) >= MAX_TOLD):
            return
        self._told.add(key)
        self._emit(
            HostDecided(
                id=name,
                host=told.host,
                port=told.port,
                allowed=told.allowed,
                by=told.by,
                reason=told.reason,
                address=told.address,
            )
        )

    def _emit(self, event: Event) -> None:
        def work() -> None:
            with contextlib.suppress(NbagentError):  # a log that can't be written ends the next cell
                self._notify(event)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            self._loop.call_soon_threadsafe(work)

    def _close(self, name: str, where: tuple[str, int]) -> None:
        with self._lock:
            # Every face has to be told how it ended, also if the same was decided before.
            self._ended.setdefault(where, []).append(name)
            del self._open[name]
            if not self._open:
                self._waits.append((self._waiting_since, time.monotonic()))

    # -- on any thread ------------------------------------------------------------------------------------------

    def answer(self, name: str, *, allow: bool, remember: bool) -> bool:
        """Answer a question by its id; returns whether it was still open.

        Args:
            name: The id in `HostAsked`.
            allow: Whether the host may be reached.
            remember: Whether that holds for the session; a denial always does.
        """
        from nbagent.egress.gate import Verdict

        question = self._open.get(name)
        if question is None:
            return False
        verdict = Verdict.DENY if not allow else Verdict.SESSION if remember else Verdict.ONCE
        try:
            question.set_result(verdict)
        except InvalidStateError:
            return False
        return True

    def waited(self, since: float) -> float:
        """Seconds since a moment of the monotonic clock in which code waited for an answer, which is not its fault."""
        with self._lock:
            waits = [*self._waits, (self._waiting_since, time.monotonic())] if self._open else self._waits
            return sum(end - max(start, since) for start, end in waits if end > since)


def _asked_about(host: str, port: int) -> tuple[str, int]:
    """What one question is about: its answer holds for ports 80 and 443 alike, see `Gate.admit`."""
    from nbagent.egress.hosts import WEB_PORTS

    return host, 0 if port in WEB_PORTS else port
