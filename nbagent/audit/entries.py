"""What the audit log says of each event.

Pure: the same events always give the same entries, so that the two can be compared later.

An entry has `type`, `time` (UTC, RFC 3339), `log` (the number of the event that it comes from) and what is in the
functions below. A cell has two: `cell_begun` is written before its code runs, so that no code ever ran without a trace;
`cell` when it has ended, and has it all. A cell that nobody saw the end of, because nbagent was killed, gets its `cell`
when the session goes on, with the status `unknown`.

The hash in `cell` is of what the cell showed when it ended. Code can add to that later, and change it: of each cell and
each moment at which that happened there is one `late_output`, written when it first happened, with the cell that ran
then (0 for none).
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from nbagent.events import (
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    CommandRun,
    Event,
    FileSaved,
    InstallFailed,
    LateOutput,
    ModelReplied,
    OutputAdded,
    OutputsCleared,
    OutputUpdated,
    Package,
    PackagesInstalled,
    Record,
    Renamed,
    SessionResumed,
    SessionStarted,
    WidgetState,
)

Entry = dict[str, Any]
"""One line of the audit log, without what chains it."""

LEFT_OUT = (OutputAdded, OutputsCleared, WidgetState, ModelReplied, Renamed)
"""Events that no entry is made of: what a cell showed (its entry has a hash of it), the model's words, and a title."""


def entries(records: Iterable[Record]) -> Iterator[Entry]:
    """All entries of a session's events."""
    fold = Entries()
    for record in records:
        yield from fold.add(record)


class Entries:
    """Turns events into entries, one after the other; remembers what a cell's entry needs of those before it."""

    def __init__(self) -> None:
        self._questions: dict[int, str] = {}
        self._environment = ""
        self._open: CellStarted | None = None
        self._begun = 0.0
        self._packages: list[str] = []
        self._refused: list[str] = []
        self._hosts: list[str] = []
        self._commands = 0
        self._late: set[tuple[int, int, str]] = set()

    def add(self, record: Record) -> Iterator[Entry]:
        """The entries of the next event, most often one or none."""
        for entry in self._of(record):
            yield {**entry, "time": rfc3339(record.at), "log": record.seq}

    def _of(self, record: Record) -> Iterator[Entry]:
        event = record.event
        if isinstance(event, LEFT_OUT):
            return
        if isinstance(event, LateOutput | OutputUpdated):
            yield from self._late_output(event)
            return
        if isinstance(event, SessionStarted | SessionResumed | CellStarted) and self._open is not None:
            yield self._unknown_end(self._open, record.at)
        match event:
            case SessionStarted():
                self._environment = event.environment
                yield _plain("session_start", event)
            case SessionResumed():
                self._environment = event.environment or self._environment
                yield _plain("session_resumed", event)
            case Asked():
                self._questions[event.turn] = event.question
                yield _plain("question", event)
            case CellStarted():
                yield self._begin(event, record.at)
            case CellFinished():
                yield self._end(event)
            case _:
                self._note(event)
                yield _plain(_NAMES.get(type(event), _snake(type(event).__name__)), event)

    def _late_output(self, event: LateOutput | OutputUpdated) -> Iterator[Entry]:
        """Output that was added to a cell that had ended, or changed there, once for each moment."""
        if event.during is None:
            return  # a log of before this was told
        if isinstance(event, LateOutput):
            how, cells, shown = "added", [event.cell], event.output
        else:
            how, cells, shown = "changed", event.changed, event.data
        for cell in cells:
            moment = (cell, event.during, how)
            if cell != event.during and moment not in self._late:
                self._late.add(moment)
                sha256 = _sha256(msgspec.json.encode(shown, order="sorted"))
                yield {"type": "late_output", "cell": cell, "during": event.during, "how": how, "first_sha256": sha256}

    def _note(self, event: Event) -> None:
        """Remember what belongs to the running cell."""
        match event:
            case PackagesInstalled(packages=packages):
                self._packages += [_pin(each) for each in packages]
            case InstallFailed(requirements=requirements):
                self._refused += requirements
            case CommandRun():
                self._commands += 1
            case _ if isinstance(host := getattr(event, "host", None), str):
                # Whatever asks for a host, allows or denies one: its own entry says which.
                port = getattr(event, "port", None)
                self._hosts.append(f"{host}:{port}" if port else host)

    def _begin(self, event: CellStarted, at: float) -> Entry:
        self._open, self._begun = event, at
        self._packages, self._refused, self._hosts, self._commands = [], [], [], 0
        return {"type": "cell_begun", **self._who(event), "code_sha256": _sha256(event.code.encode())}

    def _who(self, event: CellStarted) -> Entry:
        return {
            "cell": event.cell,
            "turn": event.turn,
            "tool": event.tool or ("python" if event.turn else "person"),
            "approver": event.approver,
            "environment": self._environment,
        }

    def _what(self, event: CellStarted) -> Entry:
        return {
            **self._who(event),
            "prompt": self._questions.get(event.turn, ""),
            "code": event.code,
            "code_sha256": _sha256(event.code.encode()),
            "started": rfc3339(self._begun),
            # Copies: what comes before the next cell is in no entry of this one.
            "packages": [*self._packages],
            "packages_refused": [*self._refused],
            "hosts": list(dict.fromkeys(self._hosts)),
            "commands": self._commands,
        }

    def _end(self, event: CellFinished) -> Entry:
        begun = self._open or CellStarted(cell=event.cell, turn=0, code="")
        self._open = None
        return {
            "type": "cell",
            **self._what(begun),
            "exit": _exit(event),
            "duration": round(event.duration, 6),
            "memory_peak": event.memory_peak,
            "memory_limit": event.memory_limit,
            "outputs_sha256": _sha256(msgspec.json.encode(event.outputs, order="sorted")),
            "note": event.note,
        }

    def _unknown_end(self, event: CellStarted, at: float) -> Entry:
        """The cell that was running when nbagent itself ended."""
        self._open = None
        note = "nbagent ended while it ran: nobody saw its end."
        ended = {"status": "unknown", "code": None, "signal": None, "error": None}
        return {
            "type": "cell",
            **self._what(event),
            "exit": ended,
            "duration": None,
            "memory_peak": None,
            "memory_limit": None,
            "outputs_sha256": None,
            "note": f"{note} The session went on at {rfc3339(at)}.",
        }


_NAMES: dict[type[Any], str] = {
    Answered: "answer",
    CommandRun: "command",
    FileSaved: "file",
    PackagesInstalled: "install",
}
"""What an entry is called where that isn't the event's own name."""


def _plain(kind: str, event: Event) -> Entry:
    """An event's own fields, all of them: what this module knows nothing of is not left out."""
    fields: Entry = msgspec.to_builtins(event)
    del fields["type"]
    return {"type": kind, **fields}


def _exit(event: CellFinished) -> Entry:
    code = event.exit_code
    error = next((each.get("ename") for each in event.outputs if each.get("output_type") == "error"), None)
    return {"status": event.status, "code": code, "signal": signal_name(code), "error": error}


def signal_name(code: int | None) -> str | None:
    """The signal that a negative exit code means."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _pin(package: Package) -> str:
    return f"{package.name}=={package.version}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


def rfc3339(at: float) -> str:
    """Seconds since the epoch as `2026-11-21T06:45:12.000125Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
