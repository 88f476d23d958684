"""Replies that are no answer, though they look like one."""

from __future__ import annotations

import json
import time

import pytest

from nbagent.agent.messages.mistaken import is_bare_code, is_blank, is_call

TOOLS = ["python", "install"]


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b\u200d\ufeff", "\u00a0\u2003", "\x00\x1b", "\u3164\u2800", "\u034f\U0001d159\ufe0f"]
)
def test_what_shows_nothing(text: str) -> None:
    """Whatever it is made of."""
    assert is_blank(text)
    assert not is_blank(f"{text}.")


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "python"}</tool_call>',
        'Let me run it.\n  <tool_call>\n{"name": "python", "arguments": {}}',
        "<function=python>\n<parameter=code>1</parameter>",
        '<|python_tag|>{"name": "python"}',
        '[TOOL_CALLS][{"name": "python", "arguments": {}}]',
        '{"name": "python", "parameters": {"code": "1"}}',
        '[{"name": "install", "arguments": {"packages": []}}]',
        '{"type": "function", "function": {"name": "python", "arguments": "{}"}}',
        '```json\n{"name": "python", "arguments": {}}\n```',
    ],
)
def test_calls_as_text(text: str) -> None:
    """In the forms of Hermes, Qwen, Llama and Mistral."""
    assert is_call(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 42.",
        "Models mark calls with `<tool_call>`, as you asked.",
        '{"name": "Alice", "arguments": 1}',
        '{"name": "python"}',
        "[1, 2]",
        "[]",
        "{" * 100_000,
        "[" * 100_000,
        '{"function": 1, "name": ["python"], "args": 1}',
    ],
)
def test_what_is_no_call(text: str) -> None:
    """An answer may have JSON in it, and names like those of tools."""
    assert not is_call(text, TOOLS)


def test_code_alone() -> None:
    """Is one fence and nothing else; data in a fence is no code."""
    assert is_bare_code("```python\nprint(1)\n```")
    assert is_bare_code("```\nprint(1)\n```\n")
    twice = "```python\n1\n```\nand\n```python\n2\n```"
    for text in ("Like this:\n```python\n1\n```", "```json\n[1]\n```", twice, "1"):
        assert not is_bare_code(text)


def test_hostile_text_takes_no_time() -> None:
    """Nothing here looks at a text more than a few times."""
    began = time.process_time()
    for piece in ("```python\n", " \n", "<tool_call", json.dumps({"name": "python"}), "\u200b"):
        text = piece * (5_000_000 // len(piece))
        is_blank(text), is_call(text, TOOLS), is_bare_code(text)
    assert time.process_time() - began < 20
