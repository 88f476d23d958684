"""nbagent's own code inside a kernel: it goes there once, and is called by requests that nobody sees.

A module `*_inside.py` defines `main(*arguments)`, of and to what JSON can hold. Its source travels with the first call
and stays there, out of the person's namespace: a later call costs no compiling, and the module may keep a state.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

_KEPT = "__import__('IPython').get_ipython().kernel.__dict__.setdefault('_nbagent', {})"


@functools.cache
def source_of(name: str) -> str:
    """The source of a module of this folder that runs inside."""
    return Path(__file__).with_name(name).read_text()


@functools.lru_cache(maxsize=64)
def key_of(source: str) -> str:
    """The name by which a kernel keeps this source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def call(source: str, arguments: list[Any], *, kept: bool) -> str:
    """The expression that calls `main` and gives its result as JSON.

    Args:
        source: The module.
        arguments: What JSON can hold.
        kept: Whether the kernel has the source already; if it hasn't after all, the result is none.
    """
    key = key_of(source)
    if kept:
        return f"(lambda kept: kept and __import__('json').dumps(kept['main'](*{arguments!r})))({_KEPT}.get({key!r}))"
    load = f"(lambda space: (exec({source!r}, space), kept.setdefault({key!r}, space))[1])({{'__name__': 'nbagent'}})"
    return f"(lambda kept: __import__('json').dumps((kept.get({key!r}) or {load})['main'](*{arguments!r})))({_KEPT})"


def is_missing(reply: dict[str, Any] | None) -> bool:
    """Whether the kernel did not have the source that it was said to have."""
    return _shown(reply) == "None"


def result(reply: dict[str, Any] | None) -> Any:
    """What `main` returned, which is untrusted; None if there is no result, whatever came instead."""
    try:
        return json.loads(ast.literal_eval(_shown(reply) or ""))
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _shown(reply: dict[str, Any] | None) -> str | None:
    try:
        shown = (reply or {})["user_expressions"]["value"]["data"]["text/plain"]
    except (KeyError, TypeError):
        return None
    return shown if isinstance(shown, str) else None
