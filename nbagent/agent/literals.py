"""Numbers that code has written out: as parameters, or only to show them. Pure; the code is parsed, never run.

A number that the code only shows proves nothing: whoever wrote the code made it up, or read it elsewhere.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from nbagent.agent.numerals import numerals
from nbagent.core.syntax import UNREADABLE, parse
from nbagent.core.text import plain

MAX_CODE = 500_000
"""Characters of the cells whose code is looked into, the latest first."""
AGAIN = 1_000_000
"""How often a number may be shown that has a name, or stands in a loop or in a function."""
ROUNDS = 20
"""How often names are looked at that are made of other names."""
WORK = 20
"""Steps for each part of a cell's tree: it is looked at again and again, and hostile code has this grow squarely."""
_SHOWS = frozenset(("print", "display", "write", "info", "warning"))
_MAKES = frozenset(
    "str repr format round float int abs sum max min sorted list tuple dict set frozenset zip enumerate reversed "
    "Markdown HTML Decimal Fraction DataFrame LazyFrame Series array asarray Index from_dict from_records from_dicts "
    "float64 float32 int64 int32 dumps pformat join SimpleNamespace namedtuple deepcopy copy lit literal dedent "
    "concat".split()
)
"""What makes of constants nothing but other forms of them, by the last part of its name."""
_COLUMNS = frozenset(("lit", "literal", "with_columns", "select", "agg", "assign"))
"""Calls that make columns of constants."""
_FILLS = frozenset(("append", "extend", "insert", "add", "update", "setdefault"))
_PUTS = _MAKES | _SHOWS | _COLUMNS
"""Calls whose keywords name values and no parameters."""
_MAGICS = re.compile(r"(?m)^[^\S\n]*[%!].*$")
_LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.comprehension, ast.Lambda)


@dataclass(frozen=True)
class _Known:
    """What names mean.

    Attributes:
        values: What each has been given, or has in it; of a function, what it returns.
        fixed: The names whose values come of constants alone.
        left: The steps that may still be taken, as the only item.
    """

    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    left: list[int] = field(default_factory=lambda: [0])

    def tree(self, code: str) -> ast.Module:
        """The tree of a cell, for which steps are given."""
        tree = parse(_MAGICS.sub("", code), awaits=True)
        self.left[0] = max(0, self.left[0]) + WORK * sum(1 for _ in ast.walk(tree)) + 2 * len(code)
        return tree

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            ValueError: None are left.
        """
        self.left[0] -= steps
        if self.left[0] < 0:
            raise ValueError("it takes too long to be read")


def parameters(code: str) -> str:
    """The numbers that code gives a name, and uses with data: `ALPHA = 0.05`, `bins=20`; each on a line."""
    found: list[str] = []
    with contextlib.suppress(*UNREADABLE):
        known = _Known()
        tree = known.tree(code)
        used = _used(tree, _learn(tree, known))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _is_number(node.value) and used & set(_names(node.targets)):
                found += _written(node.value)
            elif isinstance(node, ast.Call) and _name(node.func) not in _PUTS:
                found += [text for each in node.keywords if each.arg for text in _written(each.value)]
    return "\n".join(found)


def reused(code: Sequence[str], earlier: Sequence[str]) -> list[str]:
    """The variables and functions of earlier cells on which code depends, in order; beyond `MAX_CODE`, none are known.

    Args:
        code: Cells, in order.
        earlier: Those before, in order.
    """
    made: set[str] = set()
    found: dict[str, None] = {}
    given = {name for statement in _statements(earlier) for name in _bound(statement)[1]}
    for statement in _statements(code):
        inside, bound = _bound(statement)
        used = [
            each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        ]
        used += _names([statement.target]) if isinstance(statement, ast.AugAssign) else []
        found |= dict.fromkeys(name for name in used if name in given and name not in made and name not in inside)
        made |= inside | bound
    return [name for name in found if not name.startswith("_")]


def recent(code: Sequence[str]) -> int:
    """The index of the first of the last cells that have `MAX_CODE` characters together at most."""
    sizes = itertools.accumulate(map(len, reversed(code)))
    return len(code) - sum(size <= MAX_CODE for size in sizes)


def _statements(code: Sequence[str]) -> Iterator[ast.stmt]:
    """The statements of the recent cells, without those of cells that can't be read."""
    for each in code[recent(code) :]:
        with contextlib.suppress(*UNREADABLE):
            yield from parse(_MAGICS.sub("", each), awaits=True).body


