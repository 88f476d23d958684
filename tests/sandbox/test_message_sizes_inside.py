"""The bounds of a kernel's messages, with jupyter_client's own session."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import machine
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session

from nbagent.sandbox.inside import message_sizes_inside
from nbagent.sandbox.inside.message_sizes_inside import (
    MAX_BUFFERS,
    MAX_CONTENT,
    MAX_WEIGHT,
    bounded,
    is_wide,
    shorten,
    weight,
)

BIG = "x" * (message_sizes_inside.MAX_VALUE + 1)


@pytest.fixture(scope="module")
def session() -> Any:
    """A kernel's session."""
    return bounded(Session)(key=b"k")


def sent(session: Any, kind: str, content: dict[str, Any], **more: Any) -> dict[str, Any] | None:
    """What of a message is sent, or None."""

    class Stream:
        frames: list[bytes] | None = None

        def send_multipart(self, frames: list[bytes], **_: Any) -> None:
            self.frames = frames

    stream = Stream()
    session.send(stream, kind, content, **more)
    if stream.frames is None:
        return None
    assert sum(map(len, stream.frames)) < 64 * 1024 * 1024
    found: dict[str, Any] = json.loads(stream.frames[stream.frames.index(b"<IDS|MSG>") + 5])
    return found


@pytest.mark.parametrize("kind", ["display_data", "execute_result", "update_display_data"])
def test_a_representation_that_is_too_long(session: Any, kind: str) -> None:
    """It is left out and named in text/plain, the others stay, and the message's own data is not changed."""
    data = {"text/plain": "<HTML>", "text/html": BIG, "text/latex": "x"}
    found = sent(session, kind, {"data": data, "metadata": {}, "transient": {"display_id": "a"}})
    assert found == {
        "data": {"text/plain": f"<HTML>\n[left out: text/html of {len(BIG):,} characters]", "text/latex": "x"},
        "metadata": {},
        "transient": {"display_id": "a", "left_out": {"text/html": len(BIG)}},
    }
    assert data["text/html"] is BIG


def test_text_alone(session: Any) -> None:
    """Where text/plain itself is too long, the marker is all there is."""
    found = sent(session, "execute_result", {"data": {"text/plain": BIG}, "metadata": {}})
    assert found is not None
    assert found["data"] == {"text/plain": f"[left out: text/plain of {len(BIG):,} characters]"}


@pytest.mark.parametrize(
    "data",
    [
        {f"text/{n}": "x" * 20_000_000 for n in range(5)},
        {"text/html": "\0" * 20_000_000, "text/latex": "x"},
        {"text/html": "\N{GRINNING FACE}" * 20_000_000},
        {"text/html": "x" * 30_000_000 + "\N{GRINNING FACE}", "text/latex": "x"},
        {"application/json": {"a": ["x" * 1000] * 60_000}},
        {"application/json": [[]] * 4_000_000},
    ],
    ids=["many", "escaped", "four bytes each", "wide by one", "JSON", "heavy JSON"],
)
def test_what_is_too_large_together(session: Any, data: dict[str, Any]) -> None:
    """The largest representations go, until the rest fits."""
    found = sent(session, "display_data", {"data": data, "metadata": {}})
    assert found is not None
    gone = found["transient"]["left_out"]
    assert gone
    assert set(gone) | set(found["data"]) >= set(data)
    assert found["data"]["text/plain"].count("[left out: ") == len(gone)
    assert len(found["data"]) > 1 or len(data) == 1


def test_a_wide_character_elsewhere_is_counted(session: Any) -> None:
    """What is sent is never more than what is taken, whichever representation makes it so."""
    data = {"text/html": "x" * 30_000_000, "text/plain": "\N{GRINNING FACE}", "text/latex": "x"}
    found = sent(session, "display_data", {"data": data, "metadata": {}})
    assert found is not None
    assert set(found["data"]) == {"text/plain", "text/latex"}
    narrow = sent(session, "display_data", {"data": {**data, "text/plain": "é"}, "metadata": {}})
    assert narrow is not None
    assert len(narrow["data"]["text/html"]) == 30_000_000
    assert is_wide(b'{"a":"\\ud83d\\ude00"}')
    assert is_wide('"\N{GRINNING FACE}"'.encode())
    assert not is_wide('"é\\u001b\N{HANGUL SYLLABLE HAN}"'.encode())


def test_metadata_does_not_pass_either(session: Any) -> None:
    """It goes, and the data stays."""
    found = sent(session, "display_data", {"data": {"text/plain": "x"}, "metadata": {"a": "y" * (MAX_CONTENT + 1)}})
    assert found == {"data": {"text/plain": "x"}, "metadata": {}}


