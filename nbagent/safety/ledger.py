"""The ledger: what was sent to models, piece by piece, computed from a session's events. Pure.

Each call sends the whole conversation again. A piece is listed once for each host; its repetitions count as bytes only.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbagent.core.events import Event, Piece, SentToModel

THIS_MACHINE = "this machine"
"""The name that is shown for the host if nothing left the machine."""


@dataclass(frozen=True, kw_only=True)
class SentPiece:
    """A piece, when it was first sent to a host.

    Attributes:
        turn: The number of the question for which it was sent.
        host: The host; empty for recorded replies.
        model: The model that was asked.
    """

    turn: int
    host: str
    model: str
    piece: Piece


@dataclass(kw_only=True)
class Total:
    """What was sent to one host.

    Attributes:
        models: The models that were asked there.
        size: Bytes of all calls, without the JSON around them.
        new: Bytes of the pieces that had not been sent to the host before.
        redacted: Secrets that were hidden in its new pieces.
    """

    models: list[str] = field(default_factory=list)
    calls: int = 0
    size: int = 0
    new: int = 0
    redacted: int = 0


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What was sent to models.

    Attributes:
        lines: Each piece once for each host, in order.
        totals: One for each host.
    """

    lines: list[SentPiece]
    totals: dict[str, Total]


def ledger(events: Iterable[Event]) -> Ledger:
    """Compute the ledger of a session from its events."""
    lines: list[SentPiece] = []
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
            # A resumed session sends its past again, as new pieces.
            key = (event.host, piece.source, piece.sha256)
            if key not in known:
                known.add(key)
                total.new += piece.size
                total.redacted += len(piece.redacted)
                lines.append(SentPiece(turn=event.turn, host=event.host, model=event.model, piece=piece))
    return Ledger(lines=lines, totals=dict(totals))


def is_local(host: str) -> bool:
    """Whether a host is this machine: a loopback address, or none at all."""
    try:
        name = (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
        if not host or name == "localhost" or name.endswith(".localhost"):
            return True
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
