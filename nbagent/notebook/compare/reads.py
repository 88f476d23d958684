"""What the code of a notebook's cells reads beside its data: a clock, an id, random numbers, unfilled memory. Pure."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass, field

from nbagent.notebook.compare.names import (
    bound_by,
    called_in,
    changed_by,
    given_by,
    mentioned_in,
    root_of,
    shown_by,
    words_of,
)
from nbagent.notebook.compare.samples import SAMPLING, Samples
from nbagent.notebook.compare.workers import Workers
from nbagent.notebook.lock import COMMANDS, statements, unparsed

_TIMED_PROGRAMS = (
    r"\b(?:date|time|uptime|ls\b[^\n|;&]{0,60}\s['\"]?-(?:\w*l\w*|-full-time)|ps|top|df|free|mktemp|stat)\b"
)
_STARTERS = {
    "subprocess": frozenset("run call check_call check_output Popen getoutput getstatusoutput".split()),
    "os": frozenset({"popen", "system"}),
    "asyncio": frozenset({"create_subprocess_exec", "create_subprocess_shell"}),
    "asyncio.subprocess": frozenset({"create_subprocess_exec", "create_subprocess_shell"}),
    "get_ipython()": frozenset({"getoutput", "system"}),
}
"""What starts a program that an argument names, by module."""
_STARTS = "|".join(rf"\b{re.escape(module)}\.(?:{'|'.join(sorted(names))})\(" for module, names in _STARTERS.items())
_CLOCKS = re.compile(
    # As the first word of a list or a sentence, or behind another command of it.
    rf"(?:{_STARTS})[(\[]?(?:['\"](?:\S{{0,60}}/)?\w{{0,3}}sh['\"], ['\"]-\w*c['\"], )?f?['\"]"
    r"(?:[^\n]{0,200}?[;&|(] ?)?"
    rf"(?:[\w/]{{1,60}}/)?{_TIMED_PROGRAMS}|"
    r"\b(?:(?:time|perf_counter|process_time|thread_time|monotonic)(?:_ns)?|clock_gettime(?:_ns)?|os\.times|now|utcnow|"
    r"today|timeit|default_timer|Timer|strftime|localtime|gmtime|ctime|asctime|formatdate|current_(?:timestamp|date|time)|"
    r"tqdm|trange|track|Progress|verbose|logging|getLogger|datetime64|Timestamp|uptime|boot_time|[cC]?Profile|"
    r"stat|st_[acm]time(?:_ns)?|get[acm]time|cross_validate|cv_results_|fit_time|score_time)\b",
    re.IGNORECASE,
)
_IDS = re.compile(
    r"\b(?:uuid|uuid1|uuid4|token_\w+|urandom|id|hash|getpid|getppid|(?<=\.)pid|(?:get_)?native_id|tempfile|mkdtemp|mkstemp|"
    r"make_msgid|NamedTemporaryFile|TemporaryDirectory|TemporaryFile|gettempdir|gethostname|getsockname|getnode|get_ident|mktemp|"
    r"gete?[ug]id|ctypes|addressof|data_ptr|__array_interface__|ulid|nanoid|[Tt]hread(?:s|ing)?|current_thread|current_task|ensure_future|create_task|current_process)\b|\$\$"
)
_OWN_PROCESS = re.compile(r"\bgetp?pid\b")
_LOG_FORMAT = re.compile(r"%\(process\)[ds]|\{(?:record\.)?process(?::[^}\n]{0,9})?\}")
"""The format of a log of which each line has the number of the process."""
_LOGS = frozenset("debug info warning warn error critical exception log".split())
_MEASURES = re.compile(
    r"\b(?:psutil|getrusage|ru_maxrss|tracemalloc|memory_info|virtual_memory|cpu_percent|disk_usage|getloadavg|"
    r"gc\.collect|gc\.get_\w+|memit|memory_profiler|nvidia_smi)\b"
)
_MEASURED = re.compile(
    r"\s*!\s*(?:df|free|ps|top|uptime|vmstat|(?:cat|head|grep \S+) /proc/(?:meminfo|loadavg|uptime|stat))\b[^;|&\n]*"
    r"(?:\|\s*(?:head|tail|grep|awk|sort|cut)\b[^;|&\n]*){0,4}"
)
"""A line of a program that says nothing but what the machine has left."""
_CONCURRENT = re.compile(
    r"\b(?:Thread|ThreadPool\w*|ProcessPool\w*|Pool|as_completed|imap_unordered|gather|create_task|Parallel|"
    r"multiprocessing|Process|TaskGroup)\b"
)
_RANDOM = re.compile(
    rf"\b(?:{SAMPLING}|regplot|lmplot|relplot|catplot|barplot|pointplot|lineplot|stripplot|nx\.draw\w*)\b"
)
_BAR = re.compile(r"(?:\w+\.)*(?:tqdm|trange|track|tenumerate)\w*\(")
"""A loop's progress bar, which reads a clock for itself."""
_UNORDERED = frozenset({"Thread", "as_completed", "imap_unordered", "Process"})
"""Calls that give results in the order in which they come."""
_DRAWS_ON = re.compile(r"(?:\w+\.)*(?:Draw|writer|DictWriter)\(")
"""What is made of another object and changes that one."""
_UNSET = re.compile(r"\bempty(?:_like)?\([^)]")
"""Arrays that show what was in memory before them."""
_MAGICS = re.compile(rf"^[^\S\n]*(?:%%?(?:time|timeit|prun|memit)\b|!.*{_TIMED_PROGRAMS})", re.M)
_SHELL_CELL = re.compile(rf"\s*%%(?:bash|sh|script)\b[\s\S]*?{_TIMED_PROGRAMS}")
_PIPES = re.compile(r"^[^\S\n]*!.*[^|]\|(?!\|)|\A\s*%%(?:bash|sh|script)\b[\s\S]*?[^|]\|(?!\|)", re.M)
"""Programs that run at the same time, of which each may print an error or its time."""
_LISTS_NAMES = re.compile(r"(?m)^[^\S\n]*%whos\b")
"""A magic that shows the values of all names."""
_ZONED = re.compile(r"\b(?:tz\w*|TZ|zoneinfo|ZoneInfo|pytz|timezone|arrow|pendulum|utcoffset)\b")
_GENERATORS = frozenset({"random", "numpy.random", "secrets"})
"""Modules whose functions draw random numbers."""
_BUILTINS = frozenset(dir(builtins))


