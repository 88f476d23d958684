"""What a terminal shows of a session: events in, text out.

Text from a sandbox may try to steer the terminal. All it may do here is colour itself: other escape sequences and
control characters are made visible or dropped.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nbagent.errors import NbagentError
from nbagent.events import (
    UNSURE,
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    CellStarted,
    CodeGenerated,
    DataLeftOut,
    Event,
    FileDownloaded,
    FileSaved,
    FilesChanged,
    FilesLeft,
    FileUploaded,
    HostAsked,
    HostDecided,
    InstallFailed,
    LateOutput,
    McpServerChanged,
    McpToolCalled,
    McpToolsChanged,
    ModelFailed,
    ModelReplied,
    Output,
    OutputAdded,
    PackagesInstalled,
    QuotaReached,
    Record,
    SessionResumed,
    StateLost,
    StateRestored,
    ToolRefused,
    ToolStage,
    text_of,
)
from nbagent.kernel.transfer.collector import size_of

if TYPE_CHECKING:
    from rich.console import Console

_ESCAPE = re.compile(
    r"\x1b\[[0-9;:]*m"  # colours, the only ones that are kept
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # operating system commands and other strings: titles, links, the clipboard
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # moving, clearing, reporting
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]",
    re.DOTALL,
)
PICTURES = {"image/png": "png", "image/jpeg": "jpg"}
MUST_BE_KNOWN = (
    DataLeftOut,
    StateLost,
    StateRestored,
    InstallFailed,
    HostAsked,
    HostDecided,
    ApprovalAsked,
    ApprovalGiven,
)
"""What even a quiet terminal shows."""
STOPPED = {"timeout": "ran too long", "interrupted": "was stopped", "died": "took the kernel with it"}


def safe(text: str, *, colours: bool = True) -> str:
    """Text that can't do more to a terminal than show itself, in colours."""

    def keep(found: re.Match[str]) -> str:
        sequence = found[0]
        if sequence.startswith("\x1b[") and sequence.endswith("m"):
            return sequence if colours else ""
        return "" if sequence.startswith("\x1b") else "\ufffd"

    return _ESCAPE.sub(keep, text.replace("\r\n", "\n"))


