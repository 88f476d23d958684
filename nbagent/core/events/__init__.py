"""The events of a session, and the values that they carry: `Cell`, `Answer`, `Approval`.

Each event is a fact in the past tense. `SessionLog.emit` writes it to the session's append-only log, in a `Record`
with a number and the time, and then gives it to every reader. Notebooks, terminals and panels are views of the log.

    cells.py       cells and their outputs                              emitted by `kernel/`
    packages.py    requests to the package index, and installs          emitted by `kernel/installs.py`
    files.py       files that come into the sandbox and out of it       emitted by `session/files/session_files.py`
    turns.py       questions, requests to the model, answers            emitted by `agent/`
    tools.py       tools of MCP servers, tools that the forge makes     emitted by `mcp/`, `agent/` and `forge/`
    session.py     a session's begin and end, its data, permissions     emitted by `session/`, `safety/`, `kernel/`
    base.py        `Fact`, of which each event is one; display.py       what cells and answers show in a notebook

An event that ends something is its result: `CellFinished` is a `Cell`, `Answered` an `Answer`, `ApprovalGiven` an
`Approval`.
"""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

import msgspec

from nbagent.core.events.base import *
from nbagent.core.events.cells import *
from nbagent.core.events.files import *
from nbagent.core.events.packages import *
from nbagent.core.events.session import *
from nbagent.core.events.tools import *
from nbagent.core.events.turns import *

Event = (
    SessionStarted
    | Asked
    | TurnUndone
    | PhaseEntered
    | ModelReplied
    | SentToModel
    | CodeGenerated
    | Reflected
    | ModelFailed
    | CellStarted
    | CellWaits
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
    | LateOutputAdded
    | StateLost
    | StateRestored
    | WidgetsChanged
    | FileSaved
    | FilesLeft
    | QuotaReached
    | FilesChanged
    | DataLeftOut
    | DataDescribed
    | DataHashed
    | FileUploaded
    | FileDownloaded
    | McpServerChanged
    | McpToolsChanged
    | McpToolsSelected
    | McpRequestDeclined
    | McpToolCalled
    | ToolStageEntered
    | ToolRefused
    | Answered
    | SessionResumed
    | Renamed
    | SessionEnded
)


class Record(msgspec.Struct, frozen=True):
    """An event with its place in the log.

    Attributes:
        seq: Its number within the session, from 1, without gaps.
        at: Seconds since the epoch, UTC.
        event: The event.
    """

    seq: int
    at: float
    event: Event


T = TypeVar("T")
_ENCODER = msgspec.json.Encoder(enc_hook=os.fspath)


def to_json(value: Any) -> bytes:
    """A cell, an answer, an event, or a value made of these as JSON.

    Lone surrogates, which text from a sandbox and file names may have, become `?`, since UTF-8 can't encode them.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=os.fspath)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def from_json(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Read a value that `to_json` wrote.

    Raises:
        msgspec.DecodeError: It is of another type.
    """
    return msgspec.json.decode(data, type=kind, dec_hook=lambda made, given: made(given))
