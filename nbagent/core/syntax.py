"""Python that others wrote: read, and never run. Pure.

Python's own parser takes about 1,000 bytes for each word and sign, and its compiler descends so deep into some cells of
half a megabyte that the process ends. So only so much is given to either. It also sorts the marks on a letter,
in a time that grows with the square of their number, while no other thread runs.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from typing import Final

MOST_PARTS: Final = 50_000
"""Words, signs and lines of code that is read: it takes up to 90 MB while it is."""
MOST_MARKS: Final = 400
"""Marks and signs in a row, outside of ASCII: a letter has up to 30 (UAX 15)."""
UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser and compiler may raise, for hostile code too; `parse` raises nothing else."""
_PART = re.compile(r"\w+|[^\w \t]")
_MARKS = re.compile(r"[^\w\s\x00-\x7f]++")


def parse(code: str, *, awaits: bool = False) -> ast.Module:
    """The syntax tree of a cell or a module.

    Raises:
        SyntaxError: It is no Python, or too long to be read.
        ValueError: It has a character that no source can have; so with the other errors in `UNREADABLE`.
    """
    flags = ast.PyCF_ONLY_AST | (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if awaits else 0)
    tree = _compiled(code, flags)
    assert isinstance(tree, ast.Module)  # noqa: S101 - by the flag
    return tree


def compiles(code: str) -> bool:
    """Whether code is a Python script, and short enough for that to be known."""
    try:
        _compiled(code, 0)
    except UNREADABLE:
        return False
    return True


def _compiled(code: str, flags: int) -> object:
    if next(itertools.islice(_PART.finditer(code), MOST_PARTS, None), None) is not None:
        raise SyntaxError("it is too long to be read")
    # These two letters become marks.
    marked = "" if code.isascii() else code.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    if any(len(each[0]) > MOST_MARKS for each in _MARKS.finditer(marked)):
        raise SyntaxError("it has too many marks on a letter to be read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of an invalid escape, of which its kernel will warn
        return compile(code, "<code>", "exec", flags=flags, dont_inherit=True)
