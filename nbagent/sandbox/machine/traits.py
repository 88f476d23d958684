"""The properties of a machine and a sandbox that can change a result, for the lock of a notebook."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.sandbox.machine.userland import environment_variables

if TYPE_CHECKING:
    from nbagent.packages.requirements import Target
    from nbagent.sandbox.spec import SandboxSpec

_VECTORS = re.compile(r"(?:s?sse|avx|amx|sve|asimd)\w*|fma|f16c|neon")
"""What Linux calls the instructions that numeric libraries choose their code by."""

_THREADS = re.compile(r"[A-Z]+_(?:NUM|MAX)_THREADS")
"""What tells a library how many threads it starts."""


def traits(spec: SandboxSpec, target: Target) -> dict[str, Any]:
    """The facts: platform, instructions of the processor, threads, locale, time zone and hash seed."""
    variables = environment_variables(shared_library=False, trust=spec.trust, variables=spec.variables)
    return {
        "platform": target.platform,
        "cpu_features": cpu_features(),
        "threads": int(cores) if (cores := variables.get("LOKY_MAX_CPU_COUNT", "")).isdecimal() else None,
        "thread_variables": {name: value for name, value in variables.items() if _THREADS.fullmatch(name)},
        "locale": variables.get("LC_ALL") or variables.get("LANG") or "C",
        "time_zone": variables.get("TZ") or "UTC",
        "hash_seed": variables.get("PYTHONHASHSEED") or "random",
    }


@functools.cache
def cpu_features() -> list[str]:
    """The vector instructions of the processor, in order; empty where Linux doesn't list them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return sorted(word for word in (found[1].split() if found else ()) if _VECTORS.fullmatch(word))
