"""Finds the capabilities, such as `file:read`, that a question needs and that a tool has, by their words. Pure.

A capability follows from a verb and an object in one clause ("*read* the *file*"), or from a phrase ("look up online").
Words are compared by their stems, so "reading" is "read". A negation holds to the end of its clause: "read the file but
don't search the web" needs `file:read` and excludes `web:search`. The words are English; for a question in another
language nothing is found, which `select` reports.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_STEMS = (
    ("ies", "y"), ("ying", "y"), ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"),
    ("ing", ""), ("ed", ""), ("s", ""),
)  # fmt: skip
_APOSTROPHE = "\u2019"
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_FILE = re.compile(
    r"(?<![\w-])[\w-]++\.(?:csv|tsv|txt|md|json|ya?ml|toml|xml|html?|pdf|docx?|xlsx?|parquet|py|ipynb|log)\b"
)
_ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+")
_CLAUSE = re.compile(r"(?<![.;:!?,])[.;:!?,]++(?=\s|$)|\n(?=\s|$)|\b(?:and then|and|then|but|afterwards|instead)\b")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NEGATIONS = frozenset("not never without avoid no dont don't doesnt doesn't shouldn't cannot can't".split())
_ONLY = frozenset("only just merely".split())


@dataclass(frozen=True)
class CapabilityRule:
    """The words by which a capability is found.

    Attributes:
        capability: Its name.
        verbs: Stems of verbs, of which one must occur.
        objects: Stems of objects, of which one must occur in the same clause.
        phrases: Sequences of words that are enough by themselves.
        alone: Words that are enough by themselves.
    """

    capability: str
    verbs: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    phrases: tuple[tuple[str, ...], ...] = ()
    alone: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a question needs.

    Attributes:
        wanted: Capabilities, in the order of the rules.
        unwanted: Capabilities that it excludes.
    """

    wanted: tuple[str, ...] = ()
    unwanted: frozenset[str] = frozenset()


def stem(word: str) -> str:
    """The stem of a word, the same for all its forms; often no word of a dictionary."""
    word = word.removesuffix("'s")
    for ending, instead in _STEMS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]  # plotting, plot
    return word[:-1] if len(word) > 3 and word.endswith("e") else word  # writing, write


def words_of(text: str) -> list[str]:
    """The stems of a text's words, in order; `snake_case` and `camelCase` are split."""
    return [stem(word) for word in _WORD.findall(_plain(_HUMPS.sub(" ", text)))]


def needs_of(question: str) -> Needs:
    """The capabilities that a question needs and excludes."""
    wanted: set[str] = set()
    unwanted: set[str] = set()
    for clause in _CLAUSE.split(_FILE.sub(" file ", _ADDRESS.sub(" webpage ", _plain(question)))):
        asked, forbidden = _split(words_of(clause))
        wanted.update(_matches(asked))
        if forbidden:
            # An excluded object may share the verb of the clause: "read the file, not the web page".
            unwanted.update(_matches(forbidden) or _matches([*asked, *forbidden]) - _matches(asked))
    unwanted -= wanted
    return Needs(wanted=tuple(name for name in CAPABILITIES if name in wanted), unwanted=frozenset(unwanted))


def capabilities_of(name: str, description: str) -> tuple[frozenset[str], frozenset[str]]:
    """The capabilities of a tool.

    Returns:
        Those that follow from its name, and, if the name says nothing, from the first sentence of its description.
    """
    by_name = _matches(words_of(name))
    first = re.split(r"(?<=[.!?])\s|\n", description.strip(), maxsplit=1)[0]
    return frozenset(by_name), frozenset(_matches(_split(words_of(first))[0]) - by_name)


