"""Commands for notebooks: `export`, `verify`, `rerun` and `log`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nbagent.core.errors import UsageError
from nbagent.faces.cli import flags
from nbagent.faces.cli.flags import SANDBOX
from nbagent.faces.cli.help import App
from nbagent.faces.cli.program import finish

app = App(panel="Notebooks")


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
) -> int:
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
    return finish(work(files, wanted, **given))


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
) -> int:
    """Run a notebook's analysis on new data of the same schema, or with other parameters, and tell what changed."""
    from nbagent.faces.cli import rerun as work

    pairs = [each.partition("=") for each in parameter or ()]
    if odd := [name for name, sign, _ in pairs if not sign]:
        raise UsageError(f"The parameter {odd[0]!r} has no value.", mend="Write -p NAME=VALUE.")
    values = {name: value for name, _, value in pairs}
    return finish(work.run(file, data=data or (), parameters=values, out=out, force=force, as_json=as_json, **given))


@app.command(short_help="Write the notebook of a session.")
def export(
    session: flags.LatestSession = None,
    *,
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
) -> int:
    """Write the notebook of a session, also of one that has ended, as a person would have written it.

    What the model tried in vain is left out, if a run of the rest shows the same without it.
    """
    from nbagent.faces.cli.export import export as work

    how = {"keep_attempts": keep_attempts, "environment": environment, "force": force}
    return finish(work(session, out, **how))


@app.command(short_help="Tell how a notebook came about.")
def log(file: Annotated[Path, typer.Argument(metavar="FILE", help="A notebook.")]) -> int:
    """Tell who asked what, which cell ran when and by whom, and what was edited since."""
    from nbagent.faces.cli import log as work

    return work.show(file)
