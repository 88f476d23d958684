"""The commands and their flags. What each does is in a module of its own, which is imported when it runs.

Exit codes: 0 done; 1 the code failed, or the model came to no end; 2 wrong use; 3 the sandbox failed; 4 done, but not
all files that the code saved arrived; 130 stopped. `nbagent --help` must not wait for what only one command imports.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from nbagent import __version__
from nbagent.core.errors import UsageError
from nbagent.faces.cli import flags, program, subcommands
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nbagent.core.options import FlagGroup
    from nbagent.session.protocol import AnySession
    from nbagent.session.session import Session

app = App(
    help="Ask questions of data. The code runs in a sandboxed kernel, and every answer is a notebook.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def everywhere(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Flags that stand before any command; without a command, a conversation, where there is a terminal."""
    del version, debug  # which others read
    if context.invoked_subcommand is None:
        from nbagent.faces.terminal.keyboard import Keyboard

        if not Keyboard().is_there:
            print(context.get_help())
            raise typer.Exit(2)
        from nbagent.faces.cli.chat import chat as work

        raise typer.Exit(finish(work(None, flags.with_output_dir({}))))


SANDBOX: tuple[FlagGroup, ...] = ("sandbox", "hosts")
"""Groups of options about what the code sees, where it runs and what it reaches."""
MODEL: tuple[FlagGroup, ...] = ("model", "agent", "approvals")
"""Those about how questions are answered."""
DEMO_NAMES = frozenset(["data", "record", "fallback", "critic", "replies"])
"""Options that the demo sets itself, or that its recorded replies make useless."""


@app.command()
@flags.takes(*SANDBOX, "kernel", *MODEL, "background")
def run(
    question: Annotated[str, typer.Argument(help="The question, in words.")],
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> None:
    """Ask a question; the answer is text and a notebook."""
    if given.pop("background", False):
        _steer(lambda: _in_background(given), question=question, wanted=wanted)
    _ask(question, given, wanted)


def _ask(question: str, given: dict[str, Any], wanted: flags.CommandFlags) -> NoReturn:
    from nbagent.faces.cli.ask import ask
    from nbagent.faces.cli.attendance import attended

    # A program that reads JSON is nobody who answers.
    given = flags.with_model(flags.with_output_dir(given)) | {"attended": not wanted.as_json}
    raise typer.Exit(finish(ask(question, lambda: attended(_session(**given)), wanted=wanted)))


@app.command("exec")
@flags.takes(*SANDBOX, "kernel")
def execute(
    source: Annotated[str | None, typer.Argument(help="A script, a notebook, or - for standard input.")] = None,
    code: Annotated[str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a file.")] = None,
    allow_errors: Annotated[bool, typer.Option("--allow-errors", help="Go on after a cell that fails.")] = False,
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> None:
    """Run code in the sandbox, without a model."""
    from nbagent.faces.cli import execute as work
    from nbagent.faces.cli.attendance import attended

    def make() -> Session:
        data = work.data_for(source, **given)
        return attended(_session(**flags.with_output_dir(given) | {"data": data}), approvals=False)

    raise typer.Exit(finish(work.execute(source, code, make, wanted=wanted, allow_errors=allow_errors)))


@app.command(short_help="Check that notebooks still give what they show.")
@flags.takes(*SANDBOX, only=lambda name, _: name != "data")
def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Notebooks, nbagent's or any other.")],
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", "-d", metavar="DIR", help="Where their data is looked for, by name. Repeatable."),
    ] = None,
    sanitize: Annotated[
        Path | None, typer.Option("--sanitize", metavar="FILE", help="What else is masked in text, in nbval's form.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="The relative difference up to which numbers are the same.", min=0)
    ] = 1e-9,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Run on other terms too, to find what cells depend on.")
    ] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Notebooks at a time.", min=1)] = None,
    no_write: Annotated[bool, typer.Option("--no-write", help="Leave the notebooks as they are.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit's XML here.")] = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", metavar="DIR", help="Save here how figures differ.")
    ] = None,
    as_json: flags.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only what differs.")] = False,
    *,
    given: dict[str, Any],
) -> None:
    """Run notebooks in fresh sandboxes and compare what they show: 0 the same, 1 it differs, 2 one could not be run."""
    from nbagent.faces.cli.verify import Wanted
    from nbagent.faces.cli.verify import verify as work

    wanted = Wanted(
        data=data or (),
        sanitize=sanitize,
        tolerance=tolerance,
        sweep=sweep,
        jobs=jobs,
        write=not no_write,
        junit=junit,
        pictures=pictures,
        as_json=as_json,
        quiet=quiet,
    )
    raise typer.Exit(finish(work(files, wanted, **given)))


