"""What a cell and an answer are in a notebook of the person's, and in a terminal."""

from __future__ import annotations

import base64
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from nbagent.core.events import Answered, CellFinished, Check, Claim
from nbagent.core.events.display import markdown

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
OUTPUTS: list[dict[str, Any]] = [
    {"output_type": "stream", "name": "stdout", "text": "\x1b[31mprinted\x1b[0m\n"},
    {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}, "metadata": {}},
    {
        "output_type": "execute_result",
        "data": {"text/html": "<script></script>", "text/plain": "shown"},
        "metadata": {},
    },
]
CELL = CellFinished(cell=3, code="print('<b>')\n" * 9, status="ok", outputs=OUTPUTS, duration=0.25)
ANSWER = Answered(turn=1, text="It is **42**, " + "that is so, " * 20, success=True, attempts=1, cells=[CELL])


def bundles(value: object) -> list[dict[str, Any]]:
    """What IPython shows of a value."""
    InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    with capture_output() as captured:
        value._ipython_display_()  # type: ignore[attr-defined]
    return [each.data for each in captured.outputs]


def test_a_cell_is_its_code_folded_and_its_outputs() -> None:
    """Figures as pictures, everything else as text: no markup of the sandbox's runs in the person's notebook."""
    code, printed, figure, result = bundles(CELL)
    assert code["text/html"].startswith("<details><summary>cell 3: ok, 0.2 s</summary><pre>print(&#x27;&lt;b&gt;")
    assert printed == {"text/plain": "printed"}
    assert figure["image/png"] == PNG
    assert result == {"text/plain": "shown"}


def test_an_answer_is_its_code_its_figures_and_its_words() -> None:
    """In this order, the words as Markdown."""
    code, figure, words = bundles(ANSWER)
    assert "the code of 1 cell" in code["text/html"]
    assert figure["image/png"] == PNG
    assert words["text/markdown"].startswith("It is **42**,")


def test_what_is_told_of_an_answer_stands_below_it() -> None:
    """Numbers that no cell shows, then how the check ended."""
    answer = Answered(turn=1, text="42", success=True, attempts=1, claims=[Claim("42")], check=Check(cells=[]))
    shown = [each["text/plain"] for each in bundles(answer)]
    assert shown == ["42", "Shown by no cell: 42.", answer.check.told if answer.check else ""]


def test_words_of_a_model_load_and_run_nothing() -> None:
    """Pictures and markup in them are text; what isn't markup stays as it is."""
    text = markdown("![a](https://example.org/x) <img src=x> costs $5, 1 < 2 **so**")["text/markdown"]
    assert text.startswith(r"*picture left out:* [a](https://example.org/x) &lt;img src=x> costs $5, 1 < 2 **so**")
    formula = r"\begin{equation}\style{cursor:url(https://example.org/x),auto}{x}\end{equation}"
    for odd in ("[a](javascript:go())", "```mermaid\ngraph TD\n```", formula):
        written = markdown(odd)["text/markdown"]
        assert not any(sign in written for sign in ("](javascript:", "```mermaid", r"\style"))


def test_in_a_terminal_each_is_a_line() -> None:
    """With what it is, and the beginnings of its texts."""
    assert repr(CELL).startswith("Cell(3, ok, \"print('<b>') print")
    assert repr(ANSWER).startswith("Answer(1, 'It is **42**, that is so,")
    assert max(len(repr(CELL)), len(repr(ANSWER))) < 160


def test_what_is_no_picture_is_left_out() -> None:
    """A sandbox can put anything where base64 should be."""
    odd = {"output_type": "display_data", "data": {"image/png": "<svg onload=x>"}, "metadata": {}}
    assert len(bundles(CellFinished(cell=1, status="ok", outputs=[odd]))) == 1
