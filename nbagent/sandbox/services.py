"""What a sandbox on this machine is served while it runs, by whoever answers it now: installs, a way out, news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core.events import DataLeftOut
from nbagent.core.policy import MIB, Trust
from nbagent.packages.installer import Installer
from nbagent.sandbox.contract import Hooks
from nbagent.sandbox.layout import has_egress

if TYPE_CHECKING:
    from nbagent.egress.listener import Egress


class Services:
    """What one sandbox is served, over restarts.

    Args:
        hooks: Who answers; others may, after it was handed over.

    Attributes:
        egress: Its way out by a list of hosts, if it has one.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.egress: Egress | None = None

    def left_out(self, event: DataLeftOut) -> None:
        """Tell what of the data is not shown any more."""
        if self.hooks.left_out is not None:
            self.hooks.left_out(event)

    def ran(self, pid: int, argv: list[str]) -> None:
        """Tell of a program that is executed inside."""
        if self.hooks.command is not None:
            self.hooks.command(pid, argv)

    def install(self, wanted: list[str], own: Callable[[], Installer]) -> list[dict[str, Any]]:
        """Serve an install request from inside: by who is there for that, else by an installer of the sandbox's own."""
        if self.hooks.install is not None:
            return self.hooks.install(wanted)
        done = asyncio.run(own().install(wanted))
        return [{"name": each.name, "version": each.version} for each in done]

    def open_egress(self, trust: Trust, folder: Path) -> None:
        """Open the way out, if such a sandbox has one; it stays over restarts, and so do its budgets.

        Args:
            trust: What is permitted.
            folder: What the sandbox sees at /run/nbagent.
        """
        if self.egress is not None or not has_egress(trust):
            return
        # Most sandboxes have no use for what this imports.
        from nbagent.egress.listener import SOCKET, Egress

        self.egress = Egress(
            trust.allowed_hosts or (),
            ask=lambda host, port: self.hooks.ask(host, port) if self.hooks.ask else None,
            observe=lambda seen: self.hooks.egress(seen) if self.hooks.egress else None,
            upload=trust.limits.upload_mb * MIB,
            download=trust.limits.download_mb * MIB,
        )
        self.egress.start(folder / SOCKET)

    def close(self) -> None:
        """Close the way out; blocking."""
        if self.egress is not None:
            self.egress.close()
            self.egress = None
