"""What a page may call: one table with the type of each call's arguments.

All but `cancel` and `resume`, which are about this server, are made by the session's owner
(`session/sharing/wire.py`). None of them takes a path of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nbagent.core.errors import UsageError
from nbagent.faces.lab import channel_messages as messages
from nbagent.faces.lab.messages import NewTitle
from nbagent.session.sharing.wire import CALLS as OWNERS_CALLS


class CallShape(msgspec.Struct, frozen=True):
    """How a page's call is read and answered.

    Attributes:
        arguments: The type of its arguments.
        value: Makes what the page gets of what the owner returned: the records have the rest.
    """

    arguments: type[msgspec.Struct] = messages.NoArguments
    value: Callable[[Any], Any] = lambda found: found


CALLS: dict[str, CallShape] = {
    "ask": CallShape(messages.AskArguments, lambda answer: answer.turn),
    "run": CallShape(messages.RunArguments, lambda cell: cell.cell),
    "variables": CallShape(),
    "interrupt": CallShape(),
    "interrupt_cell": CallShape(),
    "approve": CallShape(messages.ApproveArguments),
    "approve_host": CallShape(messages.ApproveHostArguments),
    "attend": CallShape(messages.AttendArguments),
    "use_model": CallShape(messages.ModelArguments),
    "undo_turn": CallShape(messages.UndoArguments),
    "set_approvals": CallShape(messages.ApprovalsArguments),
    "rename": CallShape(NewTitle),
    "install": CallShape(messages.InstallArguments),
    "stop": CallShape(messages.StopArguments),
    "cancel": CallShape(messages.CancelArguments),
    "resume": CallShape(messages.ResumeArguments),
}
"""What a page may call."""


def read(call: messages.Call) -> dict[str, Any]:
    """The arguments of a call by their names."""
    shape = CALLS.get(call.name)
    if shape is None:
        raise UsageError(f"A page may not call {call.name[:80]!r}.", mend=f"It may call {', '.join(CALLS)}.")
    try:
        found = msgspec.json.decode(call.arguments, type=shape.arguments)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"The call {call.name} is wrong: {error}.") from error
    return msgspec.structs.asdict(found)


def is_urgent(name: str) -> bool:
    """Whether a call is heard however many others wait for their end."""
    return name in OWNERS_CALLS and OWNERS_CALLS[name].is_urgent
