"""What is masked in any text before it is compared: shapes that are never a result, and a person's own rules. Pure."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nbagent.core.errors import UsageError

LONGEST = 1024 * 1024
"""Characters of a file of rules."""
_UNIT = r"(?:ns|µs|us|μs|ms|s|sec|min|h|d|day|days)"
# Numbers, words and repetitions have bounds, so that the time to look for them grows with the text and no faster.
_TIME = rf"\d[\d.,]{{0,20}}(?:e[-+]?\d{{1,3}})? ?{_UNIT}(?: \d[\d.]{{0,20}} ?{_UNIT}){{0,4}}"
_COUNT = r"[\d,]{1,20}"
_PER_LOOP = "|".join("per loop "[:end] for end in range(9, -1, -1))
"""What stands behind a timing, or how it begins."""
_MEAN = rf"(?:\(mean ± std\. dev\. of |<\.\.\.>(?:of )?)(?:{_COUNT})? ?"
"""What stands between a timing and its runs; a list of all names leaves the middle of it out."""
# Nothing below takes words of any kind: a notebook could say in them what its cells never showed.
_BAR = r"[^|\w\n]{0,400}+"
"""A part of a bar. The last + has it give nothing back: a second part beside it would try each share of the signs."""
_SINCE = r"\[\d{1,3}:\d\d[\d:]{0,6}(?:(?:<|&lt;)[\d:?]{1,12})?"
_RATE = r"(?:, {1,20}[\d.?]{1,12} ?[A-Za-z]{0,20}/[A-Za-z]{1,20})"
"""What tqdm says of time: `[00:01<00:03` and `, 9.8it/s`."""


class Mask(NamedTuple):
    """What is replaced, and by what."""

    pattern: re.Pattern[str]
    replacement: str

    def apply(self, text: str) -> str:
        """The text with all that fits replaced."""
        return self.pattern.sub(self.replacement, text)


BUILT_IN = tuple(
    Mask(re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"(?:\x1b|\\u001b)\[[0-9;?]{0,40}[A-Za-z]", ""),
        (r"(\x1b|\\u001b)\]8;id=\d{1,20};", r"\1]8;;"),
        (r"\u2007", " "),
        (r"\bat 0x[0-9a-fA-F]+\b", "at 0xADDRESS"),
        (r"\b(Dummy|ThreadPoolExecutor|\w{4,5}PoolWorker)-\d{1,20}(?:[_:]\d{1,20})?\b", r"\1-N"),
        (r"(<(?:Task|Thread)\b[^<>\n]{0,200}?\b(?:Task|Thread))-\d{1,20}\b", r"\1-N"),
        (
            r"coro=<(?:install_missing\.<locals>\.run\(\) running at /run/nbagent/client_inside|InteractiveShell\."
            r"run_cell_async\(\) running at [\w./-]{0,200}/IPython/core/interactiveshell)\.py:\d{1,6}>",
            "coro=<CELL>",
        ),
        (r"^([-dlbcps][-rwxsStT]{9}[.+@]? {1,9}\d{1,9}) {1,9}(?:root|sandbox) {1,9}(?:root|sandbox) ", r"\1 OWNER "),
        (r"\bst_(ino|dev|uid|gid)=\d{1,20}", r"st_\1=N"),
        (r"\b(Device: {1,9}|Inode: {1,9})\d[\da-fhd,/]{0,20} {0,9}(?=\s(?:Inode|Links): )", r"\1N "),
        (r"([UG]id: \() {0,9}\d{1,20}/", r"\1N/"),
        (r"\b0x(?:7[ef]|5[5-6])[0-9a-f]{10}\b", "0xADDRESS"),
        (r"<ipython-input-\d+-[0-9a-f]+>", "CELL"),
        (r"(?:(?<![\w/.-])[\w/.-]*/)?ipykernel(?:_\d{1,20})?/\d{1,20}\.py", "CELL"),
        (r"\bIn ?\[\d{1,20}\]", "In [N]"),
        (rf"{_TIME} ± {_TIME} (?:{_PER_LOOP}){_MEAN}runs?, {_COUNT} loops? each\)", "TIMING"),
        (
            r"^The slowest run took [\d.,]{1,20} times longer than the fastest\. This could mean that an intermediate "
            r"result is being cached\.\n?",
            "",
        ),
        (
            rf"^(?:CPU times|Compiler(?: time)?|Parser|Wall time) {{0,9}}: "
            rf"(?:(?:user |sys: |total: )?{_TIME}(?:, |$)){{1,4}}$",
            "TIMING",
        ),
        (rf"(?<=%\|){_BAR}\d?{_BAR}\|( {{0,20}}\S{{1,80}}) {_SINCE}{_RATE}?", r"BAR|\1 [TIMING"),
        (r"[━╸╺]{4,400} {1,20}\d{1,3}%(?: {1,20}[-\d:]{4,10})+", "BAR"),
        (r"(?:<span [^<>]{1,200}>[━╸╺]{1,400}</span>){1,9}(?: <span [^<>]{1,200}>[- \d:%]{1,20}</span>){1,4}", "BAR"),
        (rf"(?<!\d)(\d{{1,20}}/\d{{1,20}}) {_SINCE}{_RATE}?", r"\1 [TIMING"),
        (r" {0,9}\d{1,3}%\|BAR\| {0,20}\d{1,20}/\d{1,20} \[TIMING\](?= {0,9}\d{1,3}%\|BAR\|)", ""),
        (r"^( {0,20}\d{1,20}(?:/\d{1,20})?)(?: {1,20}\d{1,20}\.\d{3}){4} ", r"\1 TIMING "),
        (r"(function calls .{0,40}in )[\d.]{1,20} seconds", r"\1TIMING"),
        (rf"\b(\d{{1,20}} ?[A-Za-z]{{1,20}}) {_SINCE}{_RATE}", r"\1 [TIMING"),
        (r"[\d.]{1,9}user [\d.]{1,9}system [\d:.]{1,12}elapsed [\d.?]{1,6}%CPU \(\d{1,9}avgtext\+\d{1,9}avgdata "
            r"\d{1,12}maxresident\)k\r?\n\d{1,12}inputs\+\d{1,12}outputs \(\d{1,12}major\+\d{1,12}minor\)pagefaults ",
            "TIMING "),
        (r"/(?:tmp|var/folders/\S{1,60})/tmp[a-z0-9_]{8}\b", "TEMPORARY"),
        (
            r"(?:[A-Za-z]:)?[/\\][^\s'\":]{0,300}[/\\]"
            r"(?:(?:site|dist)-packages|lib[/\\]python3\.\d{1,2})[/\\]",
            "PACKAGES/",
        ),
        (r"^Matplotlib is building the font cache; this may take a moment\.\n?", ""),
    )
)  # fmt: skip
"""Addresses of objects, names of cells' files, IPython's timings, progress bars, temporary files, packages' folders.

