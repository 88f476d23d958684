"""Finds secrets in text and replaces each by its kind: `[redacted: aws key]`. Pure.

Text from a sandbox may be hostile, so each rule takes linear time: no pattern backtracks over what it has read. Most
text is data, in which hashes, UUIDs, long numbers and encoded images must stay. So a secret is what has a known form,
what looks like a secret and stands behind a name such as `password`, or what is a value of the person's environment.

Encoded, split or drawn secrets are not found: this keeps honest code from leaking by mistake, and stops no attacker.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from nbagent.core.errors import UsageError
from nbagent.core.events import Event, RedactionSet
from nbagent.safety.columns import secret_columns

What = Literal["secrets", "pii", "none"]
"""What is hidden: secrets; secrets and personal data; nothing."""
MIN_SECRET_CHARACTERS = 8
"""Characters that an environment variable's value must have to be hidden; a shorter one may be a common word."""


BY_STRICTNESS: tuple[What, ...] = ("none", "secrets", "pii")
"""What can be hidden, from nothing to the most."""


class SecretForm(NamedTuple):
    """A form of secrets. The secret is the group of the pattern that matched, or else the whole match."""

    kind: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]
    """Strings of which one must occur: a quick test before the pattern. In lower case if the pattern ignores case."""
    is_one: Callable[[str], bool] = bool
    """Whether a match is really a secret."""


class Redacted(NamedTuple):
    """A text without its secrets, and their kinds."""

    text: str
    kinds: tuple[str, ...] = ()
    """The kind of each secret that was replaced, sorted."""


_ESCAPED = r"(?<=\\[nrt])"
"""Matches behind an escaped line end of JSON (`\\n`), whose letter is no part of a word."""


def _form(kind: str, pattern: str, *signs: str) -> SecretForm:
    """A rule for secrets with a known prefix, which must not be the middle of a word."""
    return SecretForm(kind, re.compile(rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPED})(?:{pattern})", re.ASCII), signs)


