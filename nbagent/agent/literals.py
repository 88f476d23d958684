"""Numbers that code has made up: those that a cell shows without data. Pure; the code is parsed, never run.

A value is *made of constants* if nothing in its expression reads data, asks the environment or draws by chance, and
none of its names has such a value. What a cell shows of it proves nothing: whoever wrote the code made it up, or read
it elsewhere. It may still be reckoned with numbers that are known: those of the question, and of outputs before.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from nbagent.agent.constants import folded
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
COMMON = frozenset(map(Decimal, (*range(11), 12, 24, 60, 100, 365, 1000, 3600, 1_000_000)))
"""Numbers with which anybody may reckon, that alone make no number known."""
_SHOWS = frozenset("print display write writelines info warning exec".split())
_MAKES = frozenset(
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
_COLUMNS = frozenset(("lit", "literal", "with_columns", "select", "agg", "assign"))
"""Calls that make columns of constants."""
_FILLS = frozenset(("append", "extend", "insert", "add", "update", "setdefault"))
_SAVES = re.compile(r"write|to_|save|sink|dump|print$")
_PUTS = _MAKES | _SHOWS | _COLUMNS
"""Calls that are no use of a parameter."""
_MAGICS = re.compile(r"(?m)^[^\S\n]*[%!].*$")
_ECHOES = re.compile(r"\b(?:echo|printf)\b.*")
_LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.comprehension, ast.Lambda)
_UNKNOWN = ast.Await(ast.Constant(0))
"""Stands for a value of which nothing is known."""
_MODULE = ast.Await(ast.Constant(1))
"""Stands for a module that does more than reckon."""


@dataclass(frozen=True)
class _Known:
    """What names mean.

    Attributes:
        values: What each has been given, or has in it; of a function, what it returns; of a file, what is written.
        fixed: The names whose values are made of constants.
        takes: The names of the parameters of functions.
        left: The steps that may still be taken, as the only item.
    """

    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    takes: dict[str, list[str]] = field(default_factory=dict)
    left: list[int] = field(default_factory=lambda: [0])

    def tree(self, code: str) -> ast.Module:
        """The tree of a cell, for which steps are given."""
        tree = parse(_MAGICS.sub("", code), awaits=True)
        self.left[0] = max(0, self.left[0]) + WORK * sum(1 for _ in ast.walk(tree)) + 2 * len(code)
        return tree

    def only_value(self, name: str) -> ast.expr | None:
        """The value of a name that has been given one only."""
        values = self.values.get(name, ())
        return values[0] if len(values) == 1 and name not in self.takes else None

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            ValueError: None are left.
        """
        self.left[0] -= steps
        if self.left[0] < 0:
            raise ValueError("it takes too long to be read")


