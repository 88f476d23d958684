"""Errors of the command line's parser as sentences with their mends."""

from __future__ import annotations

import difflib
import re
from typing import Any

from nbagent.core.errors import UsageError

_TAKES = {"integer": "a whole number", "number": "a number", "float": "a number"}
"""What an option takes, by the parser's word for its type."""


def in_a_sentence(error: Any) -> UsageError:
    """The parser's error as a `UsageError`.

    It is Click's, or that of a newer Typer, which brings its own classes of the same names.
    """
    kind, command = type(error).__name__, error.ctx.command_path if error.ctx else "nbagent"
    see = f"See: {command} -h" if error.ctx else "See what the command takes with -h."
    said = error.format_message()
    if kind == "NoSuchOption":
        near = ", ".join(sorted(error.possibilities or ()))
        return UsageError(
            f"{command} has no option {error.option_name}.", mend=f"Did you mean {near}?" if near else see
        )
    if kind == "MissingParameter":
        return UsageError(f"{command} needs {_name(error.param)}.", mend=see)
    if kind == "BadOptionUsage":
        return UsageError(f"{error.option_name} needs a value.", mend=see)
    if kind == "BadParameter" and (takes := [taken for word, taken in _TAKES.items() if word in said]):
        return UsageError(f"{_name(error.param)} takes {takes[0]}.", mend=see)
    if known := getattr(error.cmd, "commands", {}):
        given = "".join(re.findall(r"^No such command '(.*?)'", said))
        near = "".join(difflib.get_close_matches(given, known, 1))
        mend = f"Did you mean {near}?" if near else f"Use one of: {', '.join(known)}."
        return UsageError(f"{command} has no command {given}.", mend=mend)
    if more := re.findall(r"unexpected extra arguments?(?:\(s\))? \((.*)\)", said, re.DOTALL):
        return UsageError(
            f"{command} was given too many words: {more[0][:200]}.", mend="Put a text of several words in quotes."
        )
    return UsageError(f"{command}: {said.rstrip('.')}.", mend=see)


def _name(parameter: Any) -> str:
    """An option by its longest flag, an argument by its name as the help has it."""
    flags = [each for each in parameter.opts if each.startswith("-")]
    return max(flags, key=len) if flags else str(parameter.metavar or parameter.name).upper()
