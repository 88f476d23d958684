"""What a sandbox shall be, as a value, made from a person's options and written into its lease."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import fileio, folders
from nbagent.core.errors import UsageError
from nbagent.core.policy import InstallPolicy, Network, Trust, TrustLevel, asking, trust_for
from nbagent.sandbox import connection_file
from nbagent.sandbox.data import mounts
from nbagent.sandbox.data.mounts import Mount

if TYPE_CHECKING:
    from nbagent.core.options import Options
    from nbagent.sandbox.results.receiver import Receiver


ACCEPTABLE = ("memory", "cpu", "pids", "commands", "egress")
"""Limits that a person may accept to be unenforced."""


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What a sandbox shall be: the part of the options that an engine needs.

    Attributes:
        trust: What is permitted, with its limits.
        data: What it sees read-only.
        accept: Names of limits that may stay unenforced, because a person said so.
        install: Which packages its code may get.
        image: The Docker image, or None for nbagent's own.
        owner: The session's id, for labels; empty when another client starts the kernel.
        keep: Seconds that it lives on after its controller died, to be taken over; 0 ends it at once.
        variables: Environment variables of the kernel that shall differ from those of every sandbox; one that
            is None isn't there.
        plain_names: Whether its working folder has links to its data.
        kernel: The connection file of a kernel that runs already, to be used in place of a new one; empty for none.
        late_data: Whether it starts before its data is known, with a mirror that is filled later (`data/mirror.py`).
    """

    trust: Trust = field(default_factory=lambda: trust_for(TrustLevel.ISOLATED))
    data: tuple[Mount, ...] = ()
    accept: frozenset[str] = frozenset()
    install: InstallPolicy = field(default_factory=InstallPolicy)
    image: str | None = None
    owner: str = ""
    keep: float = 0.0
    kernel: str = ""
    late_data: bool = False
    plain_names: bool = True
    variables: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        if unknown := sorted(self.accept - set(ACCEPTABLE)):
            raise UsageError(
                f"There is no limit {unknown[0][:80]!r} to accept.", mend=f"Use one of: {', '.join(ACCEPTABLE)}."
            )

    @classmethod
    def of(cls, options: Options, *, data: Sequence[Mount] = (), owner: str = "") -> SandboxSpec:
        """The sandbox of a person's options; nothing else turns options into a sandbox.

        Args:
            options: The person's options.
            data: What it sees read-only. At the level `isolated`, memory grows with its size.
            owner: The session's id; the sandbox of a session can be taken over, any other ends with its controller.

        Raises:
            UsageError: An option is unknown, of the wrong kind, or contradicts another one.
        """
        check_runtime(options)
        security = options.security_options
        trust = trust_for(
            TrustLevel.parse(options.trust),
            data_bytes=sum(size_of(mount.source) for mount in data),
            security=asking(security) if options.ask_hosts else security,
            session_mb=options.session_mb,
            result_mb=options.result_mb,
            start_timeout=options.start_timeout,
        )
        if options.ask_hosts:
            check_asking(trust)
        if options.limits is not None:
            trust = replace(trust, limits=options.limits)
        return cls(
            trust=trust,
            data=tuple(data),
            accept=frozenset(options.accept),
            install=trust.narrow(options.install_policy),
            image=options.image,
            plain_names=options.plain_names,
            owner=owner,
            kernel=str(connection_file.find(options.kernel)) if options.kernel else "",
            keep=60 * options.keep_minutes if owner else 0.0,
        )


def check_runtime(options: Options) -> None:
    """Refuse a container runtime that isn't the one of the settings, which the daemon runs all sandboxes by."""
    from nbagent.core import settings

    wanted = options.docker_runtime
    if wanted is not None and wanted != settings.load().docker_runtime:
        raise UsageError(
            "The option docker_runtime can't be given for one session: it is for all of your sandboxes.",
            mend=f"Set NBAGENT_DOCKER_RUNTIME={wanted}, or docker_runtime in your settings.",
        )


def has_egress(trust: Trust) -> bool:
    """Whether a sandbox's only way out is the egress proxy (`egress/proxy.py`)."""
    return trust.network is Network.LISTED and trust.allow_network_tools


def check_asking(trust: Trust) -> None:
    """Refuse to ask a person for hosts where no question would ever come."""
    if trust.network is not Network.LISTED:
        reach = "every host" if trust.network is Network.FULL else "no hosts"
        raise UsageError(
            f"This session's code reaches {reach}, so it will not ask for any.",
            mend="Start a session with --ask-hosts, or with security options that permit a network.",
        )


def size_of(source: Path) -> int:
    """Bytes of a file, or of all files below a folder; counting stops at 100,000 files."""
    if source.is_file():
        return source.stat().st_size
    total = 0
    every = (Path(parent, name) for parent, _, names in fileio.walk(source) for name in names)
    for path in itertools.islice(every, 100_000):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
    return total


def spec_for_client(cwd: str | None, *, config: dict[str, Any]) -> SandboxSpec:
    """The sandbox of a kernel that another client starts for a folder, which it sees read-only at /tmp/data.

    The kernelspec's configuration has its `trust`, and `data: false` to show it no folder.
    """
    # Other programs start kernels too, and most of them have no other use for what this imports.
    from nbagent.core import settings

    chosen = settings.load(trust=os.environ.get("NBAGENT_TRUST") or config.get("trust"))
    folder = Path(cwd or Path.cwd()).resolve()
    data = mounts.for_client(folder) if config.get("data", chosen.client_data) and folder.is_dir() else ()
    return SandboxSpec.of(chosen, data=data)


def results_for_client(cwd: str | None, spec: SandboxSpec, *, config: dict[str, Any]) -> Receiver | None:
    """What puts the files that are saved in such a kernel beside the notebook; None if `output: false` says so."""
    from nbagent.core import settings
    from nbagent.sandbox.results.receiver import Receiver

    chosen = settings.load()
    here = Path(cwd or Path.cwd()).resolve()
    if not config.get("output", chosen.client_output) or not here.is_dir():
        return None
    return Receiver(here, Path(chosen.output_dir or folders.RESULTS).expanduser(), spec.trust.limits)
