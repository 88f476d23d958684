"""Numbers that code has made up: those that a cell shows without data. Pure; the code is parsed, never run.

What a cell shows of values that are made of constants proves nothing: whoever wrote the code made it up, or read it
elsewhere. A long number is made up wherever it stands in the code, or its constants come to it, before an output has
it; a short one, which data may come to by chance, only where the code shows it, or what is made of it. What is reckoned
with known numbers alone is found out: with those of the question, and of outputs before.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from nbagent.agent.constants import COMPARES, RENAMES, folded, has_labels, spelled, stated
from nbagent.agent.names import (
    MAGICS,
    MAKES,
    MAX_CODE,
    SAVES,
    SHOWS,
    WORK,
    Known,
    Learner,
    is_all_fixed,
    is_fixed,
    is_number,
    name_of,
    names_in,
    recent,
)
from nbagent.agent.numerals import numerals
from nbagent.core.syntax import UNREADABLE
from nbagent.core.text import plain

AGAIN = 1_000_000
"""How often a number may be shown that has a name, or stands in a loop or in a function."""
COMMON = frozenset(map(Decimal, (*range(11), 12, 24, 60, 100, 365, 1000, 3600, 1_000_000)))
"""Numbers with which anybody may reckon, that alone make no number known."""
_COLUMNS = frozenset(
    "lit literal with_columns select agg assign then otherwise where fill_null fillna fill_nan replace replace_strict "
    "clip full full_like repeat".split()
)
"""Calls that make columns of constants."""
_PUTS = MAKES | SHOWS | _COLUMNS
"""Calls that are no use of a parameter."""
_MADE = ast.Call, ast.Lambda, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.IfExp
_ECHOES = re.compile(r"\b(?:echo|printf)\b.*")
_MIRRORS = re.compile(r"__doc__|\b(?:help|getsource\w*|getdoc|In|_ih|_i\d*)\b|%(?:history|recall|rerun|macro)")
"""By these, code may show code, with its comments."""
_LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.comprehension, ast.Lambda)


class Literals:
    """What cells show that was made up.

    Args:
        code: The code of each cell.
        data: Whether there is data that numbers can come from; if not, what is reckoned of constants is found out.
        told: The sizes of the numbers in the question.
    """

    def __init__(self, code: Mapping[int, str], *, data: bool = True, told: Container[Decimal] = ()) -> None:
        self._code = code
        self._told = told
        self._data = data
        self._trees: dict[int, tuple[ast.Module, list[ast.AST]]] = {}
        self._learned: dict[int, Known] = {}
        self._known = Known()
        self._used: set[str] = set()
        self._parameters: set[Decimal] = set()
        self._values: dict[int, tuple[list[ast.expr], set[Decimal], set[str]]] = {}
        self._unlooked: dict[int, ast.Module | None] = {}
        self._saves: dict[int, list[ast.Call]] = {}
        self._planted: set[Decimal] = set()
        known = Known()
        cells = sorted(code)
        for cell in cells[recent([code[each] for each in cells]) :]:
            self._unlooked[cell] = None
            with contextlib.suppress(*UNREADABLE):
                tree, parts = known.tree(code[cell])
                self._learned[cell] = Learner(known).learned(tree, parts)
                known.take(self._learned[cell])
                self._saves[cell] = self._look_for_uses(parts, known)
                self._trees[cell], self._unlooked[cell] = (tree, parts), tree

    def _look_for_uses(self, parts: Iterable[ast.AST], known: Known) -> list[ast.Call]:
        """Note what is reckoned, compared or called with beside what is not made of constants.

        Returns:
            The calls that may write to a file.
        """
        saves = []
        for node in parts:
            operands: list[ast.expr] = []
            if isinstance(node, ast.Call) and (
                SAVES.match(name_of(node.func)) or any(each.arg == "file" for each in node.keywords)
            ):
                saves.append(node)
            match node:
                case ast.Compare(left=left, comparators=others):
                    operands = [left, *others]
                case ast.BinOp(left=left, right=right) if not _is_text(left):
                    operands = [left, right]
                case ast.Call(args=arguments, keywords=keywords) if name_of(node.func) not in _PUTS:
                    operands = [*arguments, *(each.value for each in keywords)]
            if operands and not is_fixed(node, known):
                looked = _Looked(known, ())
                looked.names |= {each for each in names_in(operands) if each in known.fixed and each in known.values}
                self._used |= looked.names
                given = [each for each in operands if is_fixed(each, known)]
                named = [*_keywords(given), *(each.value for each in getattr(node, "keywords", ()) if each.arg)]
                if isinstance(node, ast.Call) and name_of(node.func) in known.takes:
                    named += given  # its function names them
                numbers = _numbers(text for each in named for text in _written(each))
                self._parameters |= {*numbers, *self._named(looked)}
        return saves

    def parameters(self) -> str:
        """The numbers that code gives a name, and uses with data: `ALPHA = 0.05`, `bins=20`; each on a line."""
        return "\n".join(map(str, self._parameters))

    def shown(self, cell: int, known: Container[Decimal]) -> Counter[Decimal] | None:
        """The numbers that a cell shows without data, and how often at most; None for all that it shows.

        Of a cell that can't be read, or not within `WORK`, or that is none of the recent ones, these are all numbers
        in it.

        Args:
            cell: The cell; of several, the first one is asked for first.
            known: The sizes of the numbers in the question, and of those that were found out before.
        """
        code = self._code.get(cell, "")
        with contextlib.suppress(*UNREADABLE, KeyError):
            (tree, parts), names = self._trees[cell], self._known
            for each in [each for each in self._learned if each <= cell]:
                names.take(self._learned.pop(each))
            names.left[0] = WORK * len(parts) + 2 * len(code)
            here = Counter[Decimal]()
            for each in [each for each in self._unlooked if each <= cell]:
                self._planted.update(here)
                here = Counter(self._long(each, self._unlooked.pop(each), known))
            counts: Counter[Decimal] = Counter()
            is_made_up = False
            for expression, often in _shown_expressions(tree, parts, names):
                looked = _Looked(names, self._used)
                looked.look(expression)
                counts.update({each: often * n for each, n in Counter(_numbers(looked.texts)).items()})
                # A count begins with 0, and may stay there.
                counts.update(dict.fromkeys(self._named(looked) - {Decimal(0)}, AGAIN))
                for part in looked.made:
                    numbers, is_new = self._made(part, names, known)
                    counts.update(dict.fromkeys(numbers, AGAIN if isinstance(part, ast.Name) else often))
                    is_made_up = is_made_up or is_new
            for echo in _ECHOES.findall(code):
                counts.update(dict.fromkeys(_numbers([echo]), AGAIN))
            # What is written out in a call that shows it stands there as often as that; else it may be shown again.
            counts.update(dict.fromkeys([*self._planted, *(n for n in here if counts[n] < here[n])], AGAIN))
            self._planted.update(here)
            is_all = is_made_up and not MAGICS.search(code) and is_all_fixed(tree, names)
            return None if is_all else counts
        return Counter(dict.fromkeys(_numbers([code]), AGAIN))

    def _long(self, cell: int, tree: ast.Module | None, known: Container[Decimal]) -> Iterator[Decimal]:
        """The long numbers that a cell's code has, or that its constants come to, before an output has them.

        That one of these comes out of data by chance is out of the question, so it doesn't matter where they stand.
        """
        is_mirror = _MIRRORS.search(self._code[cell]) is not None
        stands = [(self._code[cell], [])] if tree is None else [*stated(tree)]
        if is_mirror:
            stands += [(code, []) for at, code in self._code.items() if at <= cell]
        for value, parts in stands:
            numbers = [each for each in _numbers([str(value)]) if is_mirror or _is_long(each)]
            if numbers and not (parts and self._is_found_out(_numbers(map(str, parts)), known)):
                yield from (each for each in numbers if abs(each) not in known)
        for call in self._saves.get(cell, ()):
            yield from (each for each in self._saved(call) if not _is_year(each) and abs(each) not in known)

    def _saved(self, call: ast.Call) -> set[Decimal]:
        """The numbers that a call may write to a file, from where they may be read as if they were data."""
        looked = _Looked(self._known, self._used)
        for each in (call.func, *call.args, *call.keywords):
            looked.look_within(each)
        found = {*_numbers(looked.texts), *self._named(looked)}
        return found | {sum(found, Decimal(0))} if found else found

    def _made(self, part: ast.expr, names: Known, known: Container[Decimal]) -> tuple[set[Decimal], bool]:
        """What a part shows that is made of constants, and whether it is not reckoned with known numbers."""
        inside = _Looked(names, self._used)
        inside.look_within(part)
        listed = [*_numbers(inside.texts), *self._named(inside)]
        written = set(listed)
        is_new = not self._is_found_out(written, known)
        try:
            numbers = set(_numbers([str(folded(part, names.only_value))]))
        except ValueError:
            total = sum(listed, Decimal(0))
            numbers = written | ({total, total / len(listed)} if listed and is_new else set())
            numbers |= set(_numbers(spelled(inside.texts, _numbers(inside.texts))))
        return numbers if is_new else numbers & written, is_new

    def _is_found_out(self, numbers: Collection[Decimal], known: Container[Decimal]) -> bool:
        """Whether what is reckoned with these numbers is found out: some are known, and others are what anybody knows.

        Where there is no data, whatever is reckoned is.
        """
        rare = [abs(each) for each in numbers if abs(each) not in COMMON]
        is_asked = bool(rare) or any(abs(each) in self._told for each in numbers)
        return not self._data or (is_asked and all(each in known for each in rare))

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

    def __init__(self, known: Known, used: Container[str]) -> None:
        self.known = known
        self._used = used
        self.texts: list[str] = []
        self.names: set[str] = set()
        self.made: list[ast.expr] = []

    def look(self, node: ast.AST) -> None:
        """Look at an expression, or a part of it."""
        self.known.spend()
        if isinstance(node, ast.Constant) or is_number(node):
            self._take(node)
        elif isinstance(node, ast.expr) and is_fixed(node, self.known):
            if not (isinstance(node, ast.Name) and node.id in self._used):
                self.made.append(node)
        else:
            self._go_on(node, self.look)

    def look_within(self, node: ast.AST) -> None:
        """Look at all constants and names of a part that is made of them."""
        self.known.spend()
        if isinstance(node, ast.Constant) or is_number(node):
            self._take(node)
        elif not isinstance(node, ast.expr) or is_fixed(node, self.known):
            self._take_name(node)
            parts = ast.iter_child_nodes(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                parts = iter([node.func.value, *node.args, *node.keywords])
            for each in parts:
                self.look_within(each)
        else:
            self._go_on(node, self.look_within)

    def _take(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.known.spend(len(node.value))
            self.texts.append(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            self.texts.append(node.value[:MAX_CODE].decode("ascii", "replace"))
        else:
            self.known.spend(WORK)
            self.texts += _written(node)

    def _take_name(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)):
                if name in self.known.values:
                    self.names.add(name)
                    return True
        return False

    def _go_on(self, node: ast.AST, look: Callable[[ast.AST], None]) -> None:
        """Look at those parts of an expression that it shows as they are."""
        parts: Iterable[ast.AST] = ()
        if self._take_name(node):
            parts = getattr(node, "args", ())
        else:
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=attr), args=arguments) if (
                    attr == "format" or is_fixed(value, self.known)
                ):
                    parts = [value, *arguments]
                case ast.Call(func=func, args=arguments, keywords=keywords):
                    given = [x for x in (*arguments, *(each.value for each in keywords)) if not _is_common(x)]
                    if isinstance(func, ast.Attribute) and func.attr in COMPARES:
                        given = []
                    elif isinstance(func, ast.Attribute) and func.attr in RENAMES:
                        given = [each for each in given if not self._has_labels(each)]
                    # What a call has made may be in what it is given to; a number that it is given itself seldom is.
                    parts = given if name_of(func) in _PUTS else [x for x in given if isinstance(x, _MADE)]
                    parts = [func.value if isinstance(func, ast.Attribute) else func, *parts]
                case ast.BinOp(left=left, right=right):
                    parts = [each for each in (left, right) if not _is_common(each)]
                case ast.Subscript(value=value):
                    parts = [value]
                case ast.Compare() | ast.Await():
                    pass
                case _:
                    parts = [
                        each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.comprehension)
                    ]
        for each in parts:
            look(each)

    def _has_labels(self, node: ast.expr) -> bool:
        return has_labels(self.known.only_value(node.id) if isinstance(node, ast.Name) else node)


def _shown_expressions(tree: ast.Module, parts: Sequence[ast.AST], known: Known) -> Iterator[tuple[ast.expr, int]]:
    """The expressions that a cell shows, each with how often."""
    repeated = {id(inner) for node in parts if isinstance(node, _LOOPS) for inner in ast.iter_child_nodes(node)}
    for node in parts:  # from the outside to the inside
        if id(node) in repeated:
            repeated.update(map(id, ast.iter_child_nodes(node)))
        if isinstance(node, ast.Call) and name_of(node.func) in SHOWS:
            yield from ((each, AGAIN if id(node) in repeated else 1) for each in node.args)
        elif isinstance(node, ast.Call) and name_of(node.func) in _COLUMNS:
            given = [
                *(node.args if name_of(node.func) in ("lit", "literal") else ()),
                *(k.value for k in node.keywords),
            ]
            yield from ((each, AGAIN) for each in given if is_fixed(each, known))
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and not (isinstance(last.value, ast.Call) and name_of(last.value.func) in SHOWS):
        yield last.value, 1


def _is_long(number: Decimal) -> bool:
    """Whether a number has four significant digits, and is no year."""
    return not _is_year(number) and len(number.normalize().as_tuple().digits) > 3


def _is_year(number: Decimal) -> bool:
    return 1500 <= number < 2200 and number == int(number)


def _keywords(nodes: Iterable[ast.expr]) -> list[ast.expr]:
    """The values of keywords in calls."""
    calls = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))
    return [each.value for call in calls if name_of(call.func) not in _PUTS for each in call.keywords if each.arg]


def _is_common(node: ast.AST) -> bool:
    """Whether an expression is a number with which anybody may reckon."""
    return is_number(node) and isinstance(node, ast.Constant) and Decimal(str(node.value)) in COMMON


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _written(number: ast.AST) -> list[str]:
    """A number as Python writes it; nothing for what is none, and for more than 4,300 digits, which it refuses."""
    with contextlib.suppress(ValueError):
        return [ast.unparse(number)] if is_number(number) else []
    return []


def _numbers(texts: Iterable[str]) -> list[Decimal]:
    return [number.value for text in texts for number in numerals(plain(text))]
