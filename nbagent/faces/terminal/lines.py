"""Turns a session's events into lines of text, for a terminal, a notebook or a page. Pure: reads and writes nothing.

A terminal gives each style a colour, a page a class. All text is safe to show as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, Literal

import msgspec

from nbagent.core import events
from nbagent.core.text import plain, safe, size_of

Style = Literal[
    "heading", "code", "output", "end", "traceback", "figure", "file", "told", "said", "good", "warning", "bad"
]
"""What a line is: `output` is what code printed, in pieces as they came, and `end` ends its last line; a `figure` has
its file's contents; `said` are the model's words; `told`, `good`, `warning` and `bad` are nbagent's own."""
TERMINAL_FIGURES: Final = ("image/png", "image/jpeg")
"""MIME types of figures that become files; of others the text is shown."""
MUST_BE_KNOWN: Final = (
    events.DataLeftOut,
    events.StateLost,
    events.StateRestored,
    events.InstallFailed,
    events.HostAsked,
    events.HostDecided,
    events.ApprovalAsked,
    events.ApprovalGiven,
    events.SessionStarted,
)
"""Events that even a quiet face shows."""
LIBRARY_FRAME: Final = re.compile(r"File (?:/opt/|/usr/|~/|<)")
"""The beginning of a frame that isn't the person's."""
HEADING: Final = re.compile(r"-+|.*Traceback \(most recent call last\)\s*")
STOPPED: Final = {"timeout": "ran too long", "interrupted": "was stopped", "died": "took the kernel with it"}


class StyledLine(msgspec.Struct, frozen=True):
    """Something to show.

    Attributes:
        text: A line, or several, without the last one's end; for `output` a piece of text with all its line ends, for
            a `figure` a name for its file.
        content: The figure's bytes.
    """

    style: Style
    text: str = ""
    content: bytes = b""


def waits_for(event: events.Event) -> str:
    """What a session does after an event, for the status line of a face; empty if it waits for nothing."""
    match event:
        case events.Asked() | events.CellFinished():
            return "thinking"
        case events.ModelReplied(tools=tools):
            return "working" if tools else "finishing"
        case events.PhaseEntered(sent_back=True):
            return "checking the answer"
        case events.CellWaits(cell=cell):
            return f"cell {cell} waits for another client's cell"
        case events.CellStarted(cell=cell) | events.OutputAdded(cell=cell) | events.LateOutputAdded(cell=cell):
            return f"cell {cell} runs"
        case events.PackagesInstalled():
            return "running again"
        case events.HostAsked():
            return "the code waits for an answer"
        case events.ApprovalAsked():
            return "waiting for approval"
        case events.HostDecided() | events.ApprovalGiven():
            return "working"
        case events.ToolStageEntered(tool=tool, stage=stage) if stage not in ("active", "cleanup", "dormant"):
            return f"tool {safe(tool)}: {stage}"
    return ""


class LineRenderer:
    """Turns a session's events, one after the other, into lines: if it is quiet, only of what must be known.

    Args:
        code: Show the cells' code.
        coloured: Styles whose text keeps the colours that it came with.
        frames: Of a traceback, show all frames, or the person's own only.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        code: bool = True,
        coloured: Collection[Style] = (),
        frames: Literal["all", "own"] = "all",
    ) -> None:
        self._quiet = quiet
        self._code = code
        self._coloured = coloured
        self._frames = frames
        self._wanted: dict[str, str] = {}
        self._notes = ""
        self._figures = 0

    def of(self, event: events.Event) -> list[StyledLine] | None:
        """The lines of the next event; None for an event that a quiet face doesn't show."""
        if self._quiet and not isinstance(event, MUST_BE_KNOWN):
            return None
        match event:
            case events.CellStarted(cell=cell, code=code):
                self._notes = ""
                return [StyledLine("heading", f"── cell {cell}"), StyledLine("code", safe(code))] if self._code else []
            case events.OutputAdded(cell=cell, output=output) | events.LateOutputAdded(cell=cell, output=output):
                return list(self._output(cell, output))
            case events.CellFinished():
                return [StyledLine("end"), *self._finished(event)]
            case events.StateLost(reason=reason) | events.StateRestored(text=reason):
                self._notes = f"{self._notes} {reason}".strip()
                return [StyledLine("warning", safe(reason))]
            case events.ApprovalAsked(id=name, kind=kind, what=what):
                if kind not in ("install", "names"):  # which tell of their failure themselves
                    self._wanted[name] = what
                return []
            case events.ApprovalGiven():
                return list(self._given(event))
        style, text = _of_model(event) or _of_tools(event) or _of_surroundings(event) or ("told", "")
        return [StyledLine(style, safe(text))] if text else []

    def _output(self, cell: int, output: events.Output) -> Iterator[StyledLine]:
        """A stream as it comes, a result as text, a figure as its file; an error is shown when the cell has ended."""
        kind = output["output_type"]
        if kind == "stream":
            yield self._kept("output", output["text"])
        elif kind != "error":
            yield from self._figure(cell, output)
            if not any(mime in output["data"] for mime in TERMINAL_FIGURES):
                yield self._kept("output", events.text_of([output]) + "\n")

    def _figure(self, cell: int, output: events.Output) -> Iterator[StyledLine]:
        for figure in events.figures(cell, [output], first=self._figures + 1):
            self._figures += 1
            if figure.mime_type in TERMINAL_FIGURES:
                yield StyledLine("figure", figure.name, figure.content)

    def _finished(self, event: events.CellFinished) -> Iterator[StyledLine]:
        for output in event.outputs:
            if output["output_type"] == "error" and output["ename"] == "SystemExit":
                if not output["evalue"].lstrip("-").isdigit() and output["evalue"] not in ("", "None"):
                    yield self._kept("traceback", output["evalue"])
            elif output["output_type"] == "error" and not (output["evalue"] and output["evalue"] in self._notes):
                frames = output["traceback"] if self._frames == "all" else own_frames(output["traceback"])
                yield self._kept("traceback", "\n".join(frames) or f"{output['ename']}: {output['evalue']}")
        if event.note and event.note not in self._notes:
            yield StyledLine("warning" if event.status != "ok" else "told", safe(event.note))
        if event.status in STOPPED:
            yield StyledLine("bad", f"cell {event.cell} {STOPPED[event.status]} after {event.duration:.1f} s")

    def _given(self, event: events.ApprovalGiven) -> Iterator[StyledLine]:
        """The line of a rejection; an approved action is seen when it runs."""
        what = self._wanted.pop(event.id, "")
        if what and event.decision == "reject":
            text = safe(f"{what}. {event.reason}" if event.reason else what)
            yield StyledLine("warning", f"not approved: {' '.join(text.split())}")

    def _kept(self, style: Style, text: str) -> StyledLine:
        return StyledLine(style, safe(text, colours=style in self._coloured))


