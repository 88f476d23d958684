"""Work in threads."""

from __future__ import annotations

import pytest

from nbagent.core.concurrency import Piecewise


def test_pieces_are_worked_on_in_order_and_what_fails_is_told() -> None:
    found: list[bytes] = []
    pieces = Piecewise(found.append)
    given = [b"small", *(bytes([number]) * Piecewise.SMALL for number in range(9)), b"last"]
    for each in given:
        pieces.update(each)
    pieces.close()
    assert found == given
    failing = Piecewise(lambda piece: [].pop(len(piece)))
    failing.update(bytes(Piecewise.SMALL))
    with pytest.raises(IndexError):
        failing.close()
