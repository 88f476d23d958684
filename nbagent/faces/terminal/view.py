"""Writes a session's lines to a terminal or a file, with a spinner, a question below them, and figures."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Record
from nbagent.core.markdown import MAX_FORMATTED
from nbagent.core.text import safe
from nbagent.faces.terminal import pictures
from nbagent.faces.terminal.console import code_theme, open_console, with_hanging_indent
from nbagent.faces.terminal.lines import LineRenderer, Style, StyledLine, waits_for

if TYPE_CHECKING:
    from rich.console import Console

STYLES: Final[dict[Style, str]] = {
    "heading": "bold",
    "file": "none",
    "told": "dim",
    "said": "italic",
    "good": "bold",
    "warning": "magenta",
    "bad": "red",
}
"""How rich calls their looks. Red and magenta are the terminal's own colours that can be read on white and on black:
yellow, green and cyan are too light for the one, blue too dark for the other."""

TABLES = "┌│╞├└|+"
"""Characters with which the lines of a drawn table begin."""
DRAWING_SECONDS = 3.0
"""Seconds of its thread in which the figures of one cell are drawn; hostile ones would hold up the session."""
MAX_LINES = 60
"""Lines of a cell's output that are shown on a terminal, unless the output itself is what was asked for."""
BESIDE = 16
"""Columns of its line that the spinner and the time take."""
MAX_WORDS = 60
"""Characters of a reply that is being written that are shown."""


