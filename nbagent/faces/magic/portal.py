"""An event loop in a thread of its own, for faces that live in somebody else's program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines in a thread of its own, whether or not the caller's thread has a loop that runs."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine there; may be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function there, without waiting for it."""
        self._loop.call_soon_threadsafe(call, *arguments)

    def close(self) -> None:
        """End the thread; what runs there is left unfinished."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            if not self._thread.is_alive():
                self._loop.close()
