"""Reading, handing out and recording replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call

from nbagent.agent.messages.reply import text_of
from nbagent.agent.providers.replay import Recorder, ReplayModel, read_replies
from nbagent.core.errors import ReplayError, StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes its replies."""
    return tmp_path / "replies.jsonl"


def model_of(file: Path, *replies: dict[str, Any]) -> ReplayModel:
    """A model with these replies."""
    file.write_text("".join(f"{json.dumps(reply)}\n" for reply in replies))
    return ReplayModel.open(file)


def test_replies_in_order(file: Path) -> None:
    """Each call takes the next one, whatever was asked; each tool call has an id of its own."""
    call = {"name": "python", "args": {"code": "1"}}
    model = model_of(file, {"content": "a", "tool_calls": [call, call]}, {"tool_calls": [call]}, {"content": "b"})
    replies = [model.invoke("?") for _ in range(3)]
    assert [reply.content for reply in replies] == ["a", "", "b"]
    calls = [made for reply in replies for made in reply.tool_calls]
    assert [made["args"] for made in calls] == [{"code": "1"}] * 3
    assert len({made["id"] for made in calls}) == 3


def test_running_out(file: Path) -> None:
    """It says how many there were."""
    model = model_of(file, {"content": "only"})
    model.invoke("?")
    with pytest.raises(ReplayError, match=r"it has 1 reply, and the conversation asked for one more\."):
        model.invoke("?")


def test_blank_lines_and_windows_ends(file: Path) -> None:
    """Blank lines, a byte order mark and CRLF don't matter; a line's number counts them all."""
    file.write_bytes(b'\xef\xbb\xbf\r\n{"content": "a"}\r\n\r\n  \n{"content": "b"}')
    assert [reply.content for reply in read_replies(file)] == ["a", "b"]
    file.write_bytes(b'\n\n{"content": 1}\n')
    with pytest.raises(ReplayError, match="line 3"):
        read_replies(file)


def test_a_line_separator_inside_of_text(file: Path) -> None:
    """U+2028 ends no line of JSON Lines."""
    file.write_text('{"content": "a\u2028b"}\n', encoding="utf-8")
    assert read_replies(file)[0].content == "a\u2028b"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"content": "a"', "truncated"),
        ("hello", "malformed"),
        ("# a comment", "malformed"),
        ("[]", "Expected `object`, got `array`"),
        ('{"content": 1}', r"Expected `str`, got `int` - at `\$\.content`"),
        ('{"content": null}', "got `null`"),
        ("{}", "neither content nor tool_calls"),
        ('{"tool_calls": {}}', "Expected `array`"),
        ('{"tool_calls": [{"args": {}}]}', r"missing required field `name` - at `\$\.tool_calls\[0\]`"),
        ('{"tool_calls": [{"name": "", "args": {}}]}', "length >= 1"),
        ('{"tool_calls": [{"name": "python"}]}', "missing required field `args`"),
        ('{"tool_calls": [{"name": "python", "args": "1"}]}', r"Expected `object`, got `str` - at .*args"),
        ('{"content": "a", "toolcalls": []}', "unknown field `toolcalls`"),
        ('{"content": "a", "usage": {"input_tokens": -1}}', "input_tokens"),
    ],
)
def test_a_broken_line(file: Path, line: str, why: str) -> None:
    """The file is refused when it is opened, naming the line and what is wrong with it."""
    file.write_text(f'{{"content": "good"}}\n{line}\n')
    with pytest.raises(ReplayError, match=why) as caught:
        ReplayModel.open(file)
    assert f"{file}, line 2: " in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\x00\x00", b"\xff\xfe{\x00}\x00", b'{"content": "\xe9"}'])
def test_not_text(file: Path, data: bytes) -> None:
    """A binary file, UTF-16 and Latin-1 are told apart from broken JSON."""
    file.write_bytes(data)
    with pytest.raises(ReplayError, match=r"line 1: this is not UTF-8 text\."):
        read_replies(file)


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_an_empty_file(file: Path, data: bytes) -> None:
    """It has no replies, and says how to get some."""
    file.write_bytes(data)
    with pytest.raises(ReplayError, match=r"has no replies\. Record one"):
        read_replies(file)


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    """Both are said plainly."""
    with pytest.raises(ReplayError, match="it is a folder"):
        read_replies(tmp_path)
    with pytest.raises(ReplayError, match="no such file"):
        read_replies(tmp_path / "missing.jsonl")


async def test_streams(file: Path) -> None:
    """Words come one at a time and join to the same text, calls and usage as without streaming."""
    reply = {
        "content": "Two  words,\nthree ",
        "tool_calls": [{"name": "python", "args": {"code": "é"}}, {"name": "python", "args": {"code": "2"}}],
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    whole = await model_of(file, reply).ainvoke("?")
    for chunks in ([chunk async for chunk in model_of(file, reply).astream("?")], [*model_of(file, reply).stream("?")]):
        assert [chunk.text for chunk in chunks if chunk.text] == ["Two", "  words,", "\nthree", " "]
        joined: Any = sum(chunks[1:], start=chunks[0])
        assert isinstance(joined, AIMessageChunk)
        assert (joined.content, joined.tool_calls) == (whole.content, whole.tool_calls)
        assert joined.usage_metadata == whole.usage_metadata


def test_bound_tools_change_nothing(file: Path) -> None:
    """A recording calls what it calls."""
    model = model_of(file, {"content": "a"})
    assert model.bind_tools([]) is model


def test_recording_and_replaying(file: Path) -> None:
    """One line a reply, readable at any moment, and the same messages come back."""
    recorder = Recorder(file)
    first = AIMessage(
        [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Ä "}, {"type": "text", "text": "b"}],
        tool_calls=[tool_call(name="python", args={"code": "a\nb"}, id="x")],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    )
    recorder.write(first)
    assert len(read_replies(file)) == 1
    broken = invalid_tool_call(name="python", args="{oops", id="y", error="bad")
    recorder.write(AIMessage("", invalid_tool_calls=[broken]))
    recorder.write(AIMessage(""))
    assert "Ä" in file.read_text(encoding="utf-8")
    assert len(file.read_bytes().splitlines()) == 3
    model = ReplayModel.open(file)
    again = [model.invoke("?") for _ in range(3)]
    assert (again[0].content, again[0].tool_calls[0]["args"]) == ("Ä b", {"code": "a\nb"})
    assert again[0].usage_metadata == first.usage_metadata
    assert again[1].invalid_tool_calls[0]["args"] == "{oops"
    assert (again[2].content, again[2].tool_calls) == ("", [])


def test_recording_half_a_surrogate_pair(file: Path) -> None:
    """What UTF-8 can't hold is replaced, and the file stays readable."""
    Recorder(file).write(AIMessage("a\ud800b"))
    assert read_replies(file)[0].content == "a?b"


def test_recording_never_overwrites(file: Path) -> None:
    """A file with something in it is refused, an empty one is taken."""
    file.touch()
    Recorder(file).write(AIMessage("a"))
    with pytest.raises(StoreError, match=r"exists already\. Record into a new file\."):
        Recorder(file)


def test_recording_into_a_place_that_is_not_there(tmp_path: Path) -> None:
    """It is found before the first call of the model."""
    with pytest.raises(StoreError, match="no such file or directory"):
        Recorder(tmp_path / "missing" / "r.jsonl")


def test_a_refusal_is_text() -> None:
    """OpenAI sends a refusal beside the content; it is the reply's words."""
    assert text_of(AIMessage("", additional_kwargs={"refusal": "I won't."})) == "I won't."