def _bound(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement gives a value before it uses them, and all but modules that have one after it."""
    stored = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    stored |= {each.name for each in ast.walk(statement) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    first = stored | {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        first -= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return first, stored


def _used(tree: ast.Module, known: _Known) -> set[str]:
    """The names with which something is reckoned, compared or called, other than constants alone."""
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others) if not _is_fixed(node, known):
                used.update(_names([left, *others]))
            case ast.BinOp(left=left, right=right) if not _is_fixed(node, known):
                used.update(_names([left, right]))
            case ast.Call(func=func, args=arguments, keywords=keywords) if _name(func) not in _PUTS:
                used.update(_names([*arguments, *(each.value for each in keywords)]))
    return used


def shown_literals(code: Mapping[int, str]) -> dict[int, Counter[Decimal]]:
    """The numbers that each cell shows as they stand in the code, here or in a cell before, and how often at most.

    Of a cell that can't be read, or not within `WORK`, or that is none of the recent ones, these are all numbers in it.
    """
    known = _Known()
    found = {}
    read: dict[int, tuple[list[ast.expr], set[Decimal], set[str]]] = {}
    cells = sorted(code)
    first = recent([code[each] for each in cells])
    for at, cell in enumerate(cells):
        with contextlib.suppress(*UNREADABLE):
            if at >= first:
                tree = known.tree(code[cell])
                known = _learn(tree, known)
                found[cell] = _shown(tree, known, read)
        if cell not in found:
            found[cell] = Counter({each.value: AGAIN for each in numerals(plain(code[cell]))})
    return found


def _shown(
    tree: ast.Module, known: _Known, read: dict[int, tuple[list[ast.expr], set[Decimal], set[str]]]
) -> Counter[Decimal]:
    """The numbers that a cell shows, each with how often.

    Args:
        tree: The cell.
        known: What names mean.
        read: What was read of the values of names already, by their ids: they, their numbers, and the names in them.
    """
    counts: Counter[Decimal] = Counter()
    names: set[str] = set()
    for expression, often in _shown_expressions(tree, known):
        for text in _literals(expression, known, names):
            for number in numerals(text):
                counts[number.value] += often
    waiting, seen = list(names), set(names)
    while waiting:
        values = known.values[waiting.pop()]
        if id(values) not in read:
            inner: set[str] = set()
            texts = [text for each in values for text in _literals(each, known, inner)]
            read[id(values)] = values, {number.value for text in texts for number in numerals(text)}, inner
        _, numbers, inner = read[id(values)]
        known.spend(len(numbers) + len(inner))
        counts.update(dict.fromkeys(numbers, AGAIN))
        waiting += [each for each in inner if each in known.values and each not in seen]
        seen |= inner
    return counts


def _shown_expressions(tree: ast.Module, known: _Known) -> Iterator[tuple[ast.expr, int]]:
    """The expressions that a cell shows, each with how often."""
    repeated = {
        id(inner) for node in ast.walk(tree) if isinstance(node, _LOOPS) for inner in ast.iter_child_nodes(node)
    }
    for node in ast.walk(tree):  # from the outside to the inside
        if id(node) in repeated:
            repeated.update(map(id, ast.iter_child_nodes(node)))
        if isinstance(node, ast.Call) and _name(node.func) in _SHOWS:
            yield from ((each, AGAIN if id(node) in repeated else 1) for each in node.args)
        elif isinstance(node, ast.Call) and _name(node.func) in _COLUMNS:
            parts = [*(node.args if _name(node.func) in ("lit", "literal") else ()), *(k.value for k in node.keywords)]
            yield from ((each, AGAIN) for each in parts if _is_fixed(each, known))
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and not (isinstance(last.value, ast.Call) and _name(last.value.func) in _SHOWS):
        yield last.value, 1


def _names(nodes: Iterable[ast.expr]) -> list[str]:
    return [each.id for each in nodes if isinstance(each, ast.Name)]


def _name(function: ast.expr) -> str:
    """The last part of a function's name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _learn(tree: ast.Module, before: _Known) -> _Known:
    """What is known after a cell, of what was known before it."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                _give(given, targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                _give(given, [target], value)
            case ast.AugAssign(target=target, value=value):
                _give(given, [target], ast.Await(value))  # it depends on what was there
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                _give(given, [target], source)
            case ast.FunctionDef(name=name):
                parts = [*ast.walk(node)]
                before.spend(len(parts))
                given[name] = [each.value for each in parts if isinstance(each, ast.Return) and each.value]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=arguments) if attr in _FILLS:
                given.setdefault(name, [*before.values.get(name, ())]).extend(arguments)
    known = _Known({**before.values, **given}, before.fixed | set(given), before.left)
    for _ in range(ROUNDS):
        wrong = {
            name for name in known.fixed & set(given) if not all(_is_fixed(each, known) for each in known.values[name])
        }
        if not wrong:
            break
        known.fixed.difference_update(wrong)
    return known


def _give(given: dict[str, list[ast.expr]], targets: list[ast.expr], value: ast.expr) -> None:
    for target in targets:
        while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
            target = target.value
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                given.setdefault(node.id, []).append(value)


def _is_fixed(node: ast.AST, known: _Known) -> bool:
    """Whether a value comes of constants alone."""
    known.spend()
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in known.fixed
        case ast.Call(func=func, args=arguments, keywords=keywords):
            of_constant = isinstance(func, ast.Attribute) and _is_fixed(func.value, known)
            is_known = isinstance(func, ast.Name) and func.id in known.fixed
            makes = _name(func) in _MAKES or of_constant or is_known
            return makes and all(_is_fixed(each, known) for each in [*arguments, *(each.value for each in keywords)])
        case ast.Attribute() | ast.Await() | ast.Lambda() | ast.Yield() | ast.YieldFrom():
            return False
    inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)]
    return all(_is_fixed(each, known) for each in inner)


def _written(number: ast.expr) -> list[str]:
    """A number as Python writes it; nothing for what is none, and for more than 4,300 digits, which it refuses."""
    with contextlib.suppress(ValueError):
        return [ast.unparse(number)] if _is_number(number) else []
    return []


def _literals(node: ast.AST, known: _Known, names: set[str]) -> Iterator[str]:
    """The constants that a shown expression shows as they are: not those with which it reckons.

    Args:
        node: The expression, or a part of it.
        known: What names mean.
        names: Gets the names whose values it shows.
    """
    parts: Iterable[ast.AST] = ()
    known.spend()
    match node:
        case ast.Constant(value=str() as text):
            known.spend(len(text))
            yield plain(text)
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            known.spend(WORK)
            yield from _written(node)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)) if name in known.values:
            names.add(name)
            parts = getattr(node, "args", ())
        case ast.Call(func=ast.Lambda(body=body)):
            parts = [body]
        case ast.Call(func=func, args=arguments, keywords=keywords):
            if isinstance(func, ast.Attribute) and (_is_fixed(func.value, known) or func.attr == "format"):
                parts = [func.value, *arguments]
            elif _name(func) in _MAKES:
                parts = [*arguments, *(each.value for each in keywords)]
        case ast.BinOp(left=left) if not (_is_fixed(node, known) or isinstance(left, ast.Constant | ast.JoinedStr)):
            pass
        case ast.Attribute() | ast.Compare() | ast.Lambda() | ast.Await():
            pass
        case ast.Subscript(value=value) if not _is_fixed(node, known):
            parts = [value] if _is_fixed(value, known) else ()
        case _:
            parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)]
    for each in parts:
        yield from _literals(each, known, names)
