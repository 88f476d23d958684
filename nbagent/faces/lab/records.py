"""A record of a session as a page gets it: its outputs harmless, and cut if it is too large. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from nbagent.core.text import ends, size_of
from nbagent.faces.terminal.lines import own_frames
from nbagent.safety.sanitize import clean_for_page

MAX_RECORD = 1024 * 1024
"""Bytes of a record that is sent whole."""
MAX_TEXT = 200_000
"""Characters of a text in a record that is cut."""
MAX_OUTPUTS = 3 * MAX_TEXT
"""Characters of the outputs in a record that is cut."""


def sent(line: bytes, *, whole: str) -> bytes:
    """A record as it is sent (`PageRecord`): harmless, and if it is too large, cut, with the place of the whole."""
    line = harmless(line)
    is_large = len(line) > MAX_RECORD
    if not is_large and b'"traceback":' not in line:
        return line
    record = msgspec.json.decode(line)
    if own := _own(record["event"]):
        record["own"] = own
    if is_large:
        record |= {"event": _cut(record["event"]), "whole": whole}
    return msgspec.json.encode(record)


def harmless(line: bytes) -> bytes:
    """A record whose outputs load and run nothing, whatever draws them."""
    if b'"data":' not in line:
        return line
    record = msgspec.json.decode(line)
    event = record["event"]
    match event:
        case {"outputs": list(outputs)}:
            event["outputs"] = [clean_for_page(each) for each in outputs]
        case {"output": dict(output)}:
            event["output"] = clean_for_page(output)
        case {"type": "OutputUpdated"}:
            shown = {"output_type": "display_data", "data": event["data"], "metadata": event.get("metadata", {})}
            event |= {name: each for name, each in clean_for_page(shown).items() if name != "output_type"}
    return msgspec.json.encode(record)


def _own(event: dict[str, Any]) -> dict[str, list[str]]:
    """The tracebacks of a finished cell that have more than the person's own frames, without the rest.

    There are as many as there is room for; the others are shown as the cell has them.
    """
    outputs = event["outputs"] if event["type"] == "CellFinished" and "outputs" in event else []
    found = {
        str(place): own_frames(each["traceback"], hint="")
        for place, each in enumerate(outputs)
        if each["output_type"] == "error"
    }
    room, kept = MAX_TEXT, {}
    for place, own in found.items():
        size = sum(map(len, own))
        if own != outputs[int(place)]["traceback"] and size <= room:
            room -= size
            kept[place] = own
    return kept


def _cut(event: dict[str, Any]) -> dict[str, Any]:
    for name in ("output", "outputs"):
        match event.get(name):
            case dict(output):
                event = {**event, name: _output(output)}
            case list(outputs):
                event = {**event, name: _outputs(outputs)}
    return {name: each if name in ("output", "outputs") else _value(each) for name, each in event.items()}


def _outputs(outputs: list[Any]) -> list[Any]:
    """As many outputs as there is room for, and a sentence on the rest."""
    kept: list[Any] = []
    room = MAX_OUTPUTS
    for each in outputs:
        small = _output(each)
        room -= len(msgspec.json.encode(small))
        if room < 0:
            told = f"nbagent: {len(outputs) - len(kept):,} more outputs are not shown here.\n"
            return [*kept, {"output_type": "stream", "name": "stderr", "text": told}]
        kept.append(small)
    return kept


def _output(output: dict[str, Any]) -> dict[str, Any]:
    """An output without what is large in it: texts are cut, and of other MIME types their sizes are told."""
    data = output.get("data")
    if not isinstance(data, dict):
        return {name: _value(each) for name, each in output.items()}
    sizes = {mime: len(msgspec.json.encode(each)) for mime, each in data.items()}
    large = {mime: size for mime, size in sizes.items() if size > MAX_TEXT and not _is_plain(mime, data)}
    shown = {mime: _value(each) for mime, each in data.items() if mime not in large}
    if large:
        told = ", ".join(f"{mime} ({size_of(size)})" for mime, size in large.items())
        shown.setdefault("text/plain", f"[{told}]")
    metadata = {**(output.get("metadata") or {}), "nbagent": {"cut": large}}
    return {**output, "data": shown, "metadata": metadata}


def _is_plain(mime: str, data: dict[str, Any]) -> bool:
    return mime == "text/plain" and isinstance(data[mime], str)


def _value(value: Any) -> Any:
    """A value whose texts are cut; one that has too many parts for that is left out."""
    if isinstance(value, str):
        return ends(value, head=MAX_TEXT // 2, tail=MAX_TEXT // 2)
    if isinstance(value, list | dict) and len(msgspec.json.encode(value)) > MAX_TEXT:
        return type(value)()
    return value
