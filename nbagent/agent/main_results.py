"""Which numbers of an answer are its results, and so are computed again when it is checked. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from nbagent.core.events import Claim
from nbagent.core.text import occurrences

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
_COUNTED_THINGS = re.compile(r"(?<![\w.,/\u2013-])(\d[\d.,]*)((?: [^\W\d_]+){1,2})")
"""A number with the words behind it."""
_COUNT_OF = re.compile(r"(?i)\b(?:how many|numbers? of|counts? of|wie ?viele|(?:an)?zahl der)((?: [^\W\d_]+){1,3})")
"""Of what a question asks how many there are."""
_FOLLOWS = re.compile(
    r"(?i)\bnext\b(?! (?:years?|days?|months?|weeks?|seasons?|hours?|\d))|\b(?:(?<!as )follows?(?! an? )|followed by|"
    r"runners?-ups?|close behind|ahead of|second[- ](?:\w+est|most|place)|folg(?:t|en)|gefolgt|dahinter)\b|"
    r"\bvor (?=[^\W\d_]+ mit\b)"
)
"""What says that something comes behind the first."""
_CLAUSE = re.compile(r"(\n|(?<=[.;])\s)")
_ITEM_NUMBER = re.compile(r"(?m)^\s{0,9}\d{1,3}[.)]\s")
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
_BEHIND = re.compile(r"(?!\w|[.,]\d|[^\S\n]?[\u2013-]\s?\d)")
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


def numbers_to_check(
    found: Sequence[Claim], answer: str, question: str = "", labels: Iterable[str] = ()
) -> list[Claim]:
    """The numbers of an answer that its check computes again: those of its first paragraph that outputs show.

    Of the next one, these are those in a list, in bold, that a sentence ends with, as what something is, or says
    of what is asked for. Numbers of the question, years that it doesn't ask for, parts of ranges and units
    (50-64, per 100 ml), and those in names (`labels`, table 13, or in quotation marks) are results of nothing; one with
    and without its sign is one. Those of what comes behind the first are among them only if the question asks for
    these, or there are no others. Small ones, which stand in most outputs, are so only in the first sentence of a line,
    where something is said to be as many, or if there are no others; those in brackets, if the question has a word of
    theirs or there are no others.
    """
    answer = answer[:READ]
    no_result = _NO_RESULT if _ASKS_YEAR.search(question) else _NO_RESULT_NOR_YEAR
    given = set(_FIGURES.findall(question.replace(",", "")))
    given |= {f"{float(each) / 100:g}" for each in given if float(each) < 100}  # 16 % may be called 0.16
    for label in sorted(labels, key=len, reverse=True):
        answer = answer.replace(label, " … ")
    answer = _ITEM_NUMBER.sub("- ", answer)
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
    counts = " ".join(_COUNT_OF.findall(question))
    words = {each.lower() for each in _WORD.findall(counts or question)}
    leading = parts if _FOLLOWS.search(question) else [_without_followers(part) for part in parts]
    parts = leading if _named(shown, "\n".join(leading)) else parts

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
            names = _named(shown, part if is_main else " … ".join(_main(part, words)))
            there = [claim for text, claim in shown.items() if text in names]
            for claim in there:
                if claim.text.lstrip(_SIGNS) not in {each.text.lstrip(_SIGNS) for each in named}:
                    named.append(claim)
            looked += bool(_named(shown, part))
    begins = (_SENTENCE.split(line, maxsplit=1)[0] for part in parts[:1] for line in part.splitlines())
    begun = (each for part in parts for each in _asked_counts(part, words))
    said = _named(shown, " … ".join((*begins, *_STATED.findall("\n".join(parts)), *begun)))
    large = [claim for claim in named if not _SMALL.fullmatch(claim.text) or " ".join(claim.text.split()) in said]
    return (large or named)[:CHECKED]


def _main(part: str, asked: Set[str]) -> Iterator[str]:
    """What a later paragraph says as an answer does.

    It is in bold, or at the end of a sentence, as what something is, or how many there are of what is asked for.
    """
    yield from (next(filter(None, each.groups())) for each in _SAID.finditer(part))
    yield from _asked_counts(part, asked)


def _asked_counts(part: str, asked: Set[str]) -> Iterator[str]:
    """How many there are of what is asked for."""
    for each in _COUNTED_THINGS.finditer(part):
        if not asked.isdisjoint(map(str.lower, _WORD.findall(each[2]))):
            yield each[1]


def _without_followers(part: str) -> str:
    """A paragraph without what it says of those that come behind the first."""
    told = []
    for clause in _CLAUSE.split(part):
        if follows := _FOLLOWS.search(clause):
            comma = clause.rfind(", ", 0, follows.start() + 1)
            clause = clause[: comma if comma >= 0 else follows.start()]
        told.append(clause)
    return "".join(told)


def _named(numbers: Mapping[str, Claim], part: str) -> set[str]:
    """Those of some numbers that a part of an answer names as results, and not in a range or behind `per`."""
    return {part[start:end] for start, end in occurrences(numbers, part, before=_BEFORE, behind=_BEHIND)}


def _is_new(text: str, given: set[str]) -> bool:
    """Whether a number is not of the question."""
    return not given.issuperset(_FIGURES.findall(text.replace(",", "")))
