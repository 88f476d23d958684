"""Moves a large file's bytes over a Unix socket, while a request to the kernel has code inside give or take them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from nbagent.core.errors import TransferError
from nbagent.core.policy import MIB
from nbagent.sandbox.channels.byte_stream import WINDOW_BYTES, ByteStream, SealedMemory

PIECE_BYTES = 4 * MIB
"""Bytes that travel with one request, in either direction; a larger file goes over a socket where there can be one."""
REQUEST_SECONDS = 30.0
"""Seconds for one request."""
T = TypeVar("T")


def patience(size: int) -> float:
    """Seconds in which a file must have gone over its socket."""
    return REQUEST_SECONDS * (1 + size // PIECE_BYTES)


async def send(stream: ByteStream, parts: AsyncIterator[bytes]) -> None:
    """Send the parts, one window of memory after the other; the next one is filled while one is taken."""
    window, sending = SealedMemory(), None
    try:
        async for part in parts:
            window.add(part)
            if window.size >= WINDOW_BYTES:
                if sending is not None:
                    await sending
                sending, window = asyncio.create_task(_send_window(stream, window)), SealedMemory()
        if sending is not None:
            await sending
        if window.size:
            await _send_window(stream, window)
    finally:
        window.close()
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    await stream.end()


async def _send_window(stream: ByteStream, window: SealedMemory) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            await stream.send(window)
    finally:
        window.close()


async def beside(stream: ByteStream, request: Coroutine[Any, Any, T], moving: Coroutine[Any, Any, None]) -> T:
    """Move bytes over a socket while the request runs that has code inside do its part; close the socket at the end.

    It ends without an error when code inside has closed the socket early: the caller sees that bytes are missing.

    Returns:
        The request's answer.

    Raises:
        TransferError: The request raised it, or nothing moved for `REQUEST_SECONDS`.
        Exception: Who gives or takes the bytes raised it.
    """
    asking, mover = asyncio.ensure_future(request), asyncio.ensure_future(moving)
    try:
        await asyncio.wait([asking, mover], return_when=asyncio.FIRST_COMPLETED)
        if not (mover.done() and mover.exception()):
            await asking
            await asyncio.wait([mover], timeout=REQUEST_SECONDS)  # the last bytes are on their way
        if mover.done():
            stream.close()
            await asyncio.wait([asking], timeout=REQUEST_SECONDS)
        if not mover.done() or isinstance(mover.exception(), TimeoutError):
            raise TransferError("The sandbox neither takes nor gives what it should.", mend="Try again.")
        if not isinstance(mover.exception(), ConnectionError):
            mover.result()
        return await asking
    finally:
        # Nothing may wait at the socket any more when it is closed: the event loop would take the next socket that gets
        # its number for this one, and never read it.
        mover.cancel()
        try:
            await asyncio.gather(mover, return_exceptions=True)
        finally:
            stream.close()
            asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
