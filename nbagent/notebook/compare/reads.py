"""What the code of a notebook's cells reads beside its data: a clock, an id, random numbers, unfilled memory. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nbagent.notebook.lock import COMMANDS, SEED_NAMES, SEEDS, statements, unparsed

_CLOCKS = re.compile(
    r"\b(?:(?:time|perf_counter|process_time|thread_time|monotonic)(?:_ns)?|clock_gettime(?:_ns)?|os\.times|now|utcnow|"
    r"today|timeit|default_timer|Timer|strftime|localtime|gmtime|ctime|asctime|formatdate|current_(?:timestamp|date|time)|"
    r"tqdm|trange|track|Progress|verbose|logging|getLogger|datetime64|Timestamp|uptime|boot_time|[cC]?Profile|"
    r"stat|st_[acm]time(?:_ns)?|get[acm]time|cross_validate|cv_results_|fit_time|score_time)\b",
    re.IGNORECASE,
)
_IDS = re.compile(
    r"\b(?:uuid|uuid1|uuid4|secrets|token_\w+|urandom|SystemRandom|id|hash|getpid|getppid|tempfile|mkdtemp|mkstemp|"
    r"make_msgid|NamedTemporaryFile|TemporaryDirectory|TemporaryFile|gettempdir|gethostname|getsockname|getnode|get_ident|mktemp|"
    r"gete?[ug]id|ctypes|addressof|data_ptr|__array_interface__|ulid|nanoid|[Tt]hread(?:s|ing)?|current_thread|current_task|ensure_future|create_task|current_process)\b|\$\$"
)
_PROCESSES = re.compile(r"\b(?:pid|(?:get_)?native_id|Popen|current_process)\b|\$\$")
_OWN_PROCESS = re.compile(r"\bgetp?pid\b")
_MEASURES = re.compile(
    r"\b(?:psutil|getrusage|ru_maxrss|tracemalloc|memory_info|virtual_memory|cpu_percent|disk_usage|getloadavg|"
    r"gc\.collect|gc\.get_\w+|memit|memory_profiler|nvidia_smi)\b"
)
_MEASURED = re.compile(r"\s*!.*(?:\b(?:df|free|ps|top|uptime|vmstat)\b|/proc/(?:meminfo|loadavg|uptime|stat)\b)")
"""A line of a program that says nothing but what the machine has left."""
_CONCURRENT = re.compile(
    r"\b(?:Thread|ThreadPool\w*|ProcessPool\w*|Pool|as_completed|imap_unordered|gather|create_task|Parallel|"
    r"multiprocessing|Process|TaskGroup)\b"
)
_SAMPLING = (
    r"random|rand|randn|randint|randrange|choices?|shuffle|permutation|sample|default_rng|normal|uniform|gauss|bootstrap|"
    r"standard_\w+|\w*rvs|resample|permutation_\w+|monte_carlo_test|differential_evolution|dual_annealing|basinhopping|"
    r"train_test_split|\w*ShuffleSplit|\w*KMeans|\w*Forest\w*|ExtraTrees\w*|Bagging\w*|\w*GaussianMixture|NMF|FastICA|"
    r"LatentDirichletAllocation|SGD\w*|TSNE|UMAP|MLP\w*|make_(?:blobs|classification|moons|circles|regression)|"
    r"spring_layout|random_layout|\w*random_graph|louvain\w*"
)
_RANDOM = re.compile(
    rf"\b(?:{_SAMPLING}|regplot|lmplot|relplot|catplot|barplot|pointplot|lineplot|stripplot|nx\.draw\w*)\b"
)
_SAMPLERS = re.compile(rf"\b(?:{_SAMPLING})\(")
"""Calls that surely draw random numbers."""
_SHOWS = re.compile(
    r"\b(?:print|display|\w*plot|hist\w*|scatter\w*|barh?|imshow|pcolormesh|contourf?|errorbar|step|pie|heatmap)$"
)
_NOT_RANDOM = re.compile(r"(?:len|type|id|isinstance)\(|.*\.(?:shape|size|dtype|ndim|columns)$", re.DOTALL)
"""What is the same of random numbers each time: how many there are, and of which type."""
_BAR = re.compile(r"(?:\w+\.)*(?:tqdm|trange|track|tenumerate)\w*\(")
"""A loop's progress bar, which reads a clock for itself."""
_DRAWS_ON = re.compile(r"(?:\w+\.)*(?:Draw|writer|DictWriter)\(")
"""What is made of another object and changes that one."""
_UNSET = re.compile(r"\bempty(?:_like)?\([^)]")
"""Arrays that show what was in memory before them."""
_WITHOUT_SEED = re.compile(r"\b(?:default_rng|RandomState|Random|seed)\((?:None)?\)|\bSystemRandom\b")
_TIMED_PROGRAMS = r"\b(?:date|time|uptime|ls\b[^\n|;&]{0,60}\s-(?:\w*l\w*|-full-time)|ps|top|df|free|mktemp|stat)\b"
_MAGICS = re.compile(rf"^[^\S\n]*(?:%%?(?:time|timeit|prun|memit)\b|!.*{_TIMED_PROGRAMS})", re.M)
_SHELL_CELL = re.compile(rf"\s*%%(?:bash|sh|script)\b[\s\S]*?{_TIMED_PROGRAMS}")
_ZONED = re.compile(r"\b(?:tz\w*|TZ|zoneinfo|ZoneInfo|pytz|timezone|arrow|pendulum|utcoffset)\b")
_SEEDS_ALL = frozenset({"seed", "manual_seed", "set_seed", "set_random_seed"})
"""Functions that give a seed to the generator that everybody shares."""
_GENERATORS = frozenset({"random", "numpy.random"})
"""Modules whose functions draw random numbers."""


