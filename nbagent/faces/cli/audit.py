"""`nbagent audit`: checks that an audit log is what was written, and prints it as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core import fileio, folders, settings
from nbagent.core.events import SentToModel
from nbagent.core.policy import MIB
from nbagent.core.text import printable, safe
from nbagent.observability import audit
from nbagent.observability.audit.entries import AuditEntry
from nbagent.observability.audit.verification import AuditCheck, locate
from nbagent.safety.ledger import THIS_MACHINE, Ledger, is_local, ledger


def verify(session: str, *, key_file: Path | None, as_json: bool) -> int:
    """Check an audit log, and print the result; returns the exit code: 2 if this version can't check all of it."""
    result = _check(session, key_file)
    if as_json:
        print(json.dumps({"whole": result.whole, **asdict(result)}, default=str))
    else:
        print(safe("\n".join(_check_lines(result))))
    return result.exit_code


def show(session: str, *, key_file: Path | None) -> int:
    """Print an audit log as text, and the result of its check; returns the exit code as `verify` does."""
    result = _check(session, key_file)
    found = list(_parsed(result.path))
    ended = {entry.get("cell") for entry in found if entry.get("type") == "cell"}
    for number, entry in enumerate(found, start=1):
        if entry.get("type") == "cell_begun" and entry.get("cell") in ended:
            # The entry of the cell's end repeats it.
            continue
        try:
            text = "\n".join(map(_whole_line, _entry_lines(number, entry)))
        except (KeyError, TypeError, ValueError, AttributeError):
            text = f"{number:>5}  can't be read"
        print(text)
    print()
    print(safe("\n".join(_check_lines(result))))
    return result.exit_code


def sent(session: str, *, key_file: Path | None, as_json: bool) -> int:
    """Print what left for models, and the result of the audit log's check; returns the exit code as `verify` does."""
    result = _check(session, key_file)
    found = ledger(event for entry in _parsed(result.path) if (event := _sent_of(entry)) is not None)
    if as_json:
        sent_json = {"lines": found.lines, "totals": found.totals, "whole": result.whole}
        print(msgspec.json.encode(sent_json).decode())
        return result.exit_code
    for line in _ledger_lines(found):
        print(_whole_line(line))
    print()
    print(safe("\n".join(_check_lines(result))))
    return result.exit_code


def _sent_of(entry: AuditEntry) -> SentToModel | None:
    if entry.get("type") != "sent_to_model":
        return None
    try:
        return msgspec.convert({**entry, "type": "SentToModel"}, SentToModel)
    except msgspec.ValidationError:
        return None


def _ledger_lines(found: Ledger) -> Iterator[str]:
    """A table of the pieces, and a sentence for each host."""
    yield f"{'turn':>4}  {'bytes':>10}  {'sha256':<12}  {'what':<28}  to"
    for line in found.lines:
        piece = line.piece
        where = f"{line.host or THIS_MACHINE} ({line.model}){_hidden(piece.redacted)}"
        yield f"{line.turn:>4}  {piece.size:>10,}  {piece.sha256[:12]}  {piece.source:<28}  {where}"
    for host, total in found.totals.items():
        calls = f"{total.calls} call{'s' * (total.calls != 1)} of {', '.join(total.models)}"
        hidden = f"; {total.redacted} secret{'s' * (total.redacted != 1)} hidden" if total.redacted else ""
        stays = ", which is this machine" if host and is_local(host) else ""
        whom = f"{host}{stays}" if host else "Nobody: recorded replies, which are asked nothing"
        yield f"{whom}: {total.size:,} bytes in {calls}, {total.new:,} of them for the first time{hidden}."


def _whole_line(text: str) -> str:
    """Text as one line: what code chose must not look like the next entry, nor turn the direction of writing."""
    return printable(safe(text.expandtabs()))


def _parsed(path: Path) -> Iterator[AuditEntry]:
    """The lines of a log as entries; an empty entry for a line that isn't one."""
    with fileio.opened(path) as file:
        for line in fileio.lines(file):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = {}
            yield entry if isinstance(entry, dict) else {}


def _check(session: str, key_file: Path | None) -> AuditCheck:
    chosen = settings.load()
    path = locate(session, folders.state_root(chosen.state_dir))
    return audit.verify(path, key=audit.read_key(key_file or chosen.audit_key_file))


def _check_lines(result: AuditCheck) -> Iterator[str]:
    of = f"the audit log of {result.session}" if result.session else f"the audit log {result.path}"
    count = f"{result.lines} lines, {result.cells} cell{'s' * (result.cells != 1)}"
    if result.whole:
        how = "HMACs of your key" if result.keyed and not result.unchecked else "SHA-256, no key"
        yield f"Whole: {of} ({count}; {how})."
    elif not result.problem:
        yield f"NOT CHECKED from event {result.unknown_event} on: {of} ({count}): this version doesn't know that event."
    else:
        where = f" at line {result.line}" if result.line else ""
        yield f"BROKEN{where}: {of} ({count}): {result.problem}."
    yield from result.notes


def _entry_lines(number: int, entry: AuditEntry) -> Iterator[str]:
    """The lines of one entry: its number, time and kind, and its details indented."""
    kind = entry["type"]
    what, more = _FORMS.get(kind, _anything)(entry)
    when = f"{entry['time'][:10]} {entry['time'][11:19]}Z"
    yield f"{number:>5}  {when}  {kind.replace('_', ' '):<13}  {what}".rstrip()
    for line in more:
        yield f"{'':<7}{line}"


