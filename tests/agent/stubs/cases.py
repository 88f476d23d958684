"""The providers, each with its wire format and what a person sets to reach it: what a test is run once for each of."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from agent.stubs import anthropic, google, groq, ollama, openai_chat, openai_responses, openrouter
from agent.stubs.transport import Stub

from nbagent.agent.providers import known
from nbagent.core.events import NO_USAGE, Usage


@dataclass(frozen=True, kw_only=True)
class Case:
    """A provider as the tests know it."""

    wire: Any
    model: str
    url: str
    """The variable of its address."""
    key: str
    figures: str
    """Where a figure is on the wire, in the words of the format's `images`."""
    cut: str
    """How it says that a reply has reached its limit of tokens."""
    has_pieces: bool = True
    """Whether a call's arguments come as text, in pieces."""
    early: Usage = NO_USAGE
    """What of the usage is told before the end of a reply."""

    def reach(self, stub: Stub, patch: pytest.MonkeyPatch) -> str:
        """Set what a person would; the model's name."""
        patch.setenv(self.url, stub.url)
        patch.setenv(self.key, "sk-secret")
        if self.wire is openai_responses:
            # The stub stands for OpenAI itself: a compatible server is never spoken to in this format.
            patch.setattr(known, "OPENAIS_OWN", ("127.0.0.1", ".api.openai.com"))
        stub.models = [self.model.partition(":")[2], "acme-large"]
        return self.model


CASES = {
    "openai": Case(
        wire=openai_chat,
        model="openai:gpt-4.1",
        url="OPENAI_BASE_URL",
        key="OPENAI_API_KEY",
        figures="user",
        cut="length",
    ),
    "openai_responses": Case(
        wire=openai_responses,
        model="openai:gpt-5-pro",
        url="OPENAI_BASE_URL",
        key="OPENAI_API_KEY",
        figures="function_call_output",
        cut="max_output_tokens",
    ),
    "anthropic": Case(
        wire=anthropic,
        model="anthropic:claude-sonnet-5",
        url="ANTHROPIC_BASE_URL",
        key="ANTHROPIC_API_KEY",
        figures="tool_result",
        cut="max_tokens",
        early=Usage(input_tokens=100, output_tokens=1, calls=1),
    ),
    "google_genai": Case(
        wire=google,
        model="google_genai:gemini-3.5-flash",
        url="GOOGLE_GEMINI_BASE_URL",
        key="GOOGLE_API_KEY",
        figures="user",
        cut="MAX_TOKENS",
        has_pieces=False,
        early=Usage(input_tokens=100, calls=1),
    ),
    "groq": Case(
        wire=groq,
        model="groq:meta-llama/llama-4-scout-17b-16e-instruct",
        url="GROQ_BASE_URL",
        key="GROQ_API_KEY",
        figures="user",
        cut="length",
    ),
    "openrouter": Case(
        wire=openrouter,
        model="openrouter:openai/gpt-4o",
        url="OPENROUTER_BASE_URL",
        key="OPENROUTER_API_KEY",
        figures="user",
        cut="length",
    ),
    "ollama": Case(
        wire=ollama,
        model="ollama:qwen3-vl",
        url="OLLAMA_HOST",
        key="OLLAMA_API_KEY",
        figures="user",
        cut="length",
        has_pieces=False,
    ),
}


class Contacts:
    """Every address that this process connects to or looks up, while it is open."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._open = False
        sys.addaudithook(self._hear)  # for good: Python has no way to take one away

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._open and event == "socket.connect" and args[0].family != socket.AF_UNIX:
            self.seen.add(str(args[1][0]))
        if self._open and event == "socket.getaddrinfo" and args[0]:
            self.seen.add(args[0].decode() if isinstance(args[0], bytes) else str(args[0]))

    def __enter__(self) -> Contacts:
        self.seen.clear()
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False


CONTACTS = Contacts()
