"""The command line. It holds no logic of its own: each command makes a session, shows its events, and ends with a code.

Exit codes: 0 done, 1 the code failed (or the model came to no end), 2 wrong use, 3 the sandbox failed, 130 stopped.
Imports of what a command needs stand in the command: `nbagent --help` must not wait for them.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from nbagent import __version__
from nbagent.errors import NbagentError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from nbagent.session import Session

T = TypeVar("T")

# Click's own error, which newer versions of Typer bring with them under another name.
_WrongUse: Any = typer.BadParameter.__mro__[2]

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
McpFile = Annotated[
    Path | None, typer.Option("--mcp", metavar="FILE", help="MCP servers whose tools the model gets, as in mcp.json.")
]
NoMcp = Annotated[bool, typer.Option("--no-mcp", help="No MCP servers, not even those of your own mcp.json.")]
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
        help="A limit that may stay unenforced: memory, cpu, commands or egress. Repeatable.",
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
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The secret that it was written with.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where the notebook goes.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """What holds for all commands."""


@app.command()
def run(
    question: Annotated[str, typer.Argument(help="The question, in words.")],
    data: Data = None,
    model: Model = None,
    out: Out = None,
    engine: Engine = None,
    trust: Trust = None,
    timeout: Timeout = None,
    memory: Memory = None,
    accept: Accept = None,
    image: Image = None,
    allow_host: Hosts = None,
    ask_hosts: AskHosts = False,
    upload_mb: UploadMb = None,
    download_mb: DownloadMb = None,
    approvals: Approvals = None,
    allow: Allow = None,
    unattended: Unattended = None,
    fallback: Fallback = None,
    critic: Critic = None,
    mcp: McpFile = None,
    no_mcp: NoMcp = False,
    restore: Restore = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Write the model's replies to this file.")
    ] = None,
    keep: Keep = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Ask a question; the answer is text and a notebook."""
    from nbagent import commands

    arguments = _arguments(data, engine, trust, timeout, memory, accept, image, verbose)
    arguments |= _reach(allow_host, ask_hosts, upload_mb, download_mb) | {"restore": restore}
    arguments |= _consent(approvals, allow, unattended, as_json=as_json)
    arguments |= {"fallback": fallback, "critic": critic, "mcp": mcp or not no_mcp}
    asking = commands.ask(
        question,
        lambda: _session(**arguments, model=model, record=record),
        out=out,
        as_json=as_json,
        quiet=quiet,
        keep=keep,
    )
    raise typer.Exit(_finish(asking))


