"""What the commands do, once their options are read: sessions in, what is printed and the exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from nbagent import settings, store
from nbagent.errors import NbagentError, UsageError
from nbagent.events import NO_USAGE, Output, Package, Usage
from nbagent.faces.terminal.asker import Asker
from nbagent.faces.terminal.keyboard import Keyboard
from nbagent.faces.terminal.view import View, complain
from nbagent.kernel.cell import Cell
from nbagent.safety.budget import amount, dollars
from nbagent.sandbox.data import needs
from nbagent.session.answer import Answer
from nbagent.session.session import Session
from nbagent.text import safe

if TYPE_CHECKING:
    from nbagent.sandbox.registry import Candidate

MAX_SOURCE = 20 * 1024 * 1024
"""Bytes of a script or notebook."""
STOPPED = 130
"""The exit code after Ctrl-C, as shells have it."""
NOT_DELIVERED = 4
"""The exit code where all went well but for files that cells left and that did not arrive."""
NO_TERMINAL = "There is no terminal to ask at: hosts that are not listed are denied. List them with --allow-host."
UNATTENDED = {
    "reject": "Nobody is asked here: what needs approval is rejected. See --allow and --unattended.",
    "approve": "Nobody is asked here: what needs approval is approved, as --unattended says.",
}
"""By policy, what is told where nobody can be asked for approval."""
PATIENCE = 1.0
"""Seconds that a running cell has to stop once all is to end."""


async def ask(
    question: str,
    make: Callable[[], Session],
    *,
    out: Path | None,
    as_json: bool,
    quiet: bool = False,
    keep: bool = False,
    force: bool = False,
) -> int:
    """Ask one question and show what comes of it.

    Returns:
        The exit code.
    """
    answer: Answer | None = None
    error: NbagentError | None = None
    stopped = False
    session: Session | None = None
    notebook: Path | None = None
    left: dict[str, str] = {}
    try:
        session = make()
        check_out(session, out, force=force)
        async with shown(session, quiet=quiet or as_json, keep=keep):
            try:
                answer = await session.ask(question)
            except asyncio.CancelledError:
                stopped = True
            except NbagentError as caught:
                error = caught
            except Exception:
                # A fault of nbagent's own shall not cost what the cells have shown so far.
                if session.turns:
                    print(f"notebook: {session.export_last(out, force=force)[0]}", file=sys.stderr)
                raise
            left, failed = await delivered(session)
            error = error or failed
            if session.turns:
                notebook, moved = session.export_last(out, force=force)
                error = error or moved
    except asyncio.CancelledError:
        stopped = True
    except NbagentError as caught:
        error = error or caught
    if as_json:
        told = error or (NbagentError("It was stopped.") if stopped else None)
        _print_json(_answer_json(answer, session, notebook, told) | _left_json(left))
    elif answer is not None:
        print(safe(answer.text))
        if answer.unsupported:
            print(f"Shown by no cell: {', '.join(answer.unsupported)}.", file=sys.stderr)
    if notebook is not None and not as_json:
        print(f"notebook: {notebook}", file=sys.stderr)
    done = answer or (session.unfinished if session else None)
    if done is not None and not as_json and (used := _used(done.usage)):
        print(used, file=sys.stderr)
    if error is not None:
        complain(error)
        return error.exit_code
    if stopped or answer is None:
        return STOPPED
    return told_left(left, shown=as_json or not quiet) if answer.success else 1


async def execute(
    source: str | None,
    code: str | None,
    make: Callable[[], Session],
    *,
    out: Path | None,
    as_json: bool,
    quiet: bool = False,
    keep: bool = False,
    force: bool = False,
) -> int:
    """Run a script, a notebook's cells or a piece of code, and show the outputs.

    Returns:
        The exit code.
    """
    cells: list[Cell] = []
    left: dict[str, str] = {}
    status = "ok"
    error: NbagentError | None = None
    started = time.monotonic()
    try:
        sources = read_sources(source, code)
        session = make()
        check_out(session, out, force=force)
        async with shown(session, quiet=quiet or as_json, results=sys.stdout, keep=keep):
            try:
                for text, may_fail in sources:
                    cells.append(await session.run(text))
                    if not cells[-1].success and not (may_fail and cells[-1].status == "error"):
                        status = cells[-1].status
                        break
            except asyncio.CancelledError:
                status = "interrupted"
            except NbagentError as caught:
                error = caught
            left, failed = await delivered(session)
            error = error or failed
            if out is not None:
                _, moved = session.export_last(out, force=force)
                error = error or moved
    except asyncio.CancelledError:
        status = "interrupted"
    except NbagentError as caught:
        error = error or caught
    if as_json:
        found = _cells_json(cells, "failed" if error else status, time.monotonic() - started, error)
        _print_json(found | _left_json(left))
    elif quiet:
        print(safe("\n".join(cell.text for cell in cells if cell.text)))
    if error is not None:
        complain(error)
        return error.exit_code
    return told_left(left, shown=as_json or not quiet) if status == "ok" else STOPPED if status == "interrupted" else 1


async def delivered(session: Session) -> tuple[dict[str, str], NbagentError | None]:
    """Have what waits collected; what goes wrong with that must not cost the notebook."""
    try:
        return await session.deliver(), None
    except NbagentError as error:
        return {}, error


def told_left(left: dict[str, str], *, shown: bool = True) -> int:
    """Say at the end what did not arrive, if no event was shown that said so; returns the exit code."""
    for path, why in left.items() if not shown else ():
        print(safe(f"not delivered: {path}: {why}"), file=sys.stderr)
    return NOT_DELIVERED if left else 0


def _left_json(left: dict[str, str]) -> dict[str, Any]:
    return {"not_delivered": left} if left else {}


@contextlib.contextmanager
def demo(*, quiet: bool) -> Iterator[tuple[str, str, str]]:
    """Say what the demo is, and lend its question, the path of its data, and the model that has its replies."""
    folder = resources.files("nbagent") / "demo"
    with resources.as_file(folder / "penguins.csv") as data, resources.as_file(folder / "replies.jsonl") as replies:
        question = (folder / "question.txt").read_text(encoding="utf-8").strip()
        if not quiet:
            print("The model's replies are a recording, so no key is needed. Everything else is live: the sandbox,")
            print(f"the code that runs in it, the package it installs, the figure and the notebook.\n\n> {question}\n")
            sys.stdout.flush()
        yield question, str(data), f"replay:{replies}"


def doctor(*, trust: str | None = None, as_json: bool) -> int:
    """Print what each engine can and can't enforce here, and which would start at a trust level.

    Args:
        trust: The level; the person's own by default, with their other settings.
        as_json: Print one JSON object instead.

    Returns:
        0 if a sandbox would start, else 3.

    Raises:
        UsageError: There is no such level, or a setting is wrong.
    """
    from nbagent import settings
    from nbagent.sandbox import registry
    from nbagent.sandbox.spec import SandboxSpec

    chosen = settings.load()
    spec = SandboxSpec.of(chosen.but(trust=trust))
    level = spec.trust.level.value
    found = {
        name: registry.candidate(each, image=spec.image, specs=[spec])
        for name, each in sorted(registry.engines().items())
    }
    order = (chosen.engine,) if chosen.engine else registry.by_itself()
    best = next((name for name in order if name in found and found[name].starts), None)
    if as_json:
        told = {"trust": level}
        _print_json(
            {
                name: _report_json(each.report) | told | {"starts": each.starts, "chosen": name == best}
                for name, each in found.items()
            }
        )
        return 0 if best else 3
    _show_engines(found, level, best=best)
    return 0 if best else 3


def _show_engines(found: Mapping[str, Candidate], level: str, *, best: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, emoji=False, markup=False)
    names = list(dict.fromkeys(control.name for each in found.values() for control in each.report.controls))
    table = Table(title="What each engine enforces here")
    table.add_column("")
    for name in found:
        table.add_column(name)
    table.add_row("works here", *("yes" if each.report.available else "no" for each in found.values()))
    table.add_row(f"starts at {level}", *("yes" if each.starts else "no" for each in found.values()))
    table.add_row("runs on", *(each.report.kernel if each.report.available else "" for each in found.values()))
    for control in names:
        table.add_row(control, *(_cell(each.report, control) for each in found.values()))
    console.print(table)
    for name, each in found.items():
        if each.why_not:
            console.print(f"{name}: {each.why_not}", markup=False, soft_wrap=True)
    none = f"none would start at the level {level}; nbagent never runs code unisolated by itself"
    console.print(f"Chosen by itself: {best or none}.", markup=False)
    if best and not found[best].report.environment:
        console.print("Its kernel environment will be made at the first start (or now, with: nbagent env build).")


def _cell(report: Any, control: str) -> str:
    found = [each for each in report.controls if each.name == control]
    if not found:
        return ""
    return f"yes: {found[0].how}" if found[0].enforced else f"NO {found[0].how}".strip()


def _report_json(report: Any) -> dict[str, Any]:
    return {
        "available": report.available,
        "reason": report.reason,
        "mend": report.mend,
        "environment": report.environment,
        "kernel": report.kernel,
        "controls": {each.name: {"enforced": each.enforced, "how": each.how} for each in report.controls},
    }


@contextlib.asynccontextmanager
async def shown(
    session: Session,
    *,
    quiet: bool,
    results: IO[str] | None = None,
    keep: bool = False,
    keyboard: Keyboard | None = None,
) -> AsyncIterator[View]:
    """A running session whose events are shown, and which Ctrl-C stops: first the cell, then all.

    Args:
        session: Not yet started.
        quiet: Show only what must be known.
        results: Where the cells' own output goes.
        keep: Whether its kernel is left running at the end, to be resumed.
        keyboard: Where the person types, who also is asked what code may do.
    """
    view = View(folder=lambda: session.folder, keep=session.keeps, quiet=quiet, results=results, code=results is None)
    keyboard = keyboard or Keyboard()
    if session.ask_hosts and not keyboard.is_there:
        session.ask_hosts = False
        print(NO_TERMINAL, file=sys.stderr)
    _attend(session, keyboard, told=results is None)
    asker = Asker(session, view, keyboard)
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    pressed = 0
    ending = False

    def stop() -> None:
        nonlocal pressed
        if asker.is_away:
            return
        pressed += 1
        # Who stops the code doesn't allow it anything.
        asker.refuse()
        if pressed == 1 and session.interrupt_cell():
            return
        give_up()
        # A cell that doesn't heed the interrupt is not waited for.
        loop.call_later(PATIENCE, give_up)

    def give_up() -> None:
        if task is not None and not ending:
            task.cancel()

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        view.wait("starting the sandbox")
        await session.start()
        for record in session.news:
            view.show(record)
        session.follow(view.show)
        session.follow(asker.hear)
        yield view
    finally:
        # Whoever goes on pressing Ctrl-C must not keep the sandbox from being put away.
        ending = True
        asker.close()
        view.idle()
        if keep and session.is_running:
            await session.detach()
            print(f"Its kernel waits to be resumed: nbagent resume {session.id}", file=sys.stderr)
            if not session.outlasts_login:
                print("It ends when you log out, unless you first run: loginctl enable-linger", file=sys.stderr)
        await session.stop()
        loop.remove_signal_handler(signal.SIGINT)


def _attend(session: Session, keyboard: Keyboard, *, told: bool) -> None:
    """Have the person asked for approvals if they are there; if nobody is, that is told where a model is to work."""
    consent = session.consent
    consent.attended = consent.attended and keyboard.is_there
    if told and consent.asks and not consent.attended:
        print(UNATTENDED[consent.unattended], file=sys.stderr)


def read_sources(source: str | None, code: str | None) -> list[tuple[str, bool]]:
    """The cells to run, each with whether it may fail.

    Raises:
        UsageError: There is none, both are named, or the file can't be read as what it should be.
    """
    if (source is None) == (code is None):
        raise UsageError("Name one thing to run.", mend="A script, a notebook, - for standard input, or -c CODE.")
    if code is not None:
        return [(code, False)]
    assert source is not None  # noqa: S101 - one of the two is there
    name = "standard input" if source == "-" else source
    try:
        raw = sys.stdin.buffer.read(MAX_SOURCE + 1) if source == "-" else _read(Path(source))
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"{name[:200]!r} can't be read: {reason}.", mend="Name a script or a notebook, or give code with -c CODE."
        ) from error
    if len(raw) > MAX_SOURCE:
        raise UsageError(f"{name} has more than {MAX_SOURCE // 1024 // 1024} MB.", mend="Give large data with --data.")
    return _notebook_cells(name, text) if name.endswith(".ipynb") else [(text, False)]


def data_for(source: str | None, given: list[str] | None) -> list[str] | dict[str, str]:
    """The data that a person gives, and what else a notebook of nbagent's needs to run again, where it is found."""
    data = [*(given or ())]
    if source is None or not source.endswith(".ipynb"):
        return data
    found = needs.find(Path(source).absolute(), store.state_root(settings.load().state_dir))
    named = {Path(each).expanduser().resolve().name: each for each in data}
    for name in found.changed:
        if name not in named:
            print(safe(f"{name} is not what it was when {source} was made."), file=sys.stderr)
    for name in found.missing:
        if name not in named:
            told = f"{source} was made with {name}, which isn't here as it was: give it with --data."
            print(safe(told), file=sys.stderr)
    if len(named) < len(data):
        return data  # two of the same name, which is told where data is looked at
    return {path.rpartition("/")[2]: str(place) for path, place in found.places.items()} | named


