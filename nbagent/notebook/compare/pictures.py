"""Compares pictures by their pixels, decoded in a sandbox of their own, in which none of a notebook's code ran.

A decoder is what a hostile picture would attack, so the host has none; and a notebook can't speak for its own figures.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

PAIR_SECONDS = 60.0
"""Seconds that the comparison of one pair may take."""
BOUND = 0.0005
"""The share of pixels that may differ visibly where fonts or versions are others."""
MAX_SHOWN = 3 * 1024 * 1024
"""Bytes of a picture that shows a difference, in base64."""

_UNLIKE = {
    "drawn": "it moves, or is turned or coloured otherwise",
    "frames": "it moves in more frames than are compared",
}
"""In words what of two pictures is unlike beside their pixels."""


class Likeness(NamedTuple):
    """How two pictures compare.

    Attributes:
        same: Whether they count as the same.
        told: In words.
        shown: A PNG with both and where they differ; None if there is none.
        is_within: Whether they differ only where the second differs from the others.
    """

    same: bool
    told: str
    shown: bytes | None = None
    is_within: bool = False


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class _Seen(msgspec.Struct):
    """What `pictures_inside.py` returns."""

    sizes: tuple[tuple[_Count, _Count], tuple[_Count, _Count]]
    different: _Count = 0
    strong: _Count = 0
    largest: _Count = 0
    within: bool = False
    shown: str = ""
    unlike: str = ""


class Pictures:
    """Compares pictures in a sandbox that starts with the first pair; use it as an asynchronous context manager."""

    def __init__(self, engine: Engine) -> None:
        self._kernel = Kernel(engine, SandboxSpec())
        self._starting = asyncio.Lock()
        self._started = False

    async def __aenter__(self) -> Pictures:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._kernel.stop()

    async def compare(self, stored: str, fresh: str, *again: str, exact: bool) -> Likeness:
        """Compare two pictures in base64.

        Args:
            stored: The one that a notebook has.
            fresh: The one of a fresh run.
            again: Those of other fresh runs that drew other ones.
            exact: Whether each pixel has to be the same; else a part of them within `BOUND` may differ.

        Raises:
            SandboxError: The sandbox can't be started.
        """
        async with self._starting:
            if not self._started:
                await self._kernel.start()
                self._started = True
        source = (Path(__file__).parent / "pictures_inside.py").read_text()
        given = ["".join(each.split()) for each in (stored, fresh, *again)]
        found = await self._kernel.evaluate(source, given, seconds=PAIR_SECONDS)
        return _likeness(found, exact=exact)


def _likeness(found: object, *, exact: bool) -> Likeness:
    """What came back, which nobody else wrote, but which a hostile picture may have made."""
    try:
        seen = msgspec.convert(found, _Seen)
    except msgspec.ValidationError:
        return Likeness(same=False, told="the pictures can't be read")
    shown, (one, other) = _decoded(seen.shown), seen.sizes
    if seen.unlike:
        return Likeness(same=False, told=_UNLIKE.get(seen.unlike, "it can't be compared"))
    if one != other:
        told = f"its size: {one[0]}×{one[1]} → {other[0]}×{other[1]} pixels"
        return Likeness(same=False, told=told, shown=shown, is_within=seen.within)
    pixels = max(1, one[0] * one[1])
    share = seen.strong / pixels
    told = f"{seen.different:,} of {pixels:,} pixels differ, by up to {seen.largest} of 255; {share:.3%} visibly"
    same = seen.different == 0 or (not exact and share <= BOUND)
    return Likeness(same=same, told=told, shown=shown, is_within=seen.within)


def _decoded(text: str) -> bytes | None:
    if not text or len(text) > MAX_SHOWN:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
