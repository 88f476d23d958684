"""What one question shows in a notebook: events in, a block out that can be shown at any moment. Pure.

`Block.add` takes the session's records; `render.py` shows what is there. The forms are complete in
themselves, so that a saved notebook is readable where no kernel runs: no script, no style sheet, nothing that loads.
"""

from __future__ import annotations

from typing import Final

from nbagent.core import events
from nbagent.faces.terminal.lines import LineRenderer, Style, waits_for

MAX_LIVE: Final = 4_000
"""Characters of a stream that are shown while the cell runs: its end."""
_OF_CELLS: Final = frozenset(["heading", "code", "output", "end", "traceback", "figure"])
"""Lines that a block shows as cells."""


class Note:
    """A line of nbagent's own, or of the model's, between the cells."""

    def __init__(self, style: Style, text: str) -> None:
        self.style, self.text = style, text


class Shown:
    """A cell in the block.

    Attributes:
        number: Its number within the session.
        outputs: nbformat outputs so far; final once it has ended.
        status: `running`, then as it ended.
        seconds: How long it took; 0 while it runs.
        began: When it began, in seconds since the epoch.
    """

    def __init__(self, number: int, code: str, began: float) -> None:
        self.number, self.code, self.began = number, code, began
        self.outputs: list[events.Output] = []
        self.status = "running"
        self.seconds = 0.0
        self._displays: dict[str, events.Output] = {}

    def add(self, output: events.Output) -> None:
        """Take an output as it arrives: pieces of one stream are joined."""
        last = self.outputs[-1] if self.outputs else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            self.outputs[-1] = {**last, "text": (last["text"] + output["text"])[-MAX_LIVE:]}
        else:
            self.outputs.append(output)

    def update(self, event: events.OutputUpdated) -> None:
        """Take the news of a display, such as of a progress bar: it is the cell's last one until the cell has ended."""
        for place in range(len(self.outputs) - 1, -1, -1):
            if self.outputs[place]["output_type"] == "display_data":
                self.outputs[place] = {**self.outputs[place], "data": event.data, "metadata": event.metadata}
                return


class Block:
    """One question as a notebook shows it.

    Attributes:
        title: What stands at its head, beside the state: the model, or what is done.
        parts: Cells and notes, in the order in which they came.
        words: The end of the reply that the model is writing.
        answer: The answer, once it is there.
        state: What the session does, in a word or two; empty once it has ended.
        ended: How it ended in a word, if not with an answer; why, its cell's error says.
        began: When the first record came, in seconds since the epoch; 0 before.
        now: When the last thing was known, in seconds since the epoch.
        is_shown: Whether it stands in the notebook.
    """

    def __init__(self) -> None:
        self.title = ""
        self.parts: list[Note | Shown] = []
        self.words = ""
        self.answer: events.Answered | None = None
        self.state = "starting"
        self.ended = ""
        self.began = self.now = 0.0
        self.is_shown = False
        self._cells: dict[int, Shown] = {}
        self._lines = LineRenderer(code=False)

    @property
    def seconds(self) -> float:
        """Seconds that it has taken."""
        return self.now - self.began

    @property
    def cells(self) -> list[Shown]:
        """Its cells."""
        return list(self._cells.values())

    def tick(self, now: float) -> None:
        """Note the time, in seconds since the epoch."""
        self.began = self.began or now
        self.now = max(self.now, now)

    def note(self, style: Style, text: str) -> None:
        """Add a line of nbagent's own."""
        self.parts.append(Note(style, text))

    def say(self, words: str) -> None:
        """Add words of a reply that the model is writing."""
        self.words = (self.words + words)[-MAX_LIVE:]

    def end(self, how: str = "") -> None:
        """Say that nothing more comes, and how it ended if not with an answer."""
        self.state, self.ended, self.words = "", how, ""
        for cell in self._cells.values():
            if cell.status == "running":
                cell.status = "left"

    def add(self, record: events.Record) -> None:
        """Take one of the session's records."""
        self.tick(record.at)
        self._take(record.event)
        if state := waits_for(record.event):
            self.state = state
        if isinstance(record.event, events.Asked | events.FileUploaded | events.FileDownloaded):
            return  # the title has the model; the cells tell of a variable on its way
        for line in self._lines.of(record.event) or ():
            if line.style not in _OF_CELLS and line.text:
                self.parts.append(Note(line.style, line.text))

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Asked(model=model, replay=replay):
                self.title = model + (" (recorded replies)" if replay else "")
            case events.CellStarted(cell=number, code=code):
                shown = self._cells.get(number)
                if shown is None:  # the same cell runs again after an install
                    self._cells[number] = shown = Shown(number, code, self.now)
                    self.parts.append(shown)
                shown.code, shown.outputs = code, []
            case events.OutputAdded(cell=number, output=output) | events.LateOutputAdded(cell=number, output=output):
                if number in self._cells:
                    self._cells[number].add(output)
            case events.OutputUpdated(cell=number) if number in self._cells:
                self._cells[number].update(event)
            case events.OutputsCleared(cell=number) if number in self._cells:
                self._cells[number].outputs = []
            case events.CellFinished(cell=number) if number in self._cells:
                cell = self._cells[number]
                cell.outputs = [each for each in event.outputs if not _is_stop(each, event.status)]
                cell.status, cell.seconds = event.status, event.duration
            case events.ModelReplied() | events.ModelFailed():
                self.words = ""
            case events.Answered():
                self.answer = event
                self.end()


def _is_stop(output: events.Output, status: str) -> bool:
    """Whether an output is the traceback of the stop itself, of which the cell's end tells."""
    return status in ("interrupted", "timeout") and output.get("ename") in ("KeyboardInterrupt", "CancelledError")
