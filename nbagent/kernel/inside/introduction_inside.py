"""What a kernel says of itself: its Python and its packages, if somebody else started it, and its variables.

`Kernel` sends this source to it. Never imported on the host.
"""

from __future__ import annotations

import contextlib
import platform
from typing import Any

MAX_VARIABLES = 40
MAX_CHARACTERS = 80


def main(only_variables: bool = False) -> dict[str, Any]:
    """Its `python`, `platform`, `packages` by name, and the `variables` of its namespace as `name: type`."""
    if only_variables:
        return {"variables": variables()}
    return {
        "python": platform.python_version(),
        "platform": where(),
        "packages": packages(),
        "variables": variables(),
    }


def where() -> str:
    """The machine and the C library, as the names of wheels have them where that is glibc."""
    library, version = platform.libc_ver()
    if library != "glibc":
        return f"{platform.machine()}-{platform.system().lower()}"
    return f"{platform.machine()}-manylinux_{'_'.join(version.split('.')[:2])}"


def packages() -> dict[str, str]:
    """The versions of the distributions on its path, by normalised name; the first one found is the one imported."""
    import re
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for each in distributions():
        with contextlib.suppress(Exception):  # one without metadata
            found.setdefault(re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(), str(each.version))
    return found


def variables() -> list[str]:
    """The person's own variables, the latest first, each with its type and its size."""
    from IPython import get_ipython

    shell = get_ipython()
    hidden = shell.user_ns_hidden
    found: list[str] = []
    for name, value in reversed(list(shell.user_ns.items())):
        own = not name.startswith("_") and name not in hidden
        if own and type(value).__name__ not in ("module", "function", "type", "builtin_function_or_method"):
            found.append(f"{name}: {type(value).__name__}{size(value)}"[:MAX_CHARACTERS])
    return found[:MAX_VARIABLES]


def size(value: Any) -> str:
    """The shape or the length of what surely knows it without working for it."""
    kind = type(value).__module__.partition(".")[0]
    if kind in ("polars", "pandas", "numpy", "pyarrow"):
        with contextlib.suppress(Exception):
            return f" {value.shape}"
    if type(value) in (list, dict, tuple, set, str, bytes):
        return f" of {len(value)}"
    return ""
