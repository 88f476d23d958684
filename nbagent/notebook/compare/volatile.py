"""Why a difference between two runs is no change: the clock, an id, or something that differs with every run. Pure.

A shape alone proves little: a date may be a result. So a date must be that of the moment of both runs, a duration must
be shown by code that reads a clock, and an id must differ between two fresh runs, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nbagent.core import syntax
from nbagent.notebook.compare.tokens import Token, number, seconds
from nbagent.notebook.lock import SEED_NAMES, SEEDS, nodes, unparsed

DAY = 26 * 3600.0
"""Seconds: a day, and what time zones and daylight saving add."""
FARTHEST = 400
"""Days before and after a run in which a date may be counted from it."""
EXACT = 6
"""Significant digits from which on a duration that two fresh runs agree on is a result and none."""
TINY = 1e-4
"""Seconds."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_CLOCKS = re.compile(
    r"\b(?:time|perf_counter|perf_counter_ns|process_time|thread_time|monotonic|time_ns|now|utcnow|today|timeit|"
    r"default_timer|Timer|strftime|localtime|gmtime|ctime|asctime|formatdate|current_(?:timestamp|date|time)|"
    r"tqdm|trange|track|Progress|verbose|logging|getLogger|datetime64|Timestamp|uptime|boot_time|[cC]?Profile|"
    r"stat|st_[acm]time(?:_ns)?|get[acm]time|cross_validate|cv_results_|fit_time|score_time)\b",
    re.IGNORECASE,
)
_IDS = re.compile(
    r"\b(?:uuid|uuid1|uuid4|secrets|token_\w+|urandom|SystemRandom|id|hash|getpid|getppid|tempfile|mkdtemp|mkstemp|"
    r"NamedTemporaryFile|TemporaryDirectory|TemporaryFile|gettempdir|gethostname|getsockname|getnode|get_ident|mktemp|"
    r"ulid|nanoid|[Tt]hread(?:s|ing)?|current_thread|current_task|ensure_future|create_task|current_process)\b|\$\$"
)
_MEASURES = re.compile(
    r"\b(?:psutil|getrusage|ru_maxrss|tracemalloc|memory_info|virtual_memory|cpu_percent|disk_usage|getloadavg|"
    r"gc\.collect|gc\.get_\w+|memit|memory_profiler|nvidia_smi)\b"
)
_CONCURRENT = re.compile(
    r"\b(?:Thread|ThreadPool\w*|ProcessPool\w*|Pool|as_completed|imap_unordered|gather|create_task|Parallel|"
    r"multiprocessing|Process|TaskGroup)\b"
)
_RANDOM = re.compile(
    r"\b(?:random|rand|randn|randint|choice|choices|shuffle|permutation|sample|default_rng|normal|uniform|bootstrap|"
    r"KMeans|train_test_split|RandomForest\w*|TSNE|UMAP|MLP\w*|regplot|lmplot|barplot|pointplot|lineplot)\b"
)
_OWN_SEED = re.compile(r"\b(?:regplot|lmplot|barplot|pointplot|lineplot)\(")
"""Seaborn's intervals, which no seed of NumPy's holds for."""
_UNSET = re.compile(r"\bempty(?:_like)?\([^)]")
"""Arrays that show what was in memory before them."""
_WITHOUT_SEED = re.compile(r"\b(?:default_rng|RandomState|Random|seed)\((?:None)?\)|\bSystemRandom\b")
_TIMED_PROGRAMS = r"\b(?:date|time|uptime|ls\s+-l|ps|top|df|free|mktemp|stat)\b"
_MAGICS = re.compile(rf"^[^\S\n]*(?:%%?(?:time|timeit|prun|memit)\b|!.*{_TIMED_PROGRAMS})", re.M)
_SHELL_CELL = re.compile(rf"\s*%%(?:bash|sh|script)\b[\s\S]*?{_TIMED_PROGRAMS}")
_PARTS = re.compile(
    r"(?:hour|minute|second|tm_hour|tm_min|tm_sec|(micros|nanos)econd|relativeCreated)s?\W*$", re.IGNORECASE
)
"""What stands before a part of a time."""
_STRONG = re.compile(r"(?:elapsed|took|eta|finished in|done in|total time)\W*$", re.IGNORECASE)
"""What stands before a duration whatever the code reads: libraries time themselves."""
_LABELS = re.compile(
    r"(?:elapsed|took|taken|time|duration|seconds|runtime|secs|msec|\bms|latency|finished in|done in)\W*$", re.I
)


