"""The flags of the command line: those of a session are made from its options, those of commands stand here."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer

from nbagent.core.errors import UsageError
from nbagent.core.options import FlagGroup, Option, fields
from nbagent.core.policy import TrustLevel

Command = TypeVar("Command", bound=Callable[..., int])


def session_ids(incomplete: str) -> list[str]:
    """The names of sessions that begin so, the latest first, for a shell to complete."""
    from nbagent.core import settings
    from nbagent.core.errors import NbagentError
    from nbagent.session.catalog import lookup

    with contextlib.suppress(NbagentError):  # nobody asked for an answer
        root = settings.state_root()
        return sorted((each.name for each in lookup.folders(root) if each.name.startswith(incomplete)), reverse=True)
    return []


def _engines(incomplete: str) -> list[str]:
    from importlib.metadata import entry_points

    return [each.name for each in entry_points(group="nbagent.engines") if each.name.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", rich_help_panel="Output", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel="Output", help="Show the answer only.")]
Keep = Annotated[
    bool, typer.Option("--keep", rich_help_panel="Output", help="Leave the kernel running, for `nbagent resume`.")
]
AuditLog = Annotated[str, typer.Argument(help="A session's id, its folder, or an audit log.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The secret that it was written with.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", rich_help_panel="Output", help="Where the notebook goes.")
]
ToolName = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name.")]
ToolVersion = Annotated[
    int | None, typer.Option("--version", metavar="NUMBER", help="An older version; the newest by default.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", "-e", metavar="NAME", autocompletion=_engines, help="The engine's name, see `nbagent doctor`."
    ),
]
Base = Annotated[str | None, typer.Option("--base", metavar="IMAGE", help="An image with Python 3.11 or newer.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The image's name; nbagent's own by default.")]
Rebuild = Annotated[bool, typer.Option("--force", help="Make it even if it is there.")]
SessionName = Annotated[
    str,
    typer.Argument(
        autocompletion=session_ids, help="The session's name, or enough of its beginning, see `nbagent sessions`."
    ),
]
LatestSession = Annotated[
    str | None,
    typer.Argument(
        autocompletion=session_ids, help="The session's name, or enough of its beginning; the latest by default."
    ),
]
Question = Annotated[str | None, typer.Argument(help="A question; typed at the terminal by default.")]
Code = Annotated[str | None, typer.Option("--code", "-c", metavar="CODE", help="Code to run instead of a question.")]
SANDBOX: tuple[FlagGroup, ...] = ("sandbox", "hosts")
"""Groups of options about what the code sees, where it runs and what it reaches."""
MODEL: tuple[FlagGroup, ...] = ("model", "agent", "approvals")
"""Those about how questions are answered."""
PANELS: dict[FlagGroup, str] = {
    "": "Options",
    "sandbox": "Sandbox",
    "kernel": "Sandbox",
    "background": "Sandbox",
    "hosts": "Network",
    "approvals": "Approvals",
    "model": "Asking",
    "agent": "Asking",
}
"""The sections of a command's help, by the group of an option (`help.py`)."""
LEVELS = (None, "info", "debug")
"""The log's level by how often `-v` is given."""
_VERBOSE = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        rich_help_panel="Output",
        help="Show all of a traceback, and log to standard error; -vv logs more.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        rich_help_panel="Output",
        help="Let --out replace a notebook that isn't nbagent's, or that you have changed.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class CommandFlags:
    """The flags of every command that starts a session, beside the session's options."""

    out: Out = None
    force: Force = False
    keep: Keep = False
    as_json: Json = False
    quiet: Quiet = False
    verbose: _VERBOSE = 0


