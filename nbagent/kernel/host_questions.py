"""Questions about hosts, between a sandbox's proxy, which has a thread of its own, and whoever answers them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

import msgspec

from nbagent.core.errors import NbagentError
from nbagent.core.events import Event, HostAsked, HostDecided
from nbagent.safety.wait_timer import WaitTimer

if TYPE_CHECKING:
    from nbagent.egress.gate import HostAnswer
    from nbagent.egress.proxy import ConnectionEnded

MAX_DECISIONS = 1000
"""Decisions that become events without a question: code that tries hosts for ever must not fill the log."""


class HostAsker:
    """The questions about hosts of one kernel, whose code waits for the answers.

    Unless somebody is `asking`, who answers `HostAsked`, a host that isn't listed is denied at once.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notify: Callable[[Event], object], *, asking: bool, wait_timer: WaitTimer
    ) -> None:
        self._asking = asking
        self._wait_timer = wait_timer
        self._loop = loop
        self._notify = notify
        self._open: dict[str, Future[HostAnswer]] = {}
        self._asked = 0
        self._series = secrets.token_hex(4)
        self._decided: set[tuple[str, int, bool, str]] = set()
        self._answered: dict[tuple[str, int], list[str]] = {}
        self._lock = threading.Lock()

    # -- on the proxy's thread ----------------------------------------------------------------------------------

    def ask(self, host: str, port: int) -> Future[HostAnswer] | None:
        """Ask whoever follows the events; the proxy cancels a question when nobody waits for its answer any longer."""
        if not self._asking:
            return None
        self._asked += 1
        # No process of the session gives an id again: an answer to an old question must not be one to another.
        id = f"h{self._asked}-{self._series}"
        question: Future[HostAnswer] = Future()
        self._open[id] = question
        self._wait_timer.begin()
        question.add_done_callback(lambda _: self._close(id, _question_key(host, port)))
        self._emit(HostAsked(id=id, host=host, port=port))
        return question

    def observe(self, seen: HostDecided | ConnectionEnded) -> None:
        """Emit what the proxy decided: each decision once, and once more after each question about its host."""
        if not isinstance(seen, HostDecided):
            return
        key = (seen.host, seen.port, seen.allowed, seen.by)
        with self._lock:
            answered = self._answered.get(_question_key(seen.host, seen.port))
            id = answered.pop(0) if answered else ""
        if not id and (key in self._decided or len(self._decided) >= MAX_DECISIONS):
            return
        self._decided.add(key)
        self._emit(msgspec.structs.replace(seen, id=id))

    def _emit(self, event: Event) -> None:
        def work() -> None:
            with contextlib.suppress(NbagentError):  # a log that can't be written ends the next cell
                self._notify(event)

        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody follows the events
            self._loop.call_soon_threadsafe(work)

    def _close(self, id: str, where: tuple[str, int]) -> None:
        with self._lock:
            # Each face must see the end of a question, also if it repeats a decision.
            self._answered.setdefault(where, []).append(id)
        del self._open[id]
        self._wait_timer.end()

    # -- on any thread ------------------------------------------------------------------------------------------

    def answer(self, id: str, *, allow: bool, remember: bool) -> bool:
        """Answer an open question, for the session if `remember`; a denial always holds. False if none has this id."""
        from nbagent.egress.gate import HostAnswer

        question = self._open.get(id)
        if question is None:
            return False
        answer = HostAnswer.DENY if not allow else HostAnswer.SESSION if remember else HostAnswer.ONCE
        try:
            question.set_result(answer)
        except InvalidStateError:
            return False
        return True


def _question_key(host: str, port: int) -> tuple[str, int]:
    """What a question is about; an answer holds for ports 80 and 443 alike, see `Gate.admit`."""
    from nbagent.egress.hosts import WEB_PORTS

    return host, 0 if port in WEB_PORTS else port
