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

from nbagent.notebook.compare.tokens import Token, number, seconds
from nbagent.notebook.lock import nodes, unparsed

DAY = 26 * 3600.0
"""Seconds: a day, and what time zones and daylight saving add."""
EXACT = 6
"""Significant digits from which on a duration that two fresh runs agree on is a result and none."""
TINY = 1e-4
"""Seconds."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "mon tue wed thu fri sat sun".split()
_CLOCKS = re.compile(
    r"\b(?:time|perf_counter|perf_counter_ns|process_time|monotonic|time_ns|now|utcnow|today|timeit|default_timer|"
    r"strftime|localtime|gmtime|ctime|asctime|tqdm|trange|logging|getLogger|datetime64|Timestamp|uptime|boot_time)\b"
)
_IDS = re.compile(
    r"\b(?:uuid|uuid1|uuid4|secrets|token_hex|token_urlsafe|urandom|SystemRandom|id|hash|getpid|tempfile|mkdtemp|mkstemp|"
    r"NamedTemporaryFile|TemporaryDirectory|TemporaryFile|gettempdir|gethostname|node|get_ident|mktemp|ulid|nanoid)\b"
)
_RANDOM = re.compile(
    r"\b(?:random|rand|randn|randint|choice|choices|shuffle|permutation|sample|default_rng|normal|uniform|bootstrap|"
    r"KMeans|train_test_split|RandomForest\w*|TSNE|UMAP|MLP\w*|regplot|lmplot|barplot|pointplot|lineplot)\b"
)
_MAGICS = re.compile(
    r"^[^\S\n]*(?:%%?(?:time|timeit|prun|memit)\b|!.*\b(?:date|time|uptime|ls\s+-l|ps|top|df|free)\b)", re.M
)
_STRONG = re.compile(r"(?:elapsed|took|eta|finished in|done in)\W*$", re.IGNORECASE)
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
        randoms: Whether anything so far draws random numbers.
    """

    clocks: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    randoms: bool = False

    def take(self, code: str) -> Reads:
        """Take in the next cell; returns what it reads."""
        self.randoms |= _RANDOM.search(code) is not None
        clock, ident = self._reads(code, _CLOCKS, self.clocks), self._reads(code, _IDS, self.ids)
        clock |= _MAGICS.search(code) is not None
        return Reads(clock=clock, ident=ident, random=self.randoms)

    @staticmethod
    def _reads(code: str, pattern: re.Pattern[str], names: set[str]) -> bool:
        """Whether code reads such a source, or a name that came of one; more such names are added."""
        found = False
        for statement in _statements(code):
            text = unparsed(statement)
            words = set(re.findall(r"\w+", text))
            if pattern.search(_without_imports(statement, text)) or words & names:
                found = True
                names |= set(_bound(statement))
        return found or (not any(True for _ in nodes(code)) and pattern.search(code) is not None)


@dataclass(frozen=True)
class Reads:
    """What a cell's output may depend on beside its data: a clock, an id, random numbers."""

    clock: bool = False
    ident: bool = False
    random: bool = False


def _statements(code: str) -> Iterable[ast.stmt]:
    try:
        return ast.parse(re.sub(r"(?m)^([^\S\n]*)[%!].*$", r"\1pass", code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


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
    return _shows(fresh, moments.fresh) and (moments.stored is None or _shows(stored, moments.stored))


def _shows(token: Token, moment: float) -> bool:
    value = number(token)
    if value is not None and token.kind == "number" and value > 1e9:
        for unit in (1.0, 1e3, 1e6, 1e9):
            if abs(value / unit - moment) < DAY:
                return True
    if token.kind != "date":
        return False
    around = [datetime.fromtimestamp(moment, UTC) + timedelta(hours=hours) for hours in (-26, -14, 0, 14, 26)]
    return any(_renders(token.text, day) for day in around)


def _renders(text: str, day: datetime) -> bool:
    """Whether a text has a day's year, month and day, in whatever order."""
    numbers = [int(each) for each in re.findall(r"\d+", text)[:8]]
    if len(numbers) and len(str(numbers[0])) == 8:
        first = str(numbers[0])
        numbers = [int(first[:4]), int(first[4:6]), int(first[6:]), *numbers[1:]]
    words = [each[:3].lower() for each in re.findall(r"[A-Za-z]{3,}", text)]
    named = _MONTHS[day.month - 1] in words
    wanted = [day.day] + ([] if named else [day.month])
    years = {day.year, day.year % 100}
    rest = list(numbers)
    for each in wanted:
        if each not in rest:
            return False
        rest.remove(each)
    return bool(years & set(rest))


def is_now(token: Token, moment: float) -> bool:
    """Whether a word or number is the weekday, the month, the year or the day of a moment."""
    around = [datetime.fromtimestamp(moment, UTC) + timedelta(hours=hours) for hours in (-14, 0, 14)]
    if token.kind == "word":
        word = token.text[:3].lower()
        return len(token.text) >= 3 and any(word in (_MONTHS[day.month - 1], _DAYS[day.weekday()]) for day in around)
    value = number(token)
    return value is not None and any(value in (day.year, day.month, day.day) for day in around)


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
