"""The options of the command line, and what they are to a session."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from nbagent.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., None])

OUTPUT = Path("nbagent-output")
"""The folder of results, in the current one, that nobody named."""
Data = Annotated[
    list[str] | None,
    typer.Option("--data", "-d", metavar="PATH", help="A file or folder that the code sees. Repeatable."),
]
Model = Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="provider:model, or replay:FILE.")]
Engine = Annotated[str | None, typer.Option("--engine", "-e", metavar="NAME", help="docker, bubblewrap or local.")]
Trust = Annotated[
    str | None, typer.Option("--trust", metavar="LEVEL", help="isolated, sandboxed, untrusted or trusted.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Seconds a cell may run.")]
Memory = Annotated[int | None, typer.Option("--memory", metavar="MB", help="Memory of the sandbox in MB.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="HOST", help="A host that the code may reach: HOST, HOST:PORT or *.DOMAIN. Repeatable."
    ),
]
AskHosts = Annotated[bool, typer.Option("--ask-hosts", help="Ask at the terminal for each host that isn't listed.")]
Fallback = Annotated[
    list[str] | None, typer.Option("--fallback", metavar="MODEL", help="Asked where the model fails. Repeatable.")
]
Critic = Annotated[
    str | None,
    typer.Option("--critic", metavar="MODEL", help="Criticises code that failed before it is tried again; or: same."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="AMOUNTS",
        help="What the question may use before you are asked: 0.50usd, 200k tokens, 10min, 20steps; several by commas.",
    ),
]
Redact = Annotated[
    str | None,
    typer.Option(
        "--redact", metavar="WHAT", help="What is hidden in what goes to models: secrets (default), pii (more) or none."
    ),
]
Structured = Annotated[
    bool, typer.Option("--structured", help="For a model that can't call tools: it replies with JSON objects.")
]
McpFile = Annotated[
    Path | None, typer.Option("--mcp", metavar="FILE", help="MCP servers whose tools the model gets, as in mcp.json.")
]
NoMcp = Annotated[bool, typer.Option("--no-mcp", help="No MCP servers, not even those of your own mcp.json.")]
Forge = Annotated[
    bool | None,
    typer.Option("--forge/--no-forge", help="Let the model make tools, and use those that it made before."),
]
ToolName = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name.")]
ToolVersion = Annotated[
    int | None, typer.Option("--version", metavar="NUMBER", help="An older version; the newest by default.")
]
Approvals = Annotated[
    str | None,
    typer.Option(
        "--approvals",
        metavar="MODE",
        help="What you are asked about before the model does it: ask, auto-edit, allow-list or never-ask.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="RULE", help="What you aren't asked about: cell, shell:git *, install:polars. Repeatable."
    ),
]
Unattended = Annotated[
    str | None,
    typer.Option(
        "--unattended", metavar="ANSWER", help="What holds where nobody can be asked: reject (default) or approve."
    ),
]
UploadMb = Annotated[
    int | None, typer.Option("--upload-mb", metavar="MB", help="MB that may go to hosts in all; 256 by default.")
]
DownloadMb = Annotated[
    int | None, typer.Option("--download-mb", metavar="MB", help="MB that may come from hosts in all; 4096 by default.")
]
UnknownNames = Annotated[
    int | None,
    typer.Option(
        "--unknown-names",
        metavar="NUMBER",
        help="Packages that few people use, which code may ask the index for; 10 by default.",
    ),
]
Restore = Annotated[
    str | None,
    typer.Option(
        "--restore", metavar="WAY", help="replay: when a kernel was lost, run its cells again. By default: nothing."
    ),
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="LIMIT",
        help="A limit that may stay unenforced: memory, cpu, pids, commands or egress. Repeatable.",
    ),
]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="The Docker image of the kernel.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show the answer only.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the kernel running, to be resumed.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, show_default=False, help="Log what happens to standard error; -vv for more."
    ),
]
AuditLog = Annotated[str, typer.Argument(help="A session's id, its folder, or an audit log.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The secret that it was written with.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where the notebook goes.")]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        "--output-dir", metavar="DIR", help="Where files go that the code saves; nbagent-output in this folder."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Let --out replace a notebook that isn't nbagent's, or that you have changed.")
]


def sandbox(
    data: list[str] | None,
    engine: str | None,
    trust: str | None,
    timeout: float | None,
    memory: int | None,
    accept: list[str] | None,
    image: str | None,
    verbose: int,
) -> dict[str, Any]:
    """What the options about data, sandbox and log are to a session."""
    return {
        "data": data or (),
        "engine": engine,
        "trust": trust,
        "timeout": timeout,
        "memory_mb": memory,
        "accept": accept or (),
        "image": image,
        "log_level": log_level(verbose),
    }


def as_in(command: Callable[..., None], *, but: Collection[str]) -> Callable[[Command], Command]:
    """Give a command that takes `**given` the options of another one, but for those of these names."""
    hints = get_type_hints(command, include_extras=True)
    taken = [each for each in inspect.signature(command).parameters.values() if each.name not in but]

    def declare(function: Command) -> Command:
        parameters = [each.replace(annotation=hints[each.name]) for each in taken]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        function.__annotations__ = {each.name: each.annotation for each in parameters}
        return function

    return declare


def results(output_dir: Path | None) -> dict[str, Any]:
    """Where what the code saves lands, as a session is told: as an option says, the settings, or beside the person.

    Raises:
        UsageError: It is no folder, or a link that nobody named: what somebody else put here must not lead elsewhere.
    """
    from nbagent import settings

    folder = (output_dir or settings.load().output_dir or OUTPUT).expanduser()
    # A path of the settings that begins here goes through whatever lies here, such as somebody else's project.
    if output_dir is None and not folder.is_absolute() and not _is_straight(folder):
        raise UsageError(f"The folder {folder} is a link here.", mend="Name where results go with --output-dir.")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", mend="Name another one with --output-dir.")
    return {"output_dir": folder}


def _is_straight(folder: Path) -> bool:
    """Whether no link is on the way from here to a folder, or in its place."""
    return str(folder.resolve()) == os.path.normpath(Path.cwd() / folder)


def reach(
    hosts: list[str] | None, ask: bool, upload: int | None, download: int | None, unknown_names: int | None
) -> dict[str, Any]:
    """What the options about hosts and the package index are to a session."""
    options = {
        "allowed_hosts": hosts or None,
        "upload_mb": upload,
        "download_mb": download,
        "unknown_names": unknown_names,
    }
    return {"security": {name: value for name, value in options.items() if value is not None}, "ask_hosts": ask}


def consent(approvals: str | None, allow: list[str] | None, unattended: str | None, *, as_json: bool) -> dict[str, Any]:
    """What the options about approvals are to a session. A program that reads JSON is nobody who answers."""
    return {"approvals": approvals, "allow": allow or (), "unattended": unattended, "attended": not as_json}


def log_level(verbose: int) -> str | None:
    """What `-v`, so often, is as a level."""
    return (None, "info", "debug")[min(verbose, 2)]