@app.command("exec")
def execute(
    source: Annotated[str | None, typer.Argument(help="A script, a notebook, or - for standard input.")] = None,
    code: Annotated[str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a file.")] = None,
    data: Data = None,
    out: Out = None,
    engine: Engine = None,
    trust: Trust = None,
    timeout: Timeout = None,
    memory: Memory = None,
    accept: Accept = None,
    image: Image = None,
    allow_host: Hosts = None,
    ask_hosts: AskHosts = False,
    upload_mb: UploadMb = None,
    download_mb: DownloadMb = None,
    restore: Restore = None,
    keep: Keep = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Run code in the sandbox, without a model."""
    from nbagent import commands

    arguments = _arguments(data, engine, trust, timeout, memory, accept, image, verbose)
    arguments |= _reach(allow_host, ask_hosts, upload_mb, download_mb) | {"restore": restore}
    running = commands.execute(
        source, code, lambda: _session(**arguments), out=out, as_json=as_json, quiet=quiet, keep=keep
    )
    raise typer.Exit(_finish(running))


@app.command(short_help="See it work, without a key.")
def demo(
    out: Out = None,
    engine: Engine = None,
    as_json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Ask a real question of real data, without a key: the model's replies are recorded, everything else is live."""
    from nbagent import commands

    def make(**arguments: Any) -> Session:
        return _session(**arguments, log_level=_log_level(verbose), attended=not as_json)

    raise typer.Exit(
        _finish(commands.demo(make, out=out or Path("nbagent-demo.ipynb"), engine=engine, as_json=as_json))
    )


@app.command(short_help="List the sessions, and which can be gone on with.")
def sessions(as_json: Json = False) -> None:
    """List the sessions on this machine, and which can be gone on with."""
    from nbagent import manage

    raise typer.Exit(manage.show_sessions(as_json=as_json))


@app.command(short_help="Go on with a session.")
def resume(
    session: Annotated[str, typer.Argument(help="Its name, or enough of its beginning.")],
    question: Annotated[str | None, typer.Argument(help="A question; typed at the terminal by default.")] = None,
    code: Annotated[
        str | None, typer.Option("--code", "-c", metavar="CODE", help="Code instead of a question.")
    ] = None,
    model: Model = None,
    ask_hosts: AskHosts = False,
    approvals: Approvals = None,
    allow: Allow = None,
    unattended: Unattended = None,
    restore: Restore = None,
    out: Out = None,
    keep: Keep = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Go on with a session, its variables kept if its kernel still lives."""
    from nbagent import manage

    def make() -> Session:
        from nbagent.session import Session

        own: dict[str, Any] = {"ask_hosts": ask_hosts, "restore": restore}
        own |= _consent(approvals, allow, unattended, as_json=as_json)
        return Session.resumed(session, model=model, log_level=_log_level(verbose), **own)

    raise typer.Exit(
        _finish(manage.resume(make, question=question, code=code, out=out, as_json=as_json, quiet=quiet, keep=keep))
    )


@app.command(short_help="Serve the sandboxed kernel to any MCP client.")
def mcp(
    data: Data = None,
    out: Out = None,
    engine: Engine = None,
    trust: Trust = None,
    timeout: Timeout = None,
    memory: Memory = None,
    accept: Accept = None,
    image: Image = None,
    allow_host: Hosts = None,
    http: Annotated[
        int | None, typer.Option("--http", metavar="PORT", help="Streamable HTTP on loopback instead of stdio.")
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Serve the sandboxed kernel, its files and its notebook to any MCP client, by stdio; no model is needed here."""
    from nbagent.mcp_server import serve

    arguments = _arguments(data, engine, trust, timeout, memory, accept, image, verbose)
    arguments |= _reach(allow_host, False, None, None) | {"mcp": False}

    async def run() -> int:
        await serve(_session(**arguments), out=out, port=http, say=lambda text: typer.echo(text, err=True))
        return 0

    raise typer.Exit(_finish(run()))


@app.command(short_help="Open a terminal inside a sandbox.")
def shell(session: Annotated[str, typer.Argument(help="Its name, or enough of its beginning.")]) -> None:
    """Open a terminal inside a session's sandbox, where its trust level permits a shell."""
    from nbagent import manage

    raise typer.Exit(manage.shell(session))


@app.command(short_help="Remove what killed processes left behind.")
def clean(
    max_age: Annotated[
        str | None, typer.Option("--max-age", metavar="AGE", help="Only what is older: 90, 30m, 12h, 2d.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove the sandboxes, folders and containers that processes left behind which were killed."""
    from nbagent import manage

    raise typer.Exit(manage.clean(max_age=max_age, as_json=as_json))


@app.command(short_help="What each engine enforces here; --self-check tries it.")
def doctor(
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Attack a sandbox on this machine, and show what it withstood.")
    ] = False,
    engine: Engine = None,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """What each engine can and cannot enforce on this machine."""
    from nbagent import commands

    if self_check:
        from nbagent.selfcheck import report

        raise typer.Exit(_finish(report.self_check(engine=engine, trust=trust, as_json=as_json)))
    if engine or trust:
        raise UsageError("--engine and --trust are for the attacks.", mend="Add --self-check.")
    raise typer.Exit(commands.doctor(as_json=as_json))


@image_app.command("build")
def image_build(
    base: Annotated[str | None, typer.Option("--base", help="An image with Python 3.11 or newer.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The image's name; nbagent's own by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Build it even if it is there.")] = False,
) -> None:
    """Build the kernel's image, with no network in the build."""
    from nbagent.sandbox import image

    _finish(image.build(base=base or image.DEFAULT_BASE, tag=tag, force=force))


@audit_app.command("verify")
def audit_verify(
    session: Annotated[str, typer.Argument(help="A session's id, its folder, or an audit log.")],
    key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Check that an audit log is what was written: exit code 0 if so, 1 if not."""
    from nbagent import audit_commands

    raise typer.Exit(audit_commands.verify(session, key_file=key_file, as_json=as_json))


@audit_app.command("show")
def audit_show(
    session: Annotated[str, typer.Argument(help="A session's id, its folder, or an audit log.")],
    key_file: KeyFile = None,
) -> None:
    """Show an audit log as text."""
    from nbagent import audit_commands

    raise typer.Exit(audit_commands.show(session, key_file=key_file))


@env_app.command("build")
def env_build() -> None:
    """Make the kernel's environment if it isn't there."""
    from nbagent.sandbox import environment

    made = _finish(environment.build())
    print(f"The kernel environment is in {made.folder}.")


def _arguments(
    data: list[str] | None,
    engine: str | None,
    trust: str | None,
    timeout: float | None,
    memory: int | None,
    accept: list[str] | None,
    image: str | None,
    verbose: int,
) -> dict[str, Any]:
    return {
        "data": data or (),
        "engine": engine,
        "trust": trust,
        "timeout": timeout,
        "memory_mb": memory,
        "accept": accept or (),
        "image": image,
        "log_level": _log_level(verbose),
    }


def _reach(hosts: list[str] | None, ask: bool, upload: int | None, download: int | None) -> dict[str, Any]:
    """What the options about hosts are to a session."""
    options = {"allowed_hosts": hosts or None, "upload_mb": upload, "download_mb": download}
    return {"security": {name: value for name, value in options.items() if value is not None}, "ask_hosts": ask}


def _consent(
    approvals: str | None, allow: list[str] | None, unattended: str | None, *, as_json: bool
) -> dict[str, Any]:
    """What the options about approvals are to a session. A program that reads JSON is nobody who answers."""
    return {"approvals": approvals, "allow": allow or (), "unattended": unattended, "attended": not as_json}


def _log_level(verbose: int) -> str | None:
    return (None, "info", "debug")[min(verbose, 2)]


def _session(**arguments: Any) -> Session:
    from nbagent.session import Session

    return Session(**arguments)


def _finish(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


def main() -> None:
    """The program `nbagent`: errors of ours become a sentence and an exit code, with --json an object besides."""
    _open_standard_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # By default these end a program at once, and its sandbox would stay behind.
        signal.signal(number, _end)
    debug = "--debug" in sys.argv
    arguments = [each for each in sys.argv[1:] if each != "--debug"]
    try:
        code = app(args=arguments, prog_name="nbagent", standalone_mode=False)
        sys.stdout.flush()
        # All is done and told: a late Ctrl-C must not change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(code)
    except _WrongUse as error:
        error.show()
        _refused(arguments, UsageError(error.format_message()))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away, as `| head` does; there is nobody left to tell.
        _drop_output()
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        from nbagent.terminal import complain

        told = error if isinstance(error, NbagentError) else _unforeseen(error)
        if isinstance(error, OSError) and error.errno in _FULL:
            _drop_output()
        _refused(arguments, told)
        complain(told)
        sys.exit(told.exit_code)


def _end(number: int, _frame: object) -> None:
    """Unwind, so that what runs is put away; with the code that shells give to a signal."""
    sys.exit(128 + number)


def _refused(arguments: list[str], error: NbagentError) -> None:
    if "--json" in arguments:
        from nbagent import commands

        commands.refused(arguments[0], error)


def _open_standard_streams() -> None:
    """Have a standard input, output and error also where the caller closed them, as `<&-` does.

    The next file or socket would take their numbers, and get what is meant for a person.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, mode))


def _drop_output() -> None:
    """Throw away what of the output is still to be written, which would fail again at the end of Python."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What comes of output that can't be written: what has a name is a `StoreError` long before."""


def _unforeseen(error: Exception) -> NbagentError:
    if isinstance(error, OSError) and error.errno in _FULL:
        return StoreError(f"The output can't be written: {error.strerror}.", mend="Send it elsewhere, or make room.")
    return NbagentError(
        f"nbagent itself failed: {type(error).__name__}: {error}", mend="Run it again with --debug, and report that."
    )
