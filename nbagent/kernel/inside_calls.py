"""Calls nbagent's own code inside a kernel: makes the expression to evaluate, and reads the result.

Each module that is called defines `main(*arguments)`, whose arguments and result JSON can hold. Its source is
sent with the first call and stays in the kernel, outside of the session's namespace: later calls compile nothing, and
the module may keep a state.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Any, Final

from nbagent.core.policy import MIB
from nbagent.sandbox.untrusted import MAX_HEFT, UnreadableError, parse

RESULT_MIME: Final = "application/vnd.nbagent.result+json"
"""The RESULT_MIME type of a result, which is JSON; without it, Python's `repr` would have to be read."""
MAX_RESULT_BYTES: Final = 4 * MIB
"""Bytes of a result; a list of ten thousand files has a fourth of that."""
_MISSING: Final = "null"
_BUNDLE: Final = f"{{'text/plain': '', {RESULT_MIME!r}: text}}"
_SHOW: Final = f"(lambda text: type('Result', (), {{'_repr_mimebundle_': lambda self, **_: {_BUNDLE}}})())"
_DUMPS: Final = "__import__('json').dumps"
_SPACE: Final = "{'__name__': 'nbagent'}"
_KEPT: Final = "__import__('IPython').get_ipython().kernel.__dict__.setdefault('_nbagent', {})"


_SIBLING: Final = re.compile(r"^from nbagent\.kernel\.inside\.(\w+) import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_FUTURE: Final = "from __future__ import annotations\n"


@functools.cache
def source_of(name: str) -> str:
    """The source of a module in a folder `inside/`, this room's or that of `sandbox`, with siblings that it imports.

    There is no nbagent inside to import them from. So no two of them may give two things the same name.
    """
    parts: dict[str, str] = {}
    _gather(name.removesuffix(".py"), parts)
    return _FUTURE + "\n".join(parts.values())


def _gather(name: str, parts: dict[str, str]) -> None:
    """Add a module's source behind those of the modules that it imports."""
    if name not in parts:
        rooms = (Path(__file__).parent, Path(__file__).parents[1] / "sandbox")
        files = (room / "inside" / f"{name}.py" for room in rooms)
        source = next(each for each in files if each.is_file()).read_text().replace(_FUTURE, "")
        for sibling in _SIBLING.findall(source):
            _gather(sibling, parts)
        parts[name] = _SIBLING.sub("", source)


@functools.lru_cache(maxsize=64)
def key_of(source: str) -> str:
    """The name by which a kernel keeps a source."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def call(source: str, arguments: list[Any], *, kept: bool) -> str:
    """The expression that calls `main` and gives its result as JSON.

    Args:
        source: The module's source.
        arguments: What JSON can hold.
        kept: Whether the kernel should have the source already; if it doesn't, `is_missing` is true of the reply.
    """
    key = key_of(source)
    main = f"['main'](*{arguments!r})"
    if kept:
        found = as_result(f"{_DUMPS}([kept{main}]) if kept else {_MISSING!r}")
    else:
        load = f"(lambda space: (exec({source!r}, space), kept.setdefault({key!r}, space))[1])({_SPACE})"
        found = as_result(f"{_DUMPS}([(kept.get({key!r}) or {load}){main}])")
    return f"(lambda kept: {found})({_KEPT}{f'.get({key!r})' if kept else ''})"


def as_result(expression: str) -> str:
    """An expression that shows the value of another one, a text in JSON, as `RESULT_MIME`."""
    return f"{_SHOW}({expression})"


def is_missing(reply: dict[str, Any] | None) -> bool:
    """Whether the reply says that the kernel doesn't have the source."""
    return _text(reply) == _MISSING


def result(reply: dict[str, Any] | None) -> Any:
    """What `main` returned, which is untrusted; None if the reply has no result that can be read."""
    try:
        found = parse(_text(reply), limit=MAX_RESULT_BYTES, heft=2 * MAX_HEFT)
    except UnreadableError:
        return None
    return found[0] if isinstance(found, list) and len(found) == 1 else None


def _text(reply: dict[str, Any] | None) -> str:
    """The text of a reply's result; empty if it has none."""
    try:
        text = (reply or {})["user_expressions"]["value"]["data"][RESULT_MIME]
    except (KeyError, TypeError):
        return ""
    return text if isinstance(text, str) else ""
