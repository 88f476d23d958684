"""What a sandbox is like for what runs in it, whatever the engine: paths, shells, user, way out and environment."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbagent.core.policy import Network, Trust
from nbagent.sandbox.environment import environment
from nbagent.sandbox.limits import seccomp

INSIDE = "/run/nbagent"
OUTPUT = "/tmp/output"  # noqa: S108
WORKSPACE = "/workspace"
HOME = "/home/sandbox"
PROXY = ("127.0.0.1", 3128)
"""Where process 1 of a sandbox listens for programs that want out, if there is a way."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
SHELLS = (
    *("sh", "bash", "rbash", "dash", "ash", "zsh", "rzsh", "ksh", "ksh93", "mksh", "lksh", "pdksh", "yash", "posh"),
    *("csh", "tcsh", "bsd-csh", "fish", "elvish", "nu", "pwsh", "busybox", "tmux", "screen"),
)
"""Programs that are shells, or start one whatever there is."""
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
"""/etc/hosts of a sandbox without the host's network."""
START = (f"{environment.KERNEL}/bin/python", "-s", "-P", f"{INSIDE}/inside.py")
"""How a sandbox starts its kernel: nothing in the current folder or the home folder can get in between.

Not with -I, which would also ignore `PYTHONHASHSEED`; `inside_environment` leaves no other variable in between.
"""
HASH_SEED = "0"
"""Python's seed for hashes of text: with a random one, sets would print in another order each time."""


def inside_environment(
    *, shared_library: bool, trust: Trust, variables: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """The whole environment of a kernel: an allow-list, made here, with nothing of the host's but proxies.

    Args:
        shared_library: Whether the base Python needs its own `lib` folder on the loader's path.
        trust: Whether the sandbox has the host's network, and so its proxies; and how many cores it may use.
        variables: What is to be different in this one sandbox.
    """
    cores = math.ceil(trust.limits.cpus or os.cpu_count() or 1)
    found = {
        "HOME": HOME,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "TZ": time_zone(),
        "PATH": f"{environment.KERNEL}/bin:{environment.PYTHON}/bin:/usr/local/bin:/usr/bin:/bin",
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
        # Polars folds the names of columns at 80 characters, and whoever reads them as text takes them for broken.
        "POLARS_TABLE_WIDTH": "120",
        # Otherwise joblib runs programs to find out, which it may not everywhere, and warns.
        "LOKY_MAX_CPU_COUNT": str(cores),
    }
    if trust.limits.cpus:
        # A thread for each core of the machine would be slow, and too many for the limit on processes.
        found |= {"POLARS_MAX_THREADS": str(cores), "OMP_NUM_THREADS": str(cores)}
    if shared_library:
        found["LD_LIBRARY_PATH"] = f"{environment.PYTHON}/lib"
    if trust.network is Network.FULL:
        for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES)):
            if name in os.environ:
                found[name] = os.environ[name]
    elif has_egress(trust):
        for name in PROXY_VARIABLES:
            value = "localhost,127.0.0.1,::1" if name == "no_proxy" else f"http://{PROXY[0]}:{PROXY[1]}"
            found |= {name: value, name.upper(): value}
    return found | dict(variables)


@functools.cache
def time_zone() -> str:
    """The machine's time zone by its name, such as `Europe/Rome`; UTC if it has none."""
    place = Path("/etc/localtime")
    try:
        _, _, name = str(place.resolve(strict=True)).partition("/zoneinfo/")
    except OSError:
        return "UTC"
    return name or "UTC"


def accounts(uid: int, gid: int) -> dict[str, str]:
    """The files of /etc that name the user and the group that code runs as, by name."""
    return {
        "passwd": f"root:x:0:0::/:/bin/false\nsandbox:x:{uid}:{gid}::{HOME}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{gid}:\n",
    }


def has_egress(trust: Trust) -> bool:
    """Whether a sandbox's only way out is the proxy (`egress/proxy.py`)."""
    return trust.network is Network.LISTED and trust.allow_network_tools


def told_inside(trust: Trust, *, uid: int | None, watched: bool, notice: str) -> dict[str, Any]:
    """What `inside.py` is told, by default, besides where the kernel listens.

    Args:
        trust: What is permitted.
        uid: The user that it becomes, if it starts as root.
        watched: Whether each program that is executed is told.
        notice: What the first cell says.
    """
    return {
        "uid": uid,
        "folders": [OUTPUT],
        "cwd": WORKSPACE,
        "fonts": environment.FONTS,
        "path": [environment.SITE],
        "bounds": {},
        "shell": trust.allow_shell,
        "ask": seccomp.asking_program().hex() if watched else "",
        "proxy": PROXY if has_egress(trust) else None,
        "notice": notice,
        "filter": seccomp.inner_program(
            subprocess=trust.allow_subprocess, sockets=trust.allow_network_tools, forwarder=has_egress(trust)
        ).hex(),
    }