def _read(path: Path) -> bytes:
    # A pipe that a shell made for `<(…)` has a writer; any other would keep us waiting for one.
    if path.is_fifo() and path.parent != Path("/dev/fd"):
        raise OSError(errno.EINVAL, "it is a pipe")
    with path.open("rb") as file:
        return file.read(MAX_SOURCE + 1)


def _notebook_cells(name: str, text: str) -> list[tuple[str, bool]]:
    import warnings

    import nbformat

    try:
        with warnings.catch_warnings():
            # Of cells without an id, or with the same one: nothing that matters to running them.
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(text, as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    except Exception as error:
        raise UsageError(f"{name} is not a notebook: {str(error).splitlines()[0][:200]}") from error
    return [(cell.source, "raises-exception" in cell.metadata.get("tags", [])) for cell in cells]


def check_out(session: Session, out: Path | None, *, force: bool) -> None:
    """Complain of a place for the notebook before any work is done for it.

    Raises:
        UsageError: Something is there that must not be replaced, or it isn't called as a notebook is.
        StoreError: It is a folder, or nothing can be written there.
    """
    if out is not None:
        session.check_export(out, force=force)


def refused(command: str, error: NbagentError) -> None:
    """Print the JSON object of a command that never began, because its options are wrong or nbagent itself failed."""
    if command in ("run", "demo"):
        _print_json(_answer_json(None, None, None, error))
    elif command == "exec":
        _print_json(_cells_json([], "failed", 0.0, error))
    else:
        _print_json({"error": str(error)})


def _print_json(value: dict[str, Any]) -> None:
    # Text from a sandbox or a file's name may hold half a surrogate pair, which UTF-8 can't.
    print(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode())


def _answer_json(
    answer: Answer | None, session: Session | None, notebook: Path | None, error: NbagentError | None
) -> dict[str, Any]:
    # A turn that failed has no answer, but what it did is not lost.
    found = answer or (session.unfinished if session else None)
    value: dict[str, Any] = {
        "success": bool(answer and answer.success),
        "answer": answer.text if answer else "",
        "claims": msgspec.to_builtins(answer.claims) if answer else [],
        "notebook": str(notebook) if notebook else None,
        "cells": [_cell_json(cell) for cell in found.cells] if found else [],
        "installed": [_package_json(package) for package in found.installed] if found else [],
        "files": [str(path) for path in found.files] if found else [],
        "attempts": found.attempts if found else 0,
        "usage": _usage_json(found),
        "engine": (session.engine or None) if session else None,
        "trust": session.trust if session else None,
        "replay": session.is_replay if session else False,
    }
    return value | ({"error": str(error)} if error else {})


def _usage_json(answer: Answer | None) -> dict[str, Any]:
    usage = answer.usage if answer else NO_USAGE
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "calls": usage.calls,
        "cached_tokens": usage.cached_tokens,
        "cost": None if usage.cost is None else round(usage.cost, 8),
    }


