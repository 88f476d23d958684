"""The one ZMQ context of this process for what its kernel managers need."""

from __future__ import annotations

import functools
import os

import zmq.asyncio


@functools.cache
def shared_context() -> zmq.asyncio.Context:
    """A context for all managers: else each has its own, with two threads, for a socket of no use."""
    return zmq.asyncio.Context()


# A fork has the context without its threads, and would wait for them for ever.
os.register_at_fork(after_in_child=shared_context.cache_clear)
