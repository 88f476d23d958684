"""Writes a session's lines to a terminal or a file, with a spinner, a question below them, and figures."""

from __future__ import annotations

import base64
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from nbagent.core.errors import NbagentError
from nbagent.core.events import Asked, Record
from nbagent.core.text import safe
from nbagent.faces.terminal.lines import LineRenderer, Style, StyledLine, waits_for

if TYPE_CHECKING:
    from rich.console import Console

STYLES: Final[dict[Style, str]] = {
    "heading": "bold blue",
    "file": "cyan",
    "told": "dim",
    "said": "italic",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
}
"""How rich calls their looks."""


TABLES = "┌│╞├└|+"
"""Characters with which the lines of a drawn table begin."""
MAX_LINES = 60
"""Lines of a cell's output that are shown on a terminal, unless the output itself is what was asked for."""
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
        self._held: list[Record] | None = None
        self._line_open = False

    @cached_property
    def console(self) -> Console:
        """Writes to standard error; made once there is something to show, since a start would wait for the import."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)

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
    def _lines(self) -> LineRenderer:
        looks: dict[Style, bool] = {
            "output": self._colours,
            "traceback": self.console.is_terminal and not self.console.no_color,
        }
        coloured = [style for style, wanted in looks.items() if wanted]
        return LineRenderer(quiet=self._quiet, code=self._shows_code, coloured=coloured, frames=self._frames)

    def wait(self, what: str) -> None:
        """Show that something takes its time; on a terminal only."""
        self._waits_for, self._words = what, ""
        if self._quiet or self._prompt or not sys.stderr.isatty() or not self.console.is_terminal:
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.idle()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._status = Progress(*columns, console=self.console, transient=True)
        self._status.add_task(what)
        (task,) = self._status.tasks
        # It tells how long the person has waited, not how long this step takes.
        task.start_time = self._since = self._since or task.start_time
        self._status.start()

    def hear_words(self, _: int, text: str) -> None:
        """Show the end of what the model is writing beside the spinner."""
        self._words = (self._words + text)[-MAX_WORDS:]
        if self._status is not None:
            self._status.update(self._status.task_ids[0], description=" ".join(safe(self._words).split()))

    def idle(self) -> None:
        """Take the spinner away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def prompt(self, text: str) -> Iterator[Callable[[], None]]:
        """Show a question, and keep it below all else that is shown meanwhile.

        Yields:
            A function to be called once it was answered: then the cursor is on a new line already.
        """
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
        if line.style == "output":
            self._write(self._fitting(line.text))
            return
        self._end_line()
        self._unfold()
        match line.style:
            case "end":
                pass
            case "code":
                self._code(line.text)
            case "traceback":
                self.console.file.write(line.text + "\n")
            case "heading":
                self.console.print(line.text, style=STYLES["heading"], markup=False)
            case "figure":
                self._figure(line)
            case style:
                # By words on a terminal; a file has no width at which to fold.
                self.console.print(line.text, style=STYLES[style], markup=False, soft_wrap=not self.console.is_terminal)

    def _fitting(self, text: str) -> str:
        """What of a cell's output a terminal shows: its beginning, and of a table as much as is wide enough."""
        if not self._folds:
            return text
        found = []
        for line in text.splitlines(keepends=True):
            if self._shown_lines >= MAX_LINES:
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
        if not self.console.is_terminal:
            # A file has no width at which to fold or crop.
            self.console.print(code.rstrip(), markup=False)
            return
        from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token
        from rich.style import Style as Look
        from rich.syntax import ANSISyntaxTheme, Syntax

        # The terminal's own colours, of those that can be read on white and on black.
        looks = {Keyword: "blue", Operator.Word: "blue", String: "green", Number: "cyan", Comment: "dim italic"}
        looks |= {Name.Function: "bold", Name.Class: "bold", Name.Decorator: "magenta"}

        theme = ANSISyntaxTheme({Token: Look(), **{kind: Look.parse(look) for kind, look in looks.items()}})
        self.console.print(Syntax(code, "python", theme=theme, background_color="default", word_wrap=True))

    def _write(self, shown: str) -> None:
        if not shown:
            return
        self._results.write(shown)
        self._results.flush()
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
        self.console.print(f"figure: {path}", style=STYLES["file"], markup=False)
        # Encoded again: what the sandbox sent as base64 may hold more than that.
        self._inline(base64.b64encode(line.content).decode())

    def _inline(self, data: str) -> None:
        """The figure itself, where the terminal is known to show some: iTerm2's and kitty's protocols."""
        file = self._results
        if not file.isatty():
            return
        if os.environ.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
            file.write(f"\x1b]1337;File=inline=1;width=60%:{data}\x07\n")
        elif os.environ.get("KITTY_WINDOW_ID"):
            pieces = [data[start : start + 4096] for start in range(0, len(data), 4096)]
            for number, piece in enumerate(pieces):
                head = "a=T,f=100," if number == 0 else ""
                file.write(f"\x1b_G{head}m={int(number < len(pieces) - 1)};{piece}\x1b\\")
            file.write("\n")


def cropped(line: str, width: int) -> str:
    """A line of a drawn table, cut to the terminal's width: folded, its columns could not be told apart."""
    if width < len(line.rstrip("\n")) and line[:1] in TABLES and "\x1b" not in line:
        return line[: width - 1] + "…" + ("\n" if line.endswith("\n") else "")
    return line


def show_answer(text: str) -> None:
    """Print an answer: formatted, behind an empty line, on a terminal; else as it is."""
    if not sys.stdout.isatty():
        print(safe(text), flush=True)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(highlight=False, emoji=False)
    console.print()
    console.print(Markdown(safe(text), hyperlinks=False, code_theme="bw"))


def complain(error: NbagentError) -> None:
    """An error as a person reads it: what happened, and the mend."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    console.print(safe(error.message), style="red", markup=False)
    if error.mend:
        console.print(safe(error.mend), markup=False)
