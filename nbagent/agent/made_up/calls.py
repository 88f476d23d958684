"""What calls give where code is read without its data. Pure: nothing of the code is run."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from nbagent.agent.made_up.computing import FAILS, PURE, computed, method
from nbagent.agent.made_up.expressions import SHOWS, Expressions
from nbagent.agent.made_up.scopes import AGAIN, NOTHING, Function
from nbagent.agent.made_up.values import (
    CODE,
    CUT,
    DATA,
    NOWHERE,
    VAGUE,
    Value,
    bounds_of,
    made,
    queried,
    reading,
)
from nbagent.agent.made_up.vocabulary import (
    BOUNDS,
    CLEANS,
    COMPARES,
    CUTS,
    DRAWS,
    FILES,
    LISTS,
    MAKES,
    NAMES,
    PASSES_ON,
    PURE_MODULES,
    READS,
    RENAMES,
    SAVES,
    SELECTS,
    SHOWING,
    TABLES,
    TAKES_OFF,
)
from nbagent.core.syntax import UNREADABLE, parse

_DEEP = 12
"""Calls in calls that are read."""


Named = dict[str, Value]
"""Arguments by their names."""


class Calls(Expressions):
    """Reads calls.

    Attributes:
        functions: Functions that are given what need not be a constant, by their full names.
        methods: Methods of containers, of which the parts need not be constants.
    """

    functions: ClassVar[Mapping[str, Callable[..., Value]]]
    methods: ClassVar[Mapping[str, Callable[..., Value]]]

    @abstractmethod
    def _block(self, statements: Iterable[ast.stmt]) -> bool:
        """Read statements; returns whether what follows is not reached."""

    def _call(self, node: ast.Call) -> Value:
        receiver, called, name = None, Value(), ""
        if isinstance(node.func, ast.Attribute):
            receiver, name = self.eval(node.func.value), node.func.attr
            if receiver.code or (isinstance(receiver.parts, dict) and name in receiver.parts):
                called = self.attribute(receiver, name)
        else:
            called = self.eval(node.func)
        with self._not_stated(receiver is not None and name in COMPARES):
            values = self._listed(node.args)
            named = {each.arg or "": self.eval(each.value) for each in node.keywords}
        if called.code and not isinstance(called.code, str):
            return self.call_made(called, values, named)
        path = called.code or name
        self.pay(len(path) // 8)
        name = path.rpartition(".")[2]
        if name in SHOWS and SHOWING.match(path):
            return self._shows(name, receiver, values, named)
        if receiver is None or called.code:
            return self.call_named(path, values, named, [called] if called.constants else [])
        return self._call_method(receiver, name, values, named)

    def _shows(self, name: str, receiver: Value | None, values: list[Value], named: Named) -> Value:
        if name == "exec":
            return self.execute(values)
        file = named.get("file", receiver if receiver and "write" in name else Value(code=""))
        if not isinstance(file.code, str):
            self._save(values)
        if isinstance(file.code, str) or "file" not in named:
            self._show(self._line(values, named) if name == "print" else values)
        return made(None)

    def _line(self, values: list[Value], named: Named) -> list[Value]:
        """What a line shows, of which parts were perhaps printed before: as one text if it is all made of constants."""
        sources, line = self._sources([*values, *named.values()]), self._begun
        self._begun = ""
        with suppress(*FAILS):
            sep, end = (self.plain(named[each]) if each in named else by for each, by in (("sep", " "), ("end", "\n")))
            texts = [self.kept(str(self.plain(each))) for each in values]
            self.pay(len(sep) * len(texts) // 20)
            line += sep.join(texts)
            self._begun = "" if end.endswith("\n") else self.kept(line + end)
            if sources <= {CODE} and (len(values) > 1 or line != str(self.plain(values[0]))):
                return [Value((self.kept(line),), sources)]
        return [*values, *named.values()]

    def _show(self, values: Iterable[Value]) -> None:
        for value in values:
            shown = value
            for each in ("__str__", "__repr__"):
                if isinstance(value.code, Function) and isinstance(value.parts, dict) and each in value.parts:
                    shown = self.call_made(self.attribute(value, each), [], {})
            self._count(self.shown, [shown], AGAIN if self._loops else 1)

    def call_named(self, path: str, values: list[Value], named: Named, receivers: list[Value]) -> Value:
        """What a call of a function of others gives, by its full name."""
        with suppress(*FAILS):
            return self.functions[path](self, values, named)
        given, name = [*values, *named.values()], path.rpartition(".")[2]
        sources, by = self._sources(given), self._given_functions(given)
        if DATA not in sources and (not by or path in PURE):
            with suppress(*FAILS):
                plain = {key: self.plain(each) for key, each in named.items()}
                return made(self.kept(computed(PURE[path], *map(self.plain, values), **plain)), sources)
            if name in LISTS and "." in path and values:
                return Value(values[0].constants, values[0].sources, values[0].parts)
            is_pure = path.partition(".")[0] in PURE_MODULES or path in PURE or (name in MAKES and "." in path)
            if is_pure and not READS.search(name):
                return self.vague(*given)
        if path in PURE and len(given) == 1:
            given = values = [self._each(PURE[path], self.joined(*values))]
        return self._drawn(name, sources, values, named) or self._unknown(name, receivers, values, named, by)

    def _call_method(self, receiver: Value, name: str, values: list[Value], named: Named) -> Value:
        """What a call of a method of a value gives."""
        given = [*values, *named.values()]
        if receiver.parts is not None and name in self.methods:
            with suppress(*FAILS):
                return self.methods[name](self, receiver, values, named)
        sources, by = self._sources([receiver, *given]), self._given_functions(given)
        if DATA not in sources and not by and not READS.match(name):
            with suppress(*FAILS):
                whole, plain = self.plain(receiver), [self.plain(each) for each in values]
                if isinstance(whole, list | dict) and f"numpy.{name}" in PURE:
                    return made(self.kept(computed(PURE[f"numpy.{name}"], whole, *plain)), sources)
                return made(
                    self.kept(method(whole, name, *plain, **{k: self.plain(v) for k, v in named.items()})), sources
                )
            if receiver.sources or receiver.parts or receiver.constants:
                self._save([receiver, *given] if SAVES.search(name) else [])
                found = self.vague(receiver, *given)
                is_cut = self._cuts(name, values, named)
                return Value(found.constants, found.sources | {CUT}, found.parts) if is_cut else found
        drawn = None if receiver.parts else self._drawn(name, self._sources(given), values, named)
        return drawn or self._unknown(name, [receiver], values, named, by)

    def _drawn(self, name: str, sources: frozenset[str], values: list[Value], named: Named) -> Value | None:
        """One number that is drawn by chance, from no data; a simulation draws again and again."""
        is_one = 0 < len(values) < 3 and "size" not in named and not self._loops
        if name not in DRAWS or DATA in sources or not is_one:
            return None
        return Value(self.vague(*values).constants, sources | {CODE, VAGUE})

    def _unknown(self, name: str, receivers: list[Value], values: list[Value], named: Named, by: list[Value]) -> Value:
        """What a call gives that does more than reckon with constants: data, with what it hands on."""
        given = [*values, *named.values()]
        if SAVES.search(name):
            self._save([*receivers, *given])
        constants = [each for leaf in self.leaves(given) for each in leaf.constants]
        bounds = constants if name in BOUNDS else [bound for each in constants for bound in bounds_of(each)]
        self.pay(sum(map(reading, bounds)))
        self.bounds += bounds
        has_lines = any(isinstance(each, str) and "\n" in each for each in constants)  # it is a table itself
        if TABLES.match(name) and not has_lines:
            self.tables.update(each for each in constants if isinstance(each, str))
        if name not in PASSES_ON:
            self._use(named.values(), named=True)
        if name not in PASSES_ON or name in RENAMES:
            self._use(given, named=SELECTS.match(name) is not None)
        is_constant = bool(given) and DATA not in self._sources([*receivers, *given])
        handed: list[Value] = []
        passed = given
        if name in NAMES and (receivers or name == "col"):
            passed = [
                each for key, each in named.items() if key.endswith("_name") or not self._are_all(each, texts=True)
            ]
            passed += [each for each in values if not self._are_all(each, texts=True)]
        if TABLES.match(name):
            # Which lines and columns of a file are read says nothing that is in them, unless it is how they are called.
            places = [each for key, each in named.items() if "name" not in key and "column" not in key]
            chosen = {id(each) for each in (*places, *values[1:]) if self._are_all(each, texts=False)}
            passed = [each for each in given if id(each) not in chosen]
        for each in passed if name not in COMPARES else ():
            is_name = (
                each.constants
                and isinstance(each.constants[0], str)
                and not has_lines
                and VAGUE not in each.sources
                and FILES.match(name)
            )
            is_choice = name not in PASSES_ON and not is_constant and DATA not in each.sources
            if each.parts is not None or not (is_name or is_choice):
                self.leaves([each])  # takes their steps
                handed += each.leaves(keys=name not in RENAMES)
        parts = [each if each.parts is None else self.vague(each) for each in receivers]
        has_texts = any(isinstance(one, str) for each in handed for one in each.constants)
        is_said = is_constant and has_texts and name != "lit"
        parts += [self.vague(*handed)] if is_said else handed  # a query reckons with the numbers in it
        is_cut = CUT in self._sources(by) or self._cuts(name, values, named)
        sources = self._sources(parts) | {DATA} | ({CUT} if is_cut else NOWHERE)
        parts += by if not READS.search(name) or not self.saved else [*by, self._readable()]
        is_cut = is_cut and any(isinstance(one, str) for each in parts for one in each.constants)
        whole = self.vague(*parts) if is_cut else self.joined(*parts)
        return Value(map(queried, whole.constants), sources)

    def _are_all(self, value: Value, *, texts: bool) -> bool:
        """Whether a value is made of texts of the code alone, as names of columns are, or of numbers alone."""
        leaves = list(self.leaves([value]))
        constants = [each for leaf in leaves for each in leaf.constants if not isinstance(each, bool)]
        return all(isinstance(each, str) is texts for each in constants) and DATA not in self._sources(leaves)

    @staticmethod
    def _cuts(name: str, values: Sequence[Value], named: Named) -> bool:
        """Whether a call may make other texts of parts of the data's."""
        if not CUTS.search(name) or ("strip" in name and not values):
            return False
        if name in RENAMES and values and isinstance(values[0].parts, dict):
            return "regex" in named
        by = values[0].constants if values else ()
        is_clean = by and all(isinstance(each, str) and CLEANS.fullmatch(each) for each in by)
        return not (is_clean and TAKES_OFF.search(name))

    def _given_functions(self, given: Iterable[Value]) -> list[Value]:
        """What functions come to that a call is given, which it calls with data."""
        made_here = [each for each in given if isinstance(each.code, Function) and each.parts is None]
        return [self.call_made(each, [NOTHING] * 3, {}) for each in made_here]

    def call_made(self, called: Value, values: Sequence[Value], named: Named) -> Value:
        """What a call of a function or a class of the code gives."""
        function: Function = called.code
        if isinstance(function.node, ast.ClassDef):
            return self._instance(called, values, named)
        self._waiting.pop(id(function.node), None)
        if self._calls >= _DEEP:
            given = self.joined(*values, *named.values())
            return given if DATA in given.sources else self.vague(given)
        self.pay(2 + len(function.scope.maps) // 4)
        outer, self._scope = self._scope, function.scope.new_child()
        under, self._under = self._under, []
        self._calls += 1
        self._returned.append([])
        try:
            self._take(function, [*([function.self] if function.self else []), *values], named)
            if isinstance(function.node, ast.Lambda):
                return self.eval(function.node.body)
            self._block(function.node.body)
            found = self._returned[-1]
        finally:
            self._returned.pop()
            self._scope, self._under = outer, under
            self._calls -= 1
        return found[0] if len(found) == 1 else self.joined(*found)

    def _take(self, function: Function, values: Sequence[Value], named: Named) -> None:
        """Give the parameters of a function their values."""
        arguments: ast.arguments = function.node.args
        positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        names = [*positional, *(each.arg for each in arguments.kwonlyargs)]
        given = dict(zip(reversed(names), reversed(function.defaults), strict=False))
        given |= dict(zip(positional, values, strict=False)) | {k: v for k, v in named.items() if k in names}
        for name in names:
            self._bind(name, given.get(name, NOTHING))
        if arguments.vararg:
            self._bind(arguments.vararg.arg, Value(parts=[*values[len(positional) :]]))
        if arguments.kwarg:
            self._bind(arguments.kwarg.arg, Value(parts={k: v for k, v in named.items() if k not in names}))

    def _instance(self, called: Value, values: Sequence[Value], named: Named) -> Value:
        parts = dict(called.parts) if isinstance(called.parts, dict) else {}
        self.pay(2 + len(parts))
        instance = Value((), frozenset(), parts, called.code)
        if "__init__" in parts and isinstance(parts["__init__"].code, Function):
            self.call_made(Value(code=replace(parts["__init__"].code, self=instance)), values, named)
        else:
            fields = [each.target for each in called.code.node.body if isinstance(each, ast.AnnAssign)]
            self.pay(len(called.code.node.body))
            parts |= dict(zip((getattr(each, "id", "") for each in fields), values, strict=False)) | named
        return instance

    def execute(self, values: Sequence[Value]) -> Value:
        """What `exec` and `eval` do with a text that is known; JSON is read as Python too."""
        with suppress(*FAILS, *UNREADABLE):
            body, outer = self.parsed(self.plain(values[0])), self._scope
            if len(values) > 1 and isinstance(values[1].parts, dict):
                self._scope = ChainMap(values[1].parts)
            try:
                if len(body) == 1 and isinstance(body[0], ast.Expr):
                    return self.eval(body[0].value)
                self._block(body)
            finally:
                self._scope = outer
        return self.joined(*values)

    def parsed(self, code: str) -> list[ast.stmt]:
        """The statements of code within code; raises what `parse` raises."""
        self._spend(len(code) // 5)
        self.pay(2 * len(code))
        return parse(code).body

    def applied(self, function: Value, values: list[Value]) -> Value:
        """What a function gives, whoever made it."""
        if isinstance(function.code, Function):
            return self.call_made(function, values, {})
        return self.call_named(str(function.code), values, {}, [])

    def items(self, value: Value) -> list[Value]:
        """The items of a value; raises a ValueError if they aren't known."""
        if (items := self.known_items(value)) is None:
            raise ValueError("they are not known")
        return items

    def put(self, whole: Value, key: Value, value: Value) -> Value:
        """Put a value into another one."""
        self._put(ast.Constant(0), whole, key, value)
        return made(None)

    def added(self, whole: Value, values: list[Value]) -> Value:
        """Add values to a list."""
        if not isinstance(whole.parts, list):
            raise TypeError("it is no list")
        self.pay(len(values))
        whole.parts += map(self._beneath, values)
        return made(None)

    def _each(self, function: Callable[..., Any], value: Value) -> Value:
        """What a function makes of what a value is without data."""
        found: list[Any] = []
        for each in value.constants:
            with suppress(*FAILS):
                found += made(self.kept(computed(function, each))).constants
        return Value((*found, *value.constants), value.sources)
