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
"""At a time; further ones wait, and their time runs."""
MAX_QUESTIONS = 50
"""In a session: code that invents names must not wear a person out."""


class Verdict(enum.StrEnum):
    """What a person says of a host."""

    ONCE = "once"
    """For the requests that wait for this answer."""
    SESSION = "session"
    DENY = "deny"
    """For the whole session too, so that nothing asks in a loop."""


Decide = Callable[[str, int], "Future[Verdict] | None"]
"""Asks a person about a host and a port; None if there is nobody to ask. Called on the proxy's own thread, so it must
not block; the future may be completed on any thread, and is cancelled when the time is over."""


@dataclass(frozen=True)
class _Answer:
    verdict: Verdict
    by: By
    reason: str = ""


class Gate:
    """The decisions of one session.

    Args:
        rules: What is allowed anyway.
        decide: Asks a person; None denies at once what the rules don't allow.
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
        """Wait until it is decided; returns who allowed it.

        Raises:
            Denied: It is not allowed.
        """
        if self._rules.allow(host, port):
            return "list"
        # An answer holds for both ports of the web, as an entry of the list does.
        key = (host, 0 if port in WEB_PORTS else port)
        answer = self._answers.get(key) or await self._question(key, host, port)
        if answer.verdict is Verdict.DENY:
            raise Denied(answer.reason, by=answer.by)
        return answer.by

    def allow(self, entry: str) -> None:
        """Add an entry to the list, whatever was decided before. On the proxy's own thread.

        Raises:
            UsageError: It is no such entry.
        """
        self._rules.add(entry)

    async def _question(self, key: tuple[str, int], host: str, port: int) -> _Answer:
        """Ask, or wait for the answer to the same question."""
        if self._decide is None:
            return _unlisted(host, port)
        if key not in self._open:
            if self._asked >= MAX_QUESTIONS:
                reason = f"{host} is not an allowed host, and too many others were asked for; {_mend(host, port)}."
                return _Answer(Verdict.DENY, "policy", reason)
            self._asked += 1
            self._open[key] = asyncio.create_task(self._ask(self._decide, key, host, port))
        # A caller that leaves takes neither the question nor the others that wait for it along.
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
        except Exception:  # what asks is not ours, and no answer is no permission
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