SECRET_FORMS = (
    # Twenty bases of DNA are no key.
    _form(
        "aws key",
        r"(?!ACCA[ACGTN]{16})(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        *("AKIA", "ASIA", "ABIA", "ACCA"),
    ),
    # OpenAI, Anthropic, OpenRouter, DeepSeek and others with keys of the same form.
    _form(
        "api key",
        r"[spr]k-(?:(?:proj|svcacct|admin|service|ant|or|lf)-[\w-]{16,}+|(?>(?:\w{1,12}-){0,3})(?=\w{0,80}\d)\w{16,}+)",
        *("sk-", "pk-", "rk-"),
    ),
    _form("api key", r"gsk_[A-Za-z0-9]{20,}+|xai-[A-Za-z0-9]{20,}+|pplx-[A-Za-z0-9]{20,}+", "gsk_", "xai-", "pplx-"),
    _form("stripe key", r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}+", "k_live_", "k_test_", "whsec_"),
    _form("google key", r"AIza[\w-]{30,}+|GOCSPX-[\w-]{20,}+|ya29\.[\w-]{20,}+", "AIza", "GOCSPX-", "ya29."),
    _form("github token", r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+", "gh", "github_pat_"),
    _form("gitlab token", r"gl(?:pat|dt|rt|ptt|ft|soat|cbt|agent|imt|oas)-[\w-]{16,}+", "gl"),
    _form("slack token", r"xox[abeoprs]-[\w-]{10,}+|xapp-[\w-]{10,}+", "xox", "xapp-"),
    _form("hugging face token", r"hf_[A-Za-z0-9]{20,}+", "hf_"),
    _form("package index token", r"pypi-[\w-]{50,}+|npm_[A-Za-z0-9]{36}", "pypi-", "npm_"),
    _form("sendgrid key", r"SG\.[\w-]{16,}+\.[\w-]{16,}+", "SG."),
    _form("databricks token", r"dapi[0-9a-f]{32}", "dapi"),
    _form("langsmith key", r"lsv2_(?:pt|sk)_\w{20,}+", "lsv2_"),
    _form(
        "cloud token",
        r"do[opr]_v1_[0-9a-f]{64}|hv[sb]\.[\w-]{20,}+|shp(?:at|ca|pa|ss)_[0-9a-f]{32}",
        *("_v1_", "hvs.", "hvb.", "shp"),
    ),
    _form("age key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}+", "AGE-SECRET-KEY-"),
    _form("telegram token", r"\d{8,10}:AA[\w-]{33}(?![\w-])", ":AA"),
    _form("json web token", r"eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+", "eyJ"),
    SecretForm("slack webhook", re.compile(r"hooks\.slack\.com/(services/[\w/]{20,100})"), ("hooks.slack.com/",)),
)
"""Secrets that are known by their form alone; after gitleaks' rules."""

_UNSAID = (
    r"""(?!\\?["']?(?:\$|\{|<|%|/|\.\.|\*{3}|\[redacted|os\."""
    r"""|(?:none|null|true|false|nan|str|string|object|getpass)\b))"""
)
"""Excludes values behind a secret's name that are no secrets: a variable, a placeholder, a path, a type, a call."""
_IS = r"""\\?["']?[ \t]{0,4}(?::=|=>|==?|:)[ \t]{0,4}"""
NAMED_FORMS = (
    SecretForm(
        "password",
        re.compile(
            rf"(?:password|passwd|passphrase|passwort|pwd)\d?{_IS}{_UNSAID}"
            r"""(?:\\?"([^"\\\n]{3,200})\\?"|\\?'([^'\\\n]{3,200})\\?'|((?>(?:[^\s"',;&()\[\]{}\\]|\\(?![nrt"'])){4,200}))(?![(\[]))""",
            re.IGNORECASE,
        ),
        ("passw", "passphrase", "pwd"),
    ),
    SecretForm(
        "password",
        re.compile(
            r"(?:password|passphrase|passwort)\s{1,4}(?:is|ist)[\s:]{1,4}[\"'`]?"
            r"((?=[^\s]{0,60}[\d!@#$%^&*+=])[^\s\"'`,;]{4,200}+)",
            re.IGNORECASE,
        ),
        ("passw", "passphrase"),
    ),
    SecretForm(
        "secret",
        re.compile(
            r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|account[_-]?key|private[_-]?key|secret|token"
            rf"|credentials?){_IS}{_UNSAID}\\?[\"']?((?=[\w+/.~=-]{{0,80}}\d)(?=[\w+/.~=-]{{0,80}}[a-z])"
            r"[\w+/.~=-]{16,}+)(?![(\[])",
            re.IGNORECASE,
        ),
        ("key", "secret", "token", "credential"),
    ),
    SecretForm(
        "authorization",
        re.compile(
            rf"authorization{_IS}\\?[\"']?((?:bearer|basic|token)\s{{1,4}}[^\s\"'\\,;]{{6,}}+)"
            r"|bearer\s{1,4}((?=[\w+/.~=-]{0,80}\d)[\w+/.~=-]{20,}+)",
            re.IGNORECASE,
        ),
        ("authorization", "bearer"),
    ),
    # The password in a URL: up to the last @ before the path.
    SecretForm("password in a url", re.compile(r"\w://[^\s/:@\"'<>]*+:([^\s/\"'<>]{1,1000})@"), ("://",)),
)
"""Secrets that are known by the name before them."""


def _luhn(number: str) -> bool:
    """Whether digits have the check digit of a payment card (ISO/IEC 7812)."""
    digits = [int(each) for each in reversed(number) if each.isdigit()]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * each, 10)) for each in digits[1::2]) % 10


def _iban(text: str) -> bool:
    """Whether an IBAN has its check digits (ISO 13616)."""
    plain = text.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % 97 == 1


def _has_top_level(address: str) -> bool:
    """Whether an address may end in a top-level domain: `.org`, not `.5`."""
    last = address.rpartition(".")[2]
    return len(last) >= 2 and last[0].isalpha()


PII_FORMS = (
    SecretForm(
        "email address",
        # A full stop behind it ends a sentence.
        re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}+@[A-Za-z0-9-]{1,63}+(?>(?:\.[A-Za-z0-9-]{1,63}+){1,6})"),
        ("@",),
        _has_top_level,
    ),
    SecretForm(
        "payment card",
        re.compile(rf"(?:(?<![\w.-])|{_ESCAPED})[3-6]\d{{3}}(?:[ -]?\d{{4}}){{2}}[ -]?\d{{1,7}}(?![\w-]|\.\d)"),
        (),
        _luhn,
    ),
    SecretForm(
        "iban",
        re.compile(rf"(?:(?<!\w)|{_ESCAPED})[A-Z]{{2}}\d{{2}}(?: ?[A-Z0-9]{{4}}){{2,7}}(?: ?[A-Z0-9]{{1,3}})?(?!\w)"),
        (),
        _iban,
    ),
    SecretForm(
        "social security number",
        re.compile(rf"(?:(?<![\w.-])|{_ESCAPED})(?!000|666|9)\d{{3}}-(?!00)\d{{2}}-(?!0000)\d{{4}}(?![\w-])"),
        ("-",),
    ),
)
"""Personal data that is known by its form."""

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"(?>(?:(?>(?:\s|\\[nr]|[>|])*)[A-Za-z0-9+/=]{16,}+)*)")
_KEY_LENGTH = 20_000
_SECRET_NAMES = re.compile(r"(?i)(?:key|token|secret|password|passwd|passphrase|credentials?)(?:_?\d)?$")
_IN_ADDRESS = re.compile(r"\w://[^\s/:@]*:([^\s/]+)@")


