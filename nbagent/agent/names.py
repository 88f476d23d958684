"""What names mean in the cells of a session, by their code alone. Pure; the code is parsed, never run.

A value is *made of constants* if nothing in its expression reads data, asks the environment or draws by chance, and
none of its names has such a value.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nbagent.agent.constants import Absorbed
from nbagent.core.syntax import UNREADABLE, parse

MAX_CODE = 500_000
"""Characters of the cells whose code is looked into, the latest first."""
ROUNDS = 20
"""How often names are looked at that are made of other names."""
WORK = 20
"""Steps for each part of a cell's tree: it is looked at again and again, and hostile code has this grow squarely."""
SHOWS = frozenset("print display write writelines info warning exec".split())
MAKES = frozenset(
    "str repr format round float int abs sum max min sorted list tuple dict set frozenset zip enumerate reversed len "
    "ord chr pow divmod range bool complex hex bin oct bytes bytearray any all map filter iter next "
    "Markdown HTML Decimal Fraction DataFrame LazyFrame Series array asarray Index from_dict from_records from_dicts "
    "float64 float32 int64 int32 dumps pformat join SimpleNamespace namedtuple deepcopy copy lit literal dedent "
    "concat StringIO BytesIO Path Timestamp Timedelta date_range to_datetime to_timedelta".split()
)
"""What makes of constants nothing but other constants, by the last part of its name."""
_MODULES = frozenset(
    "math cmath statistics json datetime decimal fractions itertools functools operator collections re string textwrap "
    "calendar copy ast base64 struct numpy io pathlib types".split()
)
"""Modules that only reckon, but for what `_SOURCES` names."""
_SOURCES = re.compile(
    r"(?:read|scan|open|load(?!s$)|from_?file|genfrom|memmap|default_rng|rand|seed|r?glob|iterdir|walk|exists|is_)|"
    r"(?:stat|home|cwd|now|utcnow|today)$|__(?:version|file|dict)__"
)
"""Names of what reads, draws by chance, or asks the environment."""
_FILLS = frozenset(("append", "extend", "insert", "add", "update", "setdefault"))
SAVES = re.compile(r"write|to_|save|sink|dump")
"""Names of what may write to a file."""
MAGICS = re.compile(r"(?m)^[^\S\n]*[%!].*$")
_UNKNOWN = ast.Await(ast.Constant(0))
"""Stands for a value of which nothing is known."""
_RECKONER = ast.Constant("")
"""Stands for a module that only reckons, or a part of it."""
_MODULE = ast.Await(ast.Constant(1))
"""Stands for a module that does more than reckon."""