def takes(
    *groups: FlagGroup, only: Callable[[str, Option], bool] = lambda _name, _option: True
) -> Callable[[Command], Command]:
    """Give a command the flags of a session's options; it gets the given ones as its keyword `given`.

    A command with a keyword `wanted` has the flags of `CommandFlags` too. Of the groups' options it takes those that
    `only` keeps, given the name of each and itself.
    """
    named = {name: each for name, each in fields().items() if each[1].group in groups and only(name, each[1])}

    def decorate(command: Command) -> Command:
        flags = {flag.name: flag for name, each in named.items() for flag in _flags(name, *each)}
        found = inspect.signature(command, eval_str=True).parameters
        own = [each for name, each in found.items() if name not in ("given", "wanted")]
        shared = inspect.signature(CommandFlags, eval_str=True).parameters if "wanted" in found else {}

        @functools.wraps(command)
        def run(**arguments: Any) -> int:
            values = {name: arguments.pop(name) for name in flags}
            given = {name: value for name, value in values.items() if value is not None and value is not False}
            for name in named:
                if given.pop(f"no_{name}", False):
                    given[name] = False
                elif given.get(name) is True and named[name][1].value is not None:
                    given[name] = named[name][1].value
            level = LEVELS[min(arguments["verbose"] if shared else arguments.pop("verbose"), 2)]
            if shared:
                arguments["wanted"] = CommandFlags(**{name: arguments.pop(name) for name in shared})
            return command(given=given | {"log_level": level}, **arguments)

        verbose = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=_VERBOSE)
        all_of = [*own, *shared.values(), *flags.values(), *(() if shared else (verbose,))]
        run.__signature__ = inspect.Signature([each.replace(kind=each.KEYWORD_ONLY) for each in all_of])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in all_of}
        return run  # type: ignore[return-value]

    return decorate


def _flags(name: str, hint: Any, where: Option) -> Iterator[inspect.Parameter]:
    """The parameters of a command for one option: its flag, and the flag that turns it off if it has one."""
    words = [word for word in where.flags.split() if word.startswith("-")]
    off = next((word for word in words if word.startswith("--no-")), None)
    panel = {"data": "Data", "output_dir": "Output"}.get(name) or PANELS[where.group]
    turned_off = f"Turn {words[0]} off, whatever the settings say."
    kind = _kind(hint, where)
    description = f"{where.description} Repeatable." if kind == list[str] else where.description
    if kind is bool and off:
        yield _parameter(name, bool, typer.Option(words[0], help=description, rich_help_panel=panel))
        yield _parameter(f"no_{name}", bool, typer.Option(off, help=turned_off, rich_help_panel=panel))
        return
    option = typer.Option(
        *(word for word in words if word != off),
        metavar=where.metavar or None,
        help=description,
        show_default=False,
        rich_help_panel=panel,
        autocompletion=_values(name, hint),
    )
    yield _parameter(name, kind, option)
    if off:
        yield _parameter(f"no_{name}", bool, typer.Option(off, help=turned_off, rich_help_panel=panel))


def _values(name: str, hint: Any) -> Callable[[str], list[str]] | None:
    """What a shell completes as the value of an option; None if that may be anything."""
    if name == "engine":
        return _engines
    hint = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    words = [*TrustLevel] if name == "trust" else get_args(hint) if get_origin(hint) is Literal else ()
    return (lambda incomplete: [each for each in words if each.startswith(incomplete)]) if words else None


def with_output_dir(given: dict[str, Any]) -> dict[str, Any]:
    """Add the output folder to the options: the one they name, else the settings', else `nbagent-output` here.

    Where nothing can be written here, files stay in the session's folder, and the line of each says so.
    """
    from nbagent.core import folders, settings

    named = given.get("output_dir")
    folder = Path(named or settings.load().output_dir or folders.RESULTS).expanduser()
    # A path of the settings that begins here goes through whatever lies here, such as somebody else's project.
    if named is None and not folder.is_absolute() and not folders.is_straight(folder, here=Path.cwd()):
        raise UsageError(f"The folder {folder} is a link here.", mend="Name where results go with --output-dir.")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", mend="Name another one with --output-dir.")
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        if folder == Path(folders.RESULTS):
            return given
        raise UsageError(f"{folder} can't be written.", mend="Name another folder with --output-dir.")
    return given | {"output_dir": folder}


def with_model(given: dict[str, Any]) -> dict[str, Any]:
    """Add the model, if none is named: who has none learns it before anything is downloaded or started."""
    from nbagent.core import settings

    known = settings.load(**given)
    if known.model:
        return given
    from nbagent.agent.providers.models import find_model

    return given | {"model": find_model(structured=known.replies == "structured")}


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    if kind is bool:
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
        )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _kind(hint: Any, where: Option) -> Any:
    """What a flag's value is read as: whatever isn't a number, a switch or a list is checked with the options."""
    if where.value is not None:
        return bool
    hint = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    arms = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for arm in arms:
        if arm in (int, float) or (arm is bool and not where.metavar):
            return arm
        if get_origin(arm) is list:
            return list[str]
    return str
