"""Reckons what the constants of code come to, within bounds. Pure: nothing of the code is run."""

from __future__ import annotations

import ast
import base64
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
_SERIES = (str, bytes, list)
COMPARES = frozenset("is_in isin is_between between eq ne lt le gt ge get_group".split())
"""Calls that only compare with what they are given."""
RENAMES = frozenset(("replace", "replace_strict", "map"))
"""Calls that give values of data other names, by a dictionary."""
_SQL = re.compile(r"(?is)\s*(?:select|with)\b.*\b(?:where|having)\b")
_CONDITION = re.compile(
    r"""(?ix) (?P<column> [\w"\])] \s* (?: [<>=!]=? | <> | \blike\b ) ) \s* (?: '[^']*' | -?[\d.]+ )
    | (?P<list> \bin ) \s* \( [^()]* \) | '[^']*' | "[^"]*" """
)
"""What a condition compares a column with, or a text beside it."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (abs, int, float, round, len, sum, ord, str, divmod, math.sqrt, math.floor, math.ceil)
}


def folded(node: ast.AST, valued: Callable[[str], ast.expr | None]) -> Any:
    """What an expression comes to.

    Args:
        node: The expression.
        valued: The expression that is a name's only value, or that a function returns; None if there is none.

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
        case ast.Call(func=ast.Name(id=name)) if (returned := valued(name)) is not None:
            return fold(returned)  # its parameters have their values if it is called once
        case ast.JoinedStr(values=items):
            return "".join(str(fold(each.value if isinstance(each, ast.FormattedValue) else each)) for each in items)
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
    elif kind is ast.Mult and (isinstance(left, _SERIES) or isinstance(right, _SERIES)):
        most = _size(left) * right if isinstance(right, int) else _size(right) * left
    if most > MOST or (kind is ast.Mod and isinstance(left, str | bytes)):
        raise ValueError("it is too large")
    return _OPERATIONS[kind](left, right)


def _size(value: Any) -> int:
    """The items or characters of a value, or the words of a whole number; at least 1."""
    if isinstance(value, int):
        return 1 + value.bit_length() // 64
    return max(1, len(value)) if isinstance(value, _SERIES) else 1


class Absorbed(ast.NodeTransformer):
    """Has in place of what data has no part in what it comes to: 0 times it, it less itself, none of its letters."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A calculation, after its parts."""
        self.generic_visit(node)
        match node:
            case (
                ast.BinOp(op=ast.Mult(), left=ast.Constant(value=0))
                | ast.BinOp(op=ast.Mult(), right=ast.Constant(value=0))
            ):
                return ast.Constant(0)
            case ast.BinOp(op=ast.Mod(), right=ast.Constant(value=1)):
                return ast.Constant(0)
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=0)):
                return ast.Constant(1)
            case ast.BinOp(op=ast.Sub(), left=left, right=right) if _is_same(left, right):
                return ast.Constant(0)
            case ast.BinOp(op=ast.Div() | ast.FloorDiv(), left=left, right=right) if _is_same(left, right):
                return ast.Constant(1)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A part of a value."""
        self.generic_visit(node)
        match node.slice:
            case ast.Slice(lower=None, upper=ast.Constant(value=0)):
                return ast.Constant("")
        return node


def _is_same(left: ast.expr, right: ast.expr) -> bool:
    if type(left) is not type(right) or next(itertools.islice(ast.walk(left), 40, None), None) is not None:
        return False
    return ast.dump(left) == ast.dump(right)


def stated(node: ast.AST) -> Iterator[tuple[Any, list[Any]]]:
    """What the constants in code come to, as far as one calculation goes; each with the numbers in it.

    What is only compared with is left out, and so are what has labels in a dictionary, and a text that stands alone.
    """

    def visit(node: ast.AST) -> tuple[Any, list[Any]] | None:
        parts_of = ast.iter_child_nodes(node)
        match node:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=str() as text) if _SQL.match(text):
                return _without_conditions(text), [text]
            case ast.Call(func=ast.Attribute(attr="query") as func, args=[ast.Constant(value=str() as text), *others]):
                found.append((_without_conditions(text), [text]))
                parts_of = iter([func, *others, *node.keywords])
            case ast.Call(func=ast.Attribute(attr=name) as func) if name in COMPARES:
                parts_of = iter([func])
            case ast.Dict(values=labels) if has_labels(node):
                parts_of = iter(labels)
            case ast.Constant(value=int() | float() | str() | bytes() as value):
                return value, [value]
            case ast.Expr(value=ast.Constant()) if not isinstance(node, ast.Module):
                return None
        inner = [visit(each) for each in parts_of]
        parts = [each for each in inner if each is not None]
        if isinstance(node, ast.BinOp | ast.UnaryOp) and len(parts) == len(inner) - 1:
            with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                values = [value for value, _ in parts]
                kind = type(node.op)
                whole = _OPERATIONS[kind](*values) if len(values) == 1 else _reckoned(kind, *values)
                return whole, [number for _, numbers in parts for number in numbers]
        if not isinstance(node, ast.Compare):
            found.extend(parts)
        return None

    found: list[tuple[Any, list[Any]]] = []
    if (whole := visit(node)) is not None:
        found.append(whole)
    yield from found


def has_labels(node: ast.AST | None) -> bool:
    """Whether an expression is a dictionary of texts, by which values of data get names."""
    values = node.values if isinstance(node, ast.Dict) else []
    return bool(values) and all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in values)


def _without_conditions(text: str) -> str:
    """A query without what its conditions compare columns with, which only data can make it show."""
    return _CONDITION.sub(lambda found: found["column"] or found["list"] or found[0], text)


def spelled(texts: Sequence[str], numbers: Sequence[Any]) -> Iterator[str]:
    """What constants may be made to say: read as one, from behind, as base64 or hex, or as letters' numbers."""
    whole = "".join(texts)[:MOST]
    yield from (whole, whole[::-1], *(each[::-1] for each in texts), *(re.sub(r"\D", "", each) for each in texts))
    for each in texts:
        with suppress(ValueError):
            yield base64.b64decode(each[:MOST], validate=True).decode("latin-1")
        with suppress(ValueError):
            yield bytes.fromhex(each[:MOST]).decode("latin-1")
    yield "".join(chr(int(each)) for each in numbers if 32 <= each < 127)
