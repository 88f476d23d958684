"""`nbagent tools`: lists, shows, adds, exports and removes the tools of the library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from nbagent.core.errors import ForgeError
from nbagent.core.events import Event, ToolStageEntered
from nbagent.core.text import printable, safe
from nbagent.faces.cli.durations import age, seconds
from nbagent.forge import Tool, ToolForge


async def show_all(*, as_json: bool) -> int:
    """Print the tools, the last used one first; returns the exit code."""
    found = await ToolForge().list()
    if as_json:
        print(json.dumps([{**msgspec.to_builtins(each), "version": each.version} for each in found]))
        return 0
    if not found:
        print("There are no tools yet: nbagent run --forge, or nbagent tools add.")
        return 0
    width = max(len(each.name) for each in found)
    for each in found:
        used = age(each.used)
        print(_line(f"{each.name:<{width}}  {each.version:>3}  used {used:<14}  {each.description}"))
    return 0


async def show(name: str, *, version: int | None, as_json: bool) -> int:
    """Print a tool; returns the exit code."""
    tool = await ToolForge().get(name, version=version)
    if as_json:
        print(json.dumps(msgspec.to_builtins(tool)))
        return 0
    for line in _about(tool):
        print(_line(line))
    for title, text in ((f"{name}.py", tool.code), (f"test_{name}.py", tool.tests)):
        print(f"\n── {title}\n{safe(text).rstrip()}")
    return 0


async def add(path: Path, *, engine: str | None) -> int:
    """Make a tool from files; returns the exit code."""
    try:
        tool = await ToolForge(engine=engine, notify=_print_stage).add(path)
    except ForgeError as error:
        if error.output:
            print(safe(error.output), file=sys.stderr)
        raise
    print(f"The tool {tool.name}, version {tool.version}, is active: {len(tool.tested)} tests passed.")
    return 0


async def export(name: str, to: Path, *, version: int | None) -> int:
    """Write a tool into files; returns the exit code."""
    print(await ToolForge().export(name, to, version=version))
    return 0


async def remove(name: str) -> int:
    """Remove a tool; returns the exit code."""
    await ToolForge().remove(name)
    print(f"removed {name}")
    return 0


async def clean(*, max_age: str) -> int:
    """Remove the tools that were not used for long; returns the exit code."""
    gone = await ToolForge().cleanup(max_age=seconds(max_age))
    print("\n".join(f"removed {each}" for each in gone) or "Every tool was used since.")
    return 0


def _about(tool: Tool) -> list[str]:
    made = age(tool.made)
    found = [f"{tool.name}, version {tool.version}, made {made}: {tool.description}", tool.doc]
    needed = ", ".join(each.name + " " + each.version for each in tool.packages)
    found += [f"tested    {', '.join(tool.tested)}, with Python {tool.python}"]
    found += [f"packages  {needed or 'none'}", f"takes     {json.dumps(tool.schema['properties'])}"]
    return [each for each in found if each]


def _print_stage(event: Event) -> None:
    if isinstance(event, ToolStageEntered) and event.stage not in ("active", "dormant", "cleanup"):
        print(f"{event.stage} …", file=sys.stderr)


def _line(text: str) -> str:
    """A tool's own text as one line."""
    return printable(" ".join(safe(text).split("\n")))
