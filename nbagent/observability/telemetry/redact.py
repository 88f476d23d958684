"""Makes text fit for a log: short, on one line, without secrets."""

from __future__ import annotations

import os
import re

from nbagent.safety.redaction import known_forms, own, secrets_of

_ADDRESS = re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@")
_NAMED = re.compile(
    r"""(?i)\b((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))["']?\s*[:=]\s*)"""
    r"""((?:(?:bearer|basic)\s+)?(?:"[^"]*"|'[^']*'|[^\s"',;]+))"""
)
HIDDEN = "[redacted]"


def redact(text: str) -> str:
    """Remove secrets: known forms, whatever stands behind a secret's name, and values of this process's environment."""
    text = known_forms(own(text, secrets_of(os.environ), _hidden), _hidden)
    text = _ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)


def _hidden(_kind: str) -> str:
    return HIDDEN


def brief(text: str, *, limit: int = 100) -> str:
    """The beginning of a text, on one line, without secrets.

    Args:
        text: Anything.
        limit: Characters.
    """
    # Cut afterwards: half a secret can't be recognised.
    line = " ".join(redact(text[: 100 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
