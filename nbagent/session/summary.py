"""What lists of sessions show of each: a small file in its folder, which the session's owner keeps up to date.

The log is the truth, and the summary can be made of it again; it is there so that nobody reads whole logs for a list.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from nbagent.core.events import (
    NO_USAGE,
    Answered,
    Asked,
    CellStarted,
    Record,
    Renamed,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    Usage,
)
from nbagent.core.journal import read_log

NAME = "summary.json"
TITLE = 120
"""Characters of a title."""
_TOLD = (SessionStarted, SessionResumed, Asked, Answered, Renamed, SessionEnded)
"""Events after which the file is written: a cell is too short for that, and is counted with the next of these."""


class Summary(msgspec.Struct, kw_only=True):
    """A session in a few words.

    Attributes:
        named: The title that the person gave it.
        about: The first question, else the first line of code.
        started: Seconds since the epoch.
        changed: When something happened last, in seconds since the epoch, as of when this was written.
        engine: The engine's name.
        trust: The trust level's name.
        questions: Questions asked.
        cells: Cells run.
        usage: What models used for its questions.
        has_ended: Whether it was ended on purpose.
    """

    named: str = ""
    about: str = ""
    started: float = 0.0
    changed: float = 0.0
    engine: str = ""
    trust: str = ""
    questions: int = 0
    cells: int = 0
    usage: Usage = NO_USAGE
    has_ended: bool = False

    @property
    def title(self) -> str:
        """What stands in lists."""
        return self.named or self.about

    def on_event(self, record: Record) -> None:
        """Take the next event of the log."""
        event = record.event
        self.started = self.started or record.at
        self.changed = record.at
        self.has_ended = isinstance(event, SessionEnded) or (self.has_ended and isinstance(event, Renamed))
        match event:
            case SessionStarted(engine=engine, trust=trust):
                self.engine, self.trust = engine, trust
            case Asked(question=question):
                self.about = self.about if self.questions else line_of(question)
                self.questions += 1
            case CellStarted(code=code):
                self.about = self.about or line_of(code)
                self.cells += 1
            case Renamed(title=title):
                self.named = title
            case Answered(usage=usage):
                self.usage += usage


def line_of(text: str) -> str:
    """The first line of a text that says something, at most as long as a title."""
    line = next((" ".join(each.split()) for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= TITLE else f"{line[: TITLE - 1]}…"


class Keeper:
    """Keeps the summary of a session that this process owns.

    Args:
        folder: The session's.
        past: The records so far.
    """

    def __init__(self, folder: Path, *, past: Iterable[Record]) -> None:
        self._folder = folder
        self._summary = Summary()
        for record in past:
            self._summary.on_event(record)
        self._write()

    def on_event(self, record: Record) -> None:
        """Take the next record."""
        self._summary.on_event(record)
        if isinstance(record.event, _TOLD):
            self._write()

    def _write(self) -> None:
        # What can't be written is made of the log by whoever lists the sessions.
        with contextlib.suppress(OSError):
            write(self._folder, self._summary)


def write(folder: Path, summary: Summary) -> None:
    """Write a summary whole or not at all; only for who holds the session's lock.

    Raises:
        OSError: It can't be written.
    """
    # Not made to outlast a crash of the machine, which would cost each question more than the log itself does.
    staged = folder / f".{NAME}"
    staged.write_bytes(msgspec.json.encode(summary))
    staged.replace(folder / NAME)


def read(folder: Path) -> Summary | None:
    """The summary of a session, or None if there is none that can be read."""
    try:
        return _DECODER.decode((folder / NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def of_log(folder: Path) -> Summary | None:
    """The summary of a session as its log tells it; None if that says nothing.

    Raises:
        StoreError: The log can't be read.
    """
    found = Summary()
    for record in read_log(folder):
        found.on_event(record)
    return found if found.started else None


_DECODER = msgspec.json.Decoder(Summary)
