"""The help: commands in groups, by what they are for, and their flags, by what they are about, in plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Command = TypeVar("Command", bound=Callable[..., Any])
ORDER = ("Arguments", "Asking", "Data", "Sandbox", "Network", "Approvals", "Output", "Options")
"""The groups of flags, as they are shown; a flag without a group is among the options."""


class GroupedCommand(TyperCommand):
    """A command whose flags are shown in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the flags, a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {each: [] for each in ORDER}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups[getattr(parameter, "rich_help_panel", None) or default].append(record)
        _write(groups, formatter)


class GroupedCommands(TyperGroup):
    """A program whose commands are shown in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a section for each group, in the order in which the groups come."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            # Whole: what has no room in its line goes on in the next one.
            records = groups.setdefault(command.rich_help_panel, [])
            records.append((name, command.get_short_help_str(limit=200)))
        _write(groups, formatter)


class App(typer.Typer):
    """A Typer whose commands have such help; `panel` is the group in which they are shown."""

    def __init__(self, panel: str = "Commands", **more: Any) -> None:
        super().__init__(cls=GroupedCommands, **more)
        self.panel = panel

    def command(self, *arguments: Any, **more: Any) -> Callable[[Command], Command]:
        """Make a function a command."""
        return super().command(*arguments, **{"cls": GroupedCommand, "rich_help_panel": self.panel, **more})


def _write(groups: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for title, records in groups.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
