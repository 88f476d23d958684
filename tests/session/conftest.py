"""What tests of sessions share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agent.stub import Provider

from nbagent import Session


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider of models on loopback."""
    stub = Provider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", stub.url)
        yield stub
    stub.close()


@pytest.fixture
def told(session: Session) -> Iterator[list[Any]]:
    """The events of the test's session from now on."""
    seen: list[Any] = []
    unfollow = session.follow(lambda record: seen.append(record.event))
    yield seen
    unfollow()