def _used(usage: Usage) -> str:
    """What an answer has used, for a person; nothing of a recording."""
    tokens = usage.input_tokens + usage.output_tokens
    if not tokens:
        return ""
    money = "" if usage.cost is None else f", {dollars(usage.cost)} by the price list" if usage.cost else ", free"
    return f"used: {tokens:,} tokens in {amount('steps', usage.calls)}{money}"


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.cell,
        "code": cell.code,
        "status": cell.status,
        "outputs": cell.outputs,
        "execution_count": cell.execution_count,
        "execution_time": round(cell.duration, 4),
        "note": cell.note,
    }


def _package_json(package: Package) -> dict[str, Any]:
    return {"name": package.name, "version": package.version, "sha256": package.sha256}


def _cells_json(cells: list[Cell], status: str, seconds: float, error: NbagentError | None) -> dict[str, Any]:
    outputs: list[Output] = [output for cell in cells for output in cell.outputs]
    value: dict[str, Any] = {
        "status": status,
        "outputs": outputs,
        "execution_time": round(sum(cell.duration for cell in cells) or seconds, 4),
        "state": "lost" if any(cell.state_lost for cell in cells) else "kept",
    }
    notes = " ".join(cell.note for cell in cells if cell.note)
    return value | ({"note": notes} if notes else {}) | ({"error": str(error)} if error else {})
