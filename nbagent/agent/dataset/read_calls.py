"""Tells the calls that read tables, one for files that are alike. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from nbagent.agent.dataset.groups import OR, Group, base_name
from nbagent.agent.dataset.one_way import NULLS, QUOTED
from nbagent.agent.dataset.text_forms import quote
from nbagent.kernel.profile import FileProfile, Table

CALL = 1_500
"""Characters of a call."""
TYPED, AS_TEXT = 12, ", infer_schema=False"
"""Columns up to which each is named that is read as text, and the option by which all are."""
FLAGS = ", infer_schema_length=None", AS_TEXT, ", truncate_ragged_lines=True"
"""Options that a file may need."""
_OWN_NULLS = re.compile(rf", null_values=\{{{QUOTED.pattern}: [^{{}}]*\}}")
"""The words that a call reads as null in single columns."""
_KEYS = "[keys]"
"""Stands for where in a JSON file a table is."""
_TEXTS = re.compile(rf", schema_overrides=\{{(?:{QUOTED.pattern}: pl\.String(?:, )?)+\}}")
"""The columns that a call reads as text."""
_CONVERTED = re.compile(rf"pl\.col\(((?:{QUOTED.pattern}(?:, )?)+)\)\.str")
"""The columns that a call reads as text and converts."""
_OPTIONS = (NULLS, _OWN_NULLS, _TEXTS, *(re.compile(re.escape(each)) for each in FLAGS))
_OPENED = re.compile(r"(?:io\.BytesIO\()?zipfile\.ZipFile\(path\)\.read\([^()]*\)\)?(?=[,)])")
"""What a call takes out of an archive."""


def call_lines(group: Group) -> list[str]:
    """The calls that read tables, without those that anybody would write."""
    shared: dict[str, list[tuple[str, FileProfile, Table]]] = {}
    names = {table.name for _, table in group.tables}
    for file, table in group.tables:
        call = table.call.replace(repr(file.path), "path")
        if table.name and len(names) > 1:
            call = call.replace(repr(table.name), "name").replace(_keys(table), _KEYS)
        shared.setdefault(_bare(call), []).append((call, file, table))
    mixed = [each.name for each in group.columns if OR in each.dtype and "String" in each.dtype]
    found = {
        _for_all(bare, [call for call, _, _ in several], mixed): [(file, table) for _, file, table in several]
        for bare, several in shared.items()
    }
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
        lines.append(f"    read{where}{many}: {told}{', which gives texts' * (AS_TEXT in call)}")
        first = first or call
    return lines


def _keys(table: Table) -> str:
    """How a call goes to where a table is in a JSON file."""
    return "".join(f"[{each!r}]" for each in table.name.split("."))


def _bare(call: str) -> str:
    """A call without the options that one file may need and another one may have, too."""
    for option in _OPTIONS if ".exclude(" not in call else _OPTIONS[:1]:
        call = option.sub("", call)
    return call


def _for_all(bare: str, calls: Sequence[str], mixed: Sequence[str]) -> str:
    """The call that reads all files of which each has a call, by the options that any of them needs.

    What means a missing value in one may stand in the others, too. A column that is text in some is text in all.
    """
    if not bare.startswith("pl.read_csv("):
        return bare
    nulls = sorted({word for call in calls for each in NULLS.finditer(call) for word in QUOTED.findall(each[0])})
    told = [f", null_values=[{', '.join(nulls)}]"] if nulls else []
    if ".exclude(" not in bare:
        own = {"".join(_OWN_NULLS.findall(call)) for call in calls}
        # A word that is null in one file and a value in another is neither.
        told += [*own] if len(own) == 1 else []
        types = dict.fromkeys(
            each for call in calls for part in _TEXTS.finditer(call) for each in QUOTED.findall(part[0])
        )
        if "schema=" not in bare and "try_parse_dates" not in bare:
            types |= dict.fromkeys(map(repr, mixed))
        if len(calls) > 1:  # what one converts is a number in another one
            types |= dict.fromkeys(each for part in _CONVERTED.findall(bare) for each in QUOTED.findall(part))
        told += [each for each in FLAGS if any(each in call for call in calls)]
        if AS_TEXT in told or len(types) > TYPED:
            told = [each for each in told if each != FLAGS[0]]
            told = list(dict.fromkeys([*told, AS_TEXT]))
        elif types:
            told.append(f", schema_overrides={{{', '.join(f'{each}: pl.String' for each in types)}}}")
    end = bare.index(").with_columns(") if ").with_columns(" in bare else -1
    at = min((part.start() for call in calls for option in _OPTIONS if (part := option.search(call))), default=end)
    return f"{bare[:at]}{''.join(told)}{bare[at:]}"


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
