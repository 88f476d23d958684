"""Takes back what a question did to the kernel, by running the other cells again in a new one."""

from __future__ import annotations

from nbagent.core.errors import UsageError
from nbagent.core.events import TurnUndone
from nbagent.session.parts import Parts


async def undo_turn(parts: Parts, turn: int, *, undo: bool) -> None:
    """Take back what a question did, or bring it back; see `AnySession.undo_turn`."""
    recording, cells, files = parts.recording, parts.cells, parts.files
    if cells is None or files is None or parts.conversation is None or parts.conversation.is_asking:
        raise UsageError("A question is being answered.", mend="Wait for it, or interrupt it.")
    if turn not in recording.models or (turn in recording.undone) == undo:
        raise UsageError(f"There is no question {turn} to {'undo' if undo else 'bring back'}.")
    if not parts.kernel.is_owned:
        mend = "Restart it where it was started, and run there what is to stay."
        raise UsageError("This kernel is not nbagent's, so what ran in it can't be undone.", mend=mend)
    state = parts.succeeded
    before = sorted({*state.cells, *(() if undo else recording.undone[turn])})
    turns = {cell.cell: cell.turn for cell in recording.cells}
    undone = recording.undone.keys() ^ {turn}
    wanted = {number: state.known[number] for number in before if turns[number] not in undone}
    has_run = turn in {turns[number] for number in before}
    if has_run:
        files.kept.check_rerun(wanted)
    parts.log.emit(TurnUndone(turn=turn, cells=before, undone=undo))
    if has_run:
        what = "undone: what its cells did to variables and files is" if undo else "brought back: its cells are run"
        await cells.rebuild(wanted, f"Question {turn} was {what} {'gone' if undo else 'again'}.")
