"""What a person sees of the model's answer."""

from __future__ import annotations

import machine
import pytest

from nbagent.agent.messages.answer_text import clean_answer


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Done.\n\n![Plot](sandbox:/tmp/output/p.png)\n\nThe end.", "Done.\n\nThe end."),
        ("![a](data:image/png;base64,AAAA) b", "b"),
        ("![a](x_(1).png)b ![c][ref]", "b"),
        ('<img src="x.png"> c', "c"),
        ("Get [the table](sandbox:/tmp/output/my table.csv).", "Get `my table.csv`."),
        ("Get [it](/tmp/output/t.csv?download=1) or [it](</workspace/u.csv>)", "Get `t.csv` or `u.csv`"),
        ("It is in sandbox:/tmp/output/t.csv", "It is in /tmp/output/t.csv"),
        ("See [the docs](https://pola.rs).", "See [the docs](https://pola.rs)."),
        ("Use `![a](b)` here", "Use `![a](b)` here"),
        ("```md\n![a](b)   \n\n\n\nx\n```", "```md\n![a](b)   \n\n\n\nx\n```"),
        ("x[0](y) and /tmp/output/t.csv", "x[0](y) and /tmp/output/t.csv"),
        ("![only](p.png)", "The answer is in the outputs of the cells."),
        ("", ""),
    ],
)
def test_the_answer_is_clean(said: str, read: str) -> None:
    """Images are dropped, links into the sandbox become names; other links, code and plain paths stay."""
    assert clean_answer(said) == read


@pytest.mark.parametrize("piece", ["![", "[", "![](", "[](/tmp/", "<img ", "```\n", "`", "(" * 9])
def test_a_hostile_answer_takes_no_time(piece: str) -> None:
    """Patterns that nest badly can't make the cleaning slow."""
    machine.within(80, lambda: clean_answer(piece * (200_000 // len(piece))))
