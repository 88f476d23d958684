"""Asks, host by host, what a sandbox may reach: by its list of hosts, else by asking a person."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from nbagent.egress.hosts import WEB_PORTS, By, Denied, Rules
from nbagent.safety.questions import ASK_SECONDS

OPEN_QUESTIONS = 3
"""Questions that are put to a person at a time. Further ones wait, while their `ASK_SECONDS` run."""
MAX_QUESTIONS = 50
"""Questions in a session. Code that makes up names must not be able to ask for ever."""


class HostAnswer(enum.StrEnum):
    """A person's answer to a question about a host."""

    ONCE = "once"
    """Allowed for the requests that wait for this answer."""
    SESSION = "session"
    DENY = "deny"
    """Denied for the whole session, so that code can't ask again and again."""


AskPerson = Callable[[str, int], "Future[HostAnswer] | None"]
"""Asks a person about a host and a port; None if there is nobody to ask. It is called on the proxy's thread and must
not block. The future may be completed on any thread; it is cancelled when the time to answer is over."""


@dataclass(frozen=True)
class _Ruling:
    """What holds for a host: the answer, who gave it, and, if it is a denial, the reason as a sentence."""

    answer: HostAnswer
    by: By
    reason: str = ""


class Gate:
    """Decides on the hosts of one session, and remembers each decision; without `ask`, by the rules alone."""

    def __init__(self, rules: Rules, ask: AskPerson | None = None, *, ask_seconds: float = ASK_SECONDS) -> None:
        self._rules = rules
        self._ask = ask
        self._ask_seconds = ask_seconds
        self._rulings: dict[tuple[str, int], _Ruling] = {}
        self._open: dict[tuple[str, int], asyncio.Task[_Ruling]] = {}
        self._slots = asyncio.Semaphore(OPEN_QUESTIONS)
        self._questions = 0

    async def admit(self, host: str, port: int) -> By:
        """Wait until a host is allowed; returns who allowed it.

        Raises:
            Denied: The host is not allowed.
        """
        if self._rules.allows(host, port):
            return "list"
        # An answer holds for ports 80 and 443 alike, as an entry of the list does.
        key = (host, 0 if port in WEB_PORTS else port)
        ruling = self._rulings.get(key) or await self._rule(key, host, port)
        if ruling.answer is HostAnswer.DENY:
            raise Denied(ruling.reason, by=ruling.by)
        return ruling.by

    def allow(self, entry: str) -> None:
        """Add an entry to the list; it overrides earlier decisions. Call it on the proxy's own thread."""
        self._rules.add(entry)

    async def _rule(self, key: tuple[str, int], host: str, port: int) -> _Ruling:
        """Ask a person, or wait for the answer if the same question is open already."""
        if self._ask is None:
            return _denial(host, port)
        if key not in self._open:
            if self._questions >= MAX_QUESTIONS:
                reason = f"{host} is not an allowed host, and too many others were asked for; {_mend(host, port)}."
                return _Ruling(HostAnswer.DENY, "policy", reason)
            self._questions += 1
            self._open[key] = asyncio.create_task(self._question(self._ask, key, host, port))
        # When one caller leaves, the question stays open for the others that wait for its answer.
        return await asyncio.shield(self._open[key])

    async def _question(self, ask: AskPerson, key: tuple[str, int], host: str, port: int) -> _Ruling:
        """Put one question to a person, and remember the ruling unless it is for the waiting requests only."""
        asked = False
        try:
            async with asyncio.timeout(self._ask_seconds), self._slots:
                question = ask(host, port)
                if question is None:
                    self._questions -= 1
                    return _denial(host, port)
                asked = True
                answer = await asyncio.wrap_future(question)
            reason = "" if answer is not HostAnswer.DENY else f"A person denied {host}; {_mend(host, port)}."
            ruling = _Ruling(answer, "person", reason)
        except TimeoutError:
            reason = f"Nobody allowed {host} within {self._ask_seconds:g} s; {_mend(host, port)}."
            ruling = _Ruling(HostAnswer.DENY, "policy", reason)
        except Exception:  # `ask` is somebody else's code; if it fails, the host is denied
            reason = f"Nobody could be asked about {host}; {_mend(host, port)}."
            ruling = _Ruling(HostAnswer.DENY, "policy", reason)
        finally:
            del self._open[key]
        if asked and ruling.answer is not HostAnswer.ONCE:
            self._rulings[key] = ruling
        return ruling


def _denial(host: str, port: int) -> _Ruling:
    return _Ruling(HostAnswer.DENY, "policy", f"{host} is not an allowed host; {_mend(host, port)}.")


def _mend(host: str, port: int) -> str:
    entry = host if port in WEB_PORTS else f"{host}:{port}"
    return f"list {entry} in allow_hosts (--allow-host {entry}, or Hosts in JupyterLab's settings of nbagent)"
