"""What comes of a question: events as they happen, and an answer as a value."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nbagent.events import Claim, Package, Record, Usage
from nbagent.kernel.cell import Cell

PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/svg+xml": "svg"}
"""Kinds of pictures, the one that is kept of several first, with the endings of their files."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a question.

    Attributes:
        text: The answer in words.
        cells: The cells that ran for it, in order.
        files: What its cells left in /tmp/output, on the host.
        usage: Tokens and calls of the model.
        success: Whether the model came to an end by itself, with an answer that its cells bear out: the last one ran
            without an error, or, where that failed, the answer has numbers and each stands in an output.
        attempts: One, and one more for each cell that failed.
        installed: Packages that were installed for it.
        turn: The question's number.
        claims: The numbers in the text, each with the output in which it stands; some may stand in none.
    """

    text: str
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    success: bool = True
    attempts: int = 1
    installed: list[Package] = field(default_factory=list)
    turn: int = 1
    claims: list[Claim] = field(default_factory=list)

    @property
    def pictures(self) -> list[Picture]:
        """The pictures that its cells showed."""
        return list(pictures(self.cells))

    @property
    def unsupported(self) -> list[str]:
        """The numbers that stand in no output: the model's own word is all there is for them."""
        return [claim.text for claim in self.claims if not claim.supported]


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


async def streamed(
    ask: Callable[[], Awaitable[Answer]], *, follow: Callable[[Callable[[Record], None]], Callable[[], None]]
) -> AsyncGenerator[Record, None]:
    """Ask a question, and yield each event as it happens; who leaves early stops the question.

    Args:
        ask: Asks it.
        follow: Has a reader called with each event, and returns what ends that.
    """
    queue: asyncio.Queue[Record | None] = asyncio.Queue()
    unfollow = follow(queue.put_nowait)
    asking = asyncio.ensure_future(ask())
    asking.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (record := await queue.get()) is not None:
            yield record
        await asking
    finally:
        unfollow()
        if not asking.done():
            asking.cancel()
        await asyncio.wait([asking])
        if not asking.cancelled():
            # Raised above, or of no interest to who left early.
            asking.exception()
