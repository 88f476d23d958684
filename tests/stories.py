"""Events of sessions that were never run, and what those leave on the disk, for what reads no more than that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from nbagent.core.events import (
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    CommandRun,
    DataSeen,
    Event,
    FileSaved,
    InstallFailed,
    ModelReplied,
    OutputAdded,
    Package,
    PackagesInstalled,
    Record,
    SessionEnded,
    SessionStarted,
    StateLost,
    Usage,
)
from nbagent.core.session_log import SessionLog
from nbagent.observability.audit import Audit
from nbagent.observability.audit.chain import FILE, HEADS

QUESTION = "Which species has the longest bill?\nSay it in a word, naïvely 🐧."
CODE = "import humanize\nprint('¿x?')\n"
ERROR = {"output_type": "error", "ename": "KernelDied", "evalue": "It died.", "traceback": []}
TEXT = {"output_type": "stream", "name": "stdout", "text": "¿x?\n"}
PACKAGE = Package("humanize", "4.17.0", "a" * 64)
MIB = 1024 * 1024


def started() -> SessionStarted:
    """A session in bubblewrap, with all its options."""
    return SessionStarted(
        session="s",
        engine="bubblewrap",
        trust="isolated",
        environment="sha256:" + "e" * 64,
        python="3.11.7",
        nbagent="0.1.0",
        data=[DataSeen("/tmp/data/a.csv", "/home/p/a.csv", 1234)],
        sandbox="box1",
        limits={"memory_mb": 2048, "cpus": None, "timeout": 60.0},
        security={"network_enabled": False, "allowed_hosts": [], "log_all_commands": True},
        accepted=["memory"],
        seconds=1.25,
    )


def whole() -> list[Event]:
    """One question: a cell that installs and works, one that kills the kernel, one of the person's; then the end."""
    return [
        started(),
        Asked(turn=1, question=QUESTION, model="openai:gpt-5.1"),
        ModelReplied(turn=1, text="Let me look.", tools=["python"], usage=Usage(100, 20, 1)),
        CellStarted(cell=1, turn=1, code=CODE, tool="python", approver="policy:never-ask"),
        PackagesInstalled(cell=1, packages=[PACKAGE], reason="No module named 'humanize'", seconds=0.25),
        CommandRun(cell=1, argv=["/bin/uname", "-a"], pid=12),
        OutputAdded(cell=1, output=TEXT),
        CellFinished(
            cell=1, status="ok", outputs=[TEXT], execution_count=1, duration=0.5, memory_peak=90 * MIB,
            memory_limit=2048 * MIB,
        ),
        FileSaved(path="/s/output/a.csv", size=7, sha256="b" * 64, cell=1),
        ModelReplied(turn=1, text="", tools=["python"], usage=Usage(200, 10, 1)),
        CellStarted(cell=2, turn=1, code="import os; os.kill(1, 9)", tool="python", approver="policy:never-ask"),
        InstallFailed(cell=2, requirements=["leftpad"], reason="Refused.", refused=True, seconds=0.125),
        StateLost(cell=2, reason="The kernel was killed by SIGKILL."),
        CellFinished(
            cell=2, status="died", outputs=[ERROR], execution_count=None, duration=0.75, note="Lost.",
            memory_peak=95 * MIB, memory_limit=2048 * MIB, exit_code=-9,
        ),
        ModelReplied(turn=1, text="Gentoo.", usage=Usage(300, 5, 1)),
        Answered(turn=1, text="Gentoo.", success=True, attempts=2, usage=Usage(600, 35, 3), seconds=3.5),
        CellStarted(cell=3, turn=0, code="1", tool="person", approver="person"),
        CellFinished(cell=3, status="timeout", outputs=[], execution_count=2, duration=60.0),
        SessionEnded(reason="done"),
    ]  # fmt: skip


def records(events: Iterable[Event]) -> list[Record]:
    """Numbered from 1, half a second apart."""
    return [Record(number, 1_800_000_000.0 + number / 2, event) for number, event in enumerate(events, start=1)]


class Written:
    """What lies on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "sessions" / "s"
        self.path = self.folder / FILE
        self.log = self.folder / "log.jsonl"
        self.head = root / HEADS / "s"

    @property
    def lines(self) -> list[bytes]:
        """Of the audit log."""
        with self.path.open("rb") as file:
            return file.readlines()

    @lines.setter
    def lines(self, lines: Iterable[bytes]) -> None:
        self.path.write_bytes(b"".join(lines))


def write_session(root: Path, events: Iterable[Event], *, key: bytes | None = None) -> Written:
    """Let a session begin or go on, have these events, and end without a word."""
    with contextlib.closing(SessionLog(root, "s")) as log:
        audit = Audit(log.folder, root=root, session="s", key=key)
        for record in log.since():
            audit.on_event(record)
        log.follow(audit.on_event)
        for event in events:
            log.emit(event)
        audit.close()
    return Written(root)


Write = Callable[..., Written]
"""Lets a session have events; called again, the session goes on."""
