"""IOPub messages for tests: of a real kernel, and made up."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any, Self

import msgspec
import nbformat
from nbclient import NotebookClient

from nbagent.core.events import Output
from nbagent.kernel.outputs.displays import DisplayIndex
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.outputs import CellOutputs

v4: Any = nbformat.v4


class Recorder(NotebookClient):
    """nbclient, taking down the messages of each cell while it makes its own outputs and widget state of them."""

    def __init__(self, nb: Any) -> None:
        super().__init__(nb, allow_errors=True, timeout=20)
        self.messages: list[tuple[int, dict[str, Any]]] = []

    @classmethod
    def run(cls, cells: Iterable[str]) -> Self:
        """Run these cells in a real ipykernel."""
        made = cls(v4.new_notebook(cells=[v4.new_code_cell(code) for code in cells]))
        made.execute()
        return made

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Take one message down before nbclient sees it."""
        buffers = [bytes(buffer) for buffer in msg["buffers"]]
        copied = copy.deepcopy({**msg, "buffers": None})
        self.messages.append((cell_index, {**copied, "buffers": [memoryview(buffer) for buffer in buffers]}))
        return super().process_message(msg, cell, cell_index)


def message(kind: object, **content: Any) -> dict[str, Any]:
    """A message of this type and content."""
    return {"header": {"msg_type": kind}, "parent_header": {"msg_id": "1"}, "content": content, "metadata": {}}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    """A stream message."""
    return message("stream", name=name, text=text)


def display(data: Any, display_id: str = "", kind: str = "display_data") -> dict[str, Any]:
    """A message with a MIME bundle."""
    return message(kind, data=data, metadata={}, transient={"display_id": display_id} if display_id else {})


def cell(messages: Iterable[Any] = (), **limits: int) -> CellOutputs:
    """A cell of a session of its own, after these messages."""
    outputs = CellOutputs(displays=DisplayIndex(), limits=OutputLimits(**limits))
    for each in messages:
        outputs.add(each)
    return outputs


def validate(outputs: list[Output]) -> None:
    """Raise unless a notebook, strict JSON in UTF-8 and the event log can all hold these outputs."""
    code = v4.new_code_cell()
    code["outputs"] = outputs
    nb = v4.new_notebook()
    nb["cells"] = [code]
    nbformat.validate(nb)
    json.dumps(outputs, allow_nan=False, ensure_ascii=False).encode()
    msgspec.json.encode(outputs)
