"""What a session's sandbox is to be, kept in the session's folder for the process that resumes it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nbagent.core.errors import UsageError
from nbagent.core.fileio import opened, save
from nbagent.sandbox.leases import lease
from nbagent.sandbox.spec import SandboxSpec
from nbagent.session.catalog.session_list import SessionInfo

SPEC_FILE = "sandbox.json"
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of it that are read."""


def write_spec(folder: Path, spec: SandboxSpec) -> None:
    """Write down what a session's sandbox is to be."""
    save(folder / SPEC_FILE, lease.ENCODER.encode(spec))


def read_spec(session: SessionInfo) -> SandboxSpec:
    """What a session's sandbox is to be.

    Raises:
        UsageError: It can't be read: another version of nbagent wrote it, or the session never started.
    """
    try:
        with opened(session.folder / SPEC_FILE) as file:
            return msgspec.json.decode(file.read(MAX_BYTES), type=SandboxSpec, dec_hook=lease.decode)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"The session {session.id} can't be resumed: {error}.", mend=f"Its log is intact, in {session.folder}."
        ) from error
