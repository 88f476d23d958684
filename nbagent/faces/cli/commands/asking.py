"""Commands that ask a model, or run code without one: `run`, `exec`, `chat` and `demo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nbagent.faces.cli import flags
from nbagent.faces.cli.flags import MODEL, SANDBOX
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession
    from nbagent.session.session import Session

app = App(panel="Asking")

DEMO_NAMES = frozenset(["data", "record", "fallback", "critic", "replies"])
"""Options that the demo sets itself, or that its recorded replies make useless."""


@app.command()
@flags.takes(*SANDBOX, "kernel", *MODEL, "background")
def run(
    question: Annotated[str, typer.Argument(help="The question, in words.")],
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> int:
    """Ask a question; the answer is text and a notebook."""
    if given.pop("background", False):
        from nbagent.faces.cli import attach

        return finish(attach.steer(lambda: _in_background(given), question=question, wanted=wanted))
    return _ask(question, given, wanted)


@app.command("exec")
@flags.takes(*SANDBOX, "kernel")
def execute(
    source: Annotated[str | None, typer.Argument(help="A script, a notebook, or - for standard input.")] = None,
    code: Annotated[str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a file.")] = None,
    allow_errors: Annotated[bool, typer.Option("--allow-errors", help="Go on after a cell that fails.")] = False,
    *,
    given: dict[str, Any],
    wanted: flags.CommandFlags,
) -> int:
    """Run code in the sandbox, without a model."""
    from nbagent.faces.cli import execute as work
    from nbagent.faces.cli.attendance import attended
    from nbagent.session.session import Session

    def make() -> Session:
        data = work.data_for(source, **given)
        return attended(Session(**flags.with_output_dir(given) | {"data": data}), approvals=False)

    return finish(work.execute(source, code, make, wanted=wanted, allow_errors=allow_errors))


@app.command(short_help="See it work, without a key.")
@flags.takes(*SANDBOX, "approvals", "agent", only=lambda name, _: name not in DEMO_NAMES)
def demo(*, given: dict[str, Any], wanted: flags.CommandFlags) -> int:
    """Ask a real question of real data, without a key: the model's replies are recorded, everything else is live."""
    from nbagent.faces.cli import ask

    with ask.demo(quiet=wanted.as_json or wanted.quiet) as (question, data, model):
        given |= {"data": [data], "model": model}
        return _ask(question, given, replace(wanted, out=wanted.out or Path("nbagent-demo.ipynb")))


@app.command(short_help="Ask question after question at the terminal.")
@flags.takes(*SANDBOX, "kernel", *MODEL)
def chat(
    session: Annotated[
        str | None,
        typer.Argument(
            autocompletion=flags.session_ids,
            help="A session to go on with, by enough of its id, or a name of your own; a new one by default.",
        ),
    ] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Hold a conversation: questions, and commands such as /status, /model NAME, /export FILE and /help.

    The session has a process of its own, as by `nbagent host`, and goes on when you leave.
    """
    from nbagent.faces.cli.chat import chat as work

    return finish(work(session, flags.with_output_dir(given)))


def _ask(question: str, given: dict[str, Any], wanted: flags.CommandFlags) -> int:
    from nbagent.faces.cli.ask import ask
    from nbagent.faces.cli.attendance import attended

    def make() -> Session:
        from nbagent.session.session import Session

        return attended(Session(**given))

    # A program that reads JSON is nobody who answers.
    given = flags.with_model(flags.with_output_dir(given)) | {"attended": not wanted.as_json}
    return finish(ask(question, make, wanted=wanted))


async def _in_background(given: dict[str, Any]) -> AnySession:
    from nbagent.faces.terminal.display import starting
    from nbagent.faces.terminal.view import View
    from nbagent.session.host_process import host

    async with starting(View(keep_figure=lambda *_: None)):
        return await host(**flags.with_model(flags.with_output_dir(given)))
