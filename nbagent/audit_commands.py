"""What `nbagent audit` does: whether a log is what was written, and the log as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbagent import audit, settings, store
from nbagent.audit.entries import Entry
from nbagent.audit.verify import Verdict, locate
from nbagent.policy import MIB
from nbagent.terminal import safe


def verify(session: str, *, key_file: Path | None, as_json: bool) -> int:
    """Check an audit log, and say what was found.

    Returns:
        0 if it is whole, 1 if it is not.

    Raises:
        UsageError: There is none, or the key can't be read.
    """
    verdict = _check(session, key_file)
    if as_json:
        print(json.dumps({"whole": verdict.whole, **asdict(verdict)}, default=str))
    else:
        print(safe("\n".join(_told(verdict)), colours=False))
    return 0 if verdict.whole else 1


def show(session: str, *, key_file: Path | None) -> int:
    """Print an audit log as text, with what a check of it found at the end.

    Returns:
        0 if it is whole, 1 if it is not.

    Raises:
        UsageError: There is none, or the key can't be read.
    """
    verdict = _check(session, key_file)
    with verdict.path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = "\n".join(_entry_lines(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                text = f"line {number} can't be read"
            print(safe(text, colours=False))
    print()
    print(safe("\n".join(_told(verdict)), colours=False))
    return 0 if verdict.whole else 1


def _check(session: str, key_file: Path | None) -> Verdict:
    chosen = settings.load()
    path = locate(session, store.state_root(chosen.state_dir))
    return audit.verify(path, key=audit.read_key(key_file or chosen.audit_key_file))


def _told(verdict: Verdict) -> Iterator[str]:
    of = f"the audit log of {verdict.session}" if verdict.session else f"the audit log {verdict.path}"
    count = f"{verdict.lines} lines, {verdict.cells} cells"
    if verdict.whole:
        how = "HMACs of your key" if verdict.keyed and not verdict.unchecked else "SHA-256, no key"
        yield f"Whole: {of} ({count}; {how})."
    else:
        where = f" at line {verdict.line}" if verdict.line else ""
        yield f"BROKEN{where}: {of} ({count}): {verdict.problem}."
    yield from verdict.notes


def _entry_lines(entry: Entry) -> Iterator[str]:
    """One entry: a line with its time and what it is, and what more there is of it, indented."""
    kind = entry["type"]
    when = f"{entry['time'][:10]} {entry['time'][11:19]}Z" if "time" in entry else ""
    what, more = _FORMS.get(kind, _anything)(entry)
    yield f"{when:<20}  {kind.replace('_', ' '):<15} {what}".rstrip()
    for line in more:
        yield f"{'':<22}{line}"


def _anything(entry: Entry) -> tuple[str, list[str]]:
    hidden = ("type", "time", "log", "seq", "prev", "hash")
    return "  ".join(f"{name}={_value(value)}" for name, value in entry.items() if name not in hidden), []


def _start(entry: Entry) -> tuple[str, list[str]]:
    bounds = ", ".join(f"{name} {_value(value)}" for name, value in entry["limits"].items() if value is not None)
    options = ", ".join(f"{name}={_value(value)}" for name, value in entry["security"].items())
    data = [f"data      {each['path']}  {each['size']:,} bytes, from {each['source']}" for each in entry["data"]]
    lines = [f"image     {entry['environment']}", f"limits    {bounds}", f"security  {options}", *data]
    if entry["accepted"]:
        lines.append(f"NOT ENFORCED, accepted by name: {', '.join(entry['accepted'])}")
    return f"{entry['engine']}, {entry['trust']}, Python {entry['python']}, nbagent {entry['nbagent']}", lines


def _question(entry: Entry) -> tuple[str, list[str]]:
    return f"{entry['turn']}, to {'a replay' if entry['replay'] else entry['model']}", [entry["question"]]


def _begun(entry: Entry) -> tuple[str, list[str]]:
    return f"{entry['cell']}, {entry['tool']}, approved by {entry['approver']}", []


def _cell(entry: Entry) -> tuple[str, list[str]]:
    ended = entry["exit"]
    how = [ended["status"], ended["error"] or "", ended["signal"] or ""]
    if entry["duration"] is not None:
        how.append(f"{entry['duration']:.2f} s")
    if entry["memory_peak"] is not None:
        how.append(f"peak {entry['memory_peak'] // MIB:,} of {entry['memory_limit'] // MIB:,} MB")
    for name in ("packages", "packages_refused", "commands"):
        if entry[name]:
            how.append(f"{name.replace('_', ' ')}: {_value(entry[name])}")
    lines = [f"| {line}" for line in entry["code"].splitlines()]
    return f"{entry['cell']}, " + ", ".join(filter(None, how)), lines + ([entry["note"]] if entry["note"] else [])


def _install(entry: Entry) -> tuple[str, list[str]]:
    lines = [f"{each['name']}=={each['version']}  sha256:{each['sha256']}" for each in entry["packages"]]
    return entry["reason"], lines


def _file(entry: Entry) -> tuple[str, list[str]]:
    return f"{entry['path']}, {entry['size']:,} bytes", [f"sha256:{entry['sha256']}"]


def _answer(entry: Entry) -> tuple[str, list[str]]:
    usage = entry["usage"]
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    how = "success" if entry["success"] else "no success"
    return f"{entry['turn']}, {how}, {entry['attempts']} attempts, {tokens}", []


_FORMS = {
    "session_start": _start,
    "question": _question,
    "cell_begun": _begun,
    "cell": _cell,
    "install": _install,
    "file": _file,
    "answer": _answer,
}


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