def label(kind: str) -> str:
    """The text in place of a secret of that kind."""
    return f"[redacted: {kind}]"


def in_past(events: Iterable[Event]) -> What:
    """What the redaction of a session was at last, by its log; an unknown value counts as `pii`."""
    was: What = "secrets"
    for event in events:
        if isinstance(event, RedactionSet):
            was = next((each for each in BY_STRICTNESS if each == event.what), "pii")
    return was


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets among environment variables, as value → name of the variable; the longest first."""
    found: dict[str, str] = {}
    for name, value in environment.items():
        address = _IN_ADDRESS.search(value)
        if address is not None:
            value = address[1]
        elif not _SECRET_NAMES.search(name):
            continue
        # A path, such as that of a file with the secret, is no secret.
        if len(value) >= MIN_SECRET_CHARACTERS and not value.startswith(("/", "~", "./")):
            found.setdefault(value, name)
    return dict(sorted(found.items(), key=lambda each: -len(each[0])))


class Redactor:
    """Hides secrets in texts.

    Args:
        what: What is hidden.
        secrets: The person's own, as `secrets_of` returns them; those of this process's environment by default.

    Raises:
        UsageError: `what` is none of the three.
    """

    def __init__(self, what: str = "secrets", *, secrets: Mapping[str, str] | None = None) -> None:
        if what not in get_args(What):
            known = ", ".join(get_args(What))
            raise UsageError(f"There is nothing called {what!r} to redact.", mend=f"Use one of: {known}.")
        self._rules = (*SECRET_FORMS, *NAMED_FORMS, *(PII_FORMS if what == "pii" else ()))
        self._secrets = secrets_of(os.environ) if secrets is None else secrets
        self.what: What = what  # type: ignore[assignment]  # checked above
        self._hides = what != "none"

    def __call__(self, text: str) -> Redacted:
        """The text without secrets, and their kinds."""
        if not self._hides:
            return Redacted(text)
        count: Counter[str] = Counter()
        # Columns first: other replacements would move the columns of aligned tables.
        hidden = _replace(text, "column of secrets", secret_columns(text), count)
        hidden = _replace_own(hidden, self._secrets, count)
        hidden = _replace(hidden, "private key", _private_keys(hidden), count)
        hidden = _replace_forms(hidden, self._rules, count)
        return Redacted(hidden, tuple(sorted(count.elements())))


def _replace_own(text: str, secrets: Mapping[str, str], count: Counter[str]) -> str:
    for value, name in secrets.items():
        for written in _spellings(value):
            if (times := text.count(written)) > 0:
                count[f"${name}"] += times
                text = text.replace(written, label(f"${name}"))
    return text


def _spellings(value: str) -> Iterable[str]:
    """The forms of a value in text: as it is, in JSON, and as Python's `repr` shows it."""
    if value.isalnum() and value.isascii():
        return (value,)
    return dict.fromkeys(
        (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    )


def _replace_forms(text: str, rules: Iterable[SecretForm], count: Counter[str]) -> str:
    lower = text.lower()
    for rule in rules:
        where = lower if rule.pattern.flags & re.IGNORECASE else text
        if not rule.signs or any(sign in where for sign in rule.signs):
            text = _replace(text, rule.kind, _spans(rule, text), count)
    return text


def _spans(rule: SecretForm, text: str) -> Iterator[tuple[int, int]]:
    for match in rule.pattern.finditer(text):
        # Each alternative of a pattern has a group of its own.
        group = match.lastindex or 0
        if "[redacted" not in match[group] and rule.is_one(match[group]):
            yield match.span(group)


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """The spans of private keys; a key that was cut ends with its text."""
    at = 0
    ended = _KEY_ENDS.search(text)
    while (begun := _KEY_BEGINS.search(text, at)) is not None:
        if ended is not None and ended.start() < begun.end():
            ended = _KEY_ENDS.search(text, begun.end())
        if ended is not None and ended.end() <= begun.end() + _KEY_LENGTH:
            at = ended.end()
        else:
            body = _KEY_BODY.match(text, begun.end())
            at = body.end() if body else begun.end()
        yield begun.start(), at


def _replace(text: str, kind: str, spans: Iterable[tuple[int, int]], count: Counter[str]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [text[at:start], label(kind)]
        at = end
        count[kind] += 1
    return "".join([*parts, text[at:]]) if parts else text
