"""Numbers that code has written out: as parameters, or only to print them. Pure; the code is parsed, never run.

A number that the code only prints proves nothing: whoever wrote the code made it up, or read it elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator

from nbagent.core.syntax import UNREADABLE, parse
from nbagent.core.text import plain

MAX_REPEATED = 200_000
"""Characters of what a cell shows by names beyond which each name counts once more at most, however often it stands
there."""
_PRINTS = frozenset(("print", "display", "str", "repr", "format", "round", "float", "int", "Markdown", "HTML"))
_MAGICS = re.compile(r"(?m)^[^\S\n]*[%!].*$")


def parameters(code: str) -> str:
    """The numbers that code gives a name, and uses: `ALPHA = 0.05`, `bins=20`; each on a line."""
    tree = _tree(code) or ast.Module([], [])
    used = _used(tree)
    found = []
    for node in ast.walk(tree):
        is_named = isinstance(node, ast.Assign) and bool(used & set(_names(node.targets)))
        if isinstance(node, ast.Assign | ast.keyword) and (is_named or (isinstance(node, ast.keyword) and node.arg)):
            found += _written(node.value) if _is_number(node.value) else []
    return "\n".join(found)


def _names(targets: list[ast.expr]) -> list[str]:
    return [each.id for each in targets if isinstance(each, ast.Name)]


def _used(tree: ast.Module) -> set[str]:
    """The names in capitals, and those that something is compared with or that a call gets, other than to show them."""
    used = {each for node in ast.walk(tree) if isinstance(node, ast.Assign) for each in _names(node.targets)}
    used = {each for each in used if each.isupper()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            used.update(_names([node.left, *node.comparators]))
        elif isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _PRINTS):
            used.update(_names([*node.args, *(each.value for each in node.keywords)]))
    return used


def printed(code: str) -> str:
    """The numbers and texts that a cell shows as they stand in its code; all of the code if that can't be read."""
    tree = _tree(code)
    if tree is None:
        return plain(code)
    fixed = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_fixed(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    changed = _changed(tree)
    known = {name: "\n".join(_literals(value, lambda _: None)) for name, value in fixed.items() if name not in changed}
    left, seen = MAX_REPEATED, set[str]()

    def text_of(name: str) -> str | None:
        nonlocal left
        text = known.get(name)
        left -= len(text or "") + 1
        if left < 0 and name in seen:
            return None
        seen.add(name)
        return text

    shown = [argument for node in ast.walk(tree) for argument in _printed_by(node)]
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _printed_by(tree.body[-1].value):
        shown.append(tree.body[-1].value)
    return "\n".join(text for each in shown for text in _literals(each, text_of))


def _tree(code: str) -> ast.Module | None:
    try:
        return parse(_MAGICS.sub("", code), awaits=True)
    except UNREADABLE:
        return None


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _is_fixed(node: ast.AST) -> bool:
    """Whether a value is made of constants alone, without any reckoning."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(_is_fixed, node.elts))
    if isinstance(node, ast.Dict):
        return all(map(_is_fixed, [*filter(None, node.keys), *node.values]))
    return isinstance(node, ast.Constant) or _is_number(node)


def _changed(tree: ast.Module) -> set[str]:
    """The names that get more than one value."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    augmented = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return {name for name, count in Counter(names).items() if count > 1} | augmented


def _printed_by(node: ast.AST) -> list[ast.expr]:
    is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "display")
    return list(node.args) if is_print and isinstance(node, ast.Call) else []


def _written(number: ast.expr) -> list[str]:
    """A number as Python writes it; nothing for one of more than 4,300 digits, which it refuses to write."""
    try:
        return [ast.unparse(number)]
    except ValueError:
        return []


def _literals(node: ast.AST, known: Callable[[str], str | None]) -> Iterator[str]:
    """The constants that a shown expression shows as they are: not those that it reckons with."""
    match node:
        case ast.Constant(value=str() as text):
            yield plain(text)
        case ast.Constant(value=int() | float()) | ast.UnaryOp(operand=ast.Constant()):
            yield from _written(node)
        case ast.Name(id=name):
            yield known(name) or ""
        case ast.JoinedStr(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for each in parts:
                yield from _literals(each, known)
        case ast.FormattedValue(value=value) | ast.Starred(value=value):
            yield from _literals(value, known)
        case ast.Dict(keys=keys, values=values):
            for part in (*keys, *values):
                if part is not None:
                    yield from _literals(part, known)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _PRINTS:
            for each in arguments[:1]:
                yield from _literals(each, known)
        case ast.BinOp(left=ast.Constant(value=str()) as left, right=right):
            yield from _literals(left, known)
            yield from _literals(right, known)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()) as text), args=arguments):
            for each in (text, *arguments):
                yield from _literals(each, known)
