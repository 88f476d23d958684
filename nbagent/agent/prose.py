"""An answer's text: without the parts whose numbers claim nothing, and whether it contradicts itself. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from decimal import Decimal

from nbagent.agent.numerals import SPACED, in_digits, numerals
from nbagent.core.syntax import UNREADABLE, parse
from nbagent.core.text import occurrences, plain

MAX_NAME = 255
"""Characters of a file's name."""
NEAR = 400
"""Characters before and behind a number in which its sentence is read."""
_SENTENCE = re.compile(r"\n|[;!?]\s|(?<![\s.(]\w)\.\s")
_ITEM = re.compile(r"\s{0,9}(?:[-*•|]|\d{1,3}[.)]\s)")
"""The begin of an item or a row, for which the words before the first of them hold, too."""

_FENCED = re.compile(r"^(?:```|~~~)[^\S\n]*+(?P<language>\S*+)[^\n]*+\n(?P<block>.*?)^(?:```|~~~)[^\n]*$", re.M | re.S)
_INLINE = re.compile(r"`([^`\n]+)`")
_TEXTS = frozenset(("", "text", "txt", "plain", "csv", "tsv", "md", "markdown", "output"))
"""Languages of fenced blocks that may show results."""
_NUMBER_ALONE = re.compile(r"(?=[^A-Za-z=(\d]*+\d)[^A-Za-z=(]*+[A-Za-z%°€]{0,5}")
_PER_HUNDRED = re.compile(
    r"(?<![\d.,])(\d{1,2}(?:\.\d+)?) (?:(?:out )?of|in) (?:every 100\b|"
    r"100\b(?![^.,;:!?()|\n]{0,9}\n?[^.,;:!?()|\n]{0,9}\w))(?![.,]?\d)"
)
"""A rate. In `3 of 100 files` a word follows: there may be a hundred of them, so both numbers are claims."""
_PER_THOUSAND = re.compile(r"(?<=\d) (?:per|pro|je) 1[.,]?000(?![.,]?\d)")
_PARTED = re.compile(
    r"(?<![\w.,/:-])(\d{1,2})[/:](\d{1,2})(?![\w/:-]|[.,]\d"
    r"| (?!(?:split|share|ratio|versu|plu)s\b)[a-z]{2,20}[a-rt-z]s\b)"
)
"""Two shares of a whole, 80/20, but in `40/60 tests`, as before other words for several things."""
_ITALIC = re.compile(r"(?<!\w)_{1,2}([^\w\n]?\d[^_\n]*)_{1,2}(?!\w)")
_LABEL = re.compile(r"(?m)^\s{0,6}(?:#{1,6}\s+)?(\d{1,3})[.)]\s")
"""The number of a list's item."""
_WORD = re.compile(r"(?<![\w.-])[A-Za-z_][\w.-]*\d[\w.-]*")
"""A word with a digit that may be a file's name."""
_WORDS = re.compile(r"[^\W\d_].* ")
"""A name that begins with a word and goes on."""
_NAME_BEGINS, _NAME_ENDS = re.compile(r"(?<!\w)(?=\S)"), re.compile(r"(?!\w)")
_MONTH = (
    r"(?:Jan(?:uary?|uar)?|Feb(?:ruary?|ruar)?|Mar(?:ch)?|März?|Apr(?:il)?|Ma[yi]|Jun[ei]?|Jul[yi]?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?)\.?(?!\w)"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:1[5-9]|2[01])\d\d"
