"""Whether a person is at this terminal, who can be asked what the model and its code may do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nbagent.faces.terminal.keyboard import Keyboard

if TYPE_CHECKING:
    from nbagent.session.session import Session

NO_TERMINAL = "There is no terminal to ask at: hosts that are not listed are denied. List them with --allow-host."
UNATTENDED = {
    "reject": "Nobody is asked here: what needs approval is rejected. See --allow and --unattended.",
    "approve": "Nobody is asked here: what needs approval is approved, as --unattended says.",
}
"""What is printed where nobody can be asked for approval, by the policy that answers instead."""


def attended(session: Session, *, approvals: bool = True) -> Session:
    """Let a new session ask the person if they are there; else print what it does without them.

    Where no model works, nothing needs `approvals`, of which no word is said then.
    """
    is_there = Keyboard().is_there
    if session.ask_hosts and not is_there:
        session.ask_hosts = False
        print(NO_TERMINAL, file=sys.stderr)
    session.attend(session.attended and is_there)
    if approvals and session.consent.asks and not session.attended:
        print(UNATTENDED[session.consent.unattended], file=sys.stderr)
    return session
