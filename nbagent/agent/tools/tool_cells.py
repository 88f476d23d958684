"""The cells in which a tool is defined and called: plain Python that runs in any notebook, without nbagent. Pure.

The tool becomes a module, so that the notebook gets only the name of its function. The module is made from the cell
alone, without a file or a cache, so that nothing of an older version is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nbagent.agent.tools.script_cells import literal
from nbagent.core.errors import ForgeError
from nbagent.forge.tool import Tool

MAX_ARGUMENTS = 200_000
"""Characters of a call."""
MAX_DEPTH = 20


def define(tool: Tool) -> str:
    """The cell that defines a tool's function. No `from __future__` of another cell changes it."""
    name, module = tool.name, f"tool_{tool.name}"  # with a prefix, as it must not replace a package
    return (
        f"# The tool {name}, version {tool.version}, made and tested by nbagent's tool forge.\n"
        "import sys\n"
        "from types import ModuleType\n\n"
        f"sys.modules[{module!r}] = ModuleType({module!r})\n"
        f"exec(compile({literal(tool.code)}, '{name}.py', 'exec', dont_inherit=True), vars(sys.modules[{module!r}]))\n"
        f"from {module} import {name}"
    )


def call(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The cell that calls a tool; its value is the result.

    Raises:
        ForgeError: An argument has no parameter or another type, or the arguments are too long.
    """
    for name in arguments:
        if name not in tool.schema["properties"]:
            known = ", ".join(tool.schema["properties"]) or "none"
            raise ForgeError(f"The tool {tool.name} has no parameter {name[:60]!r}.", mend=f"It has: {known}.")
    _check(tool, arguments)
    given = ", ".join(f"{name}={_literal(value)}" for name, value in arguments.items())
    if len(given) > MAX_ARGUMENTS:
        raise ForgeError(f"The arguments have {len(given):,} characters.", mend="Put long material into a file.")
    return f"{'await ' if tool.is_async else ''}{tool.name}({given})"


def _check(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check the arguments against the tool's type hints."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(tool.schema).iter_errors(dict(arguments)))
    if error is not None:
        where = f"{error.absolute_path[0]}: " if error.absolute_path else ""
        raise ForgeError(f"The arguments of {tool.name} don't fit. {where}{error.message[:300]}.")


def _literal(value: Any, depth: int = 0) -> str:
    """A value of JSON as Python."""
    if depth > MAX_DEPTH:
        raise ForgeError("The arguments are nested too deeply.")
    match value:
        case float() if not math.isfinite(value):
            return f"float('{value}')"
        case None | bool() | int() | float() | str():
            return ascii(value)
        case list():
            return f"[{', '.join(_literal(each, depth + 1) for each in value)}]"
        case dict():
            return f"{{{', '.join(f'{str(key)!a}: {_literal(each, depth + 1)}' for key, each in value.items())}}}"
        case _:
            raise ForgeError(f"An argument is a {type(value).__name__}, which JSON can't hold.")
