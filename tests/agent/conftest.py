"""Fixtures of the agent's tests: providers on loopback, a kernel, and an environment without keys."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from agent.stub import Kernel, Provider

from nbagent.agent.providers import failures


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and addresses of the person who runs the tests must not decide them, nor must an Ollama on the machine."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")) or name.startswith(("LANGSMITH", "LANGCHAIN")):
            monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A running stub that `openai:…` reaches; what may pass by itself is tried once more."""
    stub = Provider()
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    monkeypatch.setattr(failures, "RETRIES", 1)
    yield stub
    stub.close()


@pytest.fixture
def kernel() -> Kernel:
    """A kernel of this process."""
    return Kernel()
