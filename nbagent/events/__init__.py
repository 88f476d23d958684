"""What happens in a session, as frozen facts, and what a cell and an answer are.

Each fact is written to the session's append-only log before anyone shows it (`store.Journal`), wrapped in a `Record`
that carries its sequence number and time. The log is the truth; notebooks, terminals and panels are views of it.

    cells.py       `Cell`, and what happens to one
    turns.py       `Answer`, and what leads to one
    session.py     a session's beginning and end, and what a person lets it do
    files.py, packages.py, tools.py

An event that ends something is what came of it: `CellFinished` is the `Cell`, `Answered` is the `Answer`.
"""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

import msgspec

from nbagent.events.base import *
from nbagent.events.cells import *
from nbagent.events.files import *
from nbagent.events.packages import *
from nbagent.events.session import *
from nbagent.events.tools import *
from nbagent.events.turns import *

Event = (
    SessionStarted
    | Asked
    | PhaseEntered
    | ModelReplied
    | SentToModel
    | CodeGenerated
    | Reflected
    | ModelFailed
    | CellStarted
    | CommandRun
    | OutputAdded
    | OutputUpdated
    | OutputsCleared
    | IndexAsked
    | PackagesInstalled
    | InstallFailed
    | HostAsked
    | HostDecided
    | ApprovalAsked
    | ApprovalGiven
    | ApprovalsSet
    | RedactionSet
    | CellFinished
    | LateOutput
    | StateLost
    | StateRestored
    | WidgetState
    | FileSaved
    | FilesLeft
    | QuotaReached
    | FilesChanged
    | DataLeftOut
    | FileUploaded
    | FileDownloaded
    | McpServerChanged
    | McpToolsChanged
    | McpToolsSelected
    | McpRequestDeclined
    | McpToolCalled
    | ToolStage
    | ToolRefused
    | Answered
    | SessionResumed
    | Renamed
    | SessionEnded
)


class Record(msgspec.Struct, frozen=True):
    """An event as it stands in the log.

    Attributes:
        seq: Its place in the session, from 1, without gaps.
        at: Seconds since the epoch, UTC.
        event: The fact.
    """

    seq: int
    at: float
    event: Event


T = TypeVar("T")
_ENCODER = msgspec.json.Encoder(enc_hook=os.fspath)


def to_json(value: Any) -> bytes:
    """A cell, an answer, an event, or anything that is made of them, as JSON.

    Text from a sandbox, or a file's name, may hold half of a surrogate pair, which UTF-8 can't: it becomes a `?`.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=os.fspath)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def from_json(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """What `to_json` was given.

    Raises:
        msgspec.DecodeError: It is of another kind.
    """
    return msgspec.json.decode(data, type=kind, dec_hook=lambda made, given: made(given))
