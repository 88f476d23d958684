"""Commands that come in groups: `nbagent image`, `env`, `audit` and `tools`, each with commands of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nbagent.faces.cli import flags
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

image_app = App(help="The Docker image of the kernel.", no_args_is_help=True)
env_app = App(help="The kernel environment of the engine bubblewrap.", no_args_is_help=True)
audit_app = App(help="The audit log: what ran, and proof that nobody changed it.", no_args_is_help=True)
tools_app = App(help="The library of tools that models have made (--forge).", no_args_is_help=True)
GROUPS = {"image": image_app, "env": env_app, "audit": audit_app, "tools": tools_app}


def build(engine: str, *, base: str | None = None, tag: str | None = None, force: bool = False) -> int:
    """Build the image or environment of an engine's kernels, if it isn't there; returns the exit code."""
    from nbagent.faces.terminal.display import starting
    from nbagent.faces.terminal.view import View
    from nbagent.sandbox.registry import find

    said = ""

    async def work() -> None:
        view = View(keep_figure=lambda *_: None)

        def say(line: str) -> None:
            nonlocal said
            if said:
                view.tell(said)
            said = line

        async with starting(view, f"building for {engine}"):
            await find(engine).build(say=say, base=base, tag=tag, force=force)

    finish(work())
    print(said)
    return 0


@image_app.command("build")
def image_build(base: flags.Base = None, tag: flags.Tag = None, force: flags.Rebuild = False) -> int:
    """Build the kernel's image, with no network in the build."""
    return build("docker", base=base, tag=tag, force=force)


@audit_app.command("verify")
def audit_verify(session: flags.AuditLog, key_file: flags.KeyFile = None, as_json: flags.Json = False) -> int:
    """Check that nobody changed an audit log: the exit code is 0 if it is whole, 1 if not."""
    from nbagent.faces.cli import audit

    return audit.verify(session, key_file=key_file, as_json=as_json)


@audit_app.command("show")
def audit_show(session: flags.AuditLog, key_file: flags.KeyFile = None) -> int:
    """Show an audit log as text."""
    from nbagent.faces.cli import audit

    return audit.show(session, key_file=key_file)


@audit_app.command("sent")
def audit_sent(session: flags.AuditLog, key_file: flags.KeyFile = None, as_json: flags.Json = False) -> int:
    """Show what was sent to models: which bytes of which outputs, to whom."""
    from nbagent.faces.cli import audit

    return audit.sent(session, key_file=key_file, as_json=as_json)


@tools_app.command("list")
def tools_list(as_json: flags.Json = False) -> int:
    """List the tools, the last used one first."""
    from nbagent.faces.cli import tools

    return finish(tools.show_all(as_json=as_json))


@tools_app.command("show")
def tools_show(name: flags.ToolName, version: flags.ToolVersion = None, as_json: flags.Json = False) -> int:
    """Show a tool: its description, its packages, its code and its tests."""
    from nbagent.faces.cli import tools

    return finish(tools.show(name, version=version, as_json=as_json))


@tools_app.command("add")
def tools_add(
    path: Annotated[Path, typer.Argument(help="An exported folder or zip, or NAME.py with test_NAME.py beside it.")],
    engine: flags.Engine = None,
) -> int:
    """Add a tool from files, once it has passed its tests in a sandbox of its own."""
    from nbagent.faces.cli import tools

    return finish(tools.add(path, engine=engine))


@tools_app.command("export")
def tools_export(
    name: flags.ToolName,
    to: Annotated[Path, typer.Argument(help="A new folder, or a zip archive if its name ends so.")],
    version: flags.ToolVersion = None,
) -> int:
    """Write a tool to files that others can add."""
    from nbagent.faces.cli import tools

    return finish(tools.export(name, to, version=version))


@tools_app.command("remove")
def tools_remove(name: flags.ToolName) -> int:
    """Remove all versions of a tool."""
    from nbagent.faces.cli import tools

    return finish(tools.remove(name))


@tools_app.command("clean")
def tools_clean(
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="AGE", help="How long they were not used, such as 12h or 90d.")
    ] = "90d",
) -> int:
    """Remove the tools that nobody has used for long."""
    from nbagent.faces.cli import tools

    return finish(tools.clean(max_age=max_age))


@env_app.command("build")
def env_build() -> int:
    """Make the kernel's environment if it isn't there."""
    return build("bubblewrap")
