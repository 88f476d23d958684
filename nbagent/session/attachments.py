"""What goes along with a question, and what comes along with its answer: files that a person gives, and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbagent.kernel.cell import Cell
from nbagent.kernel.transfer.ends import Source
from nbagent.session.files import Uploaded

Given = Source | tuple[str, Source]
"""A file that goes along with a question: as for `Session.upload`, with a name if it has none of its own."""
PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/svg+xml": "svg"}
"""Kinds of pictures, the one that is kept of several first, with the endings of their files."""


@dataclass(frozen=True)
class Picture:
    """A picture that a cell showed.

    Attributes:
        name: A name for its file, by its cell and its place there: `cell-3-1.png`.
        mime_type: What it is, such as `image/png`.
        content: The file's bytes.
        cell: The cell's number.
    """

    name: str
    mime_type: str
    content: bytes = field(repr=False)
    cell: int


def pictures(cells: Iterable[Cell]) -> Iterator[Picture]:
    """The pictures that cells showed, in order."""
    for cell in cells:
        number = 0
        for output in cell.outputs:
            data = output.get("data", {})
            mime = next((each for each in PICTURES if each in data), None)
            if mime is None:
                continue
            text = "".join(data[mime]) if isinstance(data[mime], list) else str(data[mime])
            content = text.encode() if mime.endswith("xml") else _decoded(text)
            if content is None:
                continue  # what code claims to be a picture may be anything
            number += 1
            yield Picture(f"cell-{cell.cell}-{number}.{PICTURES[mime]}", mime, content, cell.cell)


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def told(uploads: Iterable[Uploaded]) -> str:
    """What the model is told of files that came with a question."""
    listed = ", ".join(f"{each.path} ({each.size:,} bytes)" for each in uploads)
    return f"\n\n[The person uploaded: {listed}]" if listed else ""