A sandbox's own folders are its user's in some, and root's in others, as `ls -l` says.
"""

WORKERS = Mask(re.compile(r"\b(Task|Thread)-\d{1,20}\b"), r"\1-N")
"""What threads and tasks are called, by how many there were before them: where code starts any."""
WROTE = Mask(re.compile(r"^Overwriting (?=\S)", re.MULTILINE), "Writing ")
"""What `%%writefile` says: a file that the notebook itself wrote may lie beside it."""
INSTALLED = Mask(
    re.compile(
        r"^ {0,9}(?:Installed \S+ \S+(?:, \S+ \S+)*\.|Already there: \S+(?:, \S+)*|"
        r"(?:Collecting|Downloading|Using cached) \S+(?: \([^()\n]{1,80}\))*|"
        r"Installing collected packages: \S+(?:, \S+)*|Found existing installation: \S+ \S+|"
        r"Installing build dependencies: (?:started|still running\.\.\.|finished with status '\w+')|"
        r"(?:Attempting uninstall|Uninstalling)(?:: \S+| \S+:)|"
        r"Requirement already satisfied: \S+ in \S+(?: \(from (?:-r )?[^\s()]+(?: \(line \d+\))?\))?"
        r"(?: \([\w.+!-]+\))?|"
        r"Successfully (?:uninstalled|installed)(?: (?=\S+-\d)\S++)+|Note: you may need to restart the kernel .*)$\n?",
        re.MULTILINE,
    ),
    "",
)
"""What a cell that installs packages says of them, by nbagent's own pip or by the real one."""
ROW = r" {0,20}\d{1,20}(?:/\d{1,20})? TIMING "
"""How a row of a profile begins."""
_ROWS = re.compile(rf"(?:^{ROW}.*\n){{2,}}", re.MULTILINE)
"""Rows of a profile, which come in the order of their times."""
_DOUBLE = re.compile(r"\bb\"((?:\\.|[^\"\\\n]){0,1000})\"")
"""Bytes as Python writes them if they have an apostrophe."""
_WORDS_OF_BAR = re.compile(r"[^\W\d_]+|^[\d\s.,]{4,}(?=\s\d{1,3}%)")
"""The words of a bar's line, and a number that stands for its name; other numbers are of time."""
_UNITS_OF_BAR = frozenset("BAR TIMING k M G T B kB MB GB TB KiB MiB GiB iB it its s".split())
"""Words of a bar's line that tell how far it is, in units that change on the way."""
_BARS = re.compile(r"(?:^(?>(?:(?!%\|BAR\|).)*)%\|BAR\|.*(?:\n|\Z)(?:^[ \t]*\n)*){2,}", re.MULTILINE)
"""Lines of bars that follow each other; what stands before a line's first one is read in one way only."""