def _sent_to_model(entry: AuditEntry) -> tuple[str, list[str]]:
    went = f"{entry['turn']}, {entry['size']:,} bytes to {entry['host'] or THIS_MACHINE} ({entry['model']})"
    why = "" if entry["purpose"] == "answer" else f", for a {entry['purpose']}"
    resent = f", {entry['resent']} pieces of them again" if entry["resent"] else ""
    lines = [
        f"{each['source']}  {each['size']:,} bytes  sha256:{each['sha256']}{_hidden(each['redacted'])}"
        for each in entry["pieces"]
    ]
    return f"{went}{why}{resent}", lines


def _hidden(kinds: Iterable[str]) -> str:
    """The kinds of secrets that were hidden in a piece, as the end of a line; empty if there were none."""
    listed = ", ".join(f"{kind} ×{times}" if times > 1 else kind for kind, times in Counter(kinds).items())
    return f"  hidden: {listed}" if listed else ""


def _anything(entry: AuditEntry) -> tuple[str, list[str]]:
    hidden = ("type", "time", "log", "format", "seq", "prev", "hash")
    shown = {name: value for name, value in entry.items() if name not in hidden and value not in ("", None, [])}
    return "  ".join(f"{name}={_value(value)}" for name, value in shown.items()), []


def _start(entry: AuditEntry) -> tuple[str, list[str]]:
    bounds = ", ".join(f"{name} {_value(value)}" for name, value in entry["limits"].items() if value is not None)
    unbounded = {"allowed_hosts": "any", "cpu_limit": "all cores"}
    options = ", ".join(
        f"{name} {unbounded.get(name) if value is None else _value(value)}" for name, value in entry["security"].items()
    )
    data = [f"data      {each['path']}  {each['size']:,} bytes, from {each['source']}" for each in entry["data"]]
    lines = [f"image     {entry['environment']}", f"limits    {bounds}", f"security  {options}", *data]
    if entry["accepted"]:
        lines.append(f"NOT ENFORCED, accepted by name: {', '.join(entry['accepted'])}")
    return f"{entry['engine']}, {entry['trust']}, Python {entry['python']}, nbagent {entry['nbagent']}", lines


def _question(entry: AuditEntry) -> tuple[str, list[str]]:
    return f"{entry['turn']}, to {'a replay' if entry['replay'] else entry['model']}", [entry["question"]]


def _begun(entry: AuditEntry) -> tuple[str, list[str]]:
    return f"{entry['cell']}, {entry['tool']}, approved by {entry['approver']}", []


def _cell(entry: AuditEntry) -> tuple[str, list[str]]:
    ended = entry["exit"]
    who = f"{entry['tool']} (approved by {entry['approver'] or 'nobody known'})"
    how = [who, ended["status"], ended["error"] or "", ended["signal"] or ""]
    if ended["code"] is not None and not ended["signal"]:
        how.append(f"exit code {ended['code']}")
    if entry["duration"] is not None:
        how.append(f"{entry['duration']:.2f} s")
    if entry["memory_peak"] is not None:
        how.append(f"peak {entry['memory_peak'] // MIB:,} of {entry['memory_limit'] // MIB:,} MB")
    for name in ("packages", "packages_refused", "hosts", "commands"):
        if entry[name]:
            how.append(f"{name.replace('_', ' ')}: {_value(entry[name])}")
    lines = [f"| {line}" for line in entry["code"].splitlines()]
    return f"{entry['cell']}, " + ", ".join(filter(None, how)), lines + ([entry["note"]] if entry["note"] else [])


def _install(entry: AuditEntry) -> tuple[str, list[str]]:
    lines = [f"{each['name']}=={each['version']}  sha256:{each['sha256']}" for each in entry["packages"]]
    return entry["reason"], lines


def _file(entry: AuditEntry) -> tuple[str, list[str]]:
    return f"{entry['path']}, {entry['size']:,} bytes", [f"sha256:{entry['sha256']}"]


def _answer(entry: AuditEntry) -> tuple[str, list[str]]:
    usage = entry["usage"]
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    how = "success" if entry["success"] else "no success"
    return f"{entry['turn']}, {how}, {entry['attempts']} attempts, {tokens}", []


def _approval_asked(entry: AuditEntry) -> tuple[str, list[str]]:
    lines = [f"| {line}" for line in entry["code"].splitlines()]
    return f"{entry['id']}, {entry['kind']} by {entry['tool']}: {entry['what']}", [*entry["packages"], *lines]


def _approval_given(entry: AuditEntry) -> tuple[str, list[str]]:
    why = f": {entry['reason']}" if entry["reason"] else ""
    lines = [f"| {line}" for line in entry["code"].splitlines()]
    return f"{entry['id']}, {entry['decision']} by {entry['by']}{why}", lines


def _tool_stage(entry: AuditEntry) -> tuple[str, list[str]]:
    heads = [f"sha256:{entry['sha256']}"] if entry["sha256"] else []
    heads += [f"{name}  {_value(entry[name])}" for name in ("reason", "dependencies") if entry[name]]
    heads += _install({**entry, "reason": ""})[1]
    sources = [f"| {line}" for name in ("code", "tests") for line in entry[name].splitlines()]
    return f"{entry['tool']} {entry['version']}, {entry['stage']}", heads + sources


_FORMS = {
    "approval_asked": _approval_asked,
    "approval_given": _approval_given,
    "session_start": _start,
    "question": _question,
    "cell_begun": _begun,
    "cell": _cell,
    "install": _install,
    "file": _file,
    "answer": _answer,
    "tool_stage": _tool_stage,
    "sent_to_model": _sent_to_model,
}


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
