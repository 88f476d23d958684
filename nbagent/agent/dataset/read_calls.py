"""Tells the calls that read tables, one for files that are alike. Pure."""

from __future__ import annotations

import re
from collections import Counter

from nbagent.agent.dataset.groups import Group, base_name
from nbagent.agent.dataset.one_way import AS_TEXT, NULLS, QUOTED
from nbagent.agent.dataset.text_forms import quote
from nbagent.kernel.profile import FileProfile, Table

CALL = 1_500
"""Characters of a call."""
_KEYS = "[keys]"
"""Stands for where in a JSON file a table is."""
_OPENED = re.compile(r"(?:io\.BytesIO\()?zipfile\.ZipFile\(path\)\.read\([^()]*\)\)?(?=[,)])")
"""What a call takes out of an archive."""


def call_lines(group: Group) -> list[str]:
    """The calls that read tables, without those that anybody would write."""
    found: dict[str, list[tuple[FileProfile, Table]]] = {}
    names = {table.name for _, table in group.tables}
    nulls: dict[str, set[str]] = {}
    places: dict[str, int] = {}
    for file, table in group.tables:
        call = table.call.replace(repr(file.path), "path")
        if table.name and len(names) > 1:
            call = re.sub(rf"(sheet_name=|\.read\(){re.escape(repr(table.name))}", r"\1name", call)
            call = call.replace(_keys(table), _KEYS)
        # What means a missing value in one file may stand in the others, too: one call reads them all.
        if words := NULLS.search(call):
            call = NULLS.sub("", call)
            nulls.setdefault(call, set()).update(QUOTED.findall(words[0]))
            places[call] = words.start()
        found.setdefault(call, []).append((file, table))
    for call, together in nulls.items():
        at = places[call]
        found[f"{call[:at]}, null_values=[{', '.join(sorted(together))}]{call[at:]}"] = found.pop(call)
    if all(is_plain(call, group.tables[0][1]) for call in found) and len({file.kind for file, _ in group.tables}) == 1:
        return []  # of several kinds, it is said which call reads which
    lines = []
    first = ""
    of_each = Counter(id(file) for file, _ in group.tables)
    for call, several in sorted((each for each in found.items() if each[0]), key=lambda each: -len(each[1]))[:3]:
        file, table = several[0]
        own = f"{base_name(file.path)}, {table.name}" if of_each[id(file)] > 1 else base_name(file.path)
        where = "" if len(found) == 1 else f" of {quote(own, limit=80)}"
        where = f" of {quote(table.name, limit=80)}" if _KEYS in call else where
        many = f" and {len(several) - 1} more" if where and len(several) > 1 else ""
        told = (first and _like(call, first)) or _code(call.replace(_KEYS, _keys(table)))
        texts = ", which gives texts" if AS_TEXT in call else ""
        lines.append(f"    read{where}{many}: {told}{texts}")
        first = first or call
    return lines


def _keys(table: Table) -> str:
    """How a call goes to where a table is in a JSON file."""
    return "".join(f"[{each!r}]" for each in table.name.split("."))


def _like(call: str, other: str) -> str:
    """How a call differs from another one, if only in what it opens."""
    opened = _OPENED.search(call)
    is_same = opened is not None and call.replace(opened[0], "path") == other
    return f"the same with {opened[0]} for path" if opened and is_same else ""


def _code(call: str) -> str:
    """A call as code, if it can't end the section; else as text."""
    is_harmless = call.isprintable() and "<" not in call and len(call) <= CALL
    return call if is_harmless else quote(call, limit=CALL)


def is_plain(call: str, table: Table) -> bool:
    """Whether a call is what anybody would write first."""
    plain = ("pl.read_csv(path)", "pl.read_parquet(path)", "pl.read_ipc(path)", "")
    return call in plain and not table.raw