class View:
    """Shows a session on a terminal as it happens.

    Args:
        folder: Where pictures go.
        quiet: Show no cells, only what must be known.
        results: Where the cells' own output goes; where all else goes, by default, and that is standard error.
        code: Show the cells' code.
    """

    def __init__(
        self,
        *,
        folder: Callable[[], Path],
        keep: Callable[[int], bool] = lambda _size: True,
        quiet: bool = False,
        results: IO[str] | None = None,
        code: bool = True,
    ) -> None:
        from rich.console import Console

        self.console: Console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
        self._results = results or self.console.file
        self._folder = folder
        self._keep = keep
        self._quiet = quiet
        self._show_code = code
        self._colours = self._results.isatty() and not self.console.no_color
        self._status: Any = None
        self._waits_for = ""
        self._prompt = ""
        self._held: list[Record] | None = None
        self._wanted: dict[str, str] = {}
        self._told = ""
        self._pictures = 0
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
        """Show what a person is asked, and keep it below all else that is shown meanwhile.

        Yields:
            To be called once it was answered: then the cursor is on a new line already.
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
        """The console, for what is to stand above a question."""
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
        event = record.event
        if self._quiet and not isinstance(event, MUST_BE_KNOWN):
            return
        self.idle()
        self._clear_line(self._prompt)
        self._show(event)
        if self._prompt:
            self._end_line()
            self._write_prompt()

    def _show(self, event: Event) -> None:
        self._waits_for = ""
        match event:
            case Asked(model=model, replay=replay):
                self._say(f"model: {model}" + (" (recorded replies; everything else is live)" if replay else ""))
                self.wait("thinking")
            case ModelReplied(text=text, tools=tools):
                if tools and text:
                    self._say(safe(text, colours=False), style="italic")
                self.wait("working" if tools else "finishing")
            case CellStarted(cell=cell, code=code):
                self._told = ""
                if self._show_code:
                    self._code(cell, code)
                self.wait(f"cell {cell} runs")
            case ModelFailed(reason=reason, wait=seconds):
                later = f" Asking again in {seconds:.0f} s." if seconds else ""
                self._say(f"{safe(reason, colours=False)}{later}", style="yellow")
            case CodeGenerated(confidence=confidence) if confidence < UNSURE:
                self._say(f"the model is not sure of this code: confidence {confidence:g}", style="yellow")
            case McpServerChanged(server=server, state="failed", reason=reason):
                self._say(f"MCP server {safe(server, colours=False)}: {safe(reason, colours=False)}", style="yellow")
            case McpToolsChanged(server=server, changed=changed) if changed:
                named = safe(f"{server}: {', '.join(changed)}", colours=False)
                self._say(f"MCP tools that say something else of themselves than before: {named}", style="yellow")
            case McpToolCalled(server=server, tool=tool, status=status):
                self._say(safe(f"called {tool} of {server}: {status}", colours=False))
            case ToolStage(tool=tool, version=version, stage="active"):
                self._say(f"tool {tool}, version {version}: active", style="green")
            case ToolStage(stage="cleanup", reason=reason):
                self._say(f"tool put away: {safe(reason, colours=False)}", style="yellow")
            case ToolStage(tool=tool, stage=stage) if stage != "dormant":
                self.wait(f"tool {safe(tool, colours=False)}: {stage}")
            case ToolRefused(reason=reason):
                self._say(safe(reason, colours=False), style="yellow")
            case OutputAdded(cell=cell, output=output) | LateOutput(cell=cell, output=output):
                self._output(cell, output)
                self.wait(f"cell {cell} runs")
            case CellFinished():
                self._finished(event)
                self.wait("thinking")
            case PackagesInstalled(packages=packages):
                names = ", ".join(f"{each.name} {each.version}" for each in packages)
                self._say(f"installed {names}", style="green")
                self.wait("running again")
            case InstallFailed(reason=reason):
                self._say(f"not installed: {safe(reason, colours=False)}", style="yellow")
            case SessionResumed(note=note):
                self._say(note)
            case HostAsked(host=host, port=port):
                self._say(f"the code wants to reach {safe(host, colours=False)}:{port}", style="yellow")
                self.wait("the code waits for an answer")
            case HostDecided(allowed=False, reason=reason):
                self._say(f"not reached: {safe(reason, colours=False)}", style="yellow")
                self.wait("working")
            case HostDecided():
                self.wait("working")
            case ApprovalAsked(id=name, kind=kind, what=what):
                if kind not in ("install", "names"):  # which tell of their failure themselves
                    self._wanted[name] = what
                self.wait("waiting for approval")
            case ApprovalGiven():
                self._given(event)
                self.wait("working")
            case StateLost(reason=reason) | StateRestored(told=reason):
                self._told = f"{self._told} {reason}".strip()
                self._say(safe(reason, colours=False), style="yellow")
            case FileSaved(path=path, cell=cell) if cell:
                self._say(f"file: {path}", style="cyan")
            case FilesLeft(files=files):
                for left in files:
                    self._say(safe(f"not delivered: {left.path}: {left.why}", colours=False), style="yellow")
            case QuotaReached(limit=limit):
                told = f"The {limit // 1024**2:,} MB that this session may keep on disk are used up (session_mb)."
                self._say(told, style="yellow")
            case FilesChanged(files=files, more=more):
                names = ", ".join(f"{each.path} ({size_of(each.size)})" for each in files)
                self._say(f"changed: {safe(names, colours=False)}" + (f" and {more:,} more" if more else ""))
            case DataLeftOut(text=text):
                self._say(safe(text, colours=False), style="yellow")
            case FileUploaded(path=path):
                self._say(f"uploaded: {safe(path, colours=False)}", style="cyan")
            case FileDownloaded(to=to) if to:
                self._say(f"file: {safe(to, colours=False)}", style="cyan")

    def _given(self, event: ApprovalGiven) -> None:
        """A no; what is allowed shows itself."""
        what = self._wanted.pop(event.id, "")
        if what and event.decision == "reject":
            text = safe(f"{what}. {event.reason}" if event.reason else what, colours=False)
            self._say(f"not approved: {' '.join(text.split())}", style="yellow")

    def _say(self, text: str, *, style: str = "dim") -> None:
        self._end_line()
        self.console.print(text, style=style, markup=False)

    def _code(self, cell: int, code: str) -> None:
        self._end_line()
        self.console.print(f"── cell {cell}", style="bold blue", markup=False)
        if not self.console.is_terminal:
            # A file has no width at which to fold or crop.
            self.console.print(safe(code, colours=False).rstrip(), markup=False)
            return
        from rich.syntax import Syntax

        self.console.print(Syntax(safe(code, colours=False), "python", background_color="default", word_wrap=True))

    def _output(self, cell: int, output: Output) -> None:
        """A stream as it comes, a result as text, a picture as a file; an error only when it is final."""
        kind = output["output_type"]
        if kind == "stream":
            self._write(output["text"])
        elif kind != "error":
            self._picture(cell, output)
            if not any(mime in output["data"] for mime in PICTURES):
                self._write(text_of([output]) + "\n")

    def _finished(self, event: CellFinished) -> None:
        for output in event.outputs:
            if output["output_type"] == "error" and not (output["evalue"] and output["evalue"] in self._told):
                self._end_line()
                trace = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
                colours = self.console.is_terminal and not self.console.no_color
                self.console.file.write(safe(trace, colours=colours) + "\n")
        self._end_line()
        if event.note and event.note not in self._told:
            self._say(safe(event.note, colours=False), style="yellow" if event.status != "ok" else "dim")
        if event.status in STOPPED:
            self._say(f"cell {event.cell} {STOPPED[event.status]} after {event.duration:.1f} s", style="red")

    def _write(self, text: str) -> None:
        shown = safe(text, colours=self._colours)
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

    def _picture(self, cell: int, output: Output) -> None:
        for mime, ending in PICTURES.items():
            data = output["data"].get(mime)
            if not isinstance(data, str):
                continue
            self._pictures += 1
            try:
                content = base64.b64decode(data)
                if not self._keep(len(content)):
                    return
                folder = self._folder() / "figures"
                folder.mkdir(exist_ok=True)
                path = folder / f"cell-{cell}-{self._pictures}.{ending}"
                path.write_bytes(content)
            except (OSError, ValueError):
                return
            self._say(f"figure: {path}", style="cyan")
            # Encoded again: what the sandbox sent as base64 may hold more than that.
            self._inline(base64.b64encode(content).decode())

    def _inline(self, data: str) -> None:
        """The picture itself, where the terminal is known to show some: iTerm2's and kitty's protocols."""
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
    console.print(safe(error.message, colours=False), style="red", markup=False)
    if error.mend:
        console.print(safe(error.mend, colours=False), markup=False)
