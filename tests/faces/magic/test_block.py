"""What one question shows in a notebook, while it runs."""

from __future__ import annotations

from nbagent.core.events import Asked, ModelReplied, Record
from nbagent.faces.magic.block import Block
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
