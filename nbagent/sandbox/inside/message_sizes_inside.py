"""How large a kernel's messages may be: they are cut *inside* the sandbox, before they are sent.

This file is mounted beside `inside.py` and imported there, and by the controller for the same bounds and wording; so
it imports the standard library only. Cutting inside is for honest code, whose cell goes on and says what was left
out. What holds against hostile code are the connection's own bounds.
"""

from __future__ import annotations

import sys
from typing import Any, Final

MIB: Final = 1024 * 1024
MAX_VALUE: Final = 32 * MIB
"""Characters of one representation in a MIME bundle."""
MAX_CONTENT: Final = 40 * MIB
"""Bytes of a message's content, which is JSON."""
MAX_WIDE: Final = 24 * MIB
"""`MAX_CONTENT` for text with a wide character, such as an emoji: Python then stores each character in four bytes."""
MAX_BUFFERS: Final = 20 * MIB
"""Bytes of a message's binary buffers together."""
MAX_ERROR: Final = 4 * MIB
"""Characters that are kept of one text in an error that is published."""
MAX_REPLY: Final = 4 * MIB
"""Bytes of the content of a reply to code that ran, of which a controller shows nothing."""
REPLY_ERROR: Final = 64 * 1024
"""Characters that are kept of one text in an error in such a reply."""
MAX_WEIGHT: Final = 128 * MIB
"""The most that a message's content may weigh, see `weight`."""
_CONTAINER: Final = 2400
_QUOTE: Final = 300
_COMMA: Final = 100
_HEAVIEST: Final = 2400
"""The most that one byte of JSON can weigh."""
_DISPLAYS: Final = frozenset({"display_data", "execute_result", "update_display_data"})


def marker(what: str) -> str:
    """The text in place of something that was left out."""
    return f"[left out: {what}]"


def sized(mime: str, size: str) -> str:
    """A representation by its name and its size."""
    return f"{mime} of {size} characters"


def left_out(count: int) -> str:
    """The line that stands for `count` characters that were not kept of a text."""
    return f"\n[… {count:,} characters left out …]\n"


def weight(content: bytes) -> int:
    """What parsing JSON costs: a byte inside a string weighs one, brackets, commas and quotes weigh more.

    The weight is more than twice the memory of the parsed lists, objects and numbers: `[[],[],…` takes thirty times
    its length. It also bounds the time for which a controller does nothing else: a million lists would take two
    seconds. A string counts as one byte a character; wide characters take up to four, which the bound on a message's
    length allows for. Short content is not looked at, since that would cost as much as parsing it.
    """
    if len(content) * _HEAVIEST <= MAX_WEIGHT:
        return len(content)
    structure = len(content) - len(content.translate(None, b'[{,"'))
    if len(content) + _HEAVIEST * structure <= MAX_WEIGHT:
        return len(content) + _HEAVIEST * structure
    # Text may be full of brackets and commas without weighing anything. Between two quotes that are not escaped
    # everything is text; there is one look for each sign, and no piece made for each string before they are few.
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = _QUOTE * bare.count(b'"')
    if len(content) + quotes > MAX_WEIGHT:
        return len(content) + quotes
    outside = b"".join(bare.split(b'"')[::2])
    containers = outside.count(b"[") + outside.count(b"{")
    return len(content) + quotes + _CONTAINER * containers + _COMMA * outside.count(b",")


