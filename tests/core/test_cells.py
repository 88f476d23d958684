"""A finished cell, and its small form."""

from __future__ import annotations

from typing import Any

import pytest

from nbagent.core.events import Cell, CellStatus, text_of

PRINTED = {"output_type": "stream", "name": "stdout", "text": "printed\n"}
RESULT = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "42"}}
FIGURE = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "aGk=", "text/plain": "<Figure>"}}
ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["Traceback", "ValueError: bad"]}


def cell(*outputs: dict[str, Any], status: CellStatus = "ok") -> Cell:
    """A cell that showed these."""
    return Cell(cell=1, code="", status=status, outputs=list(outputs))


def test_text_is_what_can_be_read() -> None:
    """Streams and results, each on a line of its own; figures by their text, errors not."""
    assert cell(PRINTED, RESULT, ERROR, FIGURE).text == "printed\n42\n<Figure>"
    assert cell().text == ""


def test_text_in_pieces_is_joined() -> None:
    """A notebook from a file may have text as a list of lines."""
    assert text_of([{"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]}]) == "a\nb"


@pytest.mark.parametrize("status", ["error", "timeout", "interrupted", "died"])
def test_success_is_ok_only(status: CellStatus) -> None:
    assert cell().success
    assert not cell(status=status).success


def test_the_small_form_prefers_errors_then_figures() -> None:
    """The first error with its traceback, else the first figure, else the text."""
    assert cell(PRINTED, FIGURE, ERROR).to_codebox().content == "Traceback\nValueError: bad"
    assert cell(PRINTED, FIGURE, ERROR).to_codebox().type == "error"
    assert cell(PRINTED, FIGURE).to_codebox().content == "aGk="
    assert cell(PRINTED, RESULT).to_codebox().content == "printed\n42"
    assert cell().to_codebox().content == ""


def test_an_error_without_a_traceback_is_its_name() -> None:
    """What died without one is still named."""
    bare = ERROR | {"traceback": []}
    assert cell(bare).to_codebox().content == "ValueError: bad"
