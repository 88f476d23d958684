"""A session's folder with its event log and its audit log, written as a session writes them, without a sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from stories import Write, Written, whole, write_session

from nbagent.core.events import Event


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Lets a session have events; called again, the session goes on."""

    def do(events: Iterable[Event] | None = None, *, key: bytes | None = None) -> Written:
        return write_session(tmp_path, whole() if events is None else events, key=key)

    return do
