"""Which values in a notebook are random numbers that surely have no seed. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from nbagent.notebook.compare.names import bound_by, called_in, changed_by, mentioned_in, shown_by
from nbagent.notebook.lock import SEED_NAMES, SEEDS, unparsed

SAMPLING = (
    r"random|rand|randn|randint|randrange|randbelow|randbits|getrandbits|SystemRandom|choices?|shuffle|permutation|sample|default_rng|normal|uniform|gauss|bootstrap|"
    r"standard_\w+|\w*rvs|resample|permutation_\w+|monte_carlo_test|differential_evolution|dual_annealing|basinhopping|"
    r"train_test_split|\w*ShuffleSplit|\w*KMeans|(?>\w*Forest\w*)|ExtraTrees\w*|Bagging\w*|\w*GaussianMixture|NMF|FastICA|"
    r"LatentDirichletAllocation|SGD\w*|TSNE|UMAP|MLP\w*|make_(?:blobs|classification|moons|circles|regression)|"
    r"spring_layout|random_layout|\w*random_graph|louvain\w*"
)
"""Functions that draw random numbers, or use them."""
_DRAWS = re.compile(SAMPLING)
_IN_SENTENCE = re.compile(rf"\b(?:{SAMPLING})\(")
_MAKERS = frozenset({"default_rng", "RandomState", "Random", "seed"})
"""Functions that take a seed out of the machine if they are given none."""
_MACHINES = frozenset({"SystemRandom", "secrets", "randbelow"})
"""What draws from the machine, which takes no seed."""
_FORMED = re.compile(r"\b(?:uuid\w*|token_(?:bytes|hex)|u?random_bytes|urandom|getrandom)\b")
"""What gives ids, which differ with every run by their nature; a number that is made of one is drawn."""
_NUMBERS_OF = frozenset({"from_bytes", "int", "frombuffer", "unpack", "unpack_from", "iter_unpack"})
"""Functions and attributes that make numbers of an id."""
_JITTERS = "stripplot"
"""What draws values beside each other at random."""
_SEEDS_ALL = frozenset({"seed", "manual_seed", "set_seed", "set_random_seed"})
"""Functions that give a seed to the generator that everybody shares."""
_KNOWN = frozenset({"len", "type", "id", "isinstance", "range", "shape", "size", "dtype", "dtypes", "ndim", "columns"})
"""What is the same of random numbers each time: how many there are, and of which type."""


class Samples:
    """The random numbers without a seed in a notebook's cells.

    Args:
        differs: Whether code reads a clock or an id, so that a seed out of it is none.
        modules: Names of modules, which no method changes.
        siblings: Names that are changed with another one.
    """

    def __init__(self, differs: Callable[[str], object], modules: Set[str], siblings: Mapping[str, Set[str]]) -> None:
        self._differs, self._modules, self._siblings = differs, modules, siblings
        self._names: set[str] = set()
        self._seeded: set[str] = set()
        self._all_seeded: set[str] = set()
        self._machines = set(_MACHINES)
        self._formed: set[str] = set()

    def take(self, body: Sequence[ast.stmt]) -> bool:
        """Take in the next cell; returns whether it shows such numbers."""
        for statement in _simple(body):
            self._follow_seeds(statement)
            self._follow_machines(statement)
            bound = set(bound_by(statement))
            if self.is_seeded(statement) or not self._is_sampled(statement):
                if statement in body and isinstance(statement, ast.Assign):
                    self._names -= bound
                continue
            changed = {name for name, _ in changed_by(statement)} - self._modules
            changed |= _shuffled(statement) - self._modules
            changed |= bound
            self._names |= changed.union(*(self._siblings.get(each, ()) for each in changed))
        jittered = not self._all_seeded and any(_JITTERS in called_in(each) for each in body)
        shown = (each for each in shown_by(body) if not self.is_seeded(each))
        return jittered or any(map(self._is_sampled, shown))

    def is_seeded(self, statement: ast.AST) -> bool:
        """Whether what a statement draws has a seed: its own, or that of its generator.

        That of all, such as `numpy.random.seed` sets, says nothing: libraries have generators of their own.
        """
        if self._is_without_seed(statement):
            return False
        seeds = [*_seeds(statement)]
        if any(self._differs(unparsed(each)) or self._is_sampled(each) for each in seeds):
            return False
        if seeds:
            if not isinstance(statement, ast.Assign) or _makes_generators(statement.value):
                self._seeded |= set(bound_by(statement))
            return True
        return bool(mentioned_in(statement) & self._seeded)

    def _follow_seeds(self, statement: ast.stmt) -> None:
        """Take in whether a statement gives a generator of all a seed, or one that differs with every run."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and _called(node) in _SEEDS_ALL:
                if self._has_seed(node):
                    self._all_seeded.add(_shared(node))
                else:
                    self._all_seeded.discard(_shared(node))

    def _follow_machines(self, statement: ast.stmt) -> None:
        """Take in the names by which a statement imports what draws from the machine, or keeps ids."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            of_secrets = isinstance(statement, ast.ImportFrom) and statement.module == "secrets"
            for each in statement.names:
                if each.name in _MACHINES or (of_secrets and not _FORMED.search(each.name)):
                    self._machines.add(each.asname or each.name)
        elif isinstance(statement, ast.Assign) and _FORMED.search(unparsed(statement.value)):
            self._formed |= set(bound_by(statement))

    def makes_numbers(self, statement: ast.stmt) -> bool:
        """Whether a statement, the next one, makes a number of an id."""
        self._follow_machines(statement)
        return any(map(self._is_numbered, ast.walk(statement)))

    def _is_numbered(self, node: ast.AST) -> bool:
        """Whether a node makes a number of an id: of the bytes of `os.urandom`, or of a UUID."""
        name = _called(node) if isinstance(node, ast.Call) else getattr(node, "attr", "")
        if name not in _NUMBERS_OF:
            return False
        return _FORMED.search(unparsed(node)) is not None or bool(mentioned_in(node) & self._formed)

    def _has_seed(self, call: ast.Call) -> bool:
        """Whether a call is given a seed that is the same in each run."""
        given = " ".join(map(unparsed, [*call.args, *(each.value for each in call.keywords)][:1])) or "None"
        return given != "None" and not self._differs(given)

    def _is_without_seed(self, code: ast.AST) -> bool:
        """Whether code makes a generator without a seed, or takes one from a generator's."""
        for node in ast.walk(code):
            if getattr(node, "attr", getattr(node, "id", "")) in self._machines:
                return True
            if isinstance(node, ast.Call) and _called(node) in _MAKERS and not self._has_seed(node):
                return True
        return False

    def _is_sampled(self, code: ast.AST) -> bool:
        """Whether code draws such numbers or has some: not how many they are, nor how long something took with them."""
        inner = set(bound_by(code))
        return any(
            (isinstance(node, ast.Call) and self._draws(node))
            or self._is_numbered(node)
            or (isinstance(node, ast.Name) and node.id in self._names and node.id not in inner)
            or (isinstance(node, ast.Constant) and isinstance(node.value, str) and _IN_SENTENCE.search(node.value))
            for node in self._parts(code)
        )

    def _draws(self, call: ast.Call) -> bool:
        """Whether a call draws numbers, by no generator of all that has a seed."""
        if not _DRAWS.fullmatch(_called(call)):
            return False
        shared = _shared(call)
        return self._is_without_seed(call) or not (self._all_seeded & {shared, ""} if shared else self._all_seeded)

    def _parts(self, code: ast.AST) -> Iterator[ast.AST]:
        """The nodes of code, but not of what measures something with them, or tells how many they are."""
        rest = [code]
        while rest:
            node = rest.pop()
            name = _called(node) if isinstance(node, ast.Call) else getattr(node, "attr", "")
            if name in _KNOWN or (name and self._differs(name)):
                continue
            yield node
            rest += ast.iter_child_nodes(node)


