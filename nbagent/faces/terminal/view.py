"""Writes a session's lines to a terminal or a file, with a spinner, a question below them, and figures."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from nbagent.core.errors import NbagentError
from nbagent.core.events import Record
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


class View:
    """Shows a session on a terminal as it happens.

    Args:
        keep_figure: Writes a figure, given by a name and its bytes, into a file; returns None if it can't.
        quiet: Show no cells, only what must be known.
        results: Where the cells' own output goes; to standard error by default, as all else.
        code: Show the cells' code.
    """

    def __init__(
        self,
        *,
        keep_figure: Callable[[str, bytes], Path | None],
        quiet: bool = False,
        results: IO[str] | None = None,
        code: bool = True,
    ) -> None:
        from rich.console import Console

        self.console: Console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
        self._results = results or self.console.file
        self._keep_figure = keep_figure
        self._quiet = quiet
        self._colours = self._results.isatty() and not self.console.no_color
        looks: dict[Style, bool] = {
            "output": self._colours,
            "traceback": self.console.is_terminal and not self.console.no_color,
        }
        self._lines = LineRenderer(
            quiet=quiet, code=code, coloured=[style for style, wanted in looks.items() if wanted]
        )
        self._status: Any = None
        self._waits_for = ""
        self._prompt = ""
        self._held: list[Record] | None = None
        self._line_open = False

    def wait(self, what: str) -> None:
        """Show that something takes its time; on a terminal only."""
        self._waits_for = what
        if self._quiet or not self.console.is_terminal or self._prompt:
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.idle()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._status = Progress(*columns, console=self.console, transient=True)
        self._status.add_task(what)
        self._status.start()

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
        lines = self._lines.of(record.event)
        if lines is None:
            return
        self.idle()
        self._clear_line(self._prompt)
        for line in lines:
            self._put(line)
        self._waits_for = ""
        if what := waits_for(record.event):
            self.wait(what)
        if self._prompt:
            self._end_line()
            self._write_prompt()

    def _put(self, line: StyledLine) -> None:
        if line.style == "output":
            self._write(line.text)
            return
        self._end_line()
        match line.style:
            case "end":
                pass
            case "code":
                self._code(line.text)
            case "traceback":
                self.console.file.write(line.text + "\n")
            case "figure":
                self._figure(line)
            case style:
                self.console.print(line.text, style=STYLES[style], markup=False)

    def _code(self, code: str) -> None:
        if not self.console.is_terminal:
            # A file has no width at which to fold or crop.
            self.console.print(code.rstrip(), markup=False)
            return
        from rich.syntax import Syntax

        self.console.print(Syntax(code, "python", background_color="default", word_wrap=True))

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


def complain(error: NbagentError) -> None:
    """An error as a person reads it: what happened, and the mend."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    console.print(safe(error.message), style="red", markup=False)
    if error.mend:
        console.print(safe(error.mend), markup=False)