def _plain(text: str) -> str:
    """Text in lower case, with one form of each punctuation mark."""
    return unicodedata.normalize("NFKC", text).replace(_APOSTROPHE, "'").casefold()


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Split a clause at its negation."""
    for at, word in enumerate(words):
        if word in _NEGATED and not (at + 1 < len(words) and words[at + 1] in _ONLY):
            return words[:at], words[at + 1 :]
    return words, []


def _matches(words: Iterable[str]) -> set[str]:
    row = list(words)
    there = set(row)
    return {
        rule.capability
        for rule in RULES
        if there & rule.alone
        # One word can't be both: "commit" as a verb needs another word as its object.
        or (there & rule.verbs and there & rule.objects and len(there & (rule.verbs | rule.objects)) > 1)
        or any(_has(row, phrase) for phrase in rule.phrases)
    }


def _has(row: list[str], phrase: tuple[str, ...]) -> bool:
    return any(tuple(row[at : at + len(phrase)]) == phrase for at in range(len(row) - len(phrase) + 1))


def _rule(capability: str, verbs: str = "", objects: str = "", *, phrases: str = "", alone: str = "") -> CapabilityRule:
    return CapabilityRule(
        capability,
        frozenset(words_of(verbs)),
        frozenset(words_of(objects)),
        tuple(tuple(words_of(phrase)) for phrase in phrases.split(",") if phrase.strip()),
        frozenset(words_of(alone)),
    )


_NEGATED = frozenset(stem(word) for word in _NEGATIONS) | _NEGATIONS
_LOOK = "what read open load show view display get fetch see inspect summarize summarise parse cat contents extract"
_MAKE = "write save create make edit change update append overwrite modify rename move copy delete remove store"
_TELL = "send write post reply message notify email mail compose draft forward"
_ASK = "search find look query list browse show get fetch read check see which what"
_PLAIN_FILES = "file document text csv json pdf spreadsheet readme"
_DATABASE = "database sql sqlite postgres postgresql mysql table schema"

RULES = (
    _rule("file:read", _LOOK, _PLAIN_FILES),
    _rule("file:write", _MAKE, _PLAIN_FILES),
    _rule("file:list", "list find search show tree walk which", "folder directory directories files"),
    _rule(
        "web:search",
        "search find look google research browse query",
        "web internet online google bing duckduckgo wikipedia news docs documentation article tutorial",
        phrases="look up online, search engine, on the web, on the internet, latest news, google for",
        alone="google websearch",
    ),
    _rule(
        "web:fetch",
        "fetch open download scrape crawl visit read get load summarize retrieve",
        "url webpage website site page link html address",
        alone="scrape crawl",
    ),
    _rule("browser:control", "click navigate screenshot fill automate drive", "browser page button form website tab"),
    _rule(
        "code:python",
        "execute run evaluate eval write debug test use",
        "python code script notebook snippet program jupyter cell",
    ),
    _rule("code:shell", "execute run", "shell bash command terminal", alone="bash"),
    _rule("code:search", "search find grep look", "code codebase repository repo function symbol definition"),
    _rule(
        "git:read",
        _ASK,
        "git commit branch diff repository repo blame",
        phrases="git log, git status, git diff, git show",
    ),
    _rule("git:write", "commit push merge rebase create add stage checkout", "git branch commit change"),
    _rule("issue:read", _ASK, "issue ticket bug jira pullrequest pull backlog"),
    _rule("issue:write", "create open file close comment assign update add", "issue ticket bug jira pull backlog"),
    _rule("database:query", "query select join count list show run get read describe", _DATABASE),
    _rule("database:write", "insert update delete drop create alter migrate", _DATABASE),
    _rule(
        "data:analyse",
        "analyse analyze compute calculate compare group aggregate average correlate predict describe count",
        "data dataset dataframe column row value table csv number sample species price sale mean median",
        alone="mean median average correlation regression statistic histogram outlier cluster percentile dataframe",
    ),
    _rule("chart:plot", alone="plot chart histogram scatterplot visualise visualize"),
    _rule("math:compute", "calculate compute solve add sum multiply", "number equation sum integral fibonacci"),
    _rule("image:read", "describe read recognise ocr look analyze caption", "image photo picture screenshot figure"),
    _rule("image:create", "generate draw create paint make", "image picture illustration logo photo"),
    _rule("email:read", _ASK, "email mail inbox mailbox gmail"),
    _rule("email:send", _TELL, "email mail gmail"),
    _rule("chat:read", _ASK, "slack teams discord channel chat thread"),
    _rule("chat:send", _TELL, "slack teams discord channel chat message"),
    _rule("calendar:read", _ASK, "calendar meeting appointment event agenda"),
    _rule("calendar:write", "schedule book create add move cancel plan", "calendar meeting appointment event"),
    _rule(
        "memory:store",
        "remember store save note memorize create add",
        "memory knowledge fact entity observation relation",
        alone="remember memorize",
    ),
    _rule("memory:recall", "recall search read find open", "memory knowledge entity graph node observation relation"),
    _rule("memory:delete", "delete remove forget", "memory knowledge fact entity observation relation", alone="forget"),
    _rule("weather:read", "", "", alone="weather forecast temperature"),
    _rule(
        "time:now",
        "get tell what convert show",
        "timezone clock",
        phrases="what time, current time, time zone, what day, today's date, current date, the time in, convert time",
        alone="timezone",
    ),
    _rule("map:search", "find search get route navigate", "map route direction distance restaurant nearby address"),
    _rule("text:translate", "", "", alone="translate translation"),
    _rule("package:search", "search find look", "package library pypi npm crate dependency"),
)
"""The rules of all capabilities that are found by words. A person may name others in mcp.json."""
CAPABILITIES = tuple(rule.capability for rule in RULES)
VERBS = frozenset(verb for rule in RULES for verb in rule.verbs)
"""Stems of all verbs."""