_DATES = re.compile(
    rf"\b{_YEAR}[-/](?:0?[1-9]|1[0-2])(?:[-/]\d{{1,2}})?\b|\b\d{{1,2}}([./])\d{{1,2}}\1\d{{2,4}}\b|\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?\b"
    rf"|\b(?:{_DAY}\.?\s?(?:[-\u2013]|to|bis)\s?)?{_DAY}(?:st|nd|rd|th|\.)?\s{{1,2}}(?:of )?{_MONTH}"
    rf"(?:,?\s{{1,2}}{_YEAR}\b)?"
    rf"|\b{_MONTH}\s{{1,2}}(?:{_YEAR}|{_DAY}(?:st|nd|rd|th)?(?:\s?[-\u2013]\s?{_DAY})?(?:,?\s{{1,2}}{_YEAR})?)\b(?![.,]\d)"
    rf"|\b[QH][1-4]\s?{_YEAR}\b|\b{_YEAR}[\s-]?[QH][1-4]\b|\b{_YEAR[:-2]}0s\b|\b\d{{1,4}}(?:st|nd|rd|th)\b"
)
"""Days, months, quarters, decades, times and ordinals."""
_LEVEL = r"(?:80|9\d(?:[.,]\d+)?|0?[.,]\d+|10|[15])"
_LEVELS = re.compile(
    rf"\b{_LEVEL}[\s-]?%[\s-]{{0,2}}(?:(?:CI|KI|IC)\b|[Cc]onf|[Kk]onf|[Vv]ertrau|[Ss]ignif|level|[Nn]iveau|[Ii]nterval|[Qq]uantil|percentile)"
    rf"|(?:\u03b1|\balpha|\blevel of|[Nn]iveau von)\s{{0,2}}=?\s{{0,2}}(?:0?[.,]\d+\b|{_LEVEL}\s?%)"
)
"""The levels of tests and intervals, which are agreed on, not found out."""
_BASES = re.compile(r"\b(?:[Pp]er|[Pp]ro|[Jj]e)\s1(?>(?:[.,\u202f\u00a0 ]?000)*)0*+(?!\d)")
"""What rates are stated by: per 100,000."""
_STATED = (
    "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|RMSE|MAE|MSE|MAPE|SMAPE|AUC|RSS|SSE|AIC|BIC|IQR|VIF|SD|"
    "MAX|MIN|AVG|SUM|MEAN|MEDIAN|TOTAL|COUNT"
)
"""Words of capitals that say what the number behind them is, and make no name of it."""
_NAMES = re.compile(
    r"(?<!\w)/[A-Za-z][\w./-]*|(?<![\w-])\w[\w-]*+\.(?:csv|tsv|json|png|py|parquet|xlsx?|txt|md|html?|db|zip|gz|ipynb)\b|\b[Cc]ells?\s+\d+"
    r"|(?:\b(?:[Ss]ections?|[Ss]ec\.|[Cc]hapters?|[Pp]ages?|[Aa]bschnitte?|[Kk]apitel|[Ss]eiten?)|§{1,2})\s?\d{1,3}(?:\.\d{1,2})*(?![.,]?\w)"
    r"|(?<![\d.,])[01]\s?°?[A-Za-zµ]{1,4}(?=\s?=\s?\d)"
    rf"|\b(?!(?:{_STATED})-)[A-Z]{{2,12}}-\d{{1,4}}\b(?![.,]\d)"
    r"|F\)?\s?[-\u2212\u2013]\s?32\b|\bIn ?\[\d+\]|\b(?:Python|[Vv]ersion|v\.?)\s?\d+(?:\.\d+)+"
)
_FACTORS = re.compile(
    r"(?<![\w.,])100[*_]{0,2}\s?(?:(?:times|mal)\s?(?:the\s(?:ratio|share|quotient|change|difference)\b|\()|[×*·]\s?[(A-Za-z])"
    r"|(?<=[)A-Za-z])\s?(?:[×*·]|times)\s?[*_]{0,2}100(?!\w|[.,]\d)"
)
"""The hundred by which a share is made per cent: `100 × (ratio − 1)`."""


