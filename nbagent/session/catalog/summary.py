"""The summary of a session: a small file in its folder, for lists of sessions, kept up to date by the session's owner.

The log is the truth, and the summary can be made of it again. It saves lists from reading whole logs.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from nbagent.core import events, fileio
from nbagent.core.session_log import read_log

SUMMARY_FILE = "summary.json"
MAX_BYTES = 1024 * 1024
"""Bytes of a summary that is read; of a larger one nobody knows who wrote it."""
TITLE_CHARACTERS = 120
"""Characters of a title."""
_WRITTEN_AFTER = (
    events.SessionStarted,
    events.SessionResumed,
    events.Asked,
    events.Answered,
    events.Renamed,
    events.SessionEnded,
)
"""Events after which the file is written; cells are too short for that, and are counted with the next of these."""


class Summary(msgspec.Struct, kw_only=True):
    """A session in a few words.

    Attributes:
        named: The title that the person gave it.
        about: The first question, else the first line of code.
        started: Seconds since the epoch.
        changed: When the last event happened before this was written, in seconds since the epoch.
        usage: What models used for its questions, those that have not ended included.
        has_ended: Whether it was stopped, rather than detached from or killed.
    """

    named: str = ""
    about: str = ""
    started: float = 0.0
    changed: float = 0.0
    engine: str = ""
    trust: str = ""
    questions: int = 0
    cells: int = 0
    usage: events.Usage = events.NO_USAGE
    has_ended: bool = False

    @property
    def title(self) -> str:
        """The person's title, or else what the session is about."""
        return self.named or self.about

    def on_event(self, record: events.Record) -> None:
        """Take the next event of the log."""
        event = record.event
        self.started = self.started or record.at
        self.changed = record.at
        self.has_ended = isinstance(event, events.SessionEnded) or (
            self.has_ended and isinstance(event, events.Renamed)
        )
        match event:
            case events.SessionStarted(engine=engine, trust=trust):
                self.engine, self.trust = engine, trust
            case events.Asked(question=question):
                self.about = self.about if self.questions else line_of(question)
                self.questions += 1
            case events.CellStarted(code=code):
                self.about = self.about or line_of(code)
                self.cells += 1
            case events.Renamed(title=title):
                self.named = title
            case events.ModelReplied(usage=usage) | events.ModelFailed(usage=usage) | events.Reflected(usage=usage):
                self.usage += usage


def line_of(text: str) -> str:
    """The first line of a text that isn't blank, cut to the length of a title."""
    line = next((" ".join(each.split()) for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


class SummaryKeeper:
    """Keeps the summary of a session that this process owns, from that of its events so far."""

    def __init__(self, folder: Path, summary: Summary) -> None:
        self._folder = folder
        self._summary = summary
        self.save()

    def on_event(self, record: events.Record) -> None:
        """Take the next record."""
        self._summary.on_event(record)
        if isinstance(record.event, _WRITTEN_AFTER):
            self.save()

    def save(self) -> None:
        """Write it as it is now; to be called last of all, as cells may have run since it was written."""
        # Whoever lists the sessions makes a summary of the log if there is none.
        with contextlib.suppress(OSError):
            write(self._folder, self._summary)


def write(folder: Path, summary: Summary) -> None:
    """Write a summary whole or not at all; the caller holds the session's lock.

    Raises:
        OSError: It can't be written.
    """
    # Not synced to the disk: that would cost each question more than the log does, and the log has it all.
    fileio.write(folder / SUMMARY_FILE, msgspec.json.encode(summary))


def read(folder: Path) -> Summary | None:
    """The summary of a session; None if it is missing or can't be read."""
    try:
        with fileio.opened(folder / SUMMARY_FILE) as file:
            return _DECODER.decode(file.read(MAX_BYTES))
    except (OSError, msgspec.DecodeError):
        return None


def of_log(folder: Path) -> Summary | None:
    """The summary of a session, made of its log; None if the log is empty."""
    found = Summary()
    for record in read_log(folder):
        found.on_event(record)
    return found if found.started else None


_DECODER = msgspec.json.Decoder(Summary)
