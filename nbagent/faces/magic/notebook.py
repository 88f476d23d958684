"""What `%agent` takes from the person's notebook and puts into it: failed cells, outputs, new cells."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from nbagent.core.errors import UsageError
from nbagent.core.text import ends, plain

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbagent.session.protocol import AnySession

CELLS_TARGET = "nbagent.cells"
"""Whom the extension listens as for cells (`panel/src/magic.ts`)."""
FRONT_END_SECONDS = 5.0
"""Seconds that a front end has to say that it is one with the extension; JupyterLab without it says so at once."""
MAX_SHOWN = 6_000
"""Characters of a traceback or an output that the model gets."""
MAX_NAME = 40
"""Characters of an error's name that a title has."""
_BLOCK = re.compile(r"^```(?:python|py)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Watcher:
    """Remembers the last cell that the person ran, with its error or its result."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._code = self._failed = self._trace = self._error = ""
        self._result: Any = None
        shell.events.register("post_run_cell", self._ran)

    def close(self) -> None:
        """Remember no more."""
        self._shell.events.unregister("post_run_cell", self._ran)

    def _ran(self, result: Any) -> None:
        code = getattr(result.info, "raw_cell", "") or ""
        if re.match(r"\s*%{1,2}agent\b", code):
            return
        self._code, self._result = code, result.result
        error = result.error_before_exec or result.error_in_exec
        self._failed = code if error is not None else ""
        if error is not None:
            trace = self._shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
            name = type(error).__name__[:MAX_NAME]
            self._error = name if name.isidentifier() else "an error"
            self._trace = plain("\n".join(trace))

    def to_fix(self) -> str:
        """A question about the cell that failed last."""
        if not self._failed:
            raise UsageError("Your last cell did not fail.", mend="Run the cell that fails, then: %agent fix")
        return (
            f"Fix: {self._error} in my last cell\n\n"
            "A cell of my notebook failed. It ran in my own kernel, whose variables are not in yours. Say in one or "
            "two sentences why it failed. Then give the whole cell as it should be, in one Python block: change no "
            f"more than is needed.\n\nThe cell:\n```python\n{self._failed}\n```\n\n"
            f"Its error:\n```text\n{_cut(self._trace)}\n```"
        )

    def to_explain(self) -> str:
        """A question about the cell that ran last."""
        if not self._code:
            raise UsageError("No cell of yours has run since nbagent was loaded.", mend="Run one, then: %agent explain")
        shown = self._trace if self._failed else "" if self._result is None else repr(self._result)
        return (
            "Explain: my last cell\n\n"
            "Explain the output of this cell of my notebook. It ran in my own kernel, whose variables are not in yours."
            f"\n\nThe cell:\n```python\n{self._code}\n```\n\nIts output:\n```text\n{_cut(plain(shown))}\n```"
        )

    def proposed(self, answer: str) -> tuple[str, str]:
        """The cell that an answer to `to_fix` proposes, and its difference from the one that failed.

        Returns:
            The code, and a unified diff; both empty if the answer has no code, or the same.
        """
        found = _BLOCK.findall(answer)
        code = found[-1].rstrip("\n") if found else ""
        before = self._failed.rstrip("\n")
        if not code or code == before:
            return "", ""
        lines = difflib.unified_diff(before.splitlines(), code.splitlines(), "your cell", "proposed", lineterm="")
        return code, "\n".join(lines)


def cells_to_insert(session: AnySession, wanted: str) -> list[dict[str, Any]]:
    """The cells that are to be put into the notebook, each as its `source` and what is known of it, its `facts`.

    Wanted are `all`, one by its number, or nothing for those of the last answer. What failed or was undone is left out.
    """
    from nbagent.notebook.build import facts
    from nbagent.notebook.place import source_digest
    from nbagent.notebook.record import record

    recording = record(session.since()).snapshot()
    worked = {each.cell: each for each in recording.cells if each.status == "ok"}
    if wanted == "all":
        found = list(worked.values())
    elif wanted:
        if not wanted.isdigit():
            raise UsageError(f"{wanted!r} is no cell.", mend="Give a number, or all: %agent insert 3")
        if int(wanted) not in worked:
            raise UsageError(f"There is no cell {wanted} that ran without an error.", mend="See: %agent history")
        found = [worked[int(wanted)]]
    else:
        turn = max((each.turn for each in worked.values()), default=0)
        found = [each for each in worked.values() if turn and each.turn == turn]
    if not found:
        raise UsageError("There is no cell to insert.", mend="Ask something first: %agent What is in this data?")
    started = recording.started
    place = {"session": started.session, "engine": started.engine, "trust": started.trust} if started else {}
    return [
        {"source": source, "facts": {**facts(each, recording), **place, "source_sha256": source_digest(source)}}
        for each in found
        for source in [each.code.rstrip()]
    ]


def put_below(cells: list[dict[str, Any]]) -> Generator[float, None, bool]:
    """Have nbagent's extension of JupyterLab put cells below the one that runs, so that one undo takes all out.

    Yields seconds to wait, and returns whether there is such an extension.
    """
    from comm import create_comm

    heard: list[bool] = []
    comm = create_comm(target_name=CELLS_TARGET)
    comm.on_msg(lambda _: heard.append(True))
    comm.on_close(lambda _: heard.append(False))
    end = time.monotonic() + FRONT_END_SECONDS
    while not heard and time.monotonic() < end:
        yield 0.02
    if heard == [True]:
        comm.send({"cells": cells})
    comm.close()
    return heard == [True]


def _cut(text: str) -> str:
    return ends(text, head=MAX_SHOWN // 3, tail=MAX_SHOWN * 2 // 3) if len(text) > MAX_SHOWN else text
