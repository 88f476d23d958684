"""What goes over the WebSocket of a session: the calls of a page, and what the page is told."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nbagent.core.events import Decision, Record
from nbagent.session.sharing.wire import Failure

# -- from the page


class Call(msgspec.Struct, frozen=True):
    """A call that a page wants to be made.

    Attributes:
        call: By which its end is known; each number is used once in a channel.
        name: One of `calls.CALLS`.
    """

    call: int
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a call that takes none."""


class AskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.ask`."""

    question: str
    uploaded: list[str] = []


class RunArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.run`; the timeout is in seconds."""

    code: str
    timeout: float | None = None


class ApproveArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.approve`."""

    id: str
    decision: Decision = "approve"
    code: str = ""
    reason: str = ""
    always: bool = False


class ApproveHostArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.approve_host`."""

    id: str
    allow: bool
    remember: bool = True


class AttendArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.attend`."""

    answers: bool = True


class ModelArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.use_model`."""

    name: str


class ApprovalsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.set_approvals`."""

    mode: str


class UndoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.undo_turn`."""

    turn: int
    undo: bool = True


class InstallArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.install`."""

    requirements: list[str]


class StopArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `AnySession.stop`."""

    reason: str = ""


class CancelArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of a call of this page that is to be stopped."""

    call: int


class ResumeArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options that hold from now on; without them those of the settings, and no laxer approvals than before."""

    model: str | None = None
    approvals: str | None = None


# -- to the page


class PageRecord(Record, frozen=True, omit_defaults=True):
    """A record of the session's log.

    Attributes:
        whole: Where below the API the whole record is, if its outputs were cut.
        own: By the place of an error among a cell's outputs, its traceback without what isn't the person's own; only of
            errors whose tracebacks have more.
    """

    whole: str = ""
    own: dict[str, list[str]] = msgspec.field(default_factory=dict)


class Records(msgspec.Struct, frozen=True):
    """Records of the session's log, in order and without gaps."""

    records: list[PageRecord]


class CallReturned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a call. What it did stands in records that came before.

    Attributes:
        returned: The call's number.
        value: What it returned.
        failure: Why it failed, if it did.
    """

    returned: int
    value: Any = None
    failure: Failure | None = None


class Words(msgspec.Struct, frozen=True):
    """Words of a reply that a model is writing; with the next `ModelReplied` or `ModelFailed` those so far are over."""

    turn: int
    text: str


class WordsSaid(msgspec.Struct, frozen=True):
    """Words that are in no record yet."""

    words: Words


ChannelState = Literal["running", "waiting", "ended", "gone"]
"""A session's state; `gone` if it was deleted."""


class StateTold(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session's state: at the beginning, and each time it changes.

    Attributes:
        last: The number of the log's last record.
        mend: What can be done if it doesn't run.
    """

    state: ChannelState
    last: int = 0
    mend: str = ""
