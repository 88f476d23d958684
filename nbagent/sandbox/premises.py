"""What a sandbox has on this machine while it lives: the folder of its lease, and one on disk that goes with it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from nbagent.core.errors import SandboxError
from nbagent.sandbox.environment import environment
from nbagent.sandbox.handoff import Handoff
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.spec import SandboxSpec

Serving = Callable[[Lease], Handoff]
"""Makes the hand-over of a lease."""


def new(engine: str, spec: SandboxSpec, serving: Serving) -> Handoff:
    """The folders of a new sandbox, and its hand-over.

    Raises:
        SandboxError: They can't be made.
    """
    lease = _lease(engine, spec)
    try:
        lease.write(scratch=str(environment.scratch_folder()))
        return settled(lease, serving)
    except BaseException:
        lease.remove()
        shutil.rmtree(lease.terms.scratch, ignore_errors=True)
        raise


def settled(lease: Lease, serving: Serving) -> Handoff:
    """The hand-over of a lease, whose folder on disk is there from then on.

    Raises:
        SandboxError: It can't be made.
    """
    scratch = Path(lease.terms.scratch)
    site = scratch / "site"
    try:
        environment.name_lease(scratch, lease.folder)
        site.mkdir(mode=0o755, exist_ok=True)
        site.chmod(0o755)
        return serving(lease)
    except OSError as error:
        raise SandboxError(f"The sandbox's folders can't be made: {error}.", mend="Make room.") from error


def renewed(handoff: Handoff, spec: SandboxSpec, serving: Serving) -> Handoff:
    """A new lease in place of one whose folder somebody removed: the end of a login takes the runtime folder.

    Raises:
        SandboxError: It can't be made.
    """
    terms = handoff.lease.terms
    handoff.remove()
    lease = _lease(terms.engine, spec)
    try:
        lease.write(scratch=terms.scratch)
        return settled(lease, serving)
    except BaseException:
        lease.remove()
        raise


def _lease(engine: str, spec: SandboxSpec) -> Lease:
    return Lease.take(engine, spec, key=secrets.token_hex(16))
