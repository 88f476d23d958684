"""The help of a command: its flags in groups, by what they are about, in plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

Command = TypeVar("Command", bound=Callable[..., Any])
ORDER = ("Arguments", "Asking", "Data", "Sandbox", "Network", "Approvals", "Output", "Options")
"""The groups, as they are shown; a flag without a group is among the options."""


class GroupedCommand(TyperCommand):
    """A command whose flags are shown in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the flags, a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {each: [] for each in ORDER}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups[getattr(parameter, "rich_help_panel", None) or default].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class App(typer.Typer):
    """A Typer whose commands have such help."""

    def command(self, *arguments: Any, **more: Any) -> Callable[[Command], Command]:
        """Make a function a command."""
        return super().command(*arguments, **{"cls": GroupedCommand, **more})