_UNIT = (
    r"[%€$£]|(?:per ?cent|prozent|thousand|million|[bt]r?illion|tausend|millionen|milliarden?|tsd|mio|mrd|[kmb]n?|"
    r"seconds?|minutes?|hours?|days?|weeks?|months?|years?|[kcm]?m|[km]?g|t)\b"
)
_END = rf"(?:(?:about|around|nearly|roughly|etwa|rund) )?[^\w.;\n-]{{0,3}}(\d[\d.,]*)(\s?(?:{_UNIT}))?"
"""A number that isn't negative, with its unit: what falls to -20 from -50 may have grown."""
_CHANGED = re.compile(
    r"\b(?:(?P<rose>rose|ris(?:es?|en|ing)|gr(?:ew|ows?|own|owing)|increas(?:ed?|es|ing)|climb(?:s|ed|ing)?"
    r"|stieg(?:en)?|gestiegen|wuchs(?:en)?)|"
    r"f[ae]ll(?:s|en|ing)?|fell|drop(?:s|ped|ping)?|declin(?:ed?|es|ing)|decreas(?:ed?|es|ing)|shr[aiu]nk(?:s|ing)?"
    r"|sank(?:en)?|sinkt|gesunken|gefallen)"
    r"(?: \w{1,20}ly| again| further| back| wieder| weiter)?(?:,? (?:by|um) [^;\n]{1,30}?)?,? (?:from|von)\s"
    rf"{_END}[^;\n\d]{{0,30}}?\s(?:to|auf|nach)\s{_END}",
    re.IGNORECASE,
)
"""A verb that says that something rose or fell, and right behind it from which number to which."""
_YEAR_ALONE = re.compile(_YEAR)


_LOOKED = (
    r"(?:[Ss]ince|[Ii]n|[Ii]m Jahr|[Dd]uring|[Ff]or|[Ff]rom|[Tt]o|[Uu]ntil|[Aa]fter|[Bb]efore|[Ss]eit|[Aa]b|[Vv]on|"
    r"[Bb]is)"
)
_BOUNDED = re.compile(
    rf"\b({_YEAR})\s?(?:[-\u2013]|to|until|till|through|bis)\s?({_YEAR})\b|\b{_LOOKED}\s?({_YEAR})\b(?!\s?[-\u2013]\s?{_YEAR})"
)
"""A year in, from or to which something is looked at."""
_RANGED = re.compile(r"(?<![\w.,])(\d{1,6})\s?(?:[-\u2013]|to|until|till|through|bis)\s?(\d{1,6})(?![\w%]|[.,]\d|\s%)")
"""The first and the last of what an answer covers."""
_LIMITED = re.compile(
    r"\b(?:over|above|below|under|than|at least|at most|after|before|up to|beyond|über|unter|mehr als|weniger als|"
    r"mindestens|höchstens|nach|vor|[<>\u2264\u2265]=?)\s?(?:\w{2,12}\s)?[$€£]?(\d{1,9}(?:\.\d{1,3})?)"
    r"(?!\w|[.,]\d|\s?(?:%|per ?cent|Prozent))"
)
"""A limit beyond which something is looked at; a share is more often a result."""
_BETWEEN = re.compile(r"\b(?:[Bb]etween|[Zz]wischen)\s(\d{1,9})\s(?:and|und)\s(\d{1,9})(?![\w%]|[.,]\d|\s%)")
_REPEATED = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,?000)?) (?:resamples|bootstrap|iterations|simulations|permutations|Wiederholungen)"
)
"""How often something was drawn again."""


def limits(answer: str) -> tuple[set[Decimal], set[Decimal]]:
    """The numbers from or to which an answer says that it looks, or how often it draws; and those of all its ranges."""
    pairs = [*_BOUNDED.findall(answer), *_BETWEEN.findall(answer), *((each,) for each in _LIMITED.findall(answer))]
    bounded = {Decimal(each) for pair in pairs for each in pair if each}
    bounded |= {Decimal(each.replace(",", "")) for each in _REPEATED.findall(answer)}
    return bounded, bounded | {Decimal(each) for pair in _RANGED.findall(answer) for each in pair}