def masked(text: str, rules: Iterable[Mask] = ()) -> str:
    """A text with what is never a result masked."""
    for rule in (*rules, *BUILT_IN):
        text = rule.apply(text)
    if 'b"' in text:
        text = _DOUBLE.sub(lambda found: "b'" + found[1].replace("'", "\\'") + "'", text)
    if " TIMING " in text:
        text = _ROWS.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)
    return _BARS.sub(_last_bars, text) if "%|BAR|" in text else text


def _last_bars(found: re.Match[str]) -> str:
    """How each of several progress bars in a terminal ended: how often they are drawn depends on time.

    Of the states before that, only words stay that no bar's end has.
    """
    lines = [*filter(str.strip, found[0].splitlines())]
    ends = {line.partition("%|BAR|")[0].rpartition(" ")[0].strip(): line for line in lines}
    kept = [*dict.fromkeys(line for line in lines if "100%|" in line)] or [*ends.values()]
    known = {word for line in kept for word in _WORDS_OF_BAR.findall(line)}
    known |= _UNITS_OF_BAR
    others = {" ".join(words) for line in lines if not known.issuperset(words := _WORDS_OF_BAR.findall(line))}
    return "".join(f"{line}\n" for line in (*kept, *sorted(others)))


def read_masks(path: Path) -> list[Mask]:
    """A file of rules in the form of nbval's `--nbval-sanitize-with`: sections with `regex` and `replace`.

    Raises:
        UsageError: It can't be read, or a rule is none.
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8")[:LONGEST], source=str(path))
        return [Mask(re.compile(parser[name]["regex"]), parser[name]["replace"]) for name in parser.sections()]
    except (OSError, UnicodeError, configparser.Error) as error:
        raise UsageError(f"{path} can't be read as rules: {str(error).splitlines()[0]}.") from error
    except KeyError as error:
        raise UsageError(
            f"A section of {path} has no {error}.", mend="Each rule has regex: … and replace: …"
        ) from error
    except re.error as error:
        raise UsageError(f"A regex in {path} is wrong: {error}.") from error
