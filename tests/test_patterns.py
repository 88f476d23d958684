"""Whatever text a regular expression of the package is given, its time grows with the text and no faster.

`re` holds all threads of the process while it matches. So each pattern is given texts that are made of its own parts,
said over and over, and that end as it doesn't expect.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import machine
import pytest

import nbagent

sre: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
PACKAGE = Path(nbagent.__file__).parent
SHORT, LONG = 1_000, 8_000
"""Characters of the texts: eight times as long takes eight times as long, or 64 times if it grows squarely."""
MOST = 3
"""Paces for which texts are tried on a pattern: nearly all patterns are through with all of theirs before."""
SIGNS = " \n\ta1_-.,:;/'\"`<>([{=#%\\*|!"
"""What many patterns look for, beside the signs in them."""
ENDS = ("", "\0", "\n", "a", "1")
FEW: dict[str, str] = {
    "nbagent.agent.prose._WORDS": "names of files",
    "nbagent.agent.made_up.literals._WORDED": "texts of fewer than 200 characters",
    "nbagent.agent.numerals._STATES": "the 30 characters before a number",
    "nbagent.agent.main_results._NO_RESULT": "a number, of 400 digits at most",
    "nbagent.agent.main_results._NO_RESULT_NOR_YEAR": "a number, of 400 digits at most",
    "nbagent.safety.actions [_.](?![^[]*\\])": "a rule that a person wrote",
}
"""Patterns that are only ever given short text, by where they stand, each with the reason."""


class Pattern(NamedTuple):
    """A pattern of the package, by where it stands, and what is done with it."""

    place: str
    compiled: re.Pattern[Any]
    calls: frozenset[str]


def patterns() -> list[Pattern]:
    """All patterns of the package, but for those of code that runs in a sandbox, which has limits of its own."""
    found: dict[tuple[Any, int], Pattern] = {}
    files = [each for each in sorted(PACKAGE.rglob("*.py")) if "inside" not in str(each.relative_to(PACKAGE))]
    sources = {each: each.read_text() for each in files}
    for file, source in sources.items():
        name = ".".join(("nbagent", *file.relative_to(PACKAGE).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        for label, each in held(vars(module)):
            uses = re.findall(rf"\b{re.escape(label)}\.({CALLS})\b", source)
            found.setdefault((each.pattern, each.flags), Pattern(f"{name}.{label}", each, frozenset(uses)))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
                try:
                    pattern, *flags = (
                        eval(ast.unparse(each), dict(vars(module)))  # noqa: S307 - the package's own
                        for each in (node.args[0], *(each for each in node.args[1:] if "re." in ast.unparse(each)))
                    )
                    compiled = re.compile(pattern, *flags)
                except (NameError, TypeError, re.error):
                    continue
                call = ast.unparse(node.func).removeprefix("re.")
                place = f"{name} {pattern}"
                found.setdefault((pattern, compiled.flags), Pattern(place, compiled, frozenset((call,)) - {"compile"}))
    return list(found.values())


CALLS = "match|fullmatch|search|sub|subn|split|findall|finditer"


def held(values: dict[str, Any]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns that variables hold, perhaps in containers."""

    def within(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
        if isinstance(value, re.Pattern):
            yield value
        elif depth < 4 and isinstance(value, list | tuple | set | frozenset | dict):
            for each in itertools.chain(value, value.values() if isinstance(value, dict) else ()):
                yield from within(each, depth + 1)
        elif depth < 4 and hasattr(value, "__dataclass_fields__"):
            for each in value.__dataclass_fields__:
                yield from within(getattr(value, each, None), depth + 1)

    for name, value in values.items():
        yield from ((name, each) for each in within(value) if not name.startswith("__"))


# -- texts that are made of a pattern's own parts -----------------------------------------------------------------

REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def fits(sign: str, node: tuple[Any, Any]) -> bool:
    """Whether a part of a pattern that takes one sign takes this one."""
    op, given = node
    kinds: dict[Any, Callable[[], bool]] = {
        sre.LITERAL: lambda: given == ord(sign),
        sre.NOT_LITERAL: lambda: given != ord(sign),
        sre.ANY: lambda: True,
        sre.RANGE: lambda: given[0] <= ord(sign) <= given[1],
        sre.CATEGORY: lambda: re.match(CATEGORIES[given], sign) is not None,
        sre.IN: lambda: (
            any(fits(sign, each) for each in given if each[0] is not sre.NEGATE) is not (given[0][0] is sre.NEGATE)
        ),
    }
    return kinds[op]()


CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


class Texts:
    """Makes texts of the parts of a pattern."""

    def __init__(self, tree: Any, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - the same each time
        self._tree = tree
        self.own: list[str] = [*dict.fromkeys(map(chr, literals(tree)))]
        self._signs: list[str] = [*dict.fromkeys([*self.own, *SIGNS, "Z", "é", "0"])]

    def one(self, nodes: Any, sign: str | None = None) -> str:
        """A text that nodes of a pattern match, mostly; of a sign, wherever it fits."""
        return "".join(self._one(op, given, sign) for op, given in nodes)

    def _one(self, op: Any, given: Any, sign: str | None) -> str:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            if sign is not None and fits(sign, (op, given)):
                return sign
            fitting: list[str] = [each for each in self._signs if fits(each, (op, given))]
            return self._chance.choice(fitting or ["\u20ac"])
        if op in REPEATS:
            least, most, inner = given
            count = least if self._chance.random() < 0.6 else min(most, least + 2)
            return "".join(self.one(inner, sign) for _ in range(min(count, 50)))
        if op is sre.SUBPATTERN:
            return self.one(given[-1], sign)
        if op is sre.ATOMIC_GROUP:
            return self.one(given, sign)
        if op is sre.BRANCH:
            return self.one(self._chance.choice(given[1]), sign)
        return ""

    def repeats(self, nodes: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
        """The parts of a pattern that are repeated without a bound, each with a text that leads to it."""
        for op, given in self._tree if nodes is None else nodes:
            if op in REPEATS:
                if given[1] > 50:
                    yield before, given[2]
                yield from self.repeats(given[2], before)
            elif op is sre.SUBPATTERN:
                yield from self.repeats(given[-1], before)
            elif op is sre.ATOMIC_GROUP:
                yield from self.repeats(given, before)
            elif op is sre.BRANCH:
                for each in given[1]:
                    yield from self.repeats(each, before)
            elif op in (sre.ASSERT, sre.ASSERT_NOT):
                yield from self.repeats(given[1], before)
            before += self.one([(op, given)])

    def parts(self) -> Iterator[tuple[str, ...]]:
        """What a text is made of: what leads to a part, the part, which is said often, and perhaps another one."""
        repeated = [*self.repeats()]
        for before, inner in repeated:
            bodies = {self.one(inner, sign) or "a" for sign in self._signs} if is_one(inner) else set()
            yield from ((before, each) for each in sorted(bodies | {self.one(inner) or "a" for _ in range(4)}))
        for at, (before, inner) in enumerate(repeated):
            for _, other in repeated[at + 1 : at + 4]:
                yield before, self.one(inner) or "a", self.one(other) or "a"
                yield before, self.one(inner) or "a", "\n", self.one(other) or "a"
        for each in self._signs:
            yield "", each
            yield before_of(self._tree, self), each
        yield "", self.one(self._tree) or "a"
        yield "", self.one(self._tree)[:-1] or "a"


def before_of(tree: Any, texts: Texts) -> str:
    """What the first parts of a pattern match."""
    return texts.one([*tree][:1])


def is_one(nodes: Any) -> bool:
    """Whether it takes one sign."""
    return len(nodes) == 1 and nodes[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def literals(nodes: Any) -> Iterator[int]:
    """The signs in a pattern."""
    for op, given in nodes:
        if op is sre.LITERAL:
            yield given
        elif op is sre.IN:
            yield from literals(each for each in given if each[0] is sre.LITERAL)
        elif op in REPEATS:
            yield from literals(given[2])
        elif op is sre.SUBPATTERN:
            yield from literals(given[-1])
        elif op is sre.ATOMIC_GROUP:
            yield from literals(given)
        elif op is sre.BRANCH:
            yield from itertools.chain.from_iterable(map(literals, given[1]))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from literals(given[1])


def said(before: str, bodies: list[str], end: str, length: int) -> str:
    """A text of so many characters in which the first and the last of several parts are said often."""
    first, last = (each * (length // min(2, len(bodies)) // len(each)) for each in (bodies[0], bodies[-1]))
    return before + first + ("".join(bodies[1:-1]) + last if len(bodies) > 1 else "") + end


def hostile(pattern: re.Pattern[Any]) -> list[Callable[[int], str]]:
    """What makes hostile texts of so many characters for a pattern."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~re.UNICODE)
    found: dict[tuple[str, ...], Callable[[int], str]] = {}
    texts = Texts(tree, seed=0)
    ends = dict.fromkeys([*ENDS, *texts.own[:6], *(texts.one([each]) for each in [*tree][:4])])
    for before, *bodies in texts.parts():
        for end in ends if len(bodies) == 1 else ENDS[:2]:
            found[before, *bodies, end] = functools.partial(said, before, bodies, end)
        found["", before + bodies[0] * 2, "!"] = functools.partial(said, "", [before + bodies[0] * 2], "!")
        if before:
            found["", before, bodies[0], "!"] = functools.partial(said, "", [before, bodies[0]], "!")
    several = [*found.values()]
    random.Random(0).shuffle(several)  # noqa: S311 - the same each time
    return several


# -- how long they take ------------------------------------------------------------------------------------------


def slowest(pattern: Pattern, pace: float) -> str | None:
    """A text for which a pattern takes much longer than eight times what it takes for an eighth of the text."""
    enough, ends = 0.4 * pace, time.thread_time() + MOST * pace
    text = ""
    signal.setitimer(signal.ITIMER_VIRTUAL, 20 * MOST * pace)
    try:
        for make in hostile(pattern.compiled):
            text = make(60)
            if seconds(pattern, make(SHORT)) > enough / 100 and seconds(pattern, make(LONG)) > enough:
                short, long = (min(seconds(pattern, make(size)) for _ in range(3)) for size in (SHORT, LONG))
                if long > enough and long > 24 * short:
                    return f"{text!r}: {long:.2} s, but an eighth of it {short:.2} s"
            if time.thread_time() > ends:
                break
    except TimeoutError:
        return f"{text!r} takes very long"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def seconds(pattern: Pattern, text: str) -> float:
    """The processor time that it takes this thread."""
    given = text if isinstance(pattern.compiled.pattern, str) else text.encode("latin-1", "replace")
    calls = pattern.calls if pattern.calls <= {"match", "fullmatch"} else ()
    started = time.thread_time()
    for call in calls:
        getattr(pattern.compiled, call)(given)
    if not calls:
        sum(1 for _ in pattern.compiled.finditer(given))
    return time.thread_time() - started


@pytest.fixture
def _alarm() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("_alarm")
def test_no_pattern_takes_longer_than_its_text_is_long() -> None:
    """Each is linear in texts that are made of its own parts."""
    pace = machine.pace()
    found = {each.place: slow for each in patterns() if each.place not in FEW and (slow := slowest(each, pace))}
    assert not found, "\n".join(["", *(f"{place}: {slow}" for place, slow in found.items())])