def claiming(answer: str, names: Collection[str] = (), facts: Collection[str] = ()) -> str:
    """An answer without the parts whose numbers claim nothing: code, dates, file names, numbers of list items."""
    text = _FENCED.sub(
        lambda block: " " if _is_code(block["language"], block["block"]) else block["block"],
        in_digits(plain(answer).replace("{,}", ",").replace("\\,", "\u202f")),  # as LaTeX parts thousands
    )
    text = _INLINE.sub(lambda code: code[1] if _NUMBER_ALONE.fullmatch(code[1].strip()) else " ", text)
    text = _PER_THOUSAND.sub(" ‰", _PER_HUNDRED.sub(r"\1 %", _ITALIC.sub(r"\1", text)))
    text = _PARTED.sub(lambda two: f"{two[1]} %/{two[2]} %" if int(two[1]) + int(two[2]) == 100 else two[0], text)
    last = 0

    def label(found: re.Match[str]) -> str:
        nonlocal last
        is_next = int(found[1]) in (1, last + 1)
        last = int(found[1]) if is_next else last
        return " " if is_next else found[0]

    text = _LABEL.sub(label, text)
    text = _without_names(text, {each for each in names if len(each) <= MAX_NAME and _WORDS.search(each)})
    for fact in (each for each in facts if each in text):
        # "12 columns are empty" is a result.
        is_result = rf"{fact} (?:have|had|are|were|contain|lack|miss)\b"
        text = re.sub(rf"(?:(?<=[Aa]ll |[Tt]he |[Ii]ts )|(?<!\w)(?!{is_result})){fact}(?!\w)", " ", text)
    for pattern in (_DATES, _NAMES, _LEVELS, _BASES, _FACTORS):
        text = pattern.sub(" ", text)
    text = _WORD.sub(lambda word: " " if word[0].rstrip(".-") in names else word[0], text)
    return SPACED.sub(lambda number: number[0].replace(" ", "\u00a0"), text)


def _without_names(text: str, names: Collection[str]) -> str:
    """A text without some names: the longest first, and each only as whole words: `Area 1` is no part of "Area 12".

    One of numbers alone would hide results.
    """
    parts, at = [], 0
    for start, end in occurrences(names, text, before=_NAME_BEGINS, behind=_NAME_ENDS, apart=True):
        parts.append(text[at:start])
        at = end
    return " ".join([*parts, text[at:]])


def _is_code(language: str, block: str) -> bool:
    """Whether a fenced block is code, whose numbers are no results: it names another language, or it does something."""
    if language.lower() not in _TEXTS:
        return True
    try:
        tree = parse(block)
    except UNREADABLE:
        return False
    return any(isinstance(each, ast.Assign | ast.Call | ast.Import | ast.ImportFrom) for each in ast.walk(tree))


def sentences(prose: str) -> Iterator[tuple[str, str]]:
    """The sentences with digits, and before items and rows what is said of all of them."""
    said, header, is_item = "", "", False
    for sentence in _SENTENCE.split(prose):
        was_item, is_item = is_item, _ITEM.match(sentence) is not None
        if is_item and not was_item:
            header = sentence[:NEAR]  # of a table
        elif not is_item and sentence.strip():
            said = sentence[-NEAR:]
        if any(map(str.isdigit, sentence)):
            yield sentence, f"{said} {header}" if is_item else ""


def contradicts_itself(sentence: str) -> bool:
    """Whether a sentence says that something rose or fell, and its numbers from and to which say the opposite."""
    for found in _CHANGED.finditer(sentence):
        rose, *ends = found.groups()
        (start, of), (end, unit) = ((ends[at].rstrip(".,"), (ends[at + 1] or "").strip()) for at in (0, 2))
        is_unlike = of != unit and (of or unit not in ("%", "percent", "per cent", "Prozent"))
        if is_unlike or (_YEAR_ALONE.fullmatch(start) and _YEAR_ALONE.fullmatch(end)):
            continue
        one, other = ([each.value for each in numerals(text)] for text in (start, end))
        if one and other and one[0] != other[0]:
            return (one[0] < other[0]) is (rose is None)
    return False
