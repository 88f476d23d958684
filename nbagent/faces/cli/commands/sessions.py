"""Commands for sessions that are there: `sessions`, `resume`, `attach`, `files` and others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nbagent.faces.cli import flags
from nbagent.faces.cli.flags import MODEL, SANDBOX
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

if TYPE_CHECKING:
    from nbagent.session.session import Session

app = App(panel="Sessions")


@app.command(short_help="List the sessions; search, rename and delete them.")
def sessions(
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Find this text in titles, questions and answers.")
    ] = None,
    rename: Annotated[
        tuple[str, str] | None, typer.Option("--rename", metavar="SESSION TITLE", help="Give a session another title.")
    ] = None,
    delete: Annotated[
        str | None,
        typer.Option(
            "--delete",
            metavar="SESSION",
            autocompletion=flags.session_ids,
            help="Remove a session: its log, files and kernel.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --delete end a session that is running.")] = False,
    as_json: flags.Json = False,
) -> int:
    """List the sessions on this machine, the latest first, each with its state.

    Attach to one that is running, resume one that is waiting (its variables are kept) or has ended (they are lost).
    """
    from nbagent.faces.cli import sessions as work

    if rename:
        return finish(work.rename(*rename))
    if delete:
        return finish(work.delete(delete, force=force))
    return finish(work.search(search, as_json=as_json) if search else work.show(as_json=as_json))


@app.command(short_help="List the files and figures of a session.")
def files(
    session: flags.LatestSession = None,
    save: Annotated[
        list[str] | None,
        typer.Option("--save", metavar="NAME", help="Write the file or figure of that name here. Repeatable."),
    ] = None,
    as_json: flags.Json = False,
) -> int:
    """List the files that a session's cells saved and the figures that they showed, also of one that has ended."""
    from nbagent.faces.cli import sessions as work

    return work.files(session, save=save or (), as_json=as_json)


@app.command(short_help="Resume a session whose process has ended.")
@flags.takes(*SANDBOX, *MODEL, only=lambda _, option: option.resumed)
def resume(
    session: flags.LatestSession = None,
    question: flags.Question = None,
    code: flags.Code = None,
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> int:
    """Resume a session, with its variables if its kernel still lives; attach to it if another process runs it.

    A kernel that was kept is kept again after one question, or one piece of code.
    """
    from nbagent.faces.cli import attach
    from nbagent.faces.cli import resume as work

    session, question = work.named(session, question)
    if attach.is_running(session):
        attach.refuse_options(session, given)
        steered = attach.steer(lambda: attach.attached_to(session), question=question, code=code, wanted=wanted)
        return finish(steered)

    def make() -> Session:
        from nbagent.faces.cli.attendance import attended
        from nbagent.session.session import Session

        resumed = Session.resumed(session, **flags.with_output_dir(given), attended=not wanted.as_json)
        return attended(resumed, approvals=code is None)

    if code is not None or question is not None:
        wanted = replace(wanted, keep=wanted.keep or work.is_waiting(session))
    return finish(work.resume(make, question=question, code=code, wanted=wanted))


@app.command(short_help="See and steer a session that another process runs.")
def attach(
    session: flags.SessionName,
    question: flags.Question = None,
    code: flags.Code = None,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="N", help="Show first what came after event N; 0 for all of it.", min=0),
    ] = None,
    out: flags.Out = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> int:
    """Follow a session that another process runs, ask it, answer what it asks, and leave it running.

    Ctrl-C stops the cell, then the question; when nothing runs, it leaves the session, as Ctrl-D does.
    """
    from nbagent.faces.cli import attach

    wanted = flags.CommandFlags(out=out, force=force, as_json=as_json, quiet=quiet)
    come = lambda: attach.attached_to(session)  # noqa: E731
    return finish(attach.steer(come, question=question, code=code, since=since, wanted=wanted))


@app.command(short_help="Run a session in a process of its own.")
@flags.takes(*SANDBOX, "kernel", *MODEL)
def host(
    session: Annotated[
        str | None,
        typer.Argument(
            autocompletion=flags.session_ids, help="A session to resume, whose process has ended; a new one by default."
        ),
    ] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Start a process that owns a session and serves it to `nbagent attach`, and print the session's name.

    The process has the keys of models that this command's environment has. It ends by itself when nobody was attached,
    and nothing ran, for as long as the setting keep_minutes says.
    """
    from nbagent.faces.cli import attach

    return finish(attach.in_background(session, **flags.with_output_dir(given)))


@app.command(short_help="Open a terminal inside a sandbox.")
def shell(session: flags.SessionName) -> int:
    """Open a terminal inside a session's sandbox, where its trust level permits a shell."""
    from nbagent.faces.cli import manage

    return manage.shell(session)
