"""Checks whether an audit log was changed since it was written, and finds the first line that was."""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbagent.core import fileio
from nbagent.core.errors import NewerLog, StoreError, UsageError
from nbagent.core.folders import LOG_FILE
from nbagent.core.session_log import read_log
from nbagent.observability.audit import chain
from nbagent.observability.audit.entries import AuditEntry, Entries, sha256

_LINE = re.compile(rb'(\{.*),"hash":"([0-9a-f]{64})"\}\n', re.DOTALL)
_CHAIN = ("seq", "prev", "hash")
TRIES = 3
"""How often a log is read that doesn't match its head: its session may write to it meanwhile."""


@dataclass
class AuditCheck:
    """What was found in an audit log, and in the session's log beside it.

    Attributes:
        session: The session's id in the first line; empty if that can't be read.
        lines: The number of whole lines.
        cells: The number of cells that have ended.
        line: The number of the first line that was changed; None if no line was.
        problem: What is wrong, one sentence; empty if nothing is.
        unknown_event: The number of the first event in the session's log that this version doesn't know; the two logs
            were compared up to that one only. None if all events are known.
        keyed: Whether the hashes are HMACs.
        unchecked: Whether the HMACs could not be checked, because no key was given.
        notes: Further sentences for a person: what could not be checked, what was cut off.
    """

    path: Path
    session: str = ""
    lines: int = 0
    cells: int = 0
    line: int | None = None
    problem: str = ""
    unknown_event: int | None = None
    keyed: bool = False
    unchecked: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether all was compared, and no change was found."""
        return not self.problem and self.unknown_event is None

    @property
    def exit_code(self) -> int:
        """For the command line: 0 if it is whole, 1 if it was changed, 2 if this version can't check all of it."""
        return 1 if self.problem else 0 if self.unknown_event is None else 2


