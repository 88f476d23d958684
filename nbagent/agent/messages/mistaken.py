"""Recognises replies that only look like answers: blank text, a call written as text, bare code. Pure.

Small models, and servers without their model's template, write a call as text. Shown to a person, it would seem that
something ran.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

from nbagent.core.text import BLANK
from nbagent.sandbox.untrusted import UnreadableError, parse

_CALL = re.compile(r"^\s{0,9}(?:<tool_call>|<function[=_]|<\|python_tag\|>|<\|tool_call|\[TOOL_CALLS\])", re.MULTILINE)
"""The marks with which models begin calls; a server that knows a mark doesn't leave it in the text."""
_FENCE = re.compile(r"\A\s*```(?:json|python|py|tool_code|tool_call)?[ \t]*\n(?P<inside>.*?)\n?```\s*\Z", re.DOTALL)
_BLANK: Final = re.compile(f"[{BLANK}]")
LOOKED_AT: Final = 100_000
"""Characters of a reply that are looked at."""


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or has only spaces and invisible characters."""
    return not any(unicodedata.category(each)[0] not in "CZ" and not _BLANK.match(each) for each in text)


def is_call(text: str, tools: Collection[str]) -> bool:
    """Whether a text is a call that the model wrote instead of making it."""
    text = text[:LOOKED_AT]
    if _CALL.search(text):
        return True
    fence = _FENCE.match(text)
    try:
        found = parse(fence["inside"] if fence else text, limit=LOOKED_AT)
    except UnreadableError:
        return False
    first = found[0] if isinstance(found, list) and found else found
    if not isinstance(first, dict):
        return False
    named = first.get("function", first)
    named = named if isinstance(named, dict) else first
    return named.get("name") in tools and bool({"arguments", "parameters", "args"} & named.keys())


def is_bare_code(text: str) -> bool:
    """Whether a text is Python in a Markdown fence and nothing else."""
    fence = _FENCE.match(text[:LOOKED_AT])
    return fence is not None and "```" not in fence["inside"] and not _is_json(fence["inside"])


def _is_json(text: str) -> bool:
    try:
        parse(text, limit=LOOKED_AT)
    except UnreadableError:
        return False
    return True
