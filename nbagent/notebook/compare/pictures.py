"""Compares pictures by their pixels, decoded in a sandbox of their own, in which none of a notebook's code ran.

A decoder is what a hostile picture would attack, so the host has none; and a notebook can't speak for its own figures.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from typing import NamedTuple

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

SECONDS = 30.0
"""For one pair."""
BOUND = 0.0005
"""The share of pixels that may differ visibly where fonts or versions are others."""
MAX_SHOWN = 3 * 1024 * 1024
"""Bytes of a picture that shows a difference, in base64."""


class Likeness(NamedTuple):
    """How two pictures compare.

    Attributes:
        same: Whether they count as the same.
        told: In words.
        shown: A PNG with both and where they differ; None if there is none.
        is_within: Whether they differ only where the second differs from a third one.
    """

    same: bool
    told: str
    shown: bytes | None = None
    is_within: bool = False


class Pictures:
    """Compares pictures in a sandbox that starts with the first pair; use it as an asynchronous context manager.

    Args:
        engine: What isolates the sandbox.
    """

    def __init__(self, engine: Engine) -> None:
        self._kernel = Kernel(engine, SandboxSpec())
        self._starting = asyncio.Lock()
        self._started = False

    async def __aenter__(self) -> Pictures:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._kernel.stop()

    async def compare(self, stored: str, fresh: str, again: str = "", *, exact: bool) -> Likeness:
        """Compare two pictures in base64.

        Args:
            stored: The one that a notebook has.
            fresh: The one of a fresh run.
            again: The one of another fresh run, if that is another one.
            exact: Whether each pixel has to be the same; else a part of them within `BOUND` may differ.

        Raises:
            SandboxError: The sandbox can't be started.
        """
        async with self._starting:
            if not self._started:
                await self._kernel.start()
                self._started = True
        source = (Path(__file__).parent / "pictures_inside.py").read_text()
        given = ["".join(each.split()) for each in (stored, fresh, again)]
        found = await self._kernel.evaluate(source, given, seconds=SECONDS)
        return _likeness(found, exact=exact)


def _likeness(found: object, *, exact: bool) -> Likeness:
    """What came back, which nobody else wrote, but which a hostile picture may have made."""
    if not isinstance(found, dict) or not isinstance(found.get("sizes"), list):
        return Likeness(same=False, told="the pictures can't be read")
    sizes = found["sizes"]
    shown = _decoded(found.get("shown"))
    within = found.get("within") is True
    if sizes[0] != sizes[1]:
        told = f"its size: {_size(sizes[0])} → {_size(sizes[1])} pixels"
        return Likeness(same=False, told=told, shown=shown, is_within=within)
    different, strong, largest = (int(found.get(name, 0)) for name in ("different", "strong", "largest"))
    pixels = max(1, int(sizes[0][0]) * int(sizes[0][1]))
    share = strong / pixels
    told = f"{different:,} of {pixels:,} pixels differ, by up to {largest} of 255; {share:.3%} visibly"
    same = different == 0 or (not exact and share <= BOUND)
    return Likeness(same=same, told=told, shown=shown, is_within=within)


def _size(found: list[int]) -> str:
    return "×".join(str(int(each)) for each in found[:2])


def _decoded(text: object) -> bytes | None:
    if not isinstance(text, str) or len(text) > MAX_SHOWN:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
