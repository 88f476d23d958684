"""Text that may go into a log: short, on one line, without what looks like a secret."""

from __future__ import annotations

import os
import re

_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, Stripe and those who copied them
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bxox[abeoprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # JSON web tokens
    re.DOTALL,
)
_ADDRESS = re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@")
_NAMED = re.compile(
    r"""(?i)\b((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))["']?\s*[:=]\s*)"""
    r"""((?:(?:bearer|basic)\s+)?(?:"[^"]*"|'[^']*'|[^\s"',;]+))"""
)
_SECRET_NAMES = re.compile(r"(?i)(?:key|token|secret|password|passwd|credentials?)$")
HIDDEN = "[redacted]"
MIN_SECRET = 8
"""Characters of a variable's value below which it is no secret, and hiding it would hide words."""


def redact(text: str) -> str:
    """Text without known forms of secrets, and without the values of this process's own secret variables."""
    for name, value in os.environ.items():
        if len(value) >= MIN_SECRET and _SECRET_NAMES.search(name):
            text = text.replace(value, HIDDEN)
    text = _KNOWN.sub(HIDDEN, text)
    text = _ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)


def brief(text: str, *, limit: int = 100) -> str:
    """The beginning of a text, on one line, without secrets.

    Args:
        text: Anything.
        limit: Characters.
    """
    # Cut only then: half a secret is none that can be recognised.
    line = " ".join(redact(text[: 100 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