def own_frames(frames: list[str], *, hint: str = "; -v shows them") -> list[str]:
    """A traceback of IPython's without its heading and the frames of libraries; its last piece stays.

    The hint is said where frames are left out, after their number.
    """
    found: list[str] = []
    left = 0
    for each in (*frames[:-1], ""):
        if HEADING.fullmatch(plain(each)):
            continue
        if LIBRARY_FRAME.match(plain(each)):
            left += 1
            continue
        if left:
            found.append(f"   … {left} in libraries{hint}\n")
            left = 0
        if each:
            found.append(each)
    return [*found, *frames[-1:]]


def _of_model(event: events.Event) -> tuple[Style, str] | None:
    match event:
        case events.Asked(model=model, replay=replay):
            return "told", f"model: {model}" + (" (recorded replies; everything else is live)" if replay else "")
        case events.ModelReplied(text=text, tools=tools) if tools and text:
            return "said", text
        case events.ModelFailed(reason=reason, wait=seconds):
            return "warning", reason + (f" Asking again in {seconds:.0f} s." if seconds else "")
        case events.CodeGenerated(confidence=confidence) if confidence < events.UNSURE_BELOW:
            return "warning", f"the model is not sure of this code: confidence {confidence:g}"
    return None


def _of_tools(event: events.Event) -> tuple[Style, str] | None:
    match event:
        case events.McpServerChanged(server=server, state="failed", reason=reason):
            return "warning", f"MCP server {server}: {reason}"
        case events.McpToolsChanged(server=server, changed=changed) if changed:
            named = f"{server}: {', '.join(changed)}"
            return "warning", f"MCP tools that say something else of themselves than before: {named}"
        case events.McpToolCalled(server=server, tool=tool, status=status):
            return "told", f"called {tool} of {server}: {status}"
        case events.ToolStageEntered(tool=tool, version=version, stage="active"):
            return "good", f"tool {tool}, version {version}: active"
        case events.ToolStageEntered(stage="cleanup", reason=reason):
            return "warning", f"tool put away: {reason}"
        case events.ToolRefused(reason=reason):
            return "warning", reason
    return None


def _of_surroundings(event: events.Event) -> tuple[Style, str] | None:
    """The line of an event about packages, hosts, files or the session itself."""
    match event:
        case events.PackagesInstalled(packages=packages):
            return "good", "installed " + ", ".join(f"{each.name} {each.version}" for each in packages)
        case events.InstallFailed(reason=reason):
            return "warning", f"not installed: {reason}"
        case events.HostAsked(host=host, port=port):
            return "warning", f"the code wants to reach {host}:{port}"
        case events.HostDecided(allowed=False, reason=reason):
            return "warning", f"not reached: {reason}"
        case events.FileSaved(path=path, cell=cell) if cell:
            return "file", f"file: {path}"
        case events.FilesLeft(files=files):
            return "warning", "\n".join(f"not delivered: {left.path}: {left.why}" for left in files)
        case events.QuotaReached(limit=limit):
            used = f"The {limit // 1024**2:,} MB that this session may keep on disk are used up (session_mb)."
            return "warning", used
        case events.FilesChanged(files=files, more=more):
            names = ", ".join(f"{each.path} ({size_of(each.size)})" for each in files)
            return "told", f"changed: {names}" + (f" and {more:,} more" if more else "")
        case events.FileUploaded(path=path):
            return "file", f"uploaded: {path}"
        case events.FileDownloaded(to=to) if to:
            return "file", f"file: {to}"
        case events.DataLeftOut(text=text):
            return "warning", text
        case events.SessionStarted(isolation=isolation) if isolation:
            return "warning", f"the kernel is {isolation}"
        case events.CellWaits(cell=cell):
            return "told", f"cell {cell} waits: the kernel runs another client's cell"
        case events.SessionResumed(note=note):
            return "told", note
    return None
