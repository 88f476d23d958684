"""Files that go along with a question, and figures that come along with its answer."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from nbagent.core.errors import DataError
from nbagent.core.events import figures
from nbagent.session.session import Session

PNG = b"\x89PNG\r\n\x1a\n1234"


def test_figures_of_all_kinds() -> None:
    """One for each display, named by its place; the best kind of several, and nothing that is none."""
    encoded = base64.b64encode(PNG).decode() + "\n"
    shown = [
        {"output_type": "display_data", "data": {"image/png": encoded, "image/svg+xml": "<svg/>"}},
        {"output_type": "stream", "name": "stdout", "text": "x"},
        {"output_type": "execute_result", "data": {"image/svg+xml": ["<svg>", "</svg>"]}},
        {"output_type": "display_data", "data": {"image/png": "no base64!"}},
    ]
    assert list(figures(1, [])) == []
    found = list(figures(3, shown))
    assert [(each.name, each.mime_type, each.content, each.cell) for each in found] == [
        ("cell-3-figure-1.png", "image/png", PNG, 3),
        ("cell-3-figure-2.svg", "image/svg+xml", b"<svg></svg>", 3),
    ]


async def test_files_and_figures_of_a_question(tmp_path: Path) -> None:
    """They are in the sandbox before the first cell runs; the figure that it draws comes with the answer."""
    file = tmp_path / "numbers.txt"
    file.write_text("1 2 3")
    code = """
import matplotlib.pyplot as plt
values = [int(each) for each in open("/workspace/numbers.txt").read().split()]
plt.plot(values); plt.show()
print(sum(values), open("/workspace/more.bin", "rb").read())
"""
    replies = [{"tool_calls": [{"name": "python", "args": {"code": code}}]}, {"content": "6"}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(each) + "\n" for each in replies))
    async with Session(engine="bubblewrap", model=f"replay:{tmp_path}/r.jsonl") as session:
        answer = await session.ask("Sum and draw", files=[file, ("more.bin", b"abc")])
        assert answer.cells[0].text.endswith("6 b'abc'")
        (figure,) = answer.figures
        assert figure.content.startswith(b"\x89PNG")
        assert figure.name == "cell-1-figure-1.png"
        with pytest.raises(DataError):
            await session.ask("Again", files=[tmp_path / "none.txt"])
        assert session.turns == 1
