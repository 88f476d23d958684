"""What expressions are where code is read without its data. Pure: nothing of the code is run."""

from __future__ import annotations

import ast
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from nbagent.agent.made_up.computing import FAILS, FIXED, PURE, computed, operation
from nbagent.agent.made_up.scopes import NOTHING, Function, Scopes
from nbagent.agent.made_up.values import CUT, DATA, NOWHERE, VAGUE, Value, absorbed, made

_CALLED = frozenset("exec eval compile map next setattr getattr".split())
_OF_UNLIKE = (ast.Mult, ast.Mod)
"""Operators between a text and a number."""
SHOWS = frozenset("print display write writelines info warning error exec pprint".split())


class Expressions(Scopes):
    """Reads expressions."""

    @abstractmethod
    def _call(self, node: ast.Call) -> Value:
        """What a call gives."""

    @abstractmethod
    def call_made(self, called: Value, values: Sequence[Value], named: dict[str, Value]) -> Value:
        """What a call of a function or a class of the code gives."""

    def eval(self, node: ast.AST | None) -> Value:
        """What an expression is."""
        self._spend()
        value = self._eval(node)
        self.pay(len(value.sources) // 8)
        is_made = isinstance(node, ast.Constant | ast.BinOp | ast.Call | ast.UnaryOp) and not self._unstated
        is_small = len(value.constants) == 1 and isinstance(value.constants[0], int) and abs(value.constants[0]) < 1000
        if is_made and value.parts is None and value.constants and not is_small and DATA not in value.sources:
            self._count(self.stated, [value])
        return value

    def _eval(self, node: ast.AST | None) -> Value:
        match node:
            case ast.Constant(value=value):
                return Value((value,), self._source(value))
            case ast.Name(id=name):
                return self._name(name)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return Value(parts=self._listed(items))
            case ast.UnaryOp(op=op, operand=operand):
                inner = self.eval(operand)
                with suppress(*FAILS):
                    return made(self.kept(operation(type(op), self.plain(inner))), self._sources([inner]))
                return self.joined(inner)
            case ast.BinOp(left=left, op=op, right=right):
                same = type(left) is type(right) and _is_small(left) and ast.dump(left) == ast.dump(right)
                return self._reckoned(type(op), self.eval(left), self.eval(right), same=same)
            case ast.BoolOp(values=items):
                return self.joined(*map(self.eval, items))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(ops, [left, *others])
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=whole, attr=attr):
                return self.attribute(self.eval(whole), attr)
            case ast.Subscript(value=whole, slice=index):
                return self._item(self.eval(whole), index)
            case ast.Lambda(args=arguments):
                return self._function(node, arguments)
            case ast.Starred(value=whole) | ast.Await(value=whole):
                return self.eval(whole)
        return self._eval_rarer(node)

    def _eval_rarer(self, node: ast.AST | None) -> Value:
        match node:
            case ast.JoinedStr(values=items):
                parts = [*map(self.eval, items)]
                with suppress(*FAILS):
                    return Value((self.kept(computed("".join, [*map(self.plain, parts)])),), self._sources(parts))
                return Value(parts=parts)
            case ast.FormattedValue(value=inner, format_spec=spec):
                value = self.eval(inner)
                with suppress(*FAILS):
                    form = self.plain(self.eval(spec)) if spec else ""
                    return Value(
                        (self.kept(computed(PURE["format"], self.plain(value), form)),), self._sources([value])
                    )
                return value
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self.eval(test)
                with suppress(*FAILS):
                    return self.eval(body if self.plain(condition) else orelse)
                with self._beside(condition):
                    ways = self.eval(body), self.eval(orelse)
                    self._use(ways if DATA in condition.sources else ())
                    return self._beneath(self.joined(*ways))
            case ast.NamedExpr(target=target, value=inner):
                self._store(target, self.eval(inner))
                return self.eval(target)
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item):
                found: list[Value] = []
                is_known = self._comprehend(node.generators, lambda: found.append(self._beneath(self.eval(item))))
                return Value((), NOWHERE if is_known else self._sources(found), found)
            case ast.DictComp(key=key, value=item):
                return self._dict_of(node.generators, key, item)
            case ast.Yield(value=inner) | ast.YieldFrom(value=inner):
                value = self.eval(inner) if inner else Value()
                if self._returned:
                    self._returned[-1].append(self._beneath(value))
                return NOTHING
        return Value()

    def _dict_of(self, generators: Sequence[ast.comprehension], key: ast.expr, item: ast.expr) -> Value:
        pairs: dict[Any, Value] = {}

        def add() -> None:
            name = self.eval(key)
            try:
                at = self.key_of(name)
            except FAILS:
                at = len(pairs), name
            pairs[at] = self._beneath(self.eval(item))

        self._comprehend(generators, add)
        return Value(parts=pairs)

    def _name(self, name: str) -> Value:
        if name in self._scope:
            return self._scope[name]
        if name in PURE or name in SHOWS or name in _CALLED:
            return Value(code=name)
        return Value(self._readable().constants, frozenset((DATA,)))

    def _listed(self, items: Iterable[ast.expr]) -> list[Value]:
        found: list[Value] = []
        for item in items:
            value = self.eval(item)
            inner = self.known_items(value) if isinstance(item, ast.Starred) else [value]
            found += [value] if inner is None else inner
        return found

    def _dict(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> Value:
        parts: dict[Any, Value] = {}
        has_labels = all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in values)
        for key, item in zip(keys, values, strict=True):
            with self._not_stated(has_labels):
                name = self.eval(key)
            value = self.eval(item)
            if key is None and isinstance(value.parts, dict):
                self._spend(len(value.parts))
                parts.update(value.parts)
                continue
            try:
                parts[self.key_of(name)] = value
            except FAILS:
                parts[len(parts), "?"] = self.joined(value, name)
        return Value(parts=parts)

    @contextmanager
    def _not_stated(self, unstated: bool = True) -> Iterator[None]:
        self._unstated += unstated
        try:
            yield
        finally:
            self._unstated -= unstated

    def _reckoned(self, kind: type, left: Value, right: Value, *, same: bool = False) -> Value:
        whole = absorbed(kind, left, right, same=same)
        if whole is not None:
            return Value((whole,), NOWHERE)
        sources = self._sources([left, right])
        if kind is ast.Add and isinstance(left.parts, list) and isinstance(right.parts, list):
            return Value((), left.sources | right.sources, [*left.parts, *right.parts])
        with suppress(*FAILS):
            return made(self.kept(operation(kind, self.plain(left), self.plain(right))), sources)
        ones, others = self.joined(left).constants, self.joined(right).constants
        pairs = ((a, b) for a, b in itertools.product(ones, others) if kind in _OF_UNLIKE or _is_text(a) is _is_text(b))
        both = (each for one, other in pairs for each in self._tried(kind, one, other))
        if DATA not in sources:
            return Value(itertools.chain(both, self.vague(left, right).constants), sources | {VAGUE})
        if DATA not in self._sources([left]) or DATA not in self._sources([right]):
            self._use([left, right])
        if kind in (ast.Add, ast.Sub) and DATA in self._sources([left]) and _is_step(others):
            return Value(itertools.chain(both, ones), sources)  # only where the data is zero is it shown itself
        return Value(itertools.chain(both, ones, others), sources)

    def _tried(self, kind: type, one: Any, other: Any) -> list[Any]:
        self._spend()
        with suppress(*FAILS):
            return [self.kept(operation(kind, one, other))]
        return []

    def _compared(self, ops: Sequence[ast.cmpop], nodes: Sequence[ast.expr]) -> Value:
        with self._not_stated():
            values = [*map(self.eval, nodes)]
        sources = self._sources(values)
        with suppress(*FAILS):
            plain = [self.plain(each) for each in values]
            return Value(
                (all(operation(type(op), a, b) for op, a, b in zip(ops, plain, plain[1:], strict=False)),), sources
            )
        if DATA in sources:
            self._use(values)
            self.bounds += [
                each for leaf in self.leaves(values, read=True) if DATA not in leaf.sources for each in leaf.constants
            ]
        return Value((), sources | {VAGUE})

    def _comprehend(self, generators: Sequence[ast.comprehension], item: Callable[[], object]) -> bool:
        """Read a comprehension; returns whether all of its turns are known."""
        outer, self._scope = self._scope, self._scope.new_child()
        known = [True]

        def loop(at: int) -> None:
            if at == len(generators):
                item()
                return
            part = generators[at]
            over = self.eval(part.iter)

            def turn() -> None:
                tests = [*map(self.eval, part.ifs)]
                with suppress(*FAILS):
                    if all(self.plain(test) for test in tests):
                        loop(at + 1)
                    return
                known[0] = False
                with self._beside(self.joined(*tests)):
                    loop(at + 1)

            known[0] = known[0] and self.known_items(over) is not None
            self._turns(part.target, over, turn)

        try:
            loop(0)
        finally:
            self._scope = outer
        return known[0]

    def _item(self, whole: Value, index: ast.expr) -> Value:
        if isinstance(index, ast.Slice):
            ends = [self.eval(each) if each else made(None) for each in (index.lower, index.upper, index.step)]
            with suppress(*FAILS):
                cut = slice(*(self.plain(each) for each in ends))
                if cut.stop == 0 and not cut.start and cut.step is None:
                    return Value(("",))
                if isinstance(whole.parts, list):
                    self._spend(len(whole.parts) // 2)
                    return Value(whole.constants, whole.sources, whole.parts[cut])
                if DATA not in whole.sources:
                    return Value((self.kept(self.plain(whole)[cut]),), whole.sources)
                whole = self.joined(whole)
                parts = [self.kept(each[cut]) for each in whole.constants if isinstance(each, str)]
                # In a function, it may be a text of the data that is cut.
                return Value((*parts, *whole.constants), whole.sources | ({CUT} if self._calls else NOWHERE))
            return self.joined(whole)
        with self._not_stated():
            at = self.eval(index)
        is_data = DATA in self._sources([whole])
        if is_data or DATA in at.sources:
            self._use([at] if is_data else [whole])
        with suppress(*FAILS):
            key = self.key_of(at)
            if isinstance(whole.parts, dict) and key in whole.parts:
                return whole.item(whole.parts[key])
            if isinstance(whole.parts, list):
                return whole.item(whole.parts[key])
            return made(self.plain(whole)[key], whole.sources)
        if whole.parts is not None and not isinstance(whole.code, Function):
            return Value(self.element(whole).constants, self.element(whole).sources | at.sources)
        return self._like(whole)

    def _like(self, whole: Value) -> Value:
        """What is some part of a value."""
        whole = self.joined(whole)
        return whole if DATA in whole.sources or not whole.sources else Value(whole.constants, whole.sources | {VAGUE})

    def attribute(self, whole: Value, attr: str) -> Value:
        """What an attribute of a value is."""
        if isinstance(whole.code, str) and whole.parts is None:
            self.pay((len(whole.code) + len(attr)) // 8)
            value = self._of_module(f"{whole.code}.{attr}")
            return Value(whole.constants, whole.sources, None, value.code) if value.code and whole.constants else value
        if isinstance(whole.parts, dict) and attr in whole.parts:
            part = whole.item(whole.parts[attr])
            if not isinstance(part.code, Function) or not isinstance(whole.code, Function):
                return part
            kinds = {getattr(each, "id", "") for each in getattr(part.code.node, "decorator_list", ())}
            part = Value((), part.sources, None, replace(part.code, self=None if "staticmethod" in kinds else whole))
            return self.call_made(part, [], {}) if kinds & {"property", "cached_property"} else part
        return whole if whole.parts is None and attr in ("real", "value", "values", "data", "T") else self._like(whole)

    @staticmethod
    def _of_module(path: str) -> Value:
        return Value((FIXED[path],)) if path in FIXED else Value(code=path)

    def _function(self, node: Any, arguments: ast.arguments) -> Value:
        defaults = tuple(map(self.eval, [*arguments.defaults, *(each for each in arguments.kw_defaults if each)]))
        self.pay(3 + len(defaults))
        value = Value(code=Function(node, self._scope, defaults))
        self._waiting[id(node)] = value
        return value


def _is_text(constant: Any) -> bool:
    return isinstance(constant, str | bytes)


def _is_step(constants: Sequence[Any]) -> bool:
    """Whether what is added is one whole number of at most two digits, as to a month or an hour."""
    return len(constants) == 1 and type(constants[0]) is int and abs(constants[0]) < 100


def _is_small(node: ast.AST) -> bool:
    return next(itertools.islice(ast.walk(node), 40, None), None) is None
