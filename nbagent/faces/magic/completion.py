"""What the Tab key offers behind `%agent`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nbagent.core.policy import TrustLevel
from nbagent.faces.magic.request import FLAGS, VERBS
from nbagent.safety.approvals import Mode

_MAGIC = re.compile(r"%%?agent\s+")


def completions(before: str, names: Iterable[str]) -> list[str]:
    """Whole words that may stand where the cursor is; none where anything may stand, such as a path."""
    if (found := _MAGIC.search(before)) is None:
        return []
    words = before[found.end() :].split()
    word = words.pop() if words and not before[-1].isspace() else ""
    last = words[-1] if words else ""
    if word.startswith("@"):
        offered: Iterable[str] = [f"@{name}" for name in names]
    elif last in FLAGS or (last in VERBS and _all_flags(words[:-1])):
        kind = FLAGS[last][0] if last in FLAGS else last
        offered = names if kind in ("give", "take") else _values(kind)
    elif _all_flags(words):
        offered = [*FLAGS, *VERBS]
    else:
        return []
    return sorted(each for each in offered if each.startswith(word))


def _all_flags(words: list[str]) -> bool:
    """Whether words are options with their values, so that what follows may be anything."""
    return all(each in FLAGS or (at > 0 and words[at - 1] in FLAGS) for at, each in enumerate(words))


def _values(kind: str) -> list[str]:
    match kind:
        case "model":
            from nbagent.agent.providers.known import PROVIDERS

            return [f"{name}:" for name in PROVIDERS]
        case "trust":
            return [each.value for each in TrustLevel]
        case "approve" | "approvals":
            return [each.value for each in Mode]
        case "engine":
            from importlib.metadata import entry_points

            return [each.name for each in entry_points(group="nbagent.engines")]
        case "insert":
            return ["all"]
        case _:
            return []