@dataclass
class Code:
    """What a notebook's cells read, cell by cell. Names whose values come of a source count as the source.

    Attributes:
        clocks: Names that hold or return what depends on a clock.
        ids: Names that hold or return what depends on an id, or on the process.
        measures: Names that hold or return what depends on how much memory or time the machine has left.
        randoms: Names that hold or return what depends on random numbers without a seed.
        workers: Names that hold or return the number of the process that runs them.
    """

    clocks: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    measures: set[str] = field(default_factory=set)
    randoms: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._modules: set[str] = set()
        self._siblings: dict[str, set[str]] = {}
        self._samples = Samples(self._differs, self._modules, self._siblings)
        self._starters: dict[str, str] = {}
        self._zoned = self._formats = False
        self._gathered: set[str] = set()
        self._threads = Workers(_CONCURRENT)

    def take(self, code: str) -> Reads:
        """Take in the next cell; returns what it reads."""
        code = self._with_starters(code)
        for statement in statements(code):
            bound = set(bound_by(statement))
            if isinstance(statement, ast.Import | ast.ImportFrom):
                found = {(each.asname or each.name).partition(".")[0] for each in statement.names}
                self._modules |= found
                if isinstance(statement, ast.ImportFrom) and statement.module in _GENERATORS:
                    self.randoms |= {each for each in found if not _IDS.search(each)}
            elif len(bound) > 1 and isinstance(statement, ast.Assign):
                self._siblings |= dict.fromkeys(bound, bound)
            elif isinstance(statement, ast.Assign) and _DRAWS_ON.match(unparsed(statement.value)):
                self._siblings |= dict.fromkeys(bound, bound | mentioned_in(statement.value) - self._modules)
        self._formats |= _LOG_FORMAT.search(code) is not None
        self._zoned |= _ZONED.search(code) is not None
        clock, ident = self._reads(code, _CLOCKS, self.clocks), self._reads(code, _IDS, self.ids)
        concurrent, own = _CONCURRENT.search(code) is not None, self._reads(code, _OWN_PROCESS, self.workers)
        mixed = not self._threads.take(statements(code))
        if unordered := mixed and any(not _UNORDERED.isdisjoint(called_in(each)) for each in statements(code)):
            self._gathered |= {name for each in statements(code) for name, _ in changed_by(each)} - self._modules
        gathered = self._gathered | (self._threads.names if mixed else set())
        if _LISTS_NAMES.search(code):
            clock, ident = clock or bool(self.clocks), ident or bool(self.ids)
        return Reads(
            clock=clock or bool(_MAGICS.search(code) or _SHELL_CELL.match(code)),
            ident=ident,
            random=self._reads(code, _RANDOM, self.randoms),
            measure=self._reads(code, _MEASURES, self.measures),
            only_measure=_only_measures(code) or self._shows_measures(code),
            own_process=own,
            logs_process=self._formats and any(not _LOGS.isdisjoint(called_in(each)) for each in statements(code)),
            unset=_shows_unset(code),
            concurrent=concurrent and mixed,
            piped=_PIPES.search(code) is not None,
            unordered=unordered or any(mentioned_in(each) & gathered for each in statements(code)),
            zoned=self._zoned,
            shows_samples=self._samples.take(statements(code)),
        )

    def _shows_measures(self, code: str) -> bool:
        """Whether all that a cell shows, beside sentences without numbers, is what the machine has left.

        So it must call and show nothing but what modules and Python itself have, or what was measured.
        """
        parts = statements(code)
        shown = [each for each in shown_by(parts) if not _is_sentence(each)]
        measured = all(_MEASURES.search(unparsed(each)) or mentioned_in(each) & self.measures for each in shown)
        if not shown or not measured:
            return False
        calls = (each.func for part in parts for each in ast.walk(part) if isinstance(each, ast.Call))
        says = (each.value for part in parts for each in ast.walk(part) if isinstance(each, ast.Expr))
        named = set[str]().union(*map(mentioned_in, [*shown, *calls, *says]))
        return named <= self._modules | self.measures | _BUILTINS

    def _with_starters(self, code: str) -> str:
        """Code in which what starts programs has its full name, by whichever name it was imported."""
        for node in (each for statement in statements(code) for each in ast.walk(statement)):
            for name in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                if isinstance(node, ast.Import) and name.name in _STARTERS and name.asname:
                    self._starters |= {f"{name.asname}.{each}": f"{name.name}.{each}" for each in _STARTERS[name.name]}
                elif isinstance(node, ast.ImportFrom) and node.module in _STARTERS:
                    known = _STARTERS[node.module]
                    for function in known if name.name == "*" else known & {name.name}:
                        self._starters[name.asname or function] = f"{node.module}.{function}"
        if not self._starters:
            return code
        names = "|".join(map(re.escape, sorted(self._starters, key=len, reverse=True)))
        return re.sub(rf"(?<![\w.])(?<!def )(?:{names})(?=\()", lambda found: self._starters[found[0]], code)

    def _differs(self, code: str) -> bool:
        """Whether code reads a clock or an id."""
        return bool(_CLOCKS.search(code) or _IDS.search(code) or words_of(code) & (self.clocks | self.ids))

    def _reads(self, code: str, pattern: re.Pattern[str], names: set[str]) -> bool:
        """Whether code reads such a source, or a name that came of one; more such names are added."""
        found = False
        for statement in statements(code):
            text = unparsed(statement)
            reads = pattern.search(_without_imports(statement, text)) is not None
            if pattern is _RANDOM:
                reads &= not self._samples.is_seeded(statement)
                reads |= self._samples.makes_numbers(statement)
            if reads or mentioned_in(statement) & names:
                found = True
                within = given_by(statement, pattern, names)
                given = {
                    name for name, by in changed_by(statement) if not by or pattern.search(by) or words_of(by) & within
                }
                is_bar = pattern is _CLOCKS and isinstance(statement, ast.For) and _BAR.match(unparsed(statement.iter))
                changed = {*(() if is_bar else bound_by(statement)), *(given - self._modules)}
                names |= changed.union(*(self._siblings.get(each, ()) for each in changed))
        rest = "\n".join(COMMANDS.findall(code)) if statements(code) else code
        return found or pattern.search(rest) is not None