@dataclass
class Code:
    """What a notebook's cells read, cell by cell: each source reaches what is named after it.

    Attributes:
        clocks: Names that hold or return what depends on a clock.
        ids: Names that hold or return what depends on an id, or on the process.
        measures: Names that hold or return what depends on how much memory or time the machine has left.
        randoms: Names that hold or return what depends on random numbers without a seed.
    """

    clocks: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    measures: set[str] = field(default_factory=set)
    randoms: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._modules: set[str] = set()
        self._seeded: set[str] = set()
        self._all_seeded = False
        self._siblings: dict[str, set[str]] = {}

    def take(self, code: str) -> Reads:
        """Take in the next cell; returns what it reads."""
        for statement in _statements(code):
            bound = set(_bound(statement))
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._modules |= {(each.asname or each.name).partition(".")[0] for each in statement.names}
            elif len(bound) > 1 and isinstance(statement, ast.Assign):
                self._siblings |= dict.fromkeys(bound, bound)
        clock, ident = self._reads(code, _CLOCKS, self.clocks), self._reads(code, _IDS, self.ids)
        return Reads(
            clock=clock or bool(_MAGICS.search(code) or _SHELL_CELL.match(code)),
            ident=ident,
            random=self._reads(code, _RANDOM, self.randoms),
            measure=self._reads(code, _MEASURES, self.measures),
            unset=_shows_unset(code),
            concurrent=_CONCURRENT.search(code) is not None,
        )

    def _reads(self, code: str, pattern: re.Pattern[str], names: set[str]) -> bool:
        """Whether code reads such a source, or a name that came of one; more such names are added."""
        found = False
        for statement in _statements(code):
            text = unparsed(statement)
            reads = pattern.search(_without_imports(statement, text)) is not None
            if pattern is _RANDOM and self._is_seeded(statement, text):
                reads = False
            if reads or _words(text) & names:
                found = True
                within = _given(statement, pattern, names)
                given = {
                    name for name, by in _changed(statement) if not by or pattern.search(by) or _words(by) & within
                }
                changed = {*_bound(statement), *(given - self._modules)}
                names |= changed.union(*(self._siblings.get(each, ()) for each in changed))
        return found or (not any(True for _ in nodes(code)) and pattern.search(code) is not None)

    def _is_seeded(self, statement: ast.stmt, text: str) -> bool:
        """Whether what a statement draws has a seed: its own, that of its generator, or that of all."""
        if _WITHOUT_SEED.search(text):
            self._all_seeded &= "seed()" not in text
            return False
        if _sets_seed(statement):
            self._all_seeded |= isinstance(statement, ast.Expr) and "seed(" in text
            self._seeded |= set(_bound(statement))
            return True
        return (self._all_seeded and not _OWN_SEED.search(text)) or bool(_words(text) & self._seeded)


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
        unset: Memory that nothing was written to.
        concurrent: Which of several threads or processes comes first.
    """

    clock: bool = False
    ident: bool = False
    random: bool = False
    measure: bool = False
    unset: bool = False
    concurrent: bool = False

    @property
    def is_volatile(self) -> bool:
        """Whether some of its output may differ with every run."""
        return self.clock or self.ident or self.measure


def _statements(code: str) -> Iterable[ast.stmt]:
    try:
        return syntax.parse(re.sub(r"(?m)^([^\S\n]*)[%!].*$", r"\1pass", code)).body
    except syntax.UNREADABLE:
        return ()


def _shows_unset(code: str) -> bool:
    """Whether code shows an array that it makes without values, and hasn't filled before."""
    unset: set[str] = set()
    for statement in _statements(code):
        text = unparsed(statement)
        shown = (_words(text) & unset) - {name for name, _ in _changed(statement)}
        if isinstance(statement, ast.Expr) and (shown or _UNSET.search(text)):
            return True
        unset -= _words(text)  # which may fill it
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and _UNSET.search(text):
            unset |= set(_bound(statement))
    return False


def _without_imports(statement: ast.stmt, text: str) -> str:
    """A statement's text; nothing if it only imports, which reads no clock."""
    return "" if isinstance(statement, ast.Import | ast.ImportFrom) else text


