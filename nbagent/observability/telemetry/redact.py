"""Makes text fit for a log: short, on one line, without secrets."""

from __future__ import annotations

import re

from nbagent.core.text import cut
from nbagent.safety.redaction import Redactor

_LABEL = re.compile(r"\[redacted: [^\]]*\]")
_NAMED = re.compile(
    r"""(?i)\b((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))["']?\s*[:=]\s*)"""
    r"""((?:(?:bearer|basic)\s+)?(?:"[^"]*"|'[^']*'|[^\s"',;]+))"""
)
HIDDEN = "[redacted]"


def redact(text: str) -> str:
    """Hide secrets as models' redaction does, and whatever else stands behind a secret's name."""
    return _NAMED.sub(rf"\1{HIDDEN}", _LABEL.sub(HIDDEN, Redactor()(text).text))


def brief(text: str, *, limit: int = 100) -> str:
    """The beginning of a text, on one line of `limit` characters at most, without secrets."""
    # Cut at the end: half a secret can't be recognised.
    return cut(" ".join(redact(text[: 100 * limit]).split()), limit)