@dataclass(frozen=True)
class Known:
    """What names mean.

    Attributes:
        values: What each has been given, or has in it; of a function, what it returns.
        fixed: The names whose values are made of constants.
        takes: The names of the parameters of functions.
        left: The steps that may still be taken, as the only item.
        own: The parameters of the lambda or comprehension that is looked at, which count as made of constants.
    """

    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    takes: dict[str, list[str]] = field(default_factory=dict)
    left: list[int] = field(default_factory=lambda: [0])
    own: frozenset[str] = frozenset()

    def take(self, later: Known) -> None:
        """Have the names that a later cell gives a value mean that from now on."""
        self.values.update(later.values)
        self.fixed.difference_update(later.values)
        self.fixed.update(later.fixed)
        self.takes.update(later.takes)

    def tree(self, code: str) -> tuple[ast.Module, list[ast.AST]]:
        """The tree of a cell and all of its parts, for which steps are given."""
        tree: ast.Module = Absorbed().visit(parse(MAGICS.sub("", code), awaits=True))
        parts = [*ast.walk(tree)]
        self.left[0] = max(0, self.left[0]) + WORK * len(parts) + 2 * len(code)
        return tree, parts

    def only_value(self, name: str) -> ast.expr | None:
        """The value of a name that has been given one only; of a function, the only one that it returns."""
        own = {*self.takes[name], f"{name}()"} if name in self.takes else ()
        values = [each for each in self.values.get(name, ()) if not (isinstance(each, ast.Name) and each.id in own)]
        return values[0] if len(values) == 1 and values[0] is not _RECKONER else None

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            ValueError: None are left.
        """
        self.left[0] -= steps
        if self.left[0] < 0:
            raise ValueError("it takes too long to be read")


class Learner:
    """Learns what names mean after a cell.

    Args:
        before: What is known before it.
    """

    def __init__(self, before: Known) -> None:
        self._before = before
        self._given: dict[str, list[ast.expr]] = {}
        self._takes = dict(before.takes)

    def learned(self, tree: ast.Module, parts: Iterable[ast.AST]) -> Known:
        """What the cell with this tree gives names."""
        for node in parts:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._define(node.name, node.args)
        self._visit(tree)
        before = self._before
        known = Known({**before.values, **self._given}, before.fixed | set(self._given), self._takes, before.left)
        takes = {name: each for name, each in self._takes.items() if name in self._given}
        for _ in range(ROUNDS):
            wrong = [each for each in self._given if each in known.fixed and not self._stays(each, known)]
            if not wrong:
                return Known(self._given, known.fixed & self._given.keys(), takes)
        return Known(self._given, takes=takes)

    def _stays(self, name: str, known: Known) -> bool:
        """Whether a name's values are made of constants, as far as is known; if not, it is taken away at once."""
        stays = all(is_fixed(each, known) for each in known.values[name])
        if not stays:
            known.fixed.discard(name)
        return stays

    def _define(self, name: str, arguments: ast.arguments) -> None:
        self._takes[name] = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self._given[name], self._given[f"{name}()"] = [], []
        for each, default in zip(reversed(self._takes[name]), reversed(arguments.defaults), strict=False):
            self._add(each, [default], is_partly=True)

    def _visit(self, node: ast.AST, under: tuple[ast.expr, ...] = (), function: str = "") -> None:
        """Learn of a part of the tree.

        Args:
            node: The part.
            under: On what it depends whether it runs, and how often.
            function: The function in which it stands.
        """
        self._before.spend()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                under = (*map(_load, (*self._takes[name], f"{name}()")),)
                function = name
            case ast.ClassDef(name=name):
                given = [each.value for each in ast.walk(node) if isinstance(each, ast.Assign)]
                self._add(name, [*given, *under])
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value) if function:
                self._add(function, [value, *under])
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=arguments, body=body)):
                self._define(name, arguments)
                self._add(name, [body])
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value, under, is_partly=bool(function))
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._assign([target], value, under, is_partly=bool(function))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign([target], value, under, is_partly=bool(function))
            case ast.comprehension(target=target, iter=value):
                self._assign([target], value, under, is_partly=True)
            case ast.AugAssign(target=target, value=value):
                self._add(_base(target), [value, *under], is_more=True)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._assign([target], value, under, is_partly=bool(function))
                under = (*under, value)
            case ast.While(test=value) | ast.If(test=value) | ast.Match(subject=value):
                under = (*under, value)
            case ast.ExceptHandler():
                under = (*under, _UNKNOWN)
            case ast.Import(names=names):
                for alias in names:
                    self._import(alias.name, alias.asname or alias.name.partition(".")[0])
            case ast.ImportFrom(module=str() as module, names=names):
                for alias in names:
                    self._import(f"{module}.{alias.name}", alias.asname or alias.name)
            case ast.Call():
                self._call(node, under)
        for each in ast.iter_child_nodes(node):
            self._visit(each, under, function)

    def _import(self, path: str, name: str) -> None:
        root, *_ = parts = path.split(".")
        is_pure = root in _MODULES and not any(_SOURCES.match(each) for each in parts)
        self._given[name] = [_RECKONER if is_pure else _MODULE]

    def _assign(
        self, targets: list[ast.expr], value: ast.expr, under: tuple[ast.expr, ...], *, is_partly: bool
    ) -> None:
        values = [value] if is_number(value) or isinstance(value, ast.Constant) else [value, *under]
        for target in targets:
            if isinstance(target, ast.Tuple | ast.List):
                parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
                for at, each in enumerate(target.elts):
                    part = parts[at] if len(parts) == len(target.elts) else value
                    self._assign([each], part, under, is_partly=is_partly)
            elif isinstance(target, ast.Name):
                self._add(target.id, values, is_partly=is_partly)
            else:
                self._add(_base(target), [value, *under], is_more=True)

    def _add(self, name: str, values: Sequence[ast.expr], *, is_partly: bool = False, is_more: bool = False) -> None:
        """Note what a name is given.

        Args:
            name: The name.
            values: What it is given.
            is_partly: Whether it may also be what it was before.
            is_more: Whether this is added to what it was before.
        """
        before = self._before.values.get(name, [_UNKNOWN] if is_more else []) if is_partly or is_more else ()
        self._given.setdefault(name, [*before]).extend(values)

    def _call(self, call: ast.Call, under: tuple[ast.expr, ...]) -> None:
        """Learn what a call gives the parameters of a function, or fills a list with."""
        name, arguments = name_of(call.func), [*call.args, *(each.value for each in call.keywords)]
        if isinstance(call.func, ast.Name) and name in self._takes:
            named = {each.arg: each.value for each in call.keywords}
            given = [*zip(self._takes[name], call.args, strict=False), *named.items()]
            for parameter, value in given:
                self._add(parameter or "", [value], is_partly=True)
            if any(isinstance(each, ast.Starred) for each in call.args):
                given = [(each, _UNKNOWN) for each in self._takes[name]]
            self._add(f"{name}()", under, is_partly=True)
        elif isinstance(call.func, ast.Attribute) and name in _FILLS and isinstance(call.func.value, ast.Name):
            self._add(call.func.value.id, [*arguments, *under], is_more=True)


