"""The ledger of what left, out of events."""

from __future__ import annotations

import pytest

from nbagent.core.events import Asked, Piece, SentToModel
from nbagent.safety.ledger import SentPiece, Total, is_local, ledger

PROMPT = Piece("system prompt", 100, "a" * 64)
CELL = Piece("cell 1", 30, "b" * 64, ["aws key", "password"])


def sent(*pieces: Piece, host: str = "api.example.org", size: int = 130, resent: int = 0) -> SentToModel:
    """A call."""
    return SentToModel(turn=1, model="openai:m", host=host, size=size, pieces=list(pieces), resent=resent)


def test_a_piece_has_one_line_for_each_host() -> None:
    """What a session that went on in another process lists once more is not new, what another host is sent is."""
    found = ledger([Asked(turn=1, question="?"), sent(PROMPT), sent(CELL, PROMPT), sent(PROMPT, host="", size=100)])
    assert found.lines == [
        SentPiece(turn=1, host=host, model="openai:m", piece=piece)
        for host, piece in (("api.example.org", PROMPT), ("api.example.org", CELL), ("", PROMPT))
    ]
    assert found.totals == {
        "api.example.org": Total(models=["openai:m"], calls=2, size=260, new=130, redacted=2),
        "": Total(models=["openai:m"], calls=1, size=100, new=100),
    }


@pytest.mark.parametrize("host", ["", "localhost", "localhost:8080", "127.0.0.1:11434", "127.3.2.1", "[::1]:80"])
def test_loopback_is_this_machine(host: str) -> None:
    """What is sent there stays here."""
    assert is_local(host)


@pytest.mark.parametrize(
    "host",
    ["api.openai.com", "10.0.0.5:8000", "localhost.example.org", "127.0.0.1.nip.io", "[2001:db8::1]:80", "[", "::1"],
)
def test_other_hosts_are_not(host: str) -> None:
    """Also one in the same house."""
    assert not is_local(host)
