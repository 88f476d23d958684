"""The program `nbagent`: its commands stand in `commands/`, and what each does is a module here, imported when it runs.

Exit codes: 0 done; 1 the code failed, or the model came to no end; 2 wrong use; 3 the sandbox failed; 4 done, but not
all files that the code saved arrived; 130 stopped. `nbagent --help` must not wait for what only one command imports.
"""

from __future__ import annotations

from typing import Annotated

import typer

from nbagent import __version__
from nbagent.faces.cli import flags, program
from nbagent.faces.cli.commands import asking, machine, nested, notebooks, sessions
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

app = App(
    help="Ask questions of data. The code runs in a sandboxed kernel, and every answer is a notebook.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for each in (asking, notebooks, sessions, machine):
    app.registered_commands += each.app.registered_commands
for name, group in nested.GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel=machine.app.panel)


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
) -> int:
    """Flags that stand before any command; without a command, a conversation, where there is a terminal."""
    del version, debug  # `_version` and `program.run` have read them
    if context.invoked_subcommand is not None:
        return 0
    from nbagent.faces.terminal.keyboard import Keyboard

    if not Keyboard().is_there:
        print(context.get_help())
        return 2
    from nbagent.faces.cli.chat import chat as work

    return finish(work(None, flags.with_output_dir({})))


def main() -> None:
    """The program `nbagent`."""
    program.run(app)