@dataclass
class Code:
    """What a notebook's cells read, cell by cell. Names whose values come of a source count as the source.

    Attributes:
        clocks: Names that hold or return what depends on a clock.
        ids: Names that hold or return what depends on an id, or on the process.
        measures: Names that hold or return what depends on how much memory or time the machine has left.
        randoms: Names that hold or return what depends on random numbers without a seed.
        processes: Names that hold or return numbers of processes that the kernel started.
        workers: Names that do so where other processes call them.
        samples: Names that hold random numbers that surely have no seed.
    """

    clocks: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    measures: set[str] = field(default_factory=set)
    randoms: set[str] = field(default_factory=set)
    processes: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    samples: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._modules: set[str] = set()
        self._seeded: set[str] = set()
        self._siblings: dict[str, set[str]] = {}
        self._all_seeded = False
        self._zoned = False

    def take(self, code: str) -> Reads:
        """Take in the next cell; returns what it reads."""
        for statement in statements(code):
            bound = set(_bound(statement))
            if isinstance(statement, ast.Import | ast.ImportFrom):
                found = {(each.asname or each.name).partition(".")[0] for each in statement.names}
                self._modules |= found
                if isinstance(statement, ast.ImportFrom) and statement.module in _GENERATORS:
                    self.randoms |= found
            elif len(bound) > 1 and isinstance(statement, ast.Assign):
                self._siblings |= dict.fromkeys(bound, bound)
            elif isinstance(statement, ast.Assign) and _DRAWS_ON.match(unparsed(statement.value)):
                self._siblings |= dict.fromkeys(bound, bound | _mentioned(statement.value) - self._modules)
        self._zoned |= _ZONED.search(code) is not None
        clock, ident = self._reads(code, _CLOCKS, self.clocks), self._reads(code, _IDS, self.ids)
        samples = self._reads(code, _SAMPLERS, self.samples)
        concurrent, own = _CONCURRENT.search(code) is not None, self._reads(code, _OWN_PROCESS, self.workers)
        return Reads(
            clock=clock or bool(_MAGICS.search(code) or _SHELL_CELL.match(code)),
            ident=ident,
            random=self._reads(code, _RANDOM, self.randoms),
            measure=self._reads(code, _MEASURES, self.measures),
            only_measure=_only_measures(code),
            processes=self._reads(code, _PROCESSES, self.processes) or (concurrent and own),
            unset=_shows_unset(code),
            concurrent=concurrent,
            zoned=self._zoned,
            shows_samples=samples and any(map(self._is_sampled, _shown(statements(code)))),
        )

    def _is_sampled(self, shown: ast.expr) -> bool:
        """Whether what is shown is random numbers: not how many they are, nor how long something took with them."""
        text = unparsed(shown)
        if _NOT_RANDOM.match(text) or _CLOCKS.search(text):
            return False
        names = _mentioned(shown) - set(_bound(shown))
        return _SAMPLERS.search(text) is not None or bool(names & self.samples and not names & self.clocks)

    def _reads(self, code: str, pattern: re.Pattern[str], names: set[str]) -> bool:
        """Whether code reads such a source, or a name that came of one; more such names are added."""
        found = False
        for statement in statements(code):
            text = unparsed(statement)
            reads = pattern.search(_without_imports(statement, text)) is not None
            if pattern in (_RANDOM, _SAMPLERS) and self._is_seeded(statement, text):
                reads = False
            if pattern is _SAMPLERS:
                self._follow_seeds(statement)
                reads = reads and not (self._all_seeded and not _WITHOUT_SEED.search(text))
            if reads or _mentioned(statement) & names:
                found = True
                within = _given(statement, pattern, names)
                given = {
                    name for name, by in _changed(statement) if not by or pattern.search(by) or _words(by) & within
                }
                is_bar = pattern is _CLOCKS and isinstance(statement, ast.For) and _BAR.match(unparsed(statement.iter))
                changed = {*(() if is_bar else _bound(statement)), *(given - self._modules)}
                names |= changed.union(*(self._siblings.get(each, ()) for each in changed))
        rest = "\n".join(COMMANDS.findall(code)) if statements(code) else code
        return found or pattern.search(rest) is not None

    def _follow_seeds(self, statement: ast.stmt) -> None:
        """Take in whether a statement gives the generator of all a seed, or one that differs with every run."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and next(_called(node)) in _SEEDS_ALL:
                given = [*node.args, *(each.value for each in node.keywords)][:1]
                text = " ".join(map(unparsed, given)) or "None"
                differs = _CLOCKS.search(text) or _IDS.search(text) or _words(text) & (self.clocks | self.ids)
                self._all_seeded = text != "None" and not differs

    def _is_seeded(self, statement: ast.stmt, text: str) -> bool:
        """Whether what a statement draws has a seed: its own, or that of its generator.

        That of all, such as `numpy.random.seed` sets, says nothing: libraries have generators of their own.
        """
        if _WITHOUT_SEED.search(text):
            return False
        if _sets_seed(statement):
            if not isinstance(statement, ast.Assign) or _makes_generators(statement.value):
                self._seeded |= set(_bound(statement))
            return True
        return bool(_mentioned(statement) & self._seeded)


def _only_measures(code: str) -> bool:
    """Whether all lines of a cell say nothing but what the machine has left."""
    lines = [line for line in code.splitlines() if line.strip()]
    return bool(lines) and all(map(_MEASURED.match, lines))


def _called(node: ast.AST) -> Iterator[str]:
    """The last names of the functions that code calls."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")


