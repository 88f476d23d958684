"""Decides, host by host, what a sandbox may reach: by its list of hosts, else by asking a person."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from nbagent.egress.hosts import WEB_PORTS, By, Denied, Rules
from nbagent.safety.questions import ASK_SECONDS

OPEN_QUESTIONS = 3
"""Questions that are put to a person at a time. Further ones wait, and their 60 seconds run."""
MAX_QUESTIONS = 50
"""Questions in a session. Code that makes up names must not be able to ask for ever."""


class Verdict(enum.StrEnum):
    """A person's answer to a question about a host."""

    ONCE = "once"
    """Allowed for the requests that wait for this answer."""
    SESSION = "session"
    DENY = "deny"
    """Denied for the whole session, so that code can't ask again and again."""


Decide = Callable[[str, int], "Future[Verdict] | None"]
"""Asks a person about a host and a port; None if there is nobody to ask. Called on the proxy's own thread, so it must
not block; the future may be completed on any thread, and is cancelled when the time is over."""


@dataclass(frozen=True)
class _Answer:
    verdict: Verdict
    by: By
    reason: str = ""


class Gate:
    """Decides for one session, and remembers each decision.

    Args:
        rules: The hosts that are allowed without a question.
        decide: Asks a person; with None, every other host is denied at once.
        ask_seconds: See `ASK_SECONDS`.
    """

    def __init__(self, rules: Rules, decide: Decide | None = None, *, ask_seconds: float = ASK_SECONDS) -> None:
        self._rules = rules
        self._decide = decide
        self._ask_seconds = ask_seconds
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._open: dict[tuple[str, int], asyncio.Task[_Answer]] = {}
        self._few = asyncio.Semaphore(OPEN_QUESTIONS)
        self._asked = 0

    async def admit(self, host: str, port: int) -> By:
        """Wait until a host is allowed; returns who allowed it.

        Raises:
            Denied: The host is not allowed.
        """
        if self._rules.allow(host, port):
            return "list"
        # An answer holds for ports 80 and 443 alike, as an entry of the list does.
        key = (host, 0 if port in WEB_PORTS else port)
        answer = self._answers.get(key) or await self._question(key, host, port)
        if answer.verdict is Verdict.DENY:
            raise Denied(answer.reason, by=answer.by)
        return answer.by

    def allow(self, entry: str) -> None:
        """Add an entry to the list; it overrides earlier decisions. To be called on the proxy's own thread.

        Raises:
            UsageError: The entry has another form.
        """
        self._rules.add(entry)

    async def _question(self, key: tuple[str, int], host: str, port: int) -> _Answer:
        """Ask a person, or wait for the answer if the same question is open already."""
        if self._decide is None:
            return _unlisted(host, port)
        if key not in self._open:
            if self._asked >= MAX_QUESTIONS:
                reason = f"{host} is not an allowed host, and too many others were asked for; {_mend(host, port)}."
                return _Answer(Verdict.DENY, "policy", reason)
            self._asked += 1
            self._open[key] = asyncio.create_task(self._ask(self._decide, key, host, port))
        # When one caller leaves, the question stays open for the others that wait for its answer.
        return await asyncio.shield(self._open[key])

    async def _ask(self, decide: Decide, key: tuple[str, int], host: str, port: int) -> _Answer:
        asked = False
        try:
            async with asyncio.timeout(self._ask_seconds), self._few:
                question = decide(host, port)
                if question is None:
                    self._asked -= 1
                    return _unlisted(host, port)
                asked = True
                verdict = await asyncio.wrap_future(question)
            reason = "" if verdict is not Verdict.DENY else f"A person denied {host}; {_mend(host, port)}."
            answer = _Answer(verdict, "person", reason)
        except TimeoutError:
            reason = f"Nobody allowed {host} within {self._ask_seconds:g} s; {_mend(host, port)}."
            answer = _Answer(Verdict.DENY, "policy", reason)
        except Exception:  # `decide` is somebody else's code; if it fails, the host is denied
            reason = f"Nobody could be asked about {host}; {_mend(host, port)}."
            answer = _Answer(Verdict.DENY, "policy", reason)
        finally:
            del self._open[key]
        if asked and answer.verdict is not Verdict.ONCE:
            self._answers[key] = answer
        return answer


def _unlisted(host: str, port: int) -> _Answer:
    return _Answer(Verdict.DENY, "policy", f"{host} is not an allowed host; {_mend(host, port)}.")


def _mend(host: str, port: int) -> str:
    return f"a person can allow it with --allow-host {host if port in WEB_PORTS else f'{host}:{port}'}"
