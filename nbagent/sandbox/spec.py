"""What a sandbox is to be, as a value that can be written down: a lease describes a sandbox by it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbagent.policy import InstallPolicy, Trust, TrustLevel, trust_for
from nbagent.sandbox.mounts import Mount


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What a sandbox is to be: the part of a session's settings that an engine needs.

    Attributes:
        trust: What is permitted, with its limits.
        data: What it sees read-only.
        accept: Names of limits that may stay unenforced, because a person said so.
        install: Which packages its code may get.
        image: The Docker image, or None for nbagent's own.
        owner: The session's id, for labels; empty when another client starts the kernel.
        keep: Seconds that it lives on after its controller died, to be taken over; 0 ends it at once.
        late_data: Whether it starts before its data is known: it sees a folder that is filled later (`copies.py`).
    """

    trust: Trust = field(default_factory=lambda: trust_for(TrustLevel.ISOLATED))
    data: tuple[Mount, ...] = ()
    accept: frozenset[str] = frozenset()
    install: InstallPolicy = field(default_factory=InstallPolicy)
    image: str | None = None
    owner: str = ""
    keep: float = 0.0
    late_data: bool = False