@app.command(short_help="Run a notebook on other data or with other parameters.")
@flags.takes(*SANDBOX, only=lambda name, _: name != "data")
def rerun(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A notebook, nbagent's or any other.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", "-d", metavar="[NAME=]FILE", help="New data in the place of NAME, or of its own name. Repeatable."
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="A name that the cell tagged `parameters` sets. Repeatable."
        ),
    ] = None,
    out: flags.Out = None,
    force: flags.Force = False,
    as_json: flags.Json = False,
    *,
    given: dict[str, Any],
) -> None:
    """Run a notebook's analysis on new data of the same schema, or with other parameters, and tell what changed."""
    from nbagent.faces.cli import rerun as work

    pairs = [each.partition("=") for each in parameter or ()]
    if odd := [name for name, sign, _ in pairs if not sign]:
        raise UsageError(f"The parameter {odd[0]!r} has no value.", mend="Write -p NAME=VALUE.")
    values = {name: value for name, _, value in pairs}
    raise typer.Exit(
        finish(work.run(file, data=data or (), parameters=values, out=out, force=force, as_json=as_json, **given))
    )


@app.command(short_help="Write the notebook of a session.")
def export(
    session: flags.SessionName,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="A notebook (.ipynb), a page (.html), Markdown (.md), a script (.py), or all that it needs (.zip).",
        ),
    ],
    keep_attempts: Annotated[bool, typer.Option("--keep-attempts", help="Keep what the model tried in vain.")] = False,
    environment: Annotated[
        bool, typer.Option("--environment", help="Also write requirements.txt and environment.yml for its packages.")
    ] = False,
    force: flags.Force = False,
) -> None:
    """Write the notebook of a session, also of one that has ended, as a person would have written it.

    What the model tried in vain is left out, if a run of the rest shows the same without it.
    """
    from nbagent.faces.cli.export import export as work

    how = {"keep_attempts": keep_attempts, "environment": environment, "force": force}
    raise typer.Exit(finish(work(session, out, **how)))


@app.command(short_help="Tell how a notebook came about.")
def log(file: Annotated[Path, typer.Argument(metavar="FILE", help="A notebook.")]) -> None:
    """Tell who asked what, which cell ran when and by whom, and what was edited since."""
    from nbagent.faces.cli import log as work

    raise typer.Exit(work.show(file))


@app.command(short_help="See it work, without a key.")
@flags.takes(*SANDBOX, "approvals", "agent", only=lambda name, _: name not in DEMO_NAMES)
def demo(
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> None:
    """Ask a real question of real data, without a key: the model's replies are recorded, everything else is live."""
    from nbagent.faces.cli import ask

    with ask.demo(quiet=wanted.as_json or wanted.quiet) as (question, data, model):
        given |= {"data": [data], "model": model}
        _ask(question, given, replace(wanted, out=wanted.out or Path("nbagent-demo.ipynb")))


@app.command(short_help="List the sessions; search, rename and delete them.")
def sessions(
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Find this text in titles, questions and answers.")
    ] = None,
    rename: Annotated[
        tuple[str, str] | None, typer.Option("--rename", metavar="SESSION TITLE", help="Give a session another title.")
    ] = None,
    delete: Annotated[
        str | None, typer.Option("--delete", metavar="SESSION", help="Remove a session: its log, files and kernel.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --delete end a session that is running.")] = False,
    as_json: flags.Json = False,
) -> None:
    """List the sessions on this machine, the latest first, each with its state.

    Attach to one that is running, resume one that is waiting (its variables are kept) or has ended (they are lost).
    """
    from nbagent.faces.cli import sessions as work

    if rename:
        raise typer.Exit(finish(work.rename(*rename)))
    if delete:
        raise typer.Exit(finish(work.delete(delete, force=force)))
    raise typer.Exit(finish(work.search(search, as_json=as_json) if search else work.show(as_json=as_json)))