class _BrokenError(Exception):
    def __init__(self, line: int | None, problem: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem


def locate(named: str, root: Path) -> Path:
    """The path of an audit log, named by a session's id, its folder, or the file.

    Raises:
        UsageError: There is no such log.
    """
    for path in (root / "sessions" / named / chain.FILE, Path(named) / chain.FILE, Path(named)):
        # A person may type something that is no valid path.
        with contextlib.suppress(OSError, ValueError):
            if named and path.is_file():
                return path
    raise UsageError(
        f"There is no audit log of {named[:200]!r}.", mend=f"Name a session in {root / 'sessions'}, or a file."
    )


def verify(path: Path, *, key: bytes | None = None) -> AuditCheck:
    """Check a log's chain, and, in a session's folder, its head and the session's event log.

    Args:
        path: The audit log.
        key: The key of its HMACs. Without it, such a log is checked by its chain and head only.

    Raises:
        UsageError: This version doesn't know the log's format.
        StoreError: The file can't be read.
    """
    path = path.resolve()
    for _ in range(TRIES):
        result = _verify(path, key)
        if not result.problem or result.line is not None:
            break
        # A head that is read while it is overwritten may be a mixture of two.
        time.sleep(0.02)
    return result


def _verify(path: Path, key: bytes | None) -> AuditCheck:
    """Check once. The session may be running, so a file that is read later may be longer."""
    result = AuditCheck(path)
    at_home = path.name == chain.FILE and len(path.parents) > 2 and path.parents[1].name == "sessions"
    head = _head(path, key) if at_home else None
    lines, is_cut = _lines(path)
    log, result.unknown_event = _from_events(path.parent)
    later = _head(path, key) if at_home else None
    result.lines = len(lines)
    try:
        found = list(_check_chain(lines, result, key))
        if at_home and result.session != path.parent.name:
            raise _BrokenError(1, f"the log of the session {result.session!r} lies in the folder of another one")
        if at_home and (why := chain.not_as_headed(lines, head, later)):
            raise _BrokenError(None, why)
        _compare(found, log, result, written_since=max(0, later.seq - len(lines)) if later else 0)
    except _BrokenError as broken:
        result.line, result.problem = broken.line, broken.problem
    if result.unknown_event is not None and not result.problem:
        result.notes.append("A newer nbagent may have written the session's log: check it with that one.")
    result.cells = sum(b'"type":"cell"' in line for line in lines)
    if is_cut and head == later:
        result.notes.append("Its last line was cut off when nbagent was killed, and counts for nothing.")
    if not at_home:
        result.notes.append("It is not in a session's folder: whether its end was cut off was not checked.")
    return result


def _head(path: Path, key: bytes | None) -> chain.Head | None:
    return chain.Head.read(path.parents[2] / chain.HEADS / path.parent.name, session=path.parent.name, key=key)


def _lines(path: Path) -> tuple[list[bytes], bool]:
    """The whole lines of a log, and whether a last one was cut off."""
    try:
        with fileio.opened(path) as file:
            found = list(fileio.lines(file))
            return found, sum(map(len, found)) < file.tell()
    except OSError as error:
        raise StoreError(f"The audit log {path} can't be read: {error.strerror}.") from error


def _from_events(folder: Path) -> tuple[list[AuditEntry] | str, int | None]:
    """The entries for the event log beside the audit log, or a sentence why it can't be read.

    The entries end before the first event of an unknown type, whose number is returned too.
    """
    if not (folder / LOG_FILE).exists():
        return "The session's event log is not beside it.", None
    found, fold, last = list[AuditEntry](), Entries(), 0
    try:
        for record in read_log(folder):
            found += fold.on_event(record)
            last = record.seq
    except NewerLog:
        return found, last + 1
    except StoreError as error:
        return str(error), None
    return found, None


def _check_chain(lines: list[bytes], result: AuditCheck, key: bytes | None) -> Iterator[AuditEntry]:
    """The entries of the lines, each with its hashes checked."""
    if not lines:
        raise _BrokenError(1, "there is no whole line in it")
    previous = chain.FIRST
    for number, line in enumerate(lines, start=1):
        entry, body, hash_ = _parse(number, line)
        if number == 1:
            _check_first(entry, result, key)
        if entry.get("seq") != number:
            raise _BrokenError(number, f"the line with number {entry.get('seq')} stands where number {number} belongs")
        if entry.get("prev") != previous:
            raise _BrokenError(number, "it was not written behind the line that stands before it")
        if (key is not None or not result.keyed) and not hmac.compare_digest(hash_, chain.seal(body, key)):
            raise _BrokenError(number, "its text is not what its hash was made of")
        if entry.get("type") == chain.GAP:
            raise _BrokenError(
                number, f"when the session was resumed, the log was not as it had been: {entry.get('reason')}"
            )
        if number == 1 and entry.get("format") != chain.FORMAT:
            raise UsageError(f"The audit log has format {entry.get('format')}, which this version can't check.")
        previous = sha256(line)
        yield entry


def _parse(number: int, line: bytes) -> tuple[AuditEntry, bytes, str]:
    found = _LINE.fullmatch(line)
    body = found[1] + b"}" if found else b""
    try:
        entry: Any = json.loads(body)
        right = found is not None and isinstance(entry, dict) and chain.canonical(entry) == body
    except (ValueError, RecursionError):
        right = False
    if not right or found is None:
        raise _BrokenError(number, "it is not a line as nbagent writes them")
    return entry, body, found[2].decode()


def _check_first(entry: AuditEntry, result: AuditCheck, key: bytes | None) -> None:
    """Read the first line: session, format and key."""
    if entry.get("type") != chain.START or not isinstance(entry.get("session"), str):
        raise _BrokenError(1, "the first line, which binds the session, is missing")
    result.session, result.keyed = entry["session"], bool(entry.get("key"))
    if result.keyed and key is None:
        result.unchecked = True
        result.notes.append("It was written with a key. Without it (--key-file) only chain and head were checked.")
    elif key is not None and not result.keyed:
        raise _BrokenError(1, "it was written without a key")
    elif key is not None and entry["key"] != chain.key_name(key):
        raise _BrokenError(1, "it was written with another key")


def _compare(found: list[AuditEntry], log: list[AuditEntry] | str, result: AuditCheck, *, written_since: int) -> None:
    """Check that the audit log's entries are those of the event log, which got `written_since` more meanwhile."""
    if isinstance(log, str):
        if result.path.parent.name == result.session:
            raise _BrokenError(None, log[0].lower() + log[1:].rstrip("."))
        result.notes.append(f"{log} So the two were not compared.")
        return
    end = math.inf if result.unknown_event is None else result.unknown_event
    told = [entry for entry in found if entry["type"] != chain.START and entry["log"] < end]
    for entry, wanted in zip(told, log, strict=False):
        said = {name: value for name, value in entry.items() if name not in _CHAIN}
        # Through JSON, since the entry in the file went through it, too.
        wanted = json.loads(chain.canonical(wanted))
        if said != wanted:
            names = sorted(name for name in said.keys() | wanted.keys() if said.get(name) != wanted.get(name))
            raise _BrokenError(
                entry["seq"], f"event {wanted['log']} in the session's log differs in: {', '.join(names)}"
            )
    if len(told) > len(log):
        entry = told[len(log)]
        raise _BrokenError(entry["seq"], f"event {entry['log']}, which it was made of, is missing in the session's log")
    if missing := log[len(told) + written_since :]:
        what = f"{missing[0]['type']} {missing[0].get('cell') or ''}".strip()
        if missing[0]["log"] != log[-1]["log"]:
            raise _BrokenError(None, f"event {missing[0]['log']} of the session's log ({what}) has no line")
        why = "nbagent was killed before, or is about to write it"
        result.notes.append(f"The last event ({what}) has no line: {why}.")