class Literals:
    """What cells show that was made up.

    Args:
        code: The code of each cell.
        data: Whether there is data that numbers can come from; if not, what is reckoned of constants is found out.
    """

    def __init__(self, code: Mapping[int, str], *, data: bool = True) -> None:
        self._code = code
        self._data = data
        self._read: dict[int, tuple[ast.Module, _Known]] = {}
        self._used: set[str] = set()
        self._parameters: set[Decimal] = set()
        self._values: dict[int, tuple[list[ast.expr], set[Decimal], set[str]]] = {}
        known = _Known()
        cells = sorted(code)
        for cell in cells[recent([code[each] for each in cells]) :]:
            with contextlib.suppress(*UNREADABLE):
                tree = known.tree(code[cell])
                known = _Learner(known).learned(tree)
                self._look_for_uses(tree, known)
                self._read[cell] = tree, known

    def _look_for_uses(self, tree: ast.Module, known: _Known) -> None:
        """Note what is reckoned, compared or called with beside what is not made of constants."""
        for node in ast.walk(tree):
            operands: list[ast.expr] = []
            match node:
                case ast.Compare(left=left, comparators=others):
                    operands = [left, *others]
                case ast.BinOp(left=left, right=right) if not _is_text(left):
                    operands = [left, right]
                case ast.Call(args=arguments, keywords=keywords) if _name(node.func) not in _PUTS:
                    operands = [*arguments, *(each.value for each in keywords)]
            if operands and not _is_fixed(node, known):
                looked = _Looked(known, ())
                looked.names |= {each for each in _names(operands) if each in known.fixed and each in known.values}
                self._used |= looked.names
                given = [each for each in operands if _is_fixed(each, known)]
                named = [*_keywords(given), *(each.value for each in getattr(node, "keywords", ()) if each.arg)]
                if isinstance(node, ast.Call) and _name(node.func) in known.takes:
                    named += given  # its function names them
                numbers = _numbers(text for each in named for text in _written(each))
                self._parameters |= {*numbers, *self._named(looked)}

    def parameters(self) -> str:
        """The numbers that code gives a name, and uses with data: `ALPHA = 0.05`, `bins=20`; each on a line."""
        return "\n".join(map(str, self._parameters))

    def shown(self, cell: int, known: Container[Decimal]) -> Counter[Decimal] | None:
        """The numbers that a cell shows without data, and how often at most; None for all that it shows.

        Of a cell that can't be read, or not within `WORK`, or that is none of the recent ones, these are all numbers
        in it.

        Args:
            cell: The cell.
            known: The sizes of the numbers in the question, and of those that were found out before.
        """
        code = self._code.get(cell, "")
        with contextlib.suppress(*UNREADABLE, KeyError):
            tree, names = self._read[cell]
            names.left[0] = WORK * sum(1 for _ in ast.walk(tree)) + 2 * len(code)
            counts: Counter[Decimal] = Counter()
            is_made_up = False
            for expression, often in _shown_expressions(tree, names):
                looked = _Looked(names, self._used)
                looked.look(expression)
                counts.update({each: often * n for each, n in Counter(_numbers(looked.texts)).items()})
                counts.update(dict.fromkeys(self._named(looked), AGAIN))
                for part in looked.made:
                    numbers, is_new = self._made(part, names, known)
                    counts.update(dict.fromkeys(numbers, AGAIN if isinstance(part, ast.Name) else often))
                    is_made_up = is_made_up or is_new
            for echo in _ECHOES.findall(code):
                counts.update(dict.fromkeys(_numbers([echo]), AGAIN))
            is_all = is_made_up and not _MAGICS.search(code) and _is_all_fixed(tree, names)
            return None if is_all else counts
        return Counter(dict.fromkeys(_numbers([code]), AGAIN))

    def _made(self, part: ast.expr, names: _Known, known: Container[Decimal]) -> tuple[set[Decimal], bool]:
        """The numbers that a part shows that is made of constants, and whether they are not reckoned with known ones."""
        inside = _Looked(names, self._used)
        inside.look_within(part)
        written = {*_numbers(inside.texts), *self._named(inside)}
        rare = [abs(each) for each in written if abs(each) not in COMMON]
        is_new = self._data and not (rare and all(each in known for each in rare))
        try:
            numbers = set(_numbers([str(folded(part, names.only_value))]))
        except ValueError:
            numbers = written | ({sum(written), sum(written) / len(written)} if written and is_new else set())
        return numbers if is_new else numbers & written, is_new

    def _named(self, looked: _Looked) -> set[Decimal]:
        """The numbers in the values of names that are shown, and of those in these."""
        found: set[Decimal] = set()
        waiting, seen = list(looked.names), set(looked.names)
        while waiting:
            values = looked.known.values[waiting.pop()]
            if id(values) not in self._values:
                inner = _Looked(looked.known, self._used)
                for each in values:
                    inner.look_within(each)
                self._values[id(values)] = values, set(_numbers(inner.texts)), inner.names
            _, numbers, names = self._values[id(values)]
            looked.known.spend(len(numbers) + len(names))
            found |= numbers
            waiting += [each for each in names if each in looked.known.values and each not in seen]
            seen |= names
        return found


class _Looked:
    """What an expression shows as it stands in the code: not what it reckons with.

    Args:
        known: What names mean.
        used: Names of parameters.

    Attributes:
        texts: The constants that it shows.
        names: The names whose values it shows.
        made: The parts of it that are made of constants.
    """

    def __init__(self, known: _Known, used: Container[str]) -> None:
        self.known = known
        self._used = used
        self.texts: list[str] = []
        self.names: set[str] = set()
        self.made: list[ast.expr] = []

    def look(self, node: ast.AST) -> None:
        """Look at an expression, or a part of it."""
        self.known.spend()
        if isinstance(node, ast.Constant) or _is_number(node):
            self._take(node)
        elif isinstance(node, ast.expr) and not isinstance(node, ast.JoinedStr) and _is_fixed(node, self.known):
            if not (isinstance(node, ast.Name) and node.id in self._used):
                self.made.append(node)
        else:
            self._go_on(node, self.look)

    def look_within(self, node: ast.AST) -> None:
        """Look at all constants and names of a part that is made of them."""
        self.known.spend()
        if isinstance(node, ast.Constant) or _is_number(node):
            self._take(node)
        elif not isinstance(node, ast.expr) or _is_fixed(node, self.known):
            self._name(node)
            is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            for each in [node.func.value, *node.args, *node.keywords] if is_method else ast.iter_child_nodes(node):
                self.look_within(each)
        else:
            self._go_on(node, self.look_within)

    def _take(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.known.spend(len(node.value))
            self.texts.append(node.value)
            if f"file:{node.value}" in self.known.values:
                self.names.add(f"file:{node.value}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            self.texts.append(node.value[:MAX_CODE].decode("ascii", "replace"))
        else:
            self.known.spend(WORK)
            self.texts += _written(node)

    def _name(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)):
                if name in self.known.values:
                    self.names.add(name)
                    return True
        return False

    def _go_on(self, node: ast.AST, look: Callable[[ast.AST], None]) -> None:
        """Look at those parts of an expression that it shows as they are."""
        parts: Iterable[ast.AST] = ()
        if self._name(node):
            parts = getattr(node, "args", ())
        else:
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=attr), args=arguments) if (
                    attr == "format" or _is_fixed(value, self.known)
                ):
                    parts = [value, *arguments]
                case ast.Subscript(value=value) if _is_fixed(value, self.known):
                    parts = [value]
                case ast.Call(func=func, args=arguments, keywords=keywords) if _name(func) in _MAKES:
                    parts = [*arguments, *(each.value for each in keywords)]
                case ast.BinOp(left=left) if not _is_text(left):
                    pass
                case ast.Call() | ast.Attribute() | ast.Compare() | ast.Lambda() | ast.Await() | ast.Subscript():
                    pass
                case _:
                    parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)]
        for each in parts:
            look(each)


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