@app.command(short_help="List the files and figures of a session.")
def files(
    session: flags.SessionName,
    save: Annotated[
        list[str] | None,
        typer.Option("--save", metavar="NAME", help="Write the file or figure of that name here. Repeatable."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """List the files that a session's cells saved and the figures that they showed, also of one that has ended."""
    from nbagent.faces.cli import sessions as work

    raise typer.Exit(work.files(session, save=save or (), as_json=as_json))


@app.command(short_help="Resume a session whose process has ended.")
@flags.takes(*SANDBOX, *MODEL, only=lambda _, option: option.resumed)
def resume(
    session: Annotated[
        str | None, typer.Argument(help="The session's name, or enough of its beginning; the latest by default.")
    ] = None,
    question: flags.Question = None,
    code: flags.Code = None,
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> None:
    """Resume a session, with its variables if its kernel still lives; attach to it if another process runs it.

    A kernel that was kept is kept again after one question, or one piece of code.
    """
    from nbagent.faces.cli import attach
    from nbagent.faces.cli import resume as work

    session, question = work.named(session, question)
    if attach.is_running(session):
        _refuse_options(session, given)
        _steer(lambda: attach.attached_to(session), question=question, code=code, wanted=wanted)

    def make() -> Session:
        from nbagent.faces.cli.attendance import attended
        from nbagent.session.session import Session

        resumed = Session.resumed(session, **flags.with_output_dir(given), attended=not wanted.as_json)
        return attended(resumed, approvals=code is None)

    if code is not None or question is not None:
        wanted = replace(wanted, keep=wanted.keep or work.is_waiting(session))
    raise typer.Exit(finish(work.resume(make, question=question, code=code, wanted=wanted)))


def _refuse_options(session: str, given: dict[str, Any]) -> None:
    """Complain of options for a session that runs already."""
    if named := [name for name, value in given.items() if value is not None]:
        raise UsageError(
            f"Another process runs the session {session}, where {named[0]} can't be changed.", mend="Leave it out."
        )


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
) -> None:
    """Follow a session that another process runs, ask it, answer what it asks, and leave it running.

    Ctrl-C stops the cell, then the question; when nothing runs, it leaves the session, as Ctrl-D does.
    """
    from nbagent.faces.cli import attach

    wanted = flags.CommandFlags(out=out, force=force, as_json=as_json, quiet=quiet)
    _steer(lambda: attach.attached_to(session), question=question, code=code, since=since, wanted=wanted)


def _steer(come: Callable[[], Awaitable[AnySession]], **what: Any) -> NoReturn:
    from nbagent.faces.cli import attach

    raise typer.Exit(finish(attach.steer(come, **what)))


async def _in_background(given: dict[str, Any]) -> AnySession:
    from nbagent.faces.terminal.display import starting
    from nbagent.faces.terminal.view import View
    from nbagent.session.host import host

    async with starting(View(keep_figure=lambda *_: None)):
        return await host(**flags.with_model(flags.with_output_dir(given)))


@app.command(short_help="Ask question after question at the terminal.")
@flags.takes(*SANDBOX, "kernel", *MODEL)
def chat(
    session: Annotated[
        str | None, typer.Argument(help="A session to go on with, by its whole name; a new one by default.")
    ] = None,
    *,
    given: dict[str, Any],
) -> None:
    """Hold a conversation: questions, and commands such as /status, /model NAME, /export FILE and /help.

    The session has a process of its own, as by `nbagent host`, and goes on when you leave.
    """
    from nbagent.faces.cli.chat import chat as work

    raise typer.Exit(finish(work(session, flags.with_output_dir(given))))


@app.command(short_help="Run a session in a process of its own.")
@flags.takes(*SANDBOX, "kernel", *MODEL)
def host(
    session: Annotated[
        str | None, typer.Argument(help="A session to resume, whose process has ended; a new one by default.")
    ] = None,
    *,
    given: dict[str, Any],
) -> None:
    """Start a process that owns a session and serves it to `nbagent attach`, and print the session's name.

    The process has the keys of models that this command's environment has. It ends by itself when nobody was attached,
    and nothing ran, for as long as the setting keep_minutes says.
    """
    from nbagent.faces.cli import attach

    raise typer.Exit(finish(attach.in_background(session, **flags.with_output_dir(given))))


@app.command(short_help="Serve the sandboxed kernel to any MCP client.")
@flags.takes(*SANDBOX, only=lambda name, _: name != "ask_hosts")
def mcp(
    session: Annotated[
        str | None, typer.Argument(help="A running session whose kernel is served; a new one by default.")
    ] = None,
    *,
    given: dict[str, Any],
    out: flags.Out = None,
    force: flags.Force = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="WHERE", help="HTTP instead of stdio: a port of 127.0.0.1, or the PATH.sock of a socket."
        ),
    ] = None,
    http_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--http-origin", metavar="ORIGIN", help="A page of this machine that may use it over HTTP. Repeatable."
        ),
    ] = None,
) -> None:
    """Serve a sandboxed kernel, its files and its notebook to any MCP client, by stdio; no model is needed here.

    Over HTTP a client needs the token that is shown at the start, or chosen in NBAGENT_MCP_TOKEN.
    """
    from nbagent.faces.mcp_server import serve

    async def run() -> int:
        if session is None:
            served: AnySession = _session(**given, mcp=False)
        else:
            from nbagent.faces.cli.attach import attached_to

            _refuse_options(session, given)
            served = await attached_to(session)
        say = lambda text: typer.echo(text, err=True)  # noqa: E731
        await serve(served, out=out, http=http, origins=http_origin or (), say=say, force=force)
        return 0

    raise typer.Exit(finish(run()))


