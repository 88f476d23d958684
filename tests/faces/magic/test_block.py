"""What one question shows in a notebook, while it runs."""

from __future__ import annotations

import ipykernel
import pytest

from nbagent.core.events import Asked, CellFinished, CellStarted, ModelReplied, Record
from nbagent.faces.magic.block import Block
from nbagent.faces.magic.controls import hears_meanwhile
from nbagent.faces.magic.render import html, text


def test_words_are_shown_until_the_reply_is_whole() -> None:
    """As text, whatever they are."""
    block = Block()
    block.add(Record(1, 1.0, Asked(turn=1, question="Which?")))
    block.say(r"It is <b>this $\style{cursor:url(//h)}{x}$")
    assert "It is &lt;b&gt;this" in html(block)
    assert r"\style" not in html(block)
    assert "It is <b>this" in text(block)
    block.add(Record(2, 2.0, ModelReplied(turn=1, text="It is <b>this.")))
    assert "this" not in html(block)
    assert "this" not in text(block)


def test_a_cell_that_was_stopped_shows_what_it_had_shown_alone() -> None:
    """Not the traceback of the stop, whether it ran or awaited; an error of its own stays."""
    shown = {"output_type": "stream", "name": "stdout", "text": "so far"}
    for name, status, is_seen in (
        ("KeyboardInterrupt", "interrupted", False),
        ("CancelledError", "timeout", False),
        ("ValueError", "interrupted", True),
        ("KeyboardInterrupt", "error", True),
    ):
        block = Block()
        block.add(Record(1, 1.0, CellStarted(cell=1, turn=1, code="f()", tool="python")))
        error = {"output_type": "error", "ename": name, "evalue": "here", "traceback": []}
        block.add(Record(2, 2.0, CellFinished(cell=1, turn=1, status=status, outputs=[shown, error], duration=1.0)))
        assert "so far" in text(block)
        assert (f"{name}: here" in text(block)) == is_seen


@pytest.mark.parametrize(("version", "hears"), [((6, 31, 0), False), ((7, 0, 0), True)])
def test_buttons_are_shown_where_a_click_is_heard(
    version: tuple[int, ...], hears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An awaited cell of ipykernel 6 keeps all clicks waiting: a person is asked by `input()` there."""
    monkeypatch.setattr(ipykernel, "version_info", version)
    assert hears_meanwhile() == hears