def test_an_error(session: Any) -> None:
    """The middle of its texts is left out, their ends stay."""
    text = "start" + "x" * 50_000_000 + "end"
    content = {"ename": "ValueError", "evalue": text, "traceback": ["line 1", text]}
    found = sent(session, "error", content)
    assert found is not None
    assert found["ename"] == "ValueError"
    assert found["traceback"][0] == "line 1"
    for each in (found["evalue"], found["traceback"][1]):
        assert each.startswith("start")
        assert each.endswith("end")
        assert "characters left out" in each
    assert shorten(text) == found["evalue"]


def test_what_can_not_be_cut(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Other messages that are too large become errors, and code is told on stderr."""
    found = sent(session, "comm_msg", {"comm_id": "1", "data": {"value": "x" * (MAX_CONTENT + 1)}})
    assert found is not None
    assert found["status"] == "error"
    assert "[left out: comm_msg of " in capsys.readouterr().err


@pytest.mark.parametrize("ready", [True, False])
def test_binary_data(session: Any, capsys: pytest.CaptureFixture[str], ready: bool) -> None:
    """A message with too much of it is not sent, and code is told on stderr."""
    content = {"comm_id": "1", "data": {}}
    for size, passes in ((MAX_BUFFERS, True), (MAX_BUFFERS + 1, False)):
        buffers = [memoryview(bytes(size // 2)), bytes(size - size // 2)]
        message: Any = session.msg("comm_msg", content) | {"buffers": buffers} if ready else "comm_msg"
        assert (sent(session, message, content, **({} if ready else {"buffers": buffers})) is not None) is passes
    assert "bytes of binary data in a comm_msg]" in capsys.readouterr().err


def test_other_messages_are_as_they_were(session: Any) -> None:
    """What is small passes, of whatever kind and form."""
    for content in ({"name": "stdout", "text": "x"}, {}, {"data": None}, {"data": 1, "traceback": None}):
        assert sent(session, "stream", dict(content)) == content
    for content in ({"data": {}}, {"data": {"text/plain": None, "x": [1]}}, {}):
        assert sent(session, "display_data", dict(content)) == content


@pytest.mark.parametrize(
    "content",
    [
        "[" + "[]," * 30_000 + "1]",
        "[" + "{}," * 30_000 + "1]",
        "[" + '{"a":1},' * 12_000 + "1]",
        "[" + '"ab",' * 20_000 + "1]",
        "[" + "1.5," * 25_000 + "1]",
        "[" + "[[[[[[[[1]]]]]]]]," * 5_000 + "1]",
        "{" + ",".join(f'"{n}":{n}' for n in range(20_000)) + "}",
    ],
    ids=["lists", "objects", "full objects", "texts", "numbers", "nested", "keys"],
)
def test_weight_is_an_upper_bound(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed, JSON takes no more memory than its weight says."""
    monkeypatch.setattr(message_sizes_inside, "_HEAVIEST", 10**12)
    packed = content.encode()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        value = json.loads(packed)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert value
    assert taken <= weight(packed) * 1.1


def test_heavy_json_is_found() -> None:
    """From the size on at which it could weigh too much; a table of a million numbers does not."""
    for heavy in (b"[]," * 300_000, b'"a":1,' * 300_000, b"1.5," * 4_000_000, b'"\\n[",' * 300_000):
        assert weight(b"[" + heavy + b"1]") > MAX_WEIGHT
    assert weight(b"[" + b"1.5," * 1_000_000 + b"1]") <= MAX_WEIGHT


def test_text_weighs_little() -> None:
    """Text that looks like JSON is not taken for it."""
    text = json.dumps({"data": {"text/html": '[{"a": ["b", {}]}],' * 1_000_000}}).encode()
    assert weight(text) <= MAX_WEIGHT
    assert weight(b'"' + b"\\\\" * 10_000_000 + b'"') <= MAX_WEIGHT
    assert weight(b'"' + b'\\\\\\"[,' * 5_000_000 + b'"') <= MAX_WEIGHT


@pytest.mark.parametrize("content", [b'"",' * 10_000_000, b'"' + b"\\n" * 19_000_000 + b"[," * 2_000_000 + b'"'])
def test_weighing_takes_no_time(content: bytes) -> None:
    """Whatever it is, the largest content is weighed while others hardly notice."""
    machine.within(20, lambda: weight(content))


@given(st.text(), st.integers(0, 40))
def test_shorten(text: str, room: int) -> None:
    """A text that is too long keeps its ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_sizes_inside, "MAX_ERROR", room)
        short = shorten(text)
    if len(text) <= room:
        assert short == text
    else:
        assert short.startswith(text[: room // 2])
        assert "characters left out" in short
