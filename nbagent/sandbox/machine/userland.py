"""What code finds in a sandbox, whatever the engine: environment variables, users and hosts in /etc, shells."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nbagent.core.limits import Limits
from nbagent.core.policy import Network, Trust
from nbagent.sandbox import paths
from nbagent.sandbox.data.tree import HiddenReason, LeftOut, facts
from nbagent.sandbox.exit import Exit
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.paths import HOME
from nbagent.sandbox.spec import has_egress

PROXY = ("127.0.0.1", 3128)
"""Where programs in a sandbox find the egress proxy; `forward.py` listens there."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
SHELLS = (
    *("sh", "bash", "rbash", "dash", "ash", "zsh", "rzsh", "ksh", "ksh93", "mksh", "lksh", "pdksh", "yash", "posh"),
    *("csh", "tcsh", "bsd-csh", "fish", "elvish", "nu", "pwsh", "busybox", "tmux", "screen"),
)
"""Programs that are shells, or that start a shell whatever their arguments."""
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
"""/etc/hosts of a sandbox without the host's network."""
START = (f"{paths.KERNEL}/bin/python", "-s", "-P", f"{paths.RUN}/inside.py")
"""The command of process 1. No folder of the code's can put other modules in place of ours.

It has no -I, which would ignore `PYTHONHASHSEED` too; `environment_variables` sets every variable that Python reads.
"""
HASH_SEED = "0"
"""The seed of Python's hashes of text: with a random one, sets would print in another order each time."""

POLARS = {
    "POLARS_TABLE_WIDTH": "250",
    "POLARS_FMT_MAX_ROWS": "40",
    "POLARS_FMT_MAX_COLS": "20",
    "POLARS_FMT_STR_LEN": "100",
}
"""How much of a table Polars shows. At 80 characters, it folds the names of columns, which readers of text take for
broken. Ten rows, eight columns and thirty characters have whoever reads the text ask for the rest.
"""


def environment_variables(
    *, shared_library: bool, trust: Trust, variables: Iterable[tuple[str, str | None]] = ()
) -> dict[str, str]:
    """All environment variables of a kernel: an allow-list, with nothing of the host's but its proxies.

    Args:
        shared_library: Whether the base Python needs its own `lib` folder on the loader's path.
        trust: What is permitted; it decides about proxies, and how many threads libraries start.
        variables: What shall be different in this sandbox; one that is None isn't there.
    """
    cores = math.ceil(trust.limits.cpus or os.cpu_count() or 1)
    found = {
        "HOME": HOME,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "TZ": time_zone(),
        "PATH": f"{paths.KERNEL}/bin:{paths.PYTHON}/bin:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": "/tmp",  # noqa: S108 - inside
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": HASH_SEED,
        # Empty is unset: an image may have them.
        "PYTHONHOME": "",
        "PYTHONPATH": "",
        # Frozen modules' frames and the debugger's warning about them help nobody here.
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "IPYTHONDIR": f"{HOME}/.ipython",
        "NBAGENT": "1",
        **POLARS,
        # How many of the machine's cores joblib uses; see also `ipykernel_inside.py`.
        "LOKY_MAX_CPU_COUNT": str(cores),
    }
    if trust.limits.cpus:
        # A thread for each core of the machine would be slow, and too many for the limit on processes.
        found |= {"POLARS_MAX_THREADS": str(cores), "OMP_NUM_THREADS": str(cores)}
    if shared_library:
        found["LD_LIBRARY_PATH"] = f"{paths.PYTHON}/lib"
    if trust.network is Network.FULL:
        for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES)):
            if name in os.environ:
                found[name] = os.environ[name]
    elif has_egress(trust):
        for name in PROXY_VARIABLES:
            value = "localhost,127.0.0.1,::1" if name == "no_proxy" else f"http://{PROXY[0]}:{PROXY[1]}"
            found |= {name: value, name.upper(): value}
    return changed(found, variables)


def changed(found: Mapping[str, str], variables: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Environment variables with changes, of which None takes a variable away."""
    return {name: value for name, value in {**found, **dict(variables)}.items() if value is not None}


@functools.cache
def time_zone() -> str:
    """The machine's time zone by its name, such as `Europe/Rome`; UTC if it has none."""
    try:
        _, _, name = str(Path("/etc/localtime").resolve(strict=True)).partition("/zoneinfo/")
    except OSError:
        return "UTC"
    return name or "UTC"


def accounts(uid: int, gid: int) -> dict[str, str]:
    """The files of /etc that give the user and the group that code runs as a name, by the files' names."""
    return {
        "passwd": f"root:x:0:0::/:/bin/false\nsandbox:x:{uid}:{gid}::{HOME}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{gid}:\n",
    }


def config_inside(trust: Trust, *, uid: int | None, watched: bool, notice: str, linked: bool) -> dict[str, Any]:
    """The configuration that `inside.py` gets beside the kernel's connection; an engine replaces some of it.

    Args:
        trust: What is permitted.
        uid: The user that it becomes if it starts as root.
        watched: Whether it reports each program that is executed.
        notice: A text that the first cell prints; empty for none.
        linked: Whether the working folder gets links to the data.
    """
    return {
        "uid": uid,
        "folders": [paths.OUTPUT],
        "cwd": paths.WORKSPACE,
        "linked": paths.DATA if linked else "",
        "fonts": paths.FONTS,
        "path": [paths.SITE],
        "bounds": {},
        "shell": trust.allow_shell,
        "ask": seccomp.asking_program().hex() if watched else "",
        "proxy": PROXY if has_egress(trust) else None,
        "notice": notice,
        "filter": seccomp.inner_program(
            subprocess=trust.allow_subprocess, sockets=trust.allow_network_tools, forwarder=has_egress(trust)
        ).hex(),
    }


def client_notice(left_out: LeftOut) -> str:
    """What of the folder is hidden, which the first cell of a client's kernel says.

    Names that begin with a dot are not mentioned: nearly every folder has some.
    """
    mentioned: LeftOut = {why: paths for why, paths in left_out.items() if why is not HiddenReason.HIDDEN}
    return "\n".join(each.text for each in facts(mentioned))


def client_loss(before: Exit | None, limits: Limits) -> str:
    """Why the kernel before is gone, if it took too much, as the rest of a sentence; for the first cell, too."""
    took_too_much = before is not None and (before.out_of_memory or before.overuse)
    return before.loss(limits.memory_mb) if before is not None and took_too_much else ""
