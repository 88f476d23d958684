"""Tells by which columns tables can be joined, and which names of them differ. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from nbagent.agent.dataset.groups import Group, base_name
from nbagent.agent.dataset.keys import Key, alike
from nbagent.agent.dataset.text_forms import NAME, quote

SAME = 6
"""Columns with the same values that are named."""
UNMATCHED, UNMATCHED_NAME, LEAST_MATCHED = 5, 24, 0.6
"""Names without a match that are told of each table, characters of each, and the share that has one, at least."""
WORSE = 2
"""Columns that have fewer values in common than most on their line, of which it is told."""


def key_lines(groups: Sequence[Group], found: Iterable[Key]) -> list[str]:
    """Columns with common values, those that have nearly the same on one line, with the share that most pairs have.

    Pairs that have less are told apart, and the names that differ where they are few.
    """
    lines = []
    for pairs in alike(found):
        places = list(dict.fromkeys(end for key in pairs for end in key.ends))
        named = [_place(groups, *each) for each in places[:SAME]]
        more = f" ↔ and {len(places) - SAME} more" if len(places) > SAME else ""
        by_share: dict[str, list[Key]] = {}
        for key in pairs:
            by_share.setdefault(_share(groups, key), []).append(key)
        most = max(by_share, key=lambda each: (len(by_share[each]), by_share[each][0].exact))
        values = min(key.values for key in by_share[most])
        usual = {end for key in by_share.pop(most) for end in key.ends}
        worse = [f"; {_beside(groups, several[0], usual)}: {share}" for share, several in by_share.items()]
        rest = f"; {len(worse) - WORSE} more have fewer" if len(worse) > WORSE else ""
        most = most.replace("%", f"% of {values:,}", 1)
        lines.append(f"- {' ↔ '.join(named)}{more}: {most}{''.join(worse[:WORSE])}{rest}")
        partly = (key for key in pairs if LEAST_MATCHED <= max(key.exact, key.folded) < 1)
        lines += list(dict.fromkeys(line for key in partly for line in _unmatched(groups, key)))[:WORSE]
    return lines


def _place(groups: Sequence[Group], at: int, name: str) -> str:
    return f"{quote(base_name(groups[at].name), limit=80)} {quote(name, limit=NAME)}"


def _beside(groups: Sequence[Group], key: Key, usual: Collection[tuple[int, str]]) -> str:
    """The column of two that has fewer values in common with others, or both if none of them is one of the others."""
    ends = [end for end in key.ends if end not in usual] or [key.ends[1]]
    return " ↔ ".join(_place(groups, *end) for end in ends)


def _share(groups: Sequence[Group], key: Key) -> str:
    """How many values two columns have in common."""
    folded = max(key.exact, key.folded)
    columns = [each for at, name in key.ends for each in groups[at].columns if each.name == name]
    are_times = any(each.dtype.startswith("Date") or each.form.startswith(("%", "dates")) for each in columns)
    how = "as dates" if are_times else "without case, spaces and leading zeros"
    return f"{key.exact:.0%}, {folded:.0%} {how}" if folded > key.exact + 0.005 else f"{key.exact:.0%}"


def _unmatched(groups: Sequence[Group], key: Key) -> list[str]:
    """The names without a match in the other table, where all are known: they may be written otherwise."""
    columns = [[each for each in groups[at].columns if each.name == name] for at, name in key.ends]
    sides = [
        {each.strip().casefold(): each for column in side for each in column.names or column.values
         if each not in column.sums}
        for side in columns
    ]  # fmt: skip
    told = []
    for (at, _), own, other in zip(key.ends, sides, sides[::-1], strict=True):
        alone = [own[each] for each in sorted(own.keys() - other.keys())]
        more = f" and {len(alone) - UNMATCHED} more" if len(alone) > UNMATCHED else ""
        names = ", ".join(quote(each, limit=UNMATCHED_NAME) for each in alone[:UNMATCHED])
        told += [f"{quote(base_name(groups[at].name), limit=80)}: {names}{more}"] if alone else []
    return [f"    without a match in {'; in '.join(told)}"] if all(sides) and told else []
