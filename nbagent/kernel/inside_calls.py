"""nbagent's own code inside a kernel: it goes there once, and is called by requests that nobody sees.

A module `*_inside.py` defines `main(*arguments)`, of and to what JSON can hold. Its source travels with the first call
and stays there, out of the person's namespace: a later call costs no compiling, and the module may keep a state.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any, Final

from nbagent.core.policy import MIB
from nbagent.sandbox.untrusted import MAX_HEFT, UnreadableError, parse

MIME: Final = "application/vnd.nbagent.result+json"
"""What a result is shown as: text that is JSON, so that nothing has to be made of how Python shows an object."""
MAX_RESULT: Final = 4 * MIB
"""Bytes of one; a list of ten thousand files has a fourth of that."""
_MISSING: Final = "null"
_BUNDLE: Final = f"{{'text/plain': '', {MIME!r}: text}}"
_SHOWN: Final = f"(lambda text: type('Result', (), {{'_repr_mimebundle_': lambda self, **_: {_BUNDLE}}})())"
_DUMPS: Final = "__import__('json').dumps"
_SPACE: Final = "{'__name__': 'nbagent'}"
_KEPT: Final = "__import__('IPython').get_ipython().kernel.__dict__.setdefault('_nbagent', {})"


@functools.cache
def source_of(name: str) -> str:
    """The source of a module of this folder that runs inside."""
    return (Path(__file__).parent / "inside" / name).read_text()


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
    main = f"['main'](*{arguments!r})"
    if kept:
        found = shown(f"{_DUMPS}([kept{main}]) if kept else {_MISSING!r}")
    else:
        load = f"(lambda space: (exec({source!r}, space), kept.setdefault({key!r}, space))[1])({_SPACE})"
        found = shown(f"{_DUMPS}([(kept.get({key!r}) or {load}){main}])")
    return f"(lambda kept: {found})({_KEPT}{f'.get({key!r})' if kept else ''})"


def shown(expression: str) -> str:
    """An expression whose value, a text that is JSON, is shown as `MIME`."""
    return f"{_SHOWN}({expression})"


def is_missing(reply: dict[str, Any] | None) -> bool:
    """Whether the kernel did not have the source that it was said to have."""
    return _text(reply) == _MISSING


def result(reply: dict[str, Any] | None) -> Any:
    """What `main` returned, which is untrusted; None if there is no result, whatever came instead."""
    try:
        found = parse(_text(reply), limit=MAX_RESULT, heft=2 * MAX_HEFT)
    except UnreadableError:
        return None
    return found[0] if isinstance(found, list) and len(found) == 1 else None


def _text(reply: dict[str, Any] | None) -> str:
    """The text of a result; empty if there is none."""
    try:
        text = (reply or {})["user_expressions"]["value"]["data"][MIME]
    except (KeyError, TypeError):
        return ""
    return text if isinstance(text, str) else ""