class View:
    """Shows a session on a terminal as it happens.

    Args:
        keep_figure: Writes a figure, given by a name and its bytes, into a file; returns None if it can't.
        quiet: Show no cells, only what must be known.
        results: Where the cells' own output goes; to standard error by default, as all else.
        code: Show the cells' code.
        verbose: Show all of a traceback, not only the person's own frames.
    """

    def __init__(
        self,
        *,
        keep_figure: Callable[[str, bytes], Path | None],
        quiet: bool = False,
        results: IO[str] | None = None,
        code: bool = True,
        verbose: bool = False,
    ) -> None:
        self._given_results = results
        self._keep_figure = keep_figure
        self._quiet = quiet
        self._shows_code = code
        self._frames: Literal["all", "own"] = "all" if verbose else "own"
        self._status: Any = None
        self._waits_for = self._words = ""
        self._since: float | None = None
        self._shown_lines = self._folded = 0
        self._prompt = ""
        self._asked = False
        self._drawing = DRAWING_SECONDS
        self._held: list[Record] | None = None
        self._line_open = self._introduced = self._after_code = False

    @cached_property
    def console(self) -> Console:
        """Writes to standard error; made once there is something to show, since a start would wait for the import."""
        return open_console(stderr=True, soft_wrap=True)

    @cached_property
    def _results(self) -> IO[str]:
        return self._given_results or self.console.file

    @cached_property
    def _folds(self) -> bool:
        return self._given_results is None and self.console.is_terminal

    @cached_property
    def _colours(self) -> bool:
        return self._results.isatty() and not self.console.no_color

    @cached_property
    def _draws(self) -> pictures.Protocol:
        return pictures.protocol() if self._results.isatty() else ""

    @cached_property
    def _lines(self) -> LineRenderer:
        coloured: list[Style] = ["output"] if self._colours else []
        return LineRenderer(quiet=self._quiet, code=self._shows_code, coloured=coloured, frames=self._frames)

    def wait(self, what: str) -> None:
        """Show that something takes its time; on a terminal only."""
        self._waits_for, self._words = what, ""
        if self._quiet or self._prompt or not sys.stderr.isatty() or not self.console.is_terminal:
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self.idle()
        # Else Rich leaves out the time beside a description that is too long.
        fits = Column(no_wrap=True, overflow="ellipsis", max_width=max(10, self.console.width - BESIDE))
        words = TextColumn("{task.description}", markup=False, table_column=fits)
        self._status = Progress(SpinnerColumn(), words, TimeElapsedColumn(), console=self.console, transient=True)
        self._status.add_task(what)
        (task,) = self._status.tasks
        # It tells how long the person has waited, not how long this step takes.
        task.start_time = self._since = self._since or task.start_time
        self._status.start()

    def tell(self, what: str) -> None:
        """Show beside the spinner how far something is that takes long; without a spinner, say once what it is."""
        long, _, how_far = what.partition(" … ")
        if self._status is not None:
            self._status.update(self._status.task_ids[0], description=what)
        elif not self._quiet and self._waits_for != long:
            print(f"{long} …" if how_far else long, file=sys.stderr, flush=True)
            self._waits_for = long

    def hear_words(self, _: int, text: str) -> None:
        """Show the end of what the model is writing beside the spinner, from the beginning of a word."""
        if self._status is None:
            return
        most = max(10, min(MAX_WORDS, self.console.width - BESIDE))
        self._words = (self._words + text)[-2 * MAX_WORDS :]
        shown = " ".join(safe(self._words).split())
        if len(shown) > most:
            begun, blank, whole = shown[-most - 1 :].partition(" ")
            shown = whole if blank and len(begun) <= most // 2 else shown[-most:]
        self._status.update(self._status.task_ids[0], description=shown)

    def idle(self) -> None:
        """Take the spinner away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def prompt(self, text: str) -> Iterator[Callable[[], None]]:
        """Show a question below all else; yields what is to be called once it was answered, on a new line."""
        outer, self._prompt = self._prompt, text
        self.idle()
        self._end_line()
        self._clear_line(outer)
        self._write_prompt()
        answered = False

        def answer() -> None:
            nonlocal answered
            answered = True

        try:
            yield answer
        finally:
            if not answered:
                self.console.file.write("\n")
            self._prompt = outer
            self._write_prompt()
            if not outer and self._waits_for:
                self.wait(self._waits_for)

    @contextlib.contextmanager
    def above(self) -> Iterator[Console]:
        """Yield the console, to print above an open question."""
        self.idle()
        self._clear_line(self._prompt)
        self._end_line()
        yield self.console
        if self._prompt:
            self._write_prompt()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Show nothing while another program has the terminal, and all of it afterwards."""
        self.idle()
        held: list[Record] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for record in held:
                self.show(record)

    def _write_prompt(self) -> None:
        self.console.print(self._prompt, style="bold", end="", markup=False)
        self.console.file.flush()

    def _clear_line(self, prompt: str) -> None:
        if prompt and self.console.is_terminal:
            from rich.cells import cell_len

            above = max(0, cell_len(prompt) - 1) // self.console.width
            self.console.file.write((f"\x1b[{above}A" if above else "") + "\r\x1b[J")

    def show(self, record: Record) -> None:
        """Show one event."""
        if self._held is not None:
            self._held.append(record)
            return
        lines, what = self._lines.of(record.event), waits_for(record.event)
        if isinstance(record.event, (Asked, Answered)):
            self._asked = isinstance(record.event, Asked)
        elif isinstance(record.event, CellStarted):
            self._drawing = DRAWING_SECONDS
        elif isinstance(record.event, CellFinished) and not self._asked:
            what = ""  # no model thinks about it
        if lines is None or not (lines or what):
            return
        self.idle()
        if isinstance(record.event, Asked):
            self._since = None
        self._clear_line(self._prompt)
        for line in lines:
            self._put(line)
        self._waits_for = ""
        if what:
            self.wait(what)
        if self._prompt:
            self._end_line()
            self._write_prompt()

    def _put(self, line: StyledLine) -> None:
        if line.style != "end":
            if self._after_code and line.style not in ("heading", "said"):  # before which there is an empty line anyhow
                self.console.print()  # else nobody sees where the code ends
            self._after_code = line.style == "code" and self.console.is_terminal
        if line.style == "output":
            self._write(self._fitting(line.text))
            return
        self._end_line()
        self._unfold()
        introduced, self._introduced = self._introduced, line.style == "said"
        match line.style:
            case "end":
                pass
            case "code":
                self._code(line.text)
            case "traceback":
                self._traceback(line.text)
            case "heading" if self.console.is_terminal and not introduced:
                self.console.print(f"\n{line.text}", style=STYLES["heading"], markup=False)
            case "said" if self.console.is_terminal:
                self.console.print(f"\n{line.text}", style=STYLES["said"], markup=False, soft_wrap=False)
            case "figure":
                self._figure(line)
            case style:
                # By words on a terminal; a file has no width at which to fold.
                self.console.print(line.text, style=STYLES[style], markup=False, soft_wrap=not self.console.is_terminal)

    def _fitting(self, text: str) -> str:
        """What of a cell's output a terminal shows: its beginning, and of a table as much as is wide enough."""
        if not (self._folds or self._results.isatty()):
            return text
        found = []
        for line in text.splitlines(keepends=True):
            if self._folds and self._shown_lines >= MAX_LINES:
                self._folded += line.endswith("\n")
                continue
            self._shown_lines += line.endswith("\n")
            found.append(cropped(line, self.console.width))
        return "".join(found)

    def _unfold(self) -> None:
        """Say how much of the cell's output was not shown; the next one is shown from its beginning."""
        if self._folded:
            self.console.print(f"… {self._folded:,} more lines, in the notebook", style=STYLES["told"], markup=False)
        self._shown_lines = self._folded = 0

    def _code(self, code: str) -> None:
        if not self.console.is_terminal or len(code) > MAX_FORMATTED:
            # A file has no width at which to fold or crop.
            self.console.print(code.rstrip(), markup=False)
            return
        from rich.syntax import Syntax

        shown = Syntax(code.rstrip(), "python", theme=code_theme(), background_color="default", word_wrap=True)
        self.console.print(shown, soft_wrap=False)

    def _traceback(self, text: str) -> None:
        """A traceback, with the line that failed and the kind of error set off."""
        from rich.text import Text

        shown = Text(text)
        shown.highlight_regex(r"(?m)^-+> .*$", "bold")
        if named := [*re.finditer(r"(?m)^[A-Za-z_][\w.]*(?=: |$)", text)]:
            shown.stylize(STYLES["bad"], *named[-1].span())
        if self.console.is_terminal:
            shown = Text("\n").join(
                with_hanging_indent(line, self.console) for line in shown.split("\n", allow_blank=True)
            )
        self.console.print(shown, soft_wrap=not self.console.is_terminal)

    def _write(self, shown: str) -> None:
        if not shown:
            return
        try:
            self._results.write(shown)
            self._results.flush()
        except OSError:
            self._held = []  # what is stopped for this tells nothing more
            raise
        if self._colours and "\x1b" in shown:
            # A colour, or text made invisible, must not reach what comes after it.
            self._results.write("\x1b[0m")
        self._line_open = not shown.endswith("\n")

    def _end_line(self) -> None:
        if self._line_open:
            self._results.write("\n")
            self._results.flush()
            self._line_open = False

    def _figure(self, line: StyledLine) -> None:
        path = self._keep_figure(line.text, line.content)
        if path is None:
            return
        self.console.print(f"figure: {path}", style=STYLES["file"], markup=False, soft_wrap=True)
        if self._draws:
            started = time.thread_time()
            self._results.write(pictures.drawn(line.content, self._draws, seconds=self._drawing))
            self._results.flush()
            self._drawing -= time.thread_time() - started


def cropped(line: str, width: int) -> str:
    """A line of a drawn table, cut to the terminal's width: folded, its columns could not be told apart."""
    if width < len(line.rstrip("\n")) and line[:1] in TABLES and "\x1b" not in line:
        return line[: width - 1] + "…" + ("\n" if line.endswith("\n") else "")
    return line
