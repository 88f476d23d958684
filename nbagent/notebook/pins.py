"""The packages of a lock as files that pip, uv and conda read. Pure; without any address."""

from __future__ import annotations

import re

from nbagent.core.events import Package
from nbagent.notebook.lock import Lock


def requirements(lock: Lock) -> str:
    """A requirements file with every package of the session's kernel, and the hash of each."""
    packages = _packages(lock)
    unknown = [each.name for each in packages if not each.sha256]
    platform = lock.machine.get("platform") or "an unknown platform"
    lines = [f"# All packages of Python {lock.python} on {platform}: uv pip install --no-deps -r requirements.txt"]
    if unknown:
        # With the hash of some, pip would turn down the rest.
        lines.append(f"# Without hashes, since no published wheel is known of {', '.join(unknown)}.")
    for each in packages:
        lines.append(f"{each.name}=={each.version}" + ("" if unknown else f" \\\n    --hash=sha256:{each.sha256}"))
    return "\n".join(lines) + "\n"


def environment(lock: Lock, *, name: str) -> str:
    """An environment of conda with the same Python, into which pip installs the same packages."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    lines = ["name: " + plain, "channels:", "  - conda-forge", "dependencies:"]
    lines += [f"  - python={lock.python or '3'}", "  - pip", "  - pip:"]
    return "\n".join([*lines, *(f"      - {each.name}=={each.version}" for each in _packages(lock))]) + "\n"


def _packages(lock: Lock) -> list[Package]:
    """Those that were installed for the session come in place of the kernel's own."""
    found = {each.name: each for each in (*lock.kernel, *lock.packages)}
    return [found[name] for name in sorted(found)]
