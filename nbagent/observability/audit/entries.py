"""The entries of the audit log for each event.

Pure: the same events always give the same entries, so that both logs can be compared later.

An entry has `type`, `time` (UTC, RFC 3339), `log` (the number of its event), and what its type needs. A cell has two
entries: `cell_begun` is written before its code runs, so that no code runs without a trace, and `cell` at its end. If
nbagent was killed while a cell ran, its `cell` is written when the session is resumed, with the status `unknown`.

The hash in `cell` is of the outputs at the cell's end. Code can add to these later, and change them: then one entry
`late_output` is written for each such cell and each cell that was running at that time (0 for none).
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nbagent.core import events

AuditEntry = dict[str, Any]
"""One line of the audit log, without its hashes."""

LEFT_OUT = (
    events.CellWaits,
    events.OutputAdded,
    events.OutputsCleared,
    events.WidgetsChanged,
    events.ModelReplied,
    events.Renamed,
    events.DataDescribed,
)
"""Events without entries: waiting, outputs (a cell's entry has their hash), the model's words, the session's title, and
what columns the data has."""


def entries(records: Iterable[events.Record]) -> Iterator[AuditEntry]:
    """All entries of a session's events."""
    fold = Entries()
    for record in records:
        yield from fold.on_event(record)


class Entries:
    """Turns events into entries, in order; remembers what the entry of the running cell needs at its end."""

    def __init__(self) -> None:
        self._questions: dict[int, str] = {}
        self._environment = ""
        self._open: events.CellStarted | None = None
        self._begun = 0.0
        self._packages: list[str] = []
        self._refused: list[str] = []
        self._hosts: list[str] = []
        self._commands = 0
        self._late: set[tuple[int, int, str]] = set()

    def on_event(self, record: events.Record) -> Iterator[AuditEntry]:
        """The entries of the next event."""
        for entry in self._entries(record):
            yield {**entry, "time": rfc3339(record.at), "log": record.seq}

    def _entries(self, record: events.Record) -> Iterator[AuditEntry]:
        event = record.event
        if isinstance(event, LEFT_OUT):
            return
        if isinstance(event, events.LateOutputAdded | events.OutputUpdated):
            yield from self._late_output(event)
            return
        if (
            isinstance(event, events.SessionStarted | events.SessionResumed | events.CellStarted)
            and self._open is not None
        ):
            yield self._unknown_end(self._open, record.at)
        match event:
            case events.SessionStarted():
                self._environment = event.environment
                yield _whole_event("session_start", event)
            case events.SessionResumed():
                self._environment = event.environment or self._environment
                yield _whole_event("session_resumed", event)
            case events.Asked():
                self._questions[event.turn] = event.question
                yield _whole_event("question", event)
            case events.CellStarted():
                yield self._begin(event, record.at)
            case events.CellFinished():
                yield self._end(event)
            case _:
                self._note(event)
                yield _whole_event(_NAMES.get(type(event), _snake(type(event).__name__)), event)

    def _late_output(self, event: events.LateOutputAdded | events.OutputUpdated) -> Iterator[AuditEntry]:
        """The entry for output that was added to, or changed in, a cell that had ended."""
        if event.during is None:
            return  # an older version wrote the event
        if isinstance(event, events.LateOutputAdded):
            how, cells, shown = "added", [event.cell], event.output
        else:
            how, cells, shown = "changed", event.changed, event.data
        for cell in cells:
            moment = (cell, event.during, how)
            if cell != event.during and moment not in self._late:
                self._late.add(moment)
                first = sha256(msgspec.json.encode(shown, order="sorted"))
                yield {"type": "late_output", "cell": cell, "during": event.during, "how": how, "first_sha256": first}

    def _note(self, event: events.Event) -> None:
        """Remember what an event adds to the entry of the running cell."""
        match event:
            case events.PackagesInstalled(packages=packages):
                self._packages += [f"{each.name}=={each.version}" for each in packages]
            case events.InstallFailed(requirements=requirements):
                self._refused += requirements
            case events.CommandRun():
                self._commands += 1
            case _ if isinstance(host := getattr(event, "host", None), str):
                # Requests for hosts have entries of their own; the cell's entry names the hosts.
                port = getattr(event, "port", None)
                self._hosts.append(f"{host}:{port}" if port else host)

    def _begin(self, event: events.CellStarted, at: float) -> AuditEntry:
        self._open, self._begun = event, at
        self._packages, self._refused, self._hosts, self._commands = [], [], [], 0
        return {"type": "cell_begun", **self._about(event), "code_sha256": sha256(event.code.encode())}

    def _about(self, event: events.CellStarted) -> AuditEntry:
        return {
            "cell": event.cell,
            "turn": event.turn,
            "tool": event.tool or ("python" if event.turn else "person"),
            "approver": event.approver,
            "environment": self._environment,
        }

    def _cell(self, event: events.CellStarted) -> AuditEntry:
        return {
            **self._about(event),
            "prompt": self._questions.get(event.turn, ""),
            "code": event.code,
            "code_sha256": sha256(event.code.encode()),
            "started": rfc3339(self._begun),
            # Copies, since the lists grow until the next cell begins.
            "packages": [*self._packages],
            "packages_refused": [*self._refused],
            "hosts": list(dict.fromkeys(self._hosts)),
            "commands": self._commands,
        }

    def _end(self, event: events.CellFinished) -> AuditEntry:
        begun = self._open or events.CellStarted(cell=event.cell, turn=0, code="")
        self._open = None
        return {
            "type": "cell",
            **self._cell(begun),
            "exit": _exit(event),
            "duration": round(event.duration, 6),
            "memory_peak": event.memory_peak,
            "memory_limit": event.memory_limit,
            "outputs_sha256": sha256(msgspec.json.encode(event.outputs, order="sorted")),
            "note": event.note,
        }

    def _unknown_end(self, event: events.CellStarted, at: float) -> AuditEntry:
        """The entry at the end of a cell that was running when nbagent was killed."""
        self._open = None
        note = "nbagent ended while it ran: nobody saw its end."
        ended = {"status": "unknown", "code": None, "signal": None, "error": None}
        return {
            "type": "cell",
            **self._cell(event),
            "exit": ended,
            "duration": None,
            "memory_peak": None,
            "memory_limit": None,
            "outputs_sha256": None,
            "note": f"{note} The session went on at {rfc3339(at)}.",
        }


_NAMES: dict[type[Any], str] = {
    events.Answered: "answer",
    events.CommandRun: "command",
    events.FileSaved: "file",
    events.PackagesInstalled: "install",
    events.ToolStageEntered: "tool_stage",
}
"""The types of entries whose names differ from those of their events."""


def _whole_event(kind: str, event: events.Event) -> AuditEntry:
    """An entry with all fields of an event, so that new kinds of events are logged, too."""
    fields: AuditEntry = msgspec.to_builtins(event)
    del fields["type"]
    return {"type": kind, **fields}


def _exit(event: events.CellFinished) -> AuditEntry:
    code = event.exit_code
    error = next((each.get("ename") for each in event.outputs if each.get("output_type") == "error"), None)
    return {"status": event.status, "code": code, "signal": signal_name(code), "error": error}


def signal_name(code: int | None) -> str | None:
    """The name of the signal in a negative exit code."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def sha256(data: bytes) -> str:
    """The SHA-256 of data, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


def rfc3339(at: float) -> str:
    """Seconds since the epoch as `2026-11-21T06:45:12.000125Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