def _is_sentence(code: ast.expr) -> bool:
    return isinstance(code, ast.Constant) and not any(map(str.isdecimal, str(code.value)))


def _only_measures(code: str) -> bool:
    """Whether all lines of a cell say nothing but what the machine has left."""
    lines = [line for line in code.splitlines() if line.strip()]
    return bool(lines) and all(map(_MEASURED.fullmatch, lines))


@dataclass(frozen=True)
class Reads:
    """What a cell's output may depend on beside its data.

    Attributes:
        clock: A clock.
        ident: An id, or something of the process.
        random: Random numbers.
        measure: How much memory or time the machine has left.
        only_measure: Nothing but that.
        own_process: The number of the kernel's process.
        logs_process: The number of the kernel's process, in each line of a log.
        unset: Memory that nothing was written to.
        concurrent: Which of several threads or processes comes first.
        piped: Which of several programs that a shell started comes first.
        unordered: In which order threads or processes gave what it shows.
        zoned: What time it is in zones that it names, or a cell before it.
        shows_samples: Random numbers that it shows, and that surely have no seed.
    """

    clock: bool = False
    ident: bool = False
    random: bool = False
    measure: bool = False
    only_measure: bool = False
    own_process: bool = False
    logs_process: bool = False
    unset: bool = False
    concurrent: bool = False
    piped: bool = False
    unordered: bool = False
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
        shown = (words_of(text) & unset) - {name for name, _ in changed_by(statement)}
        if isinstance(statement, ast.Expr) and (shown or _UNSET.search(text)):
            return True
        unset -= words_of(text)  # which may fill it
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and _UNSET.search(text):
            unset |= set(bound_by(statement))
    return False


def changes(code: str) -> set[str]:
    """The names of former cells whose values a cell changes: run twice, it changes them twice."""
    found, own = set[str](), set[str]()
    for statement in statements(code):
        inner = (each for each in ast.walk(statement) if isinstance(each, ast.AugAssign))
        found |= {*map(root_of, (each.target for each in inner)), *(name for name, _ in changed_by(statement))} - own
        own |= set(bound_by(statement))
        if isinstance(statement, ast.Import | ast.ImportFrom):
            own |= {(each.asname or each.name).partition(".")[0] for each in statement.names}
    return found - {""}


def _without_imports(statement: ast.stmt, text: str) -> str:
    """A statement's text; nothing if it only imports, which reads no clock."""
    return "" if isinstance(statement, ast.Import | ast.ImportFrom) else text
