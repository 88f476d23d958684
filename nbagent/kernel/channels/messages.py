"""A kernel's messages, from their parts to what the controller reads of them, within bounds. Pure.

Most of a message is never parsed. Parsed are: the type and id in its header and its parent's; the fields of a reply
that `ExecuteRequest` and `inside_calls` read; nbagent's own report in the metadata; and the content of what is
published, if its kind makes outputs or widgets.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final, Literal

import msgspec

from nbagent.core.policy import MIB
from nbagent.kernel import inside_calls
from nbagent.sandbox.inside.message_sizes_inside import MAX_CONTENT, MAX_REPLY, MAX_WEIGHT, is_too_long
from nbagent.sandbox.untrusted import MAX_DIGITS, UnreadableError, parse

ReadChannel = Literal["iopub", "shell"]
MAX_SIGNATURE: Final = 128
MAX_HEADER: Final = 64 * 1024
MAX_METADATA: Final = MIB
MAX_SHELL: Final = MAX_REPLY + 2 * MIB
"""Bytes of one message on the shell channel, all its parts together."""
MAX_FIELD: Final = 64 * 1024
"""Bytes of one field of a reply."""
_PARSED: Final = frozenset(
    {
        *("status", "stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"),
        *("comm_open", "comm_msg", "comm_close"),
    }
)
"""What is published and read; the content of other kinds, such as the code that the kernel repeats, is not."""


class _Header(msgspec.Struct):
    msg_type: str
    msg_id: str = ""


class _Parent(msgspec.Struct):
    msg_id: str = ""


_NONE: Final = msgspec.Raw(b"null")


class _Shown(msgspec.Struct):
    result: str = msgspec.field(name=inside_calls.RESULT_MIME)


class _Value(msgspec.Struct):
    data: _Shown


class _Values(msgspec.Struct):
    value: _Value


class _Reply(msgspec.Struct):
    """A reply, of which each field is parsed by itself: one that makes no sense is missing and does not hide others."""

    status: msgspec.Raw = _NONE
    ename: msgspec.Raw = _NONE
    evalue: msgspec.Raw = _NONE
    execution_count: msgspec.Raw = _NONE
    user_expressions: msgspec.Raw = _NONE


class _Metadata(msgspec.Struct):
    nbagent: str = ""


def check(channel: ReadChannel, parts: list[bytes]) -> None:
    """Hold the lengths of a message's parts, from its signature to its buffers, against their bounds.

    This comes before any work is spent on them.

    Raises:
        ValueError: One is out of bounds, or missing.
    """
    signature, header, parent, metadata, content, *_ = parts
    # The last 65,536 signatures are remembered, right or wrong.
    if len(signature) > MAX_SIGNATURE or max(len(header), len(parent)) > MAX_HEADER or len(metadata) > MAX_METADATA:
        raise ValueError("a part of the message is too large")
    if is_too_long(content) or (channel == "shell" and len(content) > MAX_REPLY):
        raise ValueError("the message's content is too large")


def parse_message(channel: ReadChannel, parts: list[bytes]) -> dict[str, Any]:
    """A message as the controller reads it: header, parent_header, content and buffers.

    Raises:
        ValueError: It has not the form of one.
    """
    _, header, parent, metadata, content, *buffers = parts
    head = parse(header, _Header, limit=MAX_HEADER)
    return {
        "header": {"msg_type": head.msg_type, "msg_id": head.msg_id},
        "parent_header": {"msg_id": parse(parent, _Parent, limit=MAX_HEADER).msg_id},
        "content": _reply(content, metadata) if channel == "shell" else _published_content(head.msg_type, content),
        "buffers": [memoryview(each) for each in buffers],
    }


def _published_content(kind: str, content: bytes) -> dict[str, Any]:
    if kind not in _PARSED:
        return {}
    found = parse(content, limit=MAX_CONTENT, heft=MAX_WEIGHT, digits=MAX_DIGITS)
    if not isinstance(found, dict):
        raise UnreadableError("the content is no object")
    return found


def _reply(content: bytes, metadata: bytes) -> dict[str, Any]:
    """What is read of a reply: its fields, of `user_expressions` nbagent's own result, of its metadata the `report`."""
    # Its fields are read one by one.
    reply = parse(content, _Reply, limit=MAX_REPLY, heft=MAX_WEIGHT, digits=MAX_DIGITS)
    found: dict[str, Any] = {
        name: _field(getattr(reply, name)) for name in ("status", "ename", "evalue", "execution_count")
    }
    with contextlib.suppress(UnreadableError):
        if report := parse(metadata, _Metadata, limit=MAX_METADATA).nbagent:
            found["report"] = report
    try:
        shown = parse(bytes(reply.user_expressions), _Values, limit=MAX_REPLY).value.data.result
    except UnreadableError:
        return found
    return {**found, "user_expressions": {"value": {"data": {inside_calls.RESULT_MIME: shown}}}}


def _field(raw: msgspec.Raw) -> str | int | None:
    """A field that is a text or a whole number; None if it is anything else."""
    try:
        value = parse(bytes(raw), limit=MAX_FIELD)
    except UnreadableError:
        return None
    return value if isinstance(value, str | int) else None