def _bound(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement gives a value."""
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


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _root(node: ast.expr) -> str:
    """The name at the beginning of `name.attribute[item].method`; empty if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Moments:
    """When two runs were, in seconds since the epoch.

    Attributes:
        stored: The first; None if nothing says so.
        fresh: The second.
        elapsed: Seconds that the second has run so far.
    """

    stored: float | None
    fresh: float
    elapsed: float


def is_clock(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether both show the moment at which they ran: as a date, or in seconds since the epoch."""
    return is_moment(fresh, moments.fresh) and (moments.stored is None or is_moment(stored, moments.stored))


def is_moment(token: Token, moment: float) -> bool:
    """Whether a token shows a moment: as a date, or in seconds since the epoch."""
    value = number(token)
    if value is not None and token.kind == "number" and value > 1e9:
        for unit in (1.0, 1e3, 1e6, 1e9):
            if abs(value / unit - moment) < DAY:
                return True
    return token.kind == "date" and not _offsets(token.text, moment, range(-1, 2)).isdisjoint((-1, 0, 1))


def is_shifted(stored: Token, fresh: Token, moments: Moments, *, again: bool) -> bool:
    """Whether both are dates as many days before or after their runs, such as that of last week.

    Args:
        stored: What was shown before.
        fresh: What is shown now.
        moments: When the runs were.
        again: Whether a further fresh run shows something else, as it does with the time of the day.
    """
    if moments.stored is None:
        return again
    if not again and abs(moments.fresh - moments.stored) < DAY:
        return False
    offsets = [
        _offsets(token.text, moment, range(-FARTHEST, FARTHEST))
        for token, moment in ((stored, moments.stored), (fresh, moments.fresh))
    ]
    return any({each - 1, each, each + 1} & offsets[1] for each in offsets[0])


def _offsets(text: str, moment: float, among: range) -> set[int]:
    """How many days a text, read as a date in whatever order, may be after a moment."""
    numbers = [int(each) for each in re.findall(r"\d+", text)[:8]]
    if len(numbers) and len(str(numbers[0])) == 8:
        first = str(numbers[0])
        numbers = [int(first[:4]), int(first[4:6]), int(first[6:]), *numbers[1:]]
    words = [each[:3].lower() for each in re.findall(r"[A-Za-z]{3,}", text)]
    today = datetime.fromtimestamp(moment, UTC)
    return {days for days in among if _renders(numbers, words, today + timedelta(days=days))}


def _renders(numbers: list[int], words: list[str], day: datetime) -> bool:
    """Whether numbers and words have a day's year, month and day."""
    rest = list(numbers)
    for each in (day.day, *(() if _MONTHS[day.month - 1] in words else (day.month,))):
        if each not in rest:
            return False
        rest.remove(each)
    return day.year in rest or day.year % 100 in rest


def is_now(token: Token, moment: float) -> bool:
    """Whether a word or number is a moment's weekday, month, year, day or week, or a part of its time that says so."""
    around = [datetime.fromtimestamp(moment, UTC) + timedelta(hours=hours) for hours in (-14, 0, 14)]
    if token.kind == "word":
        return any(
            token.text.lower() in (name[:3], name) for day in around for name in f"{day:%A} {day:%B}".lower().split()
        )
    value = number(token)
    if value is None:
        return False
    if label := _PARTS.search(token.before):
        return 0 <= value < (1e9 if label[1] else 61)
    return any(
        value in (day.year, day.month, day.day, day.timetuple().tm_yday, day.isocalendar().week, int(f"{day:%U}"))
        for day in around
    )


def is_age(stored: Token, fresh: Token, moments: Moments) -> bool:
    """Whether two numbers count the days or seconds to the moments of both runs, from the same day or till it."""
    one, other = number(stored), number(fresh)
    if moments.stored is None or one is None or other is None or one == other:
        return False
    apart, elapsed = abs(other - one), moments.fresh - moments.stored
    days = [datetime.fromtimestamp(each, UTC).toordinal() for each in (moments.stored, moments.fresh)]
    return abs(apart - (days[1] - days[0])) <= (1 if elapsed > DAY else 0) or abs(apart - elapsed) < max(
        2.0, 0.001 * elapsed
    )


def is_duration(stored: Token, fresh: Token, moments: Moments, *, reads_clock: bool, differs_again: bool) -> bool:
    """Whether both show how long something took.

    Args:
        stored: What was shown before.
        fresh: What is shown now.
        moments: When the runs were; nothing in a run took longer than the run.
        reads_clock: Whether the cell reads a clock; else it has to differ again, or say what it is.
        differs_again: Whether a second fresh run shows something else.
    """
    if (reads_clock or differs_again) and stored.kind == fresh.kind in ("time", "rate"):
        return True
    if reads_clock and stored.kind == fresh.kind == "factor":
        return True
    if reads_clock and _is_tiny(stored) and _is_tiny(fresh):
        return True
    taken = _taken(fresh)
    if not reads_clock and not (differs_again or (_STRONG.search(stored.before) and _STRONG.search(fresh.before))):
        return False
    if taken is None or _taken(stored) is None:
        return False
    return (differs_again or _digits(fresh) < EXACT) and taken <= 1.5 * moments.elapsed + 1


def _is_tiny(token: Token) -> bool:
    """Whether a number is as small as what a clock tells apart, so that two runs may agree on it by chance."""
    return 0 < (number(token) or 0) < TINY


def _taken(token: Token) -> float | None:
    """Seconds that a token may mean."""
    if (found := seconds(token)) is not None:
        return found
    value = number(token)
    return value if value is not None and _LABELS.search(token.before) else None


def _digits(token: Token) -> int:
    found = re.search(r"[\d.,]+", token.text)
    return len(re.sub(r"\D", "", found[0]).lstrip("0")) if found else 0


def is_id(token: Token) -> bool:
    """Whether a token looks made up: a UUID, or letters and digits in one."""
    if token.kind == "uuid":
        return True
    text = token.text
    return (
        token.kind in ("word", "number")
        and len(text) >= 5
        and bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text))
    )
