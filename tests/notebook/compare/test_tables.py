"""Where in a table a difference is."""

from __future__ import annotations

from notebook.compare.shared import MOMENTS, result

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.texts import Context


def test_a_cell_of_a_table_is_named_by_row_and_column() -> None:
    """In HTML, and in a frame that is printed."""
    table = "<style>{}</style><table id='{}'><tr><th>bill</th><th>mass</th></tr><tr><td>{}</td><td>2</td></tr></table>"
    context = Context(moments=MOMENTS)
    old, new = result(text_html=table.format("", "T_a", "38.1")), result(text_html=table.format("", "T_b", "38.2"))
    (found,) = compare([old], [new], context, again=[[new]]).differences
    assert str(found) == "output 1, text/html, row 1, column bill: '38.1' → '38.2'"
    frame = "┌──────┬──────┐\n│ bill ┆ mass │\n│ 1    ┆ {} │\n└──────┴──────┘"
    (found,) = compare(
        [result(text_plain=frame.format("10"))], [result(text_plain=frame.format("1000"))], context
    ).differences
    assert found.where == "row 1, column mass"