def _makes_generators(value: ast.expr) -> bool:
    """Whether a value is generators of random numbers, and not something that one has drawn."""
    parts = [*getattr(value, "elts", []), getattr(value, "elt", value)]
    return any(isinstance(each, ast.Call) and next(_called(each)) in {*SEEDS, "Generator"} for each in parts)


def _sets_seed(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = node.args[:1] if name in SEEDS else []
        given += [each.value for each in node.keywords if each.arg in SEED_NAMES]
        if any(not (isinstance(each, ast.Constant) and each.value is None) for each in given):
            return True
    return False


@dataclass(frozen=True)
class Reads:
    """What a cell's output may depend on beside its data.

    Attributes:
        clock: A clock.
        ident: An id, or something of the process.
        random: Random numbers.
        measure: How much memory or time the machine has left.
        only_measure: Nothing but that.
        processes: The numbers of processes that the kernel started.
        unset: Memory that nothing was written to.
        concurrent: Which of several threads or processes comes first.
        zoned: What time it is in zones that it names, or a cell before it.
        shows_samples: Random numbers that it shows, and that surely have no seed.
    """

    clock: bool = False
    ident: bool = False
    random: bool = False
    measure: bool = False
    only_measure: bool = False
    processes: bool = False
    unset: bool = False
    concurrent: bool = False
    zoned: bool = False
    shows_samples: bool = False

    @property
    def is_volatile(self) -> bool:
        """Whether some of its output may differ with every run."""
        return self.clock or self.ident or self.measure or self.only_measure


def _shows_unset(code: str) -> bool:
    """Whether code shows an array that it makes without values, and hasn't filled before."""
    unset: set[str] = set()
    for statement in statements(code):
        text = unparsed(statement)
        shown = (_words(text) & unset) - {name for name, _ in _changed(statement)}
        if isinstance(statement, ast.Expr) and (shown or _UNSET.search(text)):
            return True
        unset -= _words(text)  # which may fill it
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and _UNSET.search(text):
            unset |= set(_bound(statement))
    return False


def changes(code: str) -> set[str]:
    """The names of former cells whose values a cell changes: run twice, it changes them twice."""
    found, own = set[str](), set[str]()
    for statement in statements(code):
        inner = (each for each in ast.walk(statement) if isinstance(each, ast.AugAssign))
        found |= {*map(_root, (each.target for each in inner)), *(name for name, _ in _changed(statement))} - own
        own |= set(_bound(statement))
        if isinstance(statement, ast.Import | ast.ImportFrom):
            own |= {(each.asname or each.name).partition(".")[0] for each in statement.names}
    return found - {""}


def _without_imports(statement: ast.stmt, text: str) -> str:
    """A statement's text; nothing if it only imports, which reads no clock."""
    return "" if isinstance(statement, ast.Import | ast.ImportFrom) else text


def _shown(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """What code shows, as far as it is plain: what it prints, draws and ends with, part by part."""
    rest = [body[-1].value] if body and isinstance(body[-1], ast.Expr) else []
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Call) and _SHOWS.search(unparsed(node.func)):
            rest += [*node.args, *(each.value for each in node.keywords)]
    while rest:
        match rest.pop():
            case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                rest += parts
            case ast.Dict(values=parts):
                rest += parts
            case ast.FormattedValue(value=part) | ast.Starred(value=part):
                rest.append(part)
            case ast.BinOp(left=ast.Constant(), op=ast.Mod(), right=part):
                rest.append(part)
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format"), args=parts):
                rest += parts
            case ast.Call(func=function) if _SHOWS.search(unparsed(function)):
                pass
            case part:
                yield part


def _bound(statement: ast.AST) -> Iterable[str]:
    """The names that a statement gives a value, or a part of one."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _given(statement: ast.stmt, pattern: re.Pattern[str], names: set[str]) -> set[str]:
    """The names that come of a source, with those to which a statement gives what comes of it, line by line."""
    found = set(names)
    inner = [each for each in ast.walk(statement) if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign)]
    for each in sorted(inner, key=lambda one: one.lineno):
        text = unparsed(each.value) if each.value else ""
        if pattern.search(text) or _words(text) & found:
            found |= set(_bound(each))
    return found


def _changed(statement: ast.stmt) -> Iterable[tuple[str, str]]:
    """The names whose values a statement changes: by an item or attribute, or by a method, with what that is given."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
            if isinstance(call.func, ast.Attribute):
                given = (*call.args, *(each.value for each in call.keywords))
                yield _root(call.func), " ".join(map(unparsed, given)) or "()"
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield _root(node), ""


def _mentioned(node: ast.AST) -> set[str]:
    """The names in code, and the words of its sentences, such as those in SQL."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value:
            found |= _words(each.value)
    return found


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _root(node: ast.expr) -> str:
    """The name at the beginning of `name.attribute[item].method`; empty if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
