"""What left this machine for models, piece by piece, as a session's events tell it. Pure.

A conversation sends its past again with each call: a piece is listed once for each host, what went again is counted.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbagent.events import Event, Piece, SentToModel

HERE = "this machine"
"""Whose host it is where nothing left."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A piece, the first time that a host was sent it.

    Attributes:
        turn: The question that it was sent for.
        host: Whose address it went to; empty for recorded replies.
        model: Which model was asked.
        piece: What it was.
    """

    turn: int
    host: str
    model: str
    piece: Piece


@dataclass(kw_only=True)
class Total:
    """What one host was sent.

    Attributes:
        models: Those that were asked there.
        calls: How often.
        size: Bytes of all calls, without the JSON around them.
        new: Bytes of these that it had not been sent before.
        redacted: Secrets that were hidden in what was new.
    """

    models: list[str] = field(default_factory=list)
    calls: int = 0
    size: int = 0
    new: int = 0
    redacted: int = 0


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What left for models.

    Attributes:
        lines: Each piece once for each host, in order.
        totals: For each host.
    """

    lines: list[Line]
    totals: dict[str, Total]


def ledger(events: Iterable[Event]) -> Ledger:
    """The ledger of a session's events."""
    lines: list[Line] = []
    totals: dict[str, Total] = defaultdict(Total)
    known: set[tuple[str, str, str]] = set()
    for event in events:
        if not isinstance(event, SentToModel):
            continue
        total = totals[event.host]
        total.calls += 1
        total.size += event.size
        total.models += [event.model] if event.model not in total.models else []
        for piece in event.pieces:
            # A session that went on in another process lists its past once more.
            key = (event.host, piece.source, piece.sha256)
            if key not in known:
                known.add(key)
                total.new += piece.size
                total.redacted += len(piece.redacted)
                lines.append(Line(turn=event.turn, host=event.host, model=event.model, piece=piece))
    return Ledger(lines=lines, totals=dict(totals))


def is_local(host: str) -> bool:
    """Whether what goes to a host stays on this machine: a loopback address, or none at all."""
    try:
        name = (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
        if not host or name == "localhost" or name.endswith(".localhost"):
            return True
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
