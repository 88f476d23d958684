"""The commands and their options. What each does is in a module of its own, which is imported when it runs.

Exit codes: 0 done, 1 the code failed (or the model came to no end), 2 wrong use, 3 the sandbox failed,
4 done, but not all files that the code saved arrived, 130 stopped.
`nbagent --help` must not wait for imports of what a command needs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from nbagent import __version__
from nbagent.core.errors import UsageError
from nbagent.faces.cli import options, program

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from nbagent.core.options import FlagGroup
    from nbagent.session.protocol import AnySession
    from nbagent.session.session import Session

T = TypeVar("T")

app = typer.Typer(
    help="Ask questions of data. The code runs in a sandboxed kernel, and every answer is a notebook.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
image_app = typer.Typer(help="The Docker image of the kernel.", no_args_is_help=True)
env_app = typer.Typer(help="The kernel environment of the bubblewrap engine.", no_args_is_help=True)
app.add_typer(image_app, name="image")
app.add_typer(env_app, name="env")
audit_app = typer.Typer(help="The audit log: what ran, and proof that nobody changed it.", no_args_is_help=True)
app.add_typer(audit_app, name="audit")
tools_app = typer.Typer(help="The library of tools that the tool forge has made.", no_args_is_help=True)
app.add_typer(tools_app, name="tools")


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def everywhere(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """What holds for all commands."""


SANDBOX: tuple[FlagGroup, ...] = ("sandbox", "hosts")
"""Groups of options about what the code sees, where it runs and what it reaches."""
MODEL: tuple[FlagGroup, ...] = ("model", "agent", "approvals")
"""Those about how questions are answered."""
DEMO_NAMES = ("--data -d", "--record", "--fallback", "--critic", "--structured")
"""Flags of options that are the demo's own."""


@app.command()
@options.takes(*SANDBOX, *MODEL, "background")
def run(
    question: Annotated[str, typer.Argument(help="The question, in words.")],
    *,
    given: dict[str, Any],
    how: options.How,
) -> None:
    """Ask a question; the answer is text and a notebook."""
    if given.pop("background", False):
        _attach(lambda: _host(None, given), question=question, how=how)
    _ask(question, given, how)


def _ask(question: str, given: dict[str, Any], how: options.How) -> NoReturn:
    from nbagent.faces.cli.ask import ask

    # A program that reads JSON is nobody who answers.
    given = options.landing(given) | {"attended": not how.as_json}
    raise typer.Exit(_finish(ask(question, lambda: _session(**given), how=how)))


@app.command("exec")
@options.takes(*SANDBOX)
def execute(
    source: Annotated[str | None, typer.Argument(help="A script, a notebook, or - for standard input.")] = None,
    code: Annotated[str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a file.")] = None,
    *,
    given: dict[str, Any],
    how: options.How,
) -> None:
    """Run code in the sandbox, without a model."""
    from nbagent.faces.cli import execute as work

    def make() -> Session:
        return _session(**options.landing(given) | {"data": work.data_for(source, given.get("data"))})

    raise typer.Exit(_finish(work.execute(source, code, make, how=how)))


@app.command(short_help="See it work, without a key.")
@options.takes(*SANDBOX, "approvals", "agent", only=lambda option: option.flags not in DEMO_NAMES)
def demo(
    *,
    given: dict[str, Any],
    how: options.How,
) -> None:
    """Ask a real question of real data, without a key: the model's replies are recorded, everything else is live."""
    from nbagent.faces.cli import ask

    with ask.demo(quiet=how.as_json or how.quiet) as (question, data, model):
        given |= {"data": [data], "model": model}
        _ask(question, given, replace(how, out=how.out or Path("nbagent-demo.ipynb")))


@app.command(short_help="List the sessions, search, rename and delete them.")
def sessions(
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Where this stands in titles, questions or answers.")
    ] = None,
    rename: Annotated[
        tuple[str, str] | None, typer.Option("--rename", metavar="SESSION TITLE", help="Give one another title.")
    ] = None,
    delete: Annotated[
        str | None, typer.Option("--delete", metavar="SESSION", help="Remove one: its log, its files, what was said.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --delete end one that runs.")] = False,
    as_json: options.Json = False,
) -> None:
    """List the sessions on this machine, and which can be gone on with."""
    from nbagent.faces.cli import sessions as work

    if rename:
        raise typer.Exit(_finish(work.rename(*rename)))
    if delete:
        raise typer.Exit(_finish(work.delete(delete, force=force)))
    raise typer.Exit(_finish(work.search(search, as_json=as_json) if search else work.show(as_json=as_json)))