class _Learner:
    """Learns what names mean after a cell.

    Args:
        before: What is known before it.
    """

    def __init__(self, before: _Known) -> None:
        self._before = before
        self._given: dict[str, list[ast.expr]] = {}
        self._takes = dict(before.takes)
        self._handles: dict[str, str] = {}

    def learned(self, tree: ast.Module) -> _Known:
        """What is known after the cell with this tree."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._define(node.name, node.args)
        self._visit(tree)
        before = self._before
        known = _Known({**before.values, **self._given}, before.fixed | set(self._given), self._takes, before.left)
        for _ in range(ROUNDS):
            wrong = [each for each in self._given if each in known.fixed and not self._stays(each, known)]
            if not wrong:
                return known
        known.fixed.difference_update(self._given)
        return known

    def _stays(self, name: str, known: _Known) -> bool:
        """Whether a name's values are made of constants, as far as is known; if not, it is taken away at once."""
        is_fixed = all(_is_fixed(each, known) for each in known.values[name])
        if not is_fixed:
            known.fixed.discard(name)
        return is_fixed

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
                for each in names:
                    self._import(each.name, each.asname or each.name.partition(".")[0])
            case ast.ImportFrom(module=str() as module, names=names):
                for each in names:
                    self._import(f"{module}.{each.name}", each.asname or each.name)
            case ast.Call():
                self._call(node, under)
        for each in ast.iter_child_nodes(node):
            self._visit(each, under, function)

    def _import(self, path: str, name: str) -> None:
        root, *_ = parts = path.split(".")
        is_pure = root in _MODULES and not any(_SOURCES.match(each) for each in parts)
        self._given[name] = [ast.Constant("") if is_pure else _MODULE]

    def _assign(
        self, targets: list[ast.expr], value: ast.expr, under: tuple[ast.expr, ...], *, is_partly: bool
    ) -> None:
        values = [value] if _is_number(value) or isinstance(value, ast.Constant) else [value, *under]
        for target in targets:
            if isinstance(target, ast.Tuple | ast.List):
                same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
                for at, each in enumerate(target.elts):
                    self._assign([each], value.elts[at] if same else value, under, is_partly=is_partly)
            elif isinstance(target, ast.Name):
                self._add(target.id, values, is_partly=is_partly)
                if (path := self._opened(value)) is not None:
                    self._handles[target.id] = path
            else:
                self._add(_base(target), [value, *under], is_more=True)

    def _add(
        self, name: str, values: Sequence[ast.expr], *, is_partly: bool = False, is_more: bool = False
    ) -> None:
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
        """Learn what a call gives the parameters of a function, fills a list with, or writes to a file."""
        name, arguments = _name(call.func), [*call.args, *(each.value for each in call.keywords)]
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
        parts = [call.func.value, *arguments] if isinstance(call.func, ast.Attribute) else arguments
        is_saved = _SAVES.match(name) is not None
        for each in parts:
            if (path := self._opened(each)) is not None or (path := self._saved(each) if is_saved else None) is not None:
                others = [other for other in parts if other is not each]
                self._add(f"file:{path}", [*others, *under] if is_saved else [_UNKNOWN], is_partly=True)

    def _opened(self, node: ast.expr) -> str | None:
        """The path of a file that is open to be written."""
        match node:
            case ast.Name(id=name):
                return self._handles.get(name)
            case ast.Call(func=ast.Name(id="open"), args=[path, ast.Constant(value=str() as mode)]) if mode[:1] in "wax":
                return self._saved(path)
        return None

    def _saved(self, node: ast.expr) -> str | None:
        """A path that is written out."""
        match node:
            case ast.Constant(value=str() as path):
                return path
            case ast.Name(id=name):
                values = self._given.get(name, self._before.values.get(name, []))
                return self._saved(values[0]) if len(values) == 1 and isinstance(values[0], ast.Constant | ast.Call) else None
            case ast.Call(func=func, args=[path]) if _name(func) == "Path":
                return self._saved(path)
        return None


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