@app.command(short_help="Open a terminal inside a sandbox.")
def shell(session: flags.SessionName) -> None:
    """Open a terminal inside a session's sandbox, where its trust level permits a shell."""
    from nbagent.faces.cli import manage

    raise typer.Exit(manage.shell(session))


@app.command(short_help="Remove what killed processes left behind.")
def clean(
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="AGE", help="Only what is older than 90 (seconds), 30m, 12h or 2d."),
    ] = None,
    sessions: Annotated[
        str | None,
        typer.Option(
            "--sessions",
            metavar="AGE",
            help="Also sessions that have ended and were not used for so long, such as 90d.",
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Remove the sandboxes, folders and containers that killed processes left behind, and kernels that wait.

    With --sessions it also removes old sessions: their logs, their files, and their conversations with models.
    """
    from nbagent.faces.cli import manage

    raise typer.Exit(finish(manage.clean(max_age=max_age, unused=sessions, as_json=as_json)))


@app.command(short_help="What each engine enforces here; --self-check tries it.")
def doctor(
    self_check: Annotated[
        bool,
        typer.Option(
            "--self-check", help="Attack a sandbox of each engine, or of --engine, and show what it withstood."
        ),
    ] = False,
    engine: flags.Engine = None,
    trust: Annotated[
        str | None, typer.Option("--trust", metavar="LEVEL", help="A trust level; your settings' by default.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Show what each engine can and cannot enforce on this machine, and which one starts by default."""
    if self_check:
        from nbagent.faces.cli import selfcheck

        raise typer.Exit(finish(selfcheck.self_check(engine=engine, trust=trust, as_json=as_json)))
    if engine:
        raise UsageError("--engine chooses the engine to attack.", mend="Add --self-check.")
    from nbagent.faces.cli import doctor as work

    raise typer.Exit(work.doctor(trust=trust, as_json=as_json))


@app.command(short_help="List the models that you can name.")
def models(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Only those whose names have these words.")] = "",
    as_json: flags.Json = False,
) -> None:
    """List the models of each provider whose key is set, and of an Ollama, by the names that `--model` takes."""
    from nbagent.faces.cli.models import models as work

    raise typer.Exit(finish(work(text, as_json=as_json)))


@app.command(short_help="Build an engine's image or environment for kernels.")
def build(
    engine: Annotated[str, typer.Argument(help="The engine's name, as `nbagent doctor` lists it.")],
    base: flags.Base = None,
    tag: flags.Tag = None,
    force: flags.Rebuild = False,
) -> None:
    """Build the image (Docker) or environment (bubblewrap) of an engine's kernels, if it isn't there."""
    subcommands.build(engine, base=base, tag=tag, force=force)


def _session(**options: Any) -> Session:
    from nbagent.session.session import Session

    return Session(**options)


for name, group in subcommands.GROUPS.items():
    app.add_typer(group, name=name)


def main() -> None:
    """The program `nbagent`."""
    program.run(app)