def _simple(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements one by one: of loops and branches what they consist of, since what one has, another needn't have."""
    rest = [*reversed(body)]
    while rest:  # as long a chain of `elif` as there may be is no deep stack
        each = rest.pop()
        match each:
            case ast.For(
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[values, *_]), target=ast.Tuple(elts=[_, to])
            ):
                yield ast.copy_location(ast.Assign([to], values), each)
            case ast.For(iter=values, target=to) | ast.AsyncFor(iter=values, target=to):
                yield ast.copy_location(ast.Assign([to], values), each)
            case ast.With() | ast.AsyncWith():
                for item in each.items:
                    name, value = item.optional_vars, item.context_expr
                    made = ast.Assign([name], value) if name else ast.Expr(value)
                    yield ast.copy_location(made, each)
            case ast.If() | ast.While() | ast.Try():
                pass
            case _:
                yield each
                continue
        blocks = [inner for block in ("body", "handlers", "orelse", "finalbody") for inner in getattr(each, block, ())]
        inside = [inner.body if isinstance(inner, ast.ExceptHandler) else [inner] for inner in blocks]
        rest += [inner for several in reversed(inside) for inner in reversed(several)]


def _shuffled(statement: ast.stmt) -> set[str]:
    """The names of what a statement gives to a function that changes its order; a method gives back another object."""
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call) and _called(each) == "shuffle")
    return set().union(*(mentioned_in(value) for each in calls for value in each.args))


def _called(call: ast.Call) -> str:
    return next(called_in(call))


def _shared(call: ast.Call) -> str:
    """Which generator a function belongs to: Python's own, NumPy's; empty if it may be any or all."""
    of = unparsed(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return of if of == "random" else ".random" if of.endswith(".random") else ""


def _makes_generators(value: ast.expr) -> bool:
    """Whether a value is generators of random numbers, and not something that one has drawn."""
    parts = [*getattr(value, "elts", []), getattr(value, "elt", value)]
    return any(isinstance(each, ast.Call) and _called(each) in {*SEEDS, "Generator"} for each in parts)


def _seeds(statement: ast.AST) -> Iterator[ast.expr]:
    """The seeds that a statement gives."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        given = node.args[:1] if _called(node) in SEEDS else []
        given += [each.value for each in node.keywords if each.arg in SEED_NAMES]
        yield from (each for each in given if not (isinstance(each, ast.Constant) and each.value is None))