def is_all_fixed(tree: ast.Module, known: Known) -> bool:
    """Whether nothing in a cell reads, draws by chance or asks the environment."""
    inner = [
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.ExceptHandler)
        for each in ast.iter_child_nodes(node)
    ]
    parts = [each.context_expr if isinstance(each, ast.withitem) else each for each in inner]
    return all(is_fixed(each, known) for each in parts if isinstance(each, ast.expr) and not _is_stored(each))


def _is_stored(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def is_fixed(node: ast.AST, known: Known) -> bool:
    """Whether a value is made of constants."""
    known.spend()
    match node:
        case ast.Name(id=name):
            return name in known.fixed or name in known.own or (name in MAKES and name not in known.values)
        case ast.Call(func=ast.Name(id="eval" | "exec"), args=[code, *_]):
            return isinstance(code, ast.Constant) and is_all_fixed(parse(str(code.value)), known)
        case ast.Call(func=func, args=arguments, keywords=keywords):
            rest = [*arguments, *(each.value for each in keywords)]
            return _reckons(func, arguments, known) and all(is_fixed(each, known) for each in rest)
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if known.values.get(name) == [_MODULE]:
            return attr[:1].isupper()  # a type of its
        case ast.Attribute(value=value, attr=attr):
            return not _SOURCES.match(attr) and is_fixed(value, known)
        case ast.Lambda(args=arguments, body=body):
            own = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
            return is_fixed(body, replace(known, own=known.own | own))
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            own = {each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
            known = replace(known, own=known.own | own)
        case ast.Await():
            return False
    inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)]
    return all(is_fixed(each, known) for each in inner)


def _reckons(func: ast.expr, arguments: Sequence[ast.expr], known: Known) -> bool:
    """Whether a function only reckons with what it is given."""
    name = name_of(func)
    if _SOURCES.match(name):
        return bool(arguments) and name_of(getattr(arguments[0], "func", arguments[0])) in ("StringIO", "BytesIO")
    match func:
        case ast.Name():
            is_built_in = name in MAKES or name in SHOWS
            return name in known.fixed or name in known.own if name in known.values else is_built_in
        case ast.Attribute(value=value):
            of_module = isinstance(value, ast.Name) and known.values.get(value.id) == [_MODULE]
            return (of_module and name in MAKES) or name in SHOWS or is_fixed(value, known)
    return isinstance(func, ast.Lambda)


def names_in(nodes: Iterable[ast.expr]) -> list[str]:
    """Those of several expressions that are names."""
    return [each.id for each in nodes if isinstance(each, ast.Name)]


def name_of(function: ast.expr) -> str:
    """The last part of a function's name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _base(node: ast.expr) -> str:
    """The name of which something is an item or a part; empty if there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def is_number(node: ast.AST | None) -> bool:
    """Whether an expression is a number as it is written, perhaps with a sign."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


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
        used += names_in([statement.target]) if isinstance(statement, ast.AugAssign) else []
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
            yield from parse(MAGICS.sub("", each), awaits=True).body


def _bound(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement gives a value before it uses them, and all but modules that have one after it."""
    stored = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    stored |= {each.name for each in ast.walk(statement) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    first = stored | {each.arg for each in ast.walk(statement) if isinstance(each, ast.arg)}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        first -= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return first, stored
