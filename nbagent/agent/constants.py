"""Reckons what an expression of constants comes to, within bounds. Pure: nothing of the code is run."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

MOST = 20_000
"""Steps, items and characters of all values together."""
_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (abs, int, float, round, len, sum, ord, str, divmod, math.sqrt, math.floor, math.ceil)
}


def folded(node: ast.AST, valued: Callable[[str], ast.expr | None]) -> Any:
    """What an expression comes to.

    Args:
        node: The expression.
        valued: The expression that is a name's only value; None if there is none.

    Raises:
        ValueError: It is more than arithmetic, texts and lists, or it comes to something too large.
    """
    left = MOST

    def fold(node: ast.AST | None) -> Any:
        nonlocal left
        value = _value(node, fold, valued)
        left -= _size(value)
        if left < 0:
            raise ValueError("it is too large")
        return value

    try:
        return fold(node)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it comes to nothing: {error}") from error


def _value(
    node: ast.AST | None, fold: Callable[[ast.AST | None], Any], valued: Callable[[str], ast.expr | None]
) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return fold(valued(name))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [*map(fold, items)]
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATIONS[type(op)](fold(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _reckoned(type(op), fold(left), fold(right))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="join"), args=[items]):
            return text.join(fold(items))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="math"), attr=name), args=arguments):
            values = [fold(each) for each in arguments]
            if not node.keywords and not (name == "round" and _size(values[-1]) > 1):
                return _FUNCTIONS[name](*values)
    raise ValueError("it is no plain expression")


def _reckoned(kind: type, left: Any, right: Any) -> Any:
    """Two values reckoned together, if that can't come to much."""
    most = 0
    if kind is ast.Pow:
        most = _size(left) * 64 * abs(right)
    elif kind is ast.Mult and (isinstance(left, str | list) or isinstance(right, str | list)):
        most = _size(left) * right if isinstance(right, int) else _size(right) * left
    if most > MOST or (kind is ast.Mod and isinstance(left, str)):
        raise ValueError("it is too large")
    return _OPERATIONS[kind](left, right)


def _size(value: Any) -> int:
    """The items or characters of a value, or the words of a whole number; at least 1."""
    if isinstance(value, int):
        return 1 + value.bit_length() // 64
    return max(1, len(value)) if isinstance(value, str | list) else 1