def _is_all_fixed(tree: ast.Module, known: _Known) -> bool:
    """Whether nothing in a cell reads, draws by chance or asks the environment."""
    inner = [each for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.ExceptHandler) for each in ast.iter_child_nodes(node)]
    parts = [each.context_expr if isinstance(each, ast.withitem) else each for each in inner]
    return all(_is_fixed(each, known) for each in parts if isinstance(each, ast.expr) and not _is_stored(each))


def _is_stored(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def _is_fixed(node: ast.AST, known: _Known) -> bool:
    """Whether a value is made of constants."""
    known.spend()
    match node:
        case ast.Name(id=name):
            return name in known.fixed or (name in _MAKES and name not in known.values)
        case ast.Call(func=ast.Name(id="eval" | "exec"), args=[code, *_]):
            return isinstance(code, ast.Constant) and _is_all_fixed(parse(str(code.value)), known)
        case ast.Call(func=func, args=arguments, keywords=keywords):
            rest = [*arguments, *(each.value for each in keywords)]
            return _reckons(func, arguments, known) and all(_is_fixed(each, known) for each in rest)
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if known.values.get(name) == [_MODULE]:
            return attr[:1].isupper()  # a type of its
        case ast.Attribute(value=value, attr=attr):
            return not _SOURCES.match(attr) and _is_fixed(value, known)
        case ast.Lambda(args=arguments, body=body):
            own = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
            return _is_fixed(body, replace(known, fixed=known.fixed | own))
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            own = {each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
            known = replace(known, fixed=known.fixed | own)
        case ast.Await():
            return False
    inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)]
    return all(_is_fixed(each, known) for each in inner)


def _reckons(func: ast.expr, arguments: Sequence[ast.expr], known: _Known) -> bool:
    """Whether a function only reckons with what it is given."""
    name = _name(func)
    if _SOURCES.match(name):
        subject = arguments[0] if arguments else func.value if isinstance(func, ast.Attribute) else func
        return _is_own(subject, known)
    match func:
        case ast.Name():
            is_built_in = name in _MAKES or name in _SHOWS
            return name in known.fixed if name in known.values else is_built_in
        case ast.Attribute(value=value):
            of_module = isinstance(value, ast.Name) and known.values.get(value.id) == [_MODULE]
            return (of_module and name in _MAKES) or name in _SHOWS or _is_fixed(value, known)
    return isinstance(func, ast.Lambda)


def _is_own(node: ast.expr, known: _Known) -> bool:
    """Whether what is read is a text of constants, or a file that cells have written with these alone."""
    known.spend()
    match node:
        case ast.Constant(value=str() as path):
            return f"file:{path}" in known.fixed
        case ast.Name(id=name):
            values = known.values.get(name, [])
            return name in known.fixed and bool(values) and all(_is_own(each, known) for each in values)
        case ast.Call(func=func, args=[first, *_]) if _name(func) in ("open", "Path"):
            return _is_own(first, known)
        case ast.Call(func=func):
            return _name(func) in ("StringIO", "BytesIO") and _is_fixed(node, known)
    return False


def _names(nodes: Iterable[ast.expr]) -> list[str]:
    return [each.id for each in nodes if isinstance(each, ast.Name)]


def _keywords(nodes: Iterable[ast.expr]) -> list[ast.expr]:
    """The values of keywords in calls."""
    calls = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))
    return [each.value for call in calls if _name(call.func) not in _PUTS for each in call.keywords if each.arg]


def _name(function: ast.expr) -> str:
    """The last part of a function's name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _base(node: ast.expr) -> str:
    """The name of which something is an item or a part; empty if there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _written(number: ast.AST) -> list[str]:
    """A number as Python writes it; nothing for what is none, and for more than 4,300 digits, which it refuses."""
    with contextlib.suppress(ValueError):
        return [ast.unparse(number)] if _is_number(number) else []
    return []


def _numbers(texts: Iterable[str]) -> list[Decimal]:
    return [number.value for text in texts for number in numerals(plain(text))]
