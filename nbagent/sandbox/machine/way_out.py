"""The way out of a sandbox that may reach a list of hosts: the egress proxy, listening in the sandbox's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nbagent.core.policy import MIB, Trust
from nbagent.sandbox.contract import Hooks
from nbagent.sandbox.spec import has_egress

if TYPE_CHECKING:
    from nbagent.egress.listener import Egress


def open_egress(trust: Trust, folder: Path, hooks: Callable[[], Hooks]) -> Egress | None:
    """Start the proxy, if such a sandbox has one.

    Args:
        trust: What is permitted.
        folder: What the sandbox sees at /run/nbagent.
        hooks: Returns who answers for hosts now; that changes when a sandbox is handed over.
    """
    if not has_egress(trust):
        return None
    # Most sandboxes have no use for what this imports.
    from nbagent.egress.listener import SOCKET, Egress

    egress = Egress(
        trust.allowed_hosts or (),
        ask=lambda host, port: ask(host, port) if (ask := hooks().ask) else None,
        observe=lambda event: tell(event) if (tell := hooks().egress) else None,
        upload=trust.limits.upload_mb * MIB,
        download=trust.limits.download_mb * MIB,
    )
    egress.start(folder / SOCKET)
    return egress