@app.command(short_help="Go on with a session.")
@options.takes(*SANDBOX, *MODEL, only=lambda option: option.resumed)
def resume(
    session: Annotated[str, typer.Argument(help="Its name, or enough of its beginning.")],
    question: Annotated[str | None, typer.Argument(help="A question; typed at the terminal by default.")] = None,
    code: Annotated[
        str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a question.")
    ] = None,
    *,
    given: dict[str, Any],
    how: options.How,
) -> None:
    """Go on with a session, its variables kept if its kernel still lives; attach to one that another process runs."""
    from nbagent.faces.cli import attach
    from nbagent.faces.cli import resume as work

    if attach.is_running(session):
        if named := [name for name, value in given.items() if value is not None]:
            raise UsageError(
                f"Another process runs the session {session}, where {named[0]} can't be changed.", mend="Leave it out."
            )
        _attach(lambda: _come(session), question=question, code=code, how=how)

    def make() -> Session:
        from nbagent.session.session import Session

        return Session.resumed(session, **options.landing(given), attended=not how.as_json)

    raise typer.Exit(_finish(work.resume(make, question=question, code=code, how=how)))


@app.command(short_help="See and steer a session that another process runs.")
def attach(
    session: Annotated[str, typer.Argument(help="Its name, or enough of its beginning.")],
    question: Annotated[str | None, typer.Argument(help="A question; typed at the terminal by default.")] = None,
    code: Annotated[
        str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a question.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option("--since", metavar="N", help="Show first what came after event N; 0 for all of it.", min=0),
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Follow a session that another process runs, ask it, answer what it asks, and leave it running.

    Ctrl-C stops the cell, then the question; where nothing runs it leaves, as Ctrl-D does.
    """
    how = options.How(out=out, force=force, as_json=as_json, quiet=quiet)
    _attach(lambda: _come(session), question=question, code=code, since=since, how=how)


async def _come(session: str) -> AnySession:
    from nbagent.session.attach import Attached

    attached = Attached(session)
    await attached.start()
    return attached


def _attach(come: Callable[[], Awaitable[AnySession]], **what: Any) -> NoReturn:
    from nbagent.faces.cli import attach

    raise typer.Exit(_finish(attach.attach(come, **what)))


async def _host(session: str | None, given: dict[str, Any]) -> AnySession:
    from nbagent.session.host import host

    return await host(session, **options.landing(given))


@app.command(short_help="Have a process of its own own a session.")
@options.takes(*SANDBOX, *MODEL)
def host(
    session: Annotated[
        str | None, typer.Argument(help="One to go on with, whose process is gone; a new one by default.")
    ] = None,
    *,
    given: dict[str, Any],
) -> None:
    """Start a process that owns a session and serves it to `nbagent attach`, and print the session's name.

    It has the keys of models that this command's environment has, and ends by itself some time after it was left.
    """
    from nbagent.faces.cli import attach

    raise typer.Exit(_finish(attach.in_background(session, **options.landing(given))))


@app.command(short_help="Serve the sandboxed kernel to any MCP client.")
@options.takes(*SANDBOX, only=lambda option: option.flags != "--ask-hosts")
def mcp(
    *,
    given: dict[str, Any],
    out: options.Out = None,
    force: options.Force = False,
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
    """Serve the sandboxed kernel, its files and its notebook to any MCP client, by stdio; no model is needed here.

    Over HTTP a client needs the token that is shown at the start, or chosen in NBAGENT_MCP_TOKEN.
    """
    from nbagent.faces.mcp_server import serve

    async def run() -> int:
        session = _session(**given, mcp=False)
        say = lambda text: typer.echo(text, err=True)  # noqa: E731
        await serve(session, out=out, http=http, origins=http_origin or (), say=say, force=force)
        return 0

    raise typer.Exit(_finish(run()))


@app.command(short_help="Open a terminal inside a sandbox.")
def shell(session: Annotated[str, typer.Argument(help="Its name, or enough of its beginning.")]) -> None:
    """Open a terminal inside a session's sandbox, where its trust level permits a shell."""
    from nbagent.faces.cli import manage

    raise typer.Exit(manage.shell(session))


@app.command(short_help="Remove what killed processes left behind.")
def clean(
    max_age: Annotated[
        str | None, typer.Option("--max-age", metavar="AGE", help="Only what is older: 90, 30m, 12h, 2d.")
    ] = None,
    sessions: Annotated[
        str | None,
        typer.Option(
            "--sessions", metavar="AGE", help="Also sessions that have ended and were not used for so long: 90d."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Remove the sandboxes, folders and containers that processes left behind which were killed.

    With --sessions also old sessions: their logs, their files, and what the model was told in them.
    """
    from nbagent.faces.cli import manage

    raise typer.Exit(_finish(manage.clean(max_age=max_age, unused=sessions, as_json=as_json)))


@app.command(short_help="What each engine enforces here; --self-check tries it.")
def doctor(
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Attack a sandbox on this machine, and show what it withstood.")
    ] = False,
    engine: options.Engine = None,
    trust: Annotated[str | None, typer.Option("--trust", metavar="LEVEL", help="At this trust level.")] = None,
    as_json: options.Json = False,
) -> None:
    """What each engine can and cannot enforce on this machine."""
    if self_check:
        from nbagent.faces.cli import selfcheck

        raise typer.Exit(_finish(selfcheck.self_check(engine=engine, trust=trust, as_json=as_json)))
    if engine:
        raise UsageError("--engine is for the attacks.", mend="Add --self-check.")
    from nbagent.faces.cli import doctor as work

    raise typer.Exit(work.doctor(trust=trust, as_json=as_json))


@app.command(short_help="Make what an engine's kernels are made of.")
def build(
    engine: Annotated[str, typer.Argument(help="The engine's name, as `nbagent doctor` lists it.")],
    base: Annotated[str | None, typer.Option("--base", help="An image with Python 3.11 or newer.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The image's name; nbagent's own by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Make it even if it is there.")] = False,
) -> None:
    """Make what the kernels of an engine are made of, if it isn't there: Docker's image, bubblewrap's environment."""
    from nbagent.sandbox.registry import find

    _finish(find(engine).build(say=print, base=base, tag=tag, force=force))


@image_app.command("build")
def image_build(
    base: Annotated[str | None, typer.Option("--base", help="An image with Python 3.11 or newer.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The image's name; nbagent's own by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Build it even if it is there.")] = False,
) -> None:
    """Build the kernel's image, with no network in the build."""
    build("docker", base=base, tag=tag, force=force)


@audit_app.command("verify")
def audit_verify(
    session: options.AuditLog,
    key_file: options.KeyFile = None,
    as_json: options.Json = False,
) -> None:
    """Check that an audit log is what was written: exit code 0 if so, 1 if not."""
    from nbagent.faces.cli import audit

    raise typer.Exit(audit.verify(session, key_file=key_file, as_json=as_json))


@audit_app.command("show")
def audit_show(
    session: options.AuditLog,
    key_file: options.KeyFile = None,
) -> None:
    """Show an audit log as text."""
    from nbagent.faces.cli import audit

    raise typer.Exit(audit.show(session, key_file=key_file))


@audit_app.command("sent")
def audit_sent(
    session: options.AuditLog,
    key_file: options.KeyFile = None,
    as_json: options.Json = False,
) -> None:
    """Show what left for models: which bytes of which outputs, to whom."""
    from nbagent.faces.cli import audit

    raise typer.Exit(audit.sent(session, key_file=key_file, as_json=as_json))


@tools_app.command("list")
def tools_list(as_json: options.Json = False) -> None:
    """List the tools that there are."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.show_all(as_json=as_json)))


@tools_app.command("show")
def tools_show(name: options.ToolName, version: options.ToolVersion = None, as_json: options.Json = False) -> None:
    """Show a tool: what is known of it, its code and its tests."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.show(name, version=version, as_json=as_json)))


@tools_app.command("add")
def tools_add(
    path: Annotated[Path, typer.Argument(help="An exported folder or zip, or NAME.py with test_NAME.py beside it.")],
    engine: options.Engine = None,
) -> None:
    """Make a tool from files: it is installed and tested in a sandbox of its own first."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.add(path, engine=engine)))


@tools_app.command("export")
def tools_export(
    name: options.ToolName,
    to: Annotated[Path, typer.Argument(help="A new folder, or a zip archive if its name ends so.")],
    version: options.ToolVersion = None,
) -> None:
    """Write a tool into files that others can add."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.export(name, to, version=version)))


@tools_app.command("remove")
def tools_remove(name: options.ToolName) -> None:
    """Remove a tool, all its versions."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.remove(name)))


@tools_app.command("clean")
def tools_clean(
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="AGE", help="Only what was not used for so long: 12h, 90d.")
    ] = "90d",
) -> None:
    """Remove the tools that were not used for long."""
    from nbagent.faces.cli import tools

    raise typer.Exit(_finish(tools.clean(max_age=max_age)))


@env_app.command("build")
def env_build() -> None:
    """Make the kernel's environment if it isn't there."""
    build("bubblewrap")


def _session(**arguments: Any) -> Session:
    from nbagent.session.session import Session

    return Session(**arguments)


def _finish(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


def main() -> None:
    """The program `nbagent`."""
    program.run(app)