def bounded(session_class: Any) -> Any:
    """A subclass of jupyter_client's `Session` that sends no message larger than a controller takes."""

    class BoundedSession(session_class):  # type: ignore[misc]
        def serialize(self, msg: dict[str, Any], ident: Any = None) -> Any:
            kind, content = msg["header"]["msg_type"], msg.get("content")
            if not isinstance(content, dict):
                return super().serialize(msg, ident)
            if kind in _DISPLAYS:
                content = without_long_texts(content)
            elif "traceback" in content:
                content = short_error(content, REPLY_ERROR if kind == "execute_reply" else MAX_ERROR)
            frames = super().serialize({**msg, "content": content}, ident)
            if kind == "execute_reply" and len(frames[-1]) > MAX_REPLY:
                frames = super().serialize({**msg, "content": short_reply(content)}, ident)
            # A stream's content has one text, and so weighs no more than its size: much is printed.
            heavy = kind != "stream" and weight(frames[-1]) > MAX_WEIGHT
            if heavy or is_too_long(frames[-1]) or (kind == "execute_reply" and len(frames[-1]) > MAX_REPLY):
                smaller = self._without_largest(content) if kind in _DISPLAYS else too_large(kind, len(frames[-1]))
                frames = super().serialize({**msg, "content": smaller}, ident)
            return frames

        def _without_largest(self, content: dict[str, Any]) -> dict[str, Any]:
            """A MIME bundle without its largest representations, and without metadata, which could be large too."""
            gone: dict[str, int] = {}
            size, heft, wide = MIB, 0, False
            packed = {mime: self.pack({"": value}) for mime, value in content["data"].items()}
            for mime, value in sorted(packed.items(), key=lambda item: len(item[1])):
                with_it = size + len(value), heft + weight(value), wide or is_wide(value)
                if with_it[0] > (MAX_WIDE if with_it[2] else MAX_CONTENT) or with_it[1] > MAX_WEIGHT:
                    gone[mime] = len(value)
                else:
                    size, heft, wide = with_it
            return without({**content, "metadata": {}}, gone)

        def send(self, stream: Any, msg_or_type: Any, *args: Any, **kwargs: Any) -> Any:
            known = isinstance(msg_or_type, dict)
            buffers = kwargs.get("buffers") or (msg_or_type.get("buffers") if known else None) or ()
            size = sum(memoryview(each).nbytes for each in buffers)
            if size <= MAX_BUFFERS:
                return super().send(stream, msg_or_type, *args, **kwargs)
            kind = msg_or_type["header"]["msg_type"] if known else msg_or_type
            print(marker(f"{size:,} bytes of binary data in a {kind}"), file=sys.stderr)
            return None

    return BoundedSession


def is_too_long(content: bytes) -> bool:
    """Whether a message's content has more bytes than a controller takes."""
    size = len(content)
    return size > MAX_CONTENT or (size > MAX_WIDE and is_wide(content))


def is_wide(content: bytes) -> bool:
    """Whether JSON may hold a character beyond U+FFFF, as itself or by its escape."""
    return any(each in content for each in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD"))


def without_long_texts(content: dict[str, Any]) -> dict[str, Any]:
    """A MIME bundle's content without the texts that are too long."""
    data = content.get("data")
    texts = {mime: value for mime, value in data.items() if isinstance(value, str)} if isinstance(data, dict) else {}
    return without(content, {mime: len(value) for mime, value in texts.items() if len(value) > MAX_VALUE})


def without(content: dict[str, Any], gone: dict[str, int]) -> dict[str, Any]:
    """A MIME bundle's content without some representations: text/plain names them, with their sizes.

    `transient` has them by name, so that a controller can tell it beside the output too.
    """
    if not gone:
        return content
    data = {mime: value for mime, value in content["data"].items() if mime not in gone}
    plain = data.get("text/plain")
    lines = [plain] if isinstance(plain, str) else []
    lines += [marker(sized(mime, f"{size:,}")) for mime, size in gone.items()]
    transient = {**(content.get("transient") or {}), "left_out": gone}
    return {**content, "data": {**data, "text/plain": "\n".join(lines)}, "transient": transient}


def short_error(content: dict[str, Any], most: int) -> dict[str, Any]:
    """An error's content with the middle of its long texts left out."""
    traceback = content["traceback"]
    lines = [shorten(line, most) for line in traceback] if isinstance(traceback, list) else traceback
    return {name: shorten(value, most) for name, value in content.items()} | {"traceback": lines}


def short_reply(content: dict[str, Any]) -> dict[str, Any]:
    """A reply to code that ran, without what is shown elsewhere: the pager's text, and all but a traceback's end."""
    traceback = content.get("traceback")
    short = {**content, "payload": []}
    return {**short, "traceback": traceback[-5:]} if isinstance(traceback, list) else short


def shorten(text: Any, most: int | None = None) -> Any:
    """A text without its middle, if it is longer than so many characters, `MAX_ERROR` by default."""
    most = MAX_ERROR if most is None else most
    if not isinstance(text, str) or len(text) <= most:
        return text
    half = most // 2
    return text[:half] + left_out(len(text) - 2 * half) + text[-half:]


def too_large(kind: str, size: int) -> dict[str, Any]:
    """The error that is sent in place of content that can't be cut; every kind of reply may be an error."""
    said = marker(f"{kind} of {size:,} bytes")
    print(said, file=sys.stderr)
    return {"status": "error", "ename": "MessageTooLarge", "evalue": said, "traceback": [said]}
