"""Events as entries of a structured log, without the contents of cells.

The entries go to structlog as the host program has configured it; otherwise to standard error. Text that code in a
sandbox chose, such as a file's name, is quoted, without control characters.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import structlog
from structlog import dev

from nbagent.core import events
from nbagent.core.errors import UsageError
from nbagent.core.policy import MIB
from nbagent.core.text import cut
from nbagent.observability.telemetry.measure import error_kind
from nbagent.safety.redaction import Redactor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LogEntry = tuple[str, str, dict[str, Any]]
"""Level, message and fields."""
_LABEL = re.compile(r"\[redacted: [^\]]*\]")
_NAMED = re.compile(
    # From the beginning of a name: from each hyphen in it, the rest would be read once more.
    r"""(?i)(?<![\w-])((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization))["']?\s*[:=]\s*)"""
    r"""((?:(?:bearer|basic)\s+)?(?:"[^"]*"|'[^']*'|[^\s"',;]+))"""
)
HIDDEN = "[redacted]"


class Log:
    """Logs one session's events.

    Raises:
        UsageError: There is no such level or format.
    """

    def __init__(self, session: str, *, level: str, format: str = "console") -> None:
        if level not in LEVELS or format not in ("console", "json"):
            raise UsageError(
                f"Logs can't have the level {level!r} and the format {format!r}.",
                mend=f"Levels: {', '.join(LEVELS)}. Formats: console, json.",
            )
        self._least = LEVELS[level]
        self._own = not structlog.is_configured()
        logger: Any = _own_logger(level, format) if self._own else structlog.get_logger("nbagent")
        self._logger = logger.bind(session=session)
        self._sandbox = ""

    def on_event(self, record: events.Record) -> None:
        """Log an event, if its level is high enough."""
        if isinstance(record.event, events.SessionStarted | events.SessionResumed):
            self._sandbox = record.event.sandbox
        for level, what, particulars in entries(record, sandbox=self._sandbox):
            if LEVELS[level] >= self._least:
                # The host program's pipeline adds its own time.
                clock = datetime.fromtimestamp(record.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                at = {"timestamp": clock} if self._own else {}
                getattr(self._logger, level)(what, **at, **particulars)


def entries(record: events.Record, *, sandbox: str = "") -> Iterator[LogEntry]:
    """The entries of an event; `sandbox` is the engine's name of the running one. Pure."""
    match record.event:
        case events.SessionStarted() as event:
            yield "info", "Sandbox created", _creation(event)
        case events.SessionResumed() as event:
            yield "info", "Session resumed", {"container_id": event.sandbox, "variables_kept": event.kept}
        case events.Asked() as event:
            task = {"task": brief(event.question), "model": "replay" if event.replay else event.model}
            yield "info", "Agent workflow started", {**task, "turn": event.turn}
        case events.ModelReplied(tools=tools, usage=usage):
            tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            yield "debug", "Model replied", {"tools": tools, **tokens}
        case events.CodeGenerated() as event:
            yield "warning" if event.confidence < events.UNSURE_BELOW else "info", "Code proposed", _proposal(event)
        case events.CellStarted() as event:
            if event.turn:
                yield "info", "Code generated", {"code_lines": len(event.code.splitlines()), "tool": event.tool}
            yield "info", "Sandbox execution started", {"container_id": sandbox, "cell": event.cell}
        case events.CommandRun() as event:
            yield "debug", "Program executed", {"program": brief(event.argv[0] if event.argv else ""), "pid": event.pid}
        case events.CellFinished() as event:
            yield _SEVERITY[event.status], "Execution complete", _cell_end(event)
        case events.PackagesInstalled() as event:
            pins = [f"{each.name}=={each.version}" for each in event.packages if each.requested]
            more = {"with_dependencies": len(event.packages), "duration_ms": _milliseconds(event.seconds)}
            yield "info", "Packages installed", {"packages": pins, **more}
        case events.IndexAsked() as event:
            names = [brief(each) for each in event.names[:10]]
            yield "info", "Package index asked", {"packages": names, "unknown": len(event.unknown)}
        case events.InstallFailed() as event:
            what = "Installation refused" if event.refused else "Installation failed"
            wanted = [brief(each) for each in event.requirements[:10]]
            yield "warning", what, {"packages": wanted, "reason": brief(event.reason, limit=200)}
        case events.ApprovalAsked() as event:
            yield "info", "Approval asked", {"kind": event.kind, "tool": event.tool, "id": event.id}
        case events.ApprovalGiven() as event:
            level = "warning" if event.decision == "reject" else "info"
            yield level, "Approval given", {"decision": event.decision, "by": event.by, "id": event.id}
        case events.ToolStageEntered() as event:
            where = {"tool": event.tool, "version": event.version, "stage": event.stage}
            why = {"reason": brief(event.reason, limit=200)} if event.reason else {}
            yield "info", "Tool stage", {**where, "duration_ms": _milliseconds(event.seconds), **why}
        case events.ToolRefused(tool=tool, reason=reason):
            yield "warning", "Tool refused", {"tool": tool, "reason": brief(reason, limit=200)}
        case events.StateLost(reason=reason):
            yield "warning", "Kernel state lost", {"reason": brief(reason, limit=200)}
        case events.FileSaved() as event:
            yield "info", "File saved", {"name": brief(PurePath(event.path).name), "bytes": event.size}
        case events.Answered() as event:
            yield "info" if event.success else "warning", "Agent workflow completed", _answer(event)
        case events.SessionEnded(reason=reason):
            yield "info", "Session ended", {"reason": brief(reason)} if reason else {}


_SEVERITY = {"ok": "info", "error": "info", "interrupted": "warning", "timeout": "warning", "died": "error"}
"""The log levels of a cell's status: an exception is common in an agent's work, a stopped or killed cell is not."""


def _creation(event: events.SessionStarted) -> dict[str, Any]:
    return {
        "engine": event.engine,
        "trust": event.trust,
        "container_id": event.sandbox,
        "memory_mb": event.limits.get("memory_mb"),
        "data": len(event.data),
        "duration_ms": _milliseconds(event.seconds),
    }


def _proposal(event: events.CodeGenerated) -> dict[str, Any]:
    wanted = [brief(each) for each in event.dependencies[:10]]
    return {"code_lines": len(event.code.splitlines()), "dependencies": wanted, "confidence": event.confidence}


def _cell_end(event: events.CellFinished) -> dict[str, Any]:
    code = event.exit_code if event.exit_code is not None else int(event.status != "ok")
    found: dict[str, Any] = {"exit_code": code, "duration_ms": _milliseconds(event.duration), "cell": event.cell}
    if event.status != "ok":
        found |= {"status": event.status, "error": error_kind(event)}
    if event.memory_peak is not None:
        found["memory_mb"] = round(event.memory_peak / MIB)
    return found


def _answer(event: events.Answered) -> dict[str, Any]:
    tokens = event.usage.input_tokens + event.usage.output_tokens
    told = {"success": event.success, "attempts": event.attempts, "turn": event.turn}
    return {**told, "duration_ms": _milliseconds(event.seconds), **({"tokens": tokens} if tokens else {})}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def redact(text: str) -> str:
    """Hide secrets as models' redaction does, and whatever else stands behind a secret's name."""
    return _NAMED.sub(rf"\1{HIDDEN}", _LABEL.sub(HIDDEN, Redactor()(text).text))


def brief(text: str, *, limit: int = 100) -> str:
    """The beginning of a text, on one line of `limit` characters at most, without secrets."""
    # Cut at the end: half a secret can't be recognised.
    return cut(" ".join(redact(text[: 100 * limit]).split()), limit)


# -- a logger of our own ------------------------------------------------------------------------------------------


class _StandardError:
    """Writes to the current `sys.stderr`, which a progress bar replaces while it is shown."""

    def msg(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()

    debug = info = warning = error = msg


def _own_logger(level: str, format: str) -> Any:
    renderer = structlog.processors.JSONRenderer() if format == "json" else _console()
    return structlog.wrap_logger(
        _StandardError(),
        processors=[structlog.processors.add_log_level, _session_last, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        context_class=dict,
    )


def _session_last(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**{name: value for name, value in event.items() if name != "session"}, "session": event["session"]}


def _console() -> dev.ConsoleRenderer:
    """One line an event, as `2026-11-21T06:45:12Z [info] Execution complete exit_code=0 duration_ms=134`."""
    colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    style = dev.ConsoleRenderer.get_default_column_styles(colours)
    levels = dev.ConsoleRenderer.get_default_level_styles(colours)
    return dev.ConsoleRenderer(
        columns=[
            dev.Column("timestamp", dev.KeyValueColumnFormatter(None, style.timestamp, style.reset, value_repr=str)),
            dev.Column("level", dev.LogLevelColumnFormatter(levels, reset_style=style.reset, width=0)),
            dev.Column("event", dev.KeyValueColumnFormatter(None, style.bright, style.reset, value_repr=str)),
            dev.Column("", dev.KeyValueColumnFormatter(style.kv_key, style.kv_value, style.reset, value_repr=shown)),
        ],
        sort_keys=False,
    )


def shown(value: object) -> str:
    """A value as JSON without characters that a terminal obeys: control and direction characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
