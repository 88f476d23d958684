"""Commands for this machine: `doctor`, `models`, `build`, `clean`, and `mcp` for other programs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nbagent.core.errors import UsageError
from nbagent.faces.cli import flags
from nbagent.faces.cli.commands import nested
from nbagent.faces.cli.flags import SANDBOX
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession

app = App(panel="This machine")


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
) -> int:
    """Show what each engine can and cannot enforce on this machine, and which one starts by default."""
    if self_check:
        from nbagent.faces.cli import selfcheck

        return finish(selfcheck.self_check(engine=engine, trust=trust, as_json=as_json))
    if engine:
        raise UsageError("--engine chooses the engine to attack.", mend="Add --self-check.")
    from nbagent.faces.cli import doctor as work

    return work.doctor(trust=trust, as_json=as_json)


@app.command(short_help="List the models that you can name.")
def models(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Only those whose names have these words.")] = "",
    as_json: flags.Json = False,
) -> int:
    """List the models of each provider whose key is set, and of an Ollama, by the names that `--model` takes."""
    from nbagent.faces.cli.models import models as work

    return finish(work(text, as_json=as_json))


@app.command(short_help="Build an engine's image or environment for kernels.")
def build(
    engine: Annotated[str, typer.Argument(help="The engine's name, as `nbagent doctor` lists it.")],
    base: flags.Base = None,
    tag: flags.Tag = None,
    force: flags.Rebuild = False,
) -> int:
    """Build the image (Docker) or environment (bubblewrap) of an engine's kernels, if it isn't there."""
    return nested.build(engine, base=base, tag=tag, force=force)


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
) -> int:
    """Remove the sandboxes, folders and containers that killed processes left behind, and kernels that wait.

    With --sessions it also removes old sessions: their logs, their files, and their conversations with models.
    """
    from nbagent.faces.cli import manage

    return finish(manage.clean(max_age=max_age, unused=sessions, as_json=as_json))


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
) -> int:
    """Serve a sandboxed kernel, its files and its notebook to any MCP client, by stdio; no model is needed here.

    Over HTTP a client needs the token that is shown at the start, or chosen in NBAGENT_MCP_TOKEN.
    """
    from nbagent.faces.mcp_server import serve

    async def run() -> int:
        if session is None:
            from nbagent.session.session import Session

            served: AnySession = Session(**given, mcp=False)
        else:
            from nbagent.faces.cli.attach import attached_to, refuse_options

            refuse_options(session, given)
            served = await attached_to(session)
        say = lambda text: typer.echo(text, err=True)  # noqa: E731
        await serve(served, out=out, http=http, origins=http_origin or (), say=say, force=force)
        return 0

    return finish(run())
