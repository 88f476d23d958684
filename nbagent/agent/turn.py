"""A question while it is being answered, and who approved of what runs for it. Pure: no kernel, no LangChain."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbagent.agent.phases import Phases
from nbagent.core.events import (
    NO_USAGE,
    Answer,
    Answered,
    Cell,
    Check,
    Claim,
    Event,
    ModelFailed,
    ModelReplied,
    Package,
    Reflected,
    Usage,
)
from nbagent.core.text import occurrences


def numbers_to_check(
    found: Sequence[Claim], answer: str, question: str = "", labels: Iterable[str] = ()
) -> list[Claim]:
    """The numbers of an answer that its check computes again: those of its first paragraph that outputs show.

    Of the next one, these are those in a list, in bold, or that a sentence ends with, as what something is. Numbers of
    the question, years that it doesn't ask for, parts of ranges and units (50-64, per 100 ml) and those in names
    (`labels`, table 13, or in quotation marks) are results of nothing; one with and without its sign is one. Small
    ones, which stand in most outputs, are among them only in the first sentence of a line, where something is said to
    be as many, or if there are no others; those in brackets, if the question has a word of theirs or there are no
    others.
    """
    answer = answer[:READ]
    no_result = _NO_RESULT if _ASKS_YEAR.search(question) else _NO_RESULT_NOR_YEAR
    given = set(_FIGURES.findall(question.replace(",", "")))
    given |= {f"{float(each) / 100:g}" for each in given if float(each) < 100}  # 16 % may be called 0.16
    for label in sorted(labels, key=len, reverse=True):
        answer = answer.replace(label, " … ")
    answer = _NUMBERED.sub(" … ", _QUOTED.sub(" … ", _EXAMPLE.sub(" … ", answer)))
    parts = re.split(r"\n\s*\n", " ".join(re.split(r"[^\S\n]+", answer)))
    shown = {" ".join(claim.text.split()): claim for claim in found if claim.cell or claim.derived}
    counted = set(_COUNTED.findall(answer))
    shown = {
        text: claim
        for text, claim in shown.items()
        if (text in counted or not no_result.fullmatch(text)) and _is_new(text, given)
    }
    parts = list(itertools.takewhile(lambda part: not part.startswith("Alternative:"), parts))
    words = {each.lower() for each in _WORD.findall(question)}

    def asked_for(bracket: re.Match[str]) -> str:
        things = {each.lower() for each in _THINGS.findall(bracket[0])}
        return bracket[0] if words & things else " "

    asked = [_BRACKETED.sub(asked_for, part) for part in parts]
    named: list[Claim] = []
    for each in ([_BRACKETED.sub(" ", part) for part in parts], asked, parts):  # what stands in brackets comes last
        looked = 0
        for part in each if each is not parts or not named else ():
            if looked == PARAGRAPHS:
                break
            is_main = not looked or all(map(_ITEM.match, filter(str.strip, part.splitlines())))
            names = _named(shown, part if is_main else " … ".join(_main(part)))
            there = [claim for text, claim in shown.items() if text in names]
            for claim in there:
                if claim.text.lstrip(_SIGNS) not in {each.text.lstrip(_SIGNS) for each in named}:
                    named.append(claim)
            looked += bool(_named(shown, part))
    begins = (_SENTENCE.split(line, maxsplit=1)[0] for part in parts[:1] for line in part.splitlines())
    said = _named(shown, " … ".join((*begins, *_STATED.findall("\n".join(parts)))))
    large = [claim for claim in named if not _SMALL.fullmatch(claim.text) or " ".join(claim.text.split()) in said]
    return (large or named)[:CHECKED]


def _main(part: str) -> Iterator[str]:
    """What a later paragraph says as an answer does: in bold, or at the end of a sentence, as what something is."""
    return (next(filter(None, each.groups())) for each in _SAID.finditer(part))


def _named(numbers: Mapping[str, Claim], part: str) -> set[str]:
    """Those of some numbers that a part of an answer names as results, and not in a range or behind `per`."""
    return {part[start:end] for start, end in occurrences(numbers, part, before=_BEFORE, behind=_BEHIND)}


def _is_new(text: str, given: set[str]) -> bool:
    """Whether a number is not of the question."""
    return not given.issuperset(_FIGURES.findall(text.replace(",", "")))


def _unheard(text: str) -> None:
    """Words of which nobody wants to know before the reply is whole."""


READ = 20_000
"""Characters of the begin of an answer in which its results are looked for."""
CHECKED = 8
"""Numbers of an answer that are computed again."""
PARAGRAPHS = 2
"""Paragraphs with such numbers that are looked at."""
_SENTENCE = re.compile(r"(?<=[.;])\s")
"""Where a sentence ends and the next begins."""
_NUMBERED = re.compile(
    r"(?i)\b(?:tables?|sheets?|figures?|plots?|sites?|stations?|groups?|rounds?|weeks?) \d+(?!\w|[.,]\d)"
    r"|(?:\b(?:\w+[_-])?(?:id|code|key|route|flight|account|order number|EPSG|FIPS|zip|no\.|nr\.)|#)[\s:=]{0,3}"
    r"\d+(?:(?:,|,? and|,? or) \d+)*(?!\w|[.,]\d)"
    r"|\b(?:ids|codes|keys|routes|flights|accounts) \d+(?:(?:,|,? and|,? or) \d+)*(?!\w|[.,]\d)"
    r"|\b(?:all|alle[nr]?) (?:the |of the |der )?\d[\d,]*(?= [^\W\d])"
    r"|(?<![\w.,])\d[\d.,]*(?: ?%| [^\W\d]+)?(?: [^\W\d]+)? or (?:more|less|fewer|over|above|below|older|younger)\b"
)
"""What is numbered or has such a key, and limits."""
_STATED = re.compile(
    r"(?:\b(?:is|are|was|were|has|have|had|with|ist|sind|war|waren|hat|haben|hatten?|mit)|[=:.!?]) "
    r"(?:(?:only|just|exactly|nur|genau) )?\**(-?\d+(?:\.\d+)?)(?!\w|[.,]\d)"
)
"""A number that is said of something, also after the first sentence, or with which one begins."""
_SAID = re.compile(
    r"\*\*([^*\n]{1,60})\*\*|(?:\b(?:is|are|was|were|ist|sind|war|waren)|[=:]) "
    r"([-+\u2212]?\d[^\s;]{0,20}(?: ?%)?)(?=[.;]?\s*$|[.;]\s)"
)
"""What is in bold, or what something is, at the end of a sentence."""
_ITEM = re.compile(r"\s{0,9}(?:(?:[-*+|]|\d{1,3}[.)])\s|[^:.\n]{1,40}: [-+\u2212]?\d)")
"""The begin of a line that is an item or a row, or of a label with its number."""
_WORD, _THINGS = re.compile(r"[^\W\d_]{3,}"), re.compile(r"\d ([^\W\d_]{3,})")
_EXAMPLE = re.compile(r"\b(?:e\.g\.|for example|for instance|z\.\s?B\.)[^();\n]{0,200}")
"""What only shows how something is written or meant."""
_COUNTED = re.compile(r"(?<![\w.,])(?<!in )(?<!In )((?:19|20)\d\d) (?:were|are|have|had|of|waren|sind|haben|hatten)\b")
"""A number that looks like a year, but is one of things."""
_BRACKETED = re.compile(r"\([^()]*\)")
_SIGNS = "-+\u2212"
_QUOTED = re.compile(r'(["`])(?=[^"`\n]*[^\W\d_])[^"`\n]{1,100}\1')
"""A name or a text of the data, as an answer quotes it."""
_BEFORE = re.compile(r"(?<![\w.,/\u2013-])(?<!per )(?<!pro )(?<!\d [\u2013-] )(?=\S)")
_BEHIND = re.compile(r"(?!\w|[.,]\d|\s?[\u2013-]\s?\d)")
_FIGURES = re.compile(r"\d+(?:\.\d+)?")
_SMALL = re.compile(r"-?(?:\d|10|0\.0+)")
_NO_RESULT = re.compile(r"-?9{3,}(?:\.0+)?|0\d+|.*\d(?!(?:k|m|M|bn)\b)[A-Za-z].*")
"""A number that stands for a missing value, a name such as 007, and one with a letter behind it: a position 1B."""
_NO_RESULT_NOR_YEAR = re.compile(rf"(?:19|20)\d\d|{_NO_RESULT.pattern}")
_ASKS_YEAR = re.compile(
    r"(?i)\b(?:(?:which|what|how many) (?:\w+ ){0,3}years?|when|wann|welche\w* (?:\w+ ){0,2}\w*jahr\w*|wieviele jahre)"
    r"\b"
)
"""What a question has in it whose answer may be a year."""


@dataclass(frozen=True)
class AnswerDraft:
    """An answer while it is checked.

    Attributes:
        text: The answer.
        question: What it answers.
        numbers: Those of it that are computed again.
        cells: How many cells had run before.
        usage: What models had used before.
        since: When the check began, in seconds of the monotonic clock.
        labels: What in the data has numbers that are no results, such as names of files.
    """

    text: str
    question: str
    numbers: Sequence[str]
    cells: int
    usage: Usage
    since: float
    labels: Sequence[str]


@dataclass(eq=False)
class Turn:
    """One question with all that follows until its answer.

    It is the context of the agent graph: middleware has it as `runtime.context`. The session adds the cells it ran.

    Attributes:
        number: The question's number, from 1.
        send: Called with the events.
        say: Called with the words of a reply as the model writes them.
        phases: The phases of the question; each that begins is an event.
        cells: The cells that ran for it, in order, including one that was given up.
        files: Where the cells' result files are on the host.
        installed: Packages that the model had installed without a cell.
        usage: What models have used for it, including failed attempts and critics.
        answer: The answer, or why there is none, once the turn has ended.
        draft: The answer that is checked, or was.
        reused: The variables and functions of earlier cells that its check has used.
    """

    number: int
    send: Callable[[Event], object]
    say: Callable[[str], object] = _unheard
    cells: list[Cell] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    installed: list[Package] = field(default_factory=list)
    usage: Usage = NO_USAGE
    answer: Answer | None = None
    draft: AnswerDraft | None = None
    reused: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._written: list[str] = []
        self._started = time.monotonic()
        self.phases = Phases(self.number, self.send)

    def write(self, words: str) -> None:
        """Take the next words of the reply that the model writes."""
        self._written.append(words)
        self.say(words)

    @property
    def written(self) -> str:
        """The words so far of a reply that isn't whole."""
        return "".join(self._written)

    def emit(self, event: Event) -> None:
        """Send an event of this turn, and add the model's usage in it to the turn's."""
        if isinstance(event, ModelReplied | ModelFailed | Reflected):
            self.usage += event.usage
        if isinstance(event, ModelReplied | ModelFailed):
            self._written.clear()
        self.send(event)
        self.phases.on_event(event)

    def begin_check(
        self, text: str, question: str = "", numbers: Sequence[str] = (), labels: Sequence[str] = ()
    ) -> None:
        """Note the answer that is checked from now on."""
        self.draft = AnswerDraft(text, question, numbers, len(self.cells), self.usage, time.monotonic(), labels)

    @property
    def check_cells(self) -> list[Cell]:
        """The cells that ran for the check of its answer."""
        return self.cells[self.draft.cells :] if self.draft else []

    def _check(self, text: str, claims: Sequence[Claim]) -> Check | None:
        if (draft := self.draft) is None:
            return None
        asked = numbers_to_check(claims, text, draft.question, draft.labels)
        if draft.numbers and text.split() == draft.text.split():
            asked = [claim for claim in asked if claim.text in draft.numbers]
        ran = [cell.cell for cell in self.check_cells if cell.status != "interrupted"]
        return Check(
            cells=ran,
            again=[claim.text for claim in asked if claim.again],
            alone=[claim.text for claim in asked if not claim.again and claim.cell not in ran],
            new=[claim.text for claim in asked if not claim.again and claim.cell in ran],
            reused=list(self.reused),
            changed=text.split() != draft.text.split(),
            usage=self.usage - draft.usage,
            seconds=time.monotonic() - draft.since,
        )

    def end(self, text: str, *, ended: bool, claims: Sequence[Claim] = ()) -> Answer:
        """End the turn with the event `Answered`; returns the answer.

        Args:
            text: The answer, or why there is none.
            ended: Whether the model came to an end by itself.
            claims: The numbers in the text.
        """
        cells = list(self.cells)
        borne_out = not cells or cells[-1].success or (bool(claims) and all(claim.supported for claim in claims))
        fields: dict[str, Any] = {
            "turn": self.number,
            "text": text,
            "success": ended and bool(text) and borne_out,
            "attempts": 1 + sum(not cell.success for cell in cells),
            "usage": self.usage,
            "seconds": time.monotonic() - self._started,
            "claims": list(claims),
            "check": self._check(text, claims) if ended else None,
        }
        installed = [*self.installed, *(package for cell in cells for package in cell.installed)]
        self.answer = Answer(**fields, cells=cells, files=list(dict.fromkeys(self.files)), installed=installed)
        self.emit(Answered(**fields))
        return self.answer


def turn_of(request: Any) -> Turn:
    """The turn for which a tool is called, by LangChain's request, which has no type for its context."""
    turn: Turn = request.runtime.context
    return turn


NOBODY = "policy:never-ask"
_approver: ContextVar[str] = ContextVar("nbagent_approver", default=NOBODY)


def approver() -> str:
    """Who approved of the tool that runs now, for the log."""
    return _approver.get()


@contextlib.contextmanager
def approved_by(who: str) -> Iterator[None]:
    """Note who approved of what runs in this context."""
    token = _approver.set(who)
    try:
        yield
    finally:
        _approver.reset(token)
