"""Reads cells as Python would run them without their data. Pure: nothing of the code is run; what isn't known is data.

If a condition isn't known, both branches are read; if the turns of a loop aren't, its body is read twice. A variable
that is given a value there keeps the value of before as an alternative, and comes from the condition too.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterable, Sequence
from contextlib import suppress

from nbagent.agent.made_up.calls import Calls
from nbagent.agent.made_up.computing import FAILS
from nbagent.agent.made_up.containers import FUNCTIONS, METHODS
from nbagent.agent.made_up.scopes import CODED, GLOBAL, NOTHING, Function
from nbagent.agent.made_up.values import DATA, NOWHERE, VAGUE, Value, made
from nbagent.agent.made_up.vocabulary import LIBRARIES, PURE_MODULES
from nbagent.core.syntax import UNREADABLE


class Interpreter(Calls):
    """Reads cells one after the other."""

    functions, methods = FUNCTIONS, METHODS

    def run(self, tree: ast.Module) -> None:
        """Read a cell; its last expression is shown. Functions that nothing has called are called with data."""
        last = tree.body[-1] if tree.body else None
        self._block(tree.body[:-1] if isinstance(last, ast.Expr) else tree.body)
        if isinstance(last, ast.Expr):
            self._show([self.eval(last.value)])
        shown = dict(self.shown)
        while self._waiting:
            _, value = self._waiting.popitem()
            self.call_made(value, [NOTHING] * 9, {})
        self.shown = shown

    def _block(self, statements: Iterable[ast.stmt]) -> bool:
        return any(self._statement(each) for each in statements)

    def _statement(self, node: ast.stmt) -> bool:
        """Read a statement; returns whether what follows is not reached."""
        self._spend()
        match node:
            case ast.Expr(value=value) if not isinstance(value, ast.Constant):
                self.eval(value)
            case ast.Assign(targets=targets, value=value):
                given = self.eval(value)
                for target in targets:
                    self._store(target, given)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._store(target, self.eval(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._store(target, self.eval(ast.BinOp(target, op, value)))
            case ast.Return(value=value) if self._returned:
                self._returned[-1].append(self._beneath(self.eval(value)) if value else made(None))
                return not self._under
            case ast.Raise(exc=ast.expr() as value):
                self._raised.append(self.eval(value))
                return not self._under
            case ast.Break() | ast.Continue():
                return True
            case ast.Assert(test=test, msg=msg):
                self.eval(test)
                self._raised += [self.eval(msg)] if msg else []
            case ast.FunctionDef(name=name, args=arguments) | ast.AsyncFunctionDef(name=name, args=arguments):
                self._bind(name, self._function(node, arguments))
            case ast.ClassDef(name=name, body=body):
                outer, self._scope = self._scope, self._scope.new_child()
                self._block(body)
                inner, self._scope = self._scope, outer
                self.pay(len(inner.maps[0]))
                self._bind(name, Value((), NOWHERE, dict(inner.maps[0]), Function(node, inner)))
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Global(names=names):
                own = self._scope.maps[0]
                self.pay(len(names))
                own[GLOBAL] = Value((*own.get(GLOBAL, Value()).constants, *names))
            case _:
                return self._compound(node)
        return False

    def _compound(self, node: ast.stmt) -> bool:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(self.eval(test), [body, orelse])
            case ast.While(test=test, body=body, orelse=orelse):
                self._while(test, body)
                self._block(orelse)
            case ast.For() | ast.AsyncFor():
                self._turns(node.target, self.eval(node.iter), lambda: self._block(node.body))
                self._block(node.orelse)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    value = self.eval(item.context_expr)
                    if item.optional_vars is not None:
                        self._store(item.optional_vars, value)
                return self._block(body)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.Match(subject=subject, cases=cases):
                value = self.eval(subject)
                for part in (part for case in cases for part in ast.walk(case.pattern)):
                    self.pay(1)
                    if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                        self._bind(part.name, value)
                condition = self.joined(value)
                whole = Value(condition.constants, condition.sources | {VAGUE})
                self._branch(whole, [case.body for case in cases])
        return False

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                value = self.attribute(self._module(node.module or ""), alias.name)
            else:
                value = self._module(alias.name if alias.asname else alias.name.partition(".")[0])
            self._scope[alias.asname or alias.name.partition(".")[0]] = value

    def _module(self, name: str) -> Value:
        """A module, which may be one that the code has saved: then it is read too."""
        saved = [each for value in self.saved.values() for each in value.constants if isinstance(each, str)]
        self._spend(sum(map(len, saved)) // 50)
        texts = [each for each in saved if CODED.search(each)]
        if name in PURE_MODULES | LIBRARIES or not texts:
            return Value(code=name)
        outer, self._scope = self._scope, ChainMap({})
        for each in texts:
            with suppress(*UNREADABLE):
                self._block(self.parsed(each))
        inner, self._scope = self._scope, outer
        self.pay(len(inner.maps[0]))
        return Value((), frozenset((DATA,)), dict(inner.maps[0]), name)

    def _branch(self, test: Value, ways: Sequence[Sequence[ast.stmt]]) -> bool:
        with suppress(*FAILS):
            ways = [ways[0 if self.plain(test) else 1]]
        if len(ways) == 1:
            return self._block(ways[0])
        with self._beside(test):
            ended = [self._block(each) for each in ways]
        return all(ended) and bool(ways[-1])

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        raised = len(self._raised)
        self._block(node.body)
        parts = [each for part in node.body for each in ast.walk(part)]
        self._spend(len(parts))
        within = [Value((each.value,), self._source(each.value)) for each in parts if isinstance(each, ast.Constant)]
        with self._beside(NOTHING):
            for handler in node.handlers:
                if handler.name:
                    self._bind(handler.name, self.joined(*within, *self._raised[raised:], sources=frozenset((DATA,))))
                self._block(handler.body)
        self._block(node.orelse)
        self._block(node.finalbody)

    def _while(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        condition = self.eval(test)
        with suppress(*FAILS):
            while self.plain(condition):
                if self._unrolled <= 0:
                    break
                before = self._read
                if self._block(body):
                    return
                condition = self.eval(test)
                self._unrolled -= before - self._read
            else:
                return
        bounds = [self.eval(each) for each in ast.walk(test) if isinstance(each, ast.Name | ast.Constant)]
        self._repeat(self.joined(condition, *bounds), lambda: self._block(body))
