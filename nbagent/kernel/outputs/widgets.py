"""Widgets: comm messages in, the widget state of a notebook's metadata out. Pure, as `outputs` is.

The protocol is version 2 of ipywidgets' messages; the state is what `@jupyter-widgets/html-manager` reads.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from nbagent.kernel.outputs.displays import DisplayIndex
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.mime import MIB, clean, clean_within
from nbagent.kernel.outputs.outputs import CellOutputs, Message, parts

_TARGET: Final = "jupyter.widget"
_COMM: Final = frozenset({"comm_open", "comm_msg", "comm_close"})
_OUTPUT: Final = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})
_CAPTURES: Final = 32
"""Output widgets that capture. Those opened later don't: what is printed in them shows in the cell."""
_CAPTURED: Final = OutputLimits(
    stream_head=64 * 1024, stream_tail=64 * 1024, stream_total=MIB, streams=100, displays=100, display_total=MIB
)
_CLOSED: Final = 1_000
"""Models that are remembered after they were closed."""
_CLOSED_ROOM: Final = 4 * MIB
"""Characters of all of these."""
_NAME: Final = 200
"""Characters of a model's or an attribute's name."""
_ENTRY: Final = 256
"""Characters that an attribute or a buffer costs besides its data."""
_GONE: Final = object()
_POISON: Final = frozenset({"__proto__", "constructor", "prototype"})
"""A buffer's path is walked by JavaScript, where these lead out of the state."""


class WidgetTracker:
    """The ipywidgets models of a kernel that are open.

    Output widgets capture what is displayed in them, as a front end lets them do: offer every IOPub message to `add`
    first, and only those that it doesn't take to `CellOutputs.add`.

    Args:
        displays: The session's, for outputs that are captured.
        limit: Characters of all state and buffers together; a value that doesn't fit leaves the former one.
        count: Models.

    Attributes:
        ignored: Comm messages that concern no widget, or are beyond repair, or values that don't fit.
    """

    def __init__(self, *, displays: DisplayIndex, limit: int = 32 * MIB, count: int = 10_000) -> None:
        self.ignored = 0
        self._displays = displays
        self._room = limit
        self._count = count
        self._models: dict[str, _Model] = {}
        self._closed: dict[str, _Model] = {}
        self._closed_room = _CLOSED_ROOM
        self._capturing: dict[str, list[CellOutputs]] = {}

    def add(self, message: Message) -> bool:
        """Take a message in if it concerns widgets; return whether it did. Never raises for a message."""
        kind, content = parts(message)
        if kind in _COMM:
            model_id = content.get("comm_id")
            if isinstance(model_id, str) and len(model_id) <= _NAME:
                self._comm(kind, clean(model_id), content, message.get("buffers"))
            else:
                self.ignored += 1
            return True
        if not self._capturing or kind not in _OUTPUT:
            return False
        parent = message.get("parent_header")
        stack = self._capturing.get(parent.get("msg_id", "")) if isinstance(parent, dict) else None
        if not stack:
            return False
        stack[-1].add(message)
        return True

    def state(self) -> dict[str, Any]:
        """The value of `metadata.widgets["application/vnd.jupyter.widget-state+json"]` in a notebook."""
        models = {model_id: model.state() for model_id, model in self._models.items()}
        return {"version_major": 2, "version_minor": 0, "state": models}

    def closed(self) -> dict[str, Any]:
        """The models that were closed, by their names, as `state` has open ones: nbclient keeps both."""
        return {model_id: model.state() for model_id, model in self._closed.items() if model_id not in self._models}

    def _comm(self, kind: str, model_id: str, content: dict[str, Any], buffers: object) -> None:
        model = self._models.get(model_id)
        if kind == "comm_open":
            self._open(model_id, content, buffers)
        elif model is None:
            self.ignored += 1
        elif kind == "comm_close":
            self._close(model_id, model)
        else:
            # `update` and `echo_update` carry state; a `custom` message is for a front end that is alive.
            self._merge(model, content, buffers)

    def _open(self, model_id: str, content: dict[str, Any], buffers: object) -> None:
        names = _names(content)
        if content.get("target_name") != _TARGET or names is None:
            self.ignored += 1
            return
        former = self._models.get(model_id)
        if former is not None:
            self._close(model_id, former)
        if len(self._models) >= self._count:
            self.ignored += 1
            return
        model = _Model(names)
        if names[:2] == ("OutputModel", "@jupyter-widgets/output"):
            capturing = sum(other.captured is not None for other in self._models.values())
            if capturing < _CAPTURES:
                model.captured = CellOutputs(displays=self._displays, limits=_CAPTURED)
        self._models[model_id] = model
        self._merge(model, content, buffers)

    def _close(self, model_id: str, model: _Model) -> None:
        del self._models[model_id]
        self._room += model.size
        if model.captured is not None:
            self._capture(model.captured, None)
            if (part := _part(model.captured.outputs(), [], _CLOSED_ROOM)) is not None:
                model.parts["outputs"] = part
            model.captured = None
        if former := self._closed.pop(model_id, None):
            self._closed_room += former.size
        self._closed[model_id] = model
        self._closed_room -= model.size
        while len(self._closed) > _CLOSED or self._closed_room < 0:
            self._closed_room += self._closed.pop(next(iter(self._closed))).size

    def _merge(self, model: _Model, content: dict[str, Any], buffers: object) -> None:
        data = content.get("data")
        state = data.get("state") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(state, dict):
            return
        if model.captured is not None:
            state = self._output_state(model.captured, dict(state))
        binary = _binary(data.get("buffer_paths"), buffers)
        for key in [*state, *(key for key in binary if key not in state)]:
            part = None
            if isinstance(key, str) and len(key) <= _NAME:
                former = model.parts.get(clean(key))
                room = self._room + (former.size if former else 0)
                part = _part(state.get(key, _GONE), binary.get(key, []), room)
            if part is None:
                self.ignored += 1
                continue
            model.parts[clean(key)] = part
            self._room = room - part.size

    def _output_state(self, captured: CellOutputs, state: dict[str, Any]) -> dict[str, Any]:
        """Act on what an Output widget says of itself; return its state without the outputs, which we keep."""
        if "msg_id" in state:
            self._capture(captured, state["msg_id"])
        outputs = state.pop("outputs", None)
        if isinstance(outputs, (list, tuple)):
            captured.add({"header": {"msg_type": "clear_output"}, "content": {}})
            for output in outputs:
                kind = output.get("output_type") if isinstance(output, dict) else None
                captured.add({"header": {"msg_type": kind}, "content": output})
        return state

    def _capture(self, captured: CellOutputs, msg_id: object) -> None:
        """Let an Output widget have the outputs of a request; of none if `msg_id` is empty."""
        for parent in [parent for parent, stack in self._capturing.items() if captured in stack]:
            self._capturing[parent].remove(captured)
            if not self._capturing[parent]:
                del self._capturing[parent]
        if isinstance(msg_id, str) and msg_id:
            self._capturing.setdefault(msg_id, []).append(captured)


@dataclass(frozen=True, slots=True)
class _Part:
    """One attribute of a model: its JSON value, or `_GONE` if a buffer takes its place, and its buffers."""

    value: Any
    buffers: list[dict[str, Any]]
    size: int


@dataclass(slots=True, eq=False)
class _Model:
    names: tuple[str, str, str]
    parts: dict[str, _Part] = field(default_factory=dict)
    captured: CellOutputs | None = None
    """What an Output widget shows."""

    @property
    def size(self) -> int:
        """Characters of its state and buffers."""
        return sum(part.size for part in self.parts.values())

    def state(self) -> dict[str, Any]:
        name, module, version = self.names
        state = {key: part.value for key, part in self.parts.items() if part.value is not _GONE}
        if self.captured is not None:
            state["outputs"] = self.captured.outputs()
        result = {"model_name": name, "model_module": module, "model_module_version": version, "state": state}
        buffers = [buffer for part in self.parts.values() for buffer in part.buffers]
        return {**result, "buffers": buffers} if buffers else result


def _names(content: dict[str, Any]) -> tuple[str, str, str] | None:
    """The model's name, module and version as `comm_open` gives them; None if it doesn't."""
    data = content.get("data")
    state = data.get("state") if isinstance(data, dict) else None
    if not isinstance(state, dict):
        return None
    names = [state.get(key) for key in ("_model_name", "_model_module", "_model_module_version")]
    name, module, version = (clean(name[:_NAME]) if isinstance(name, str) else None for name in names)
    return None if name is None or module is None or version is None else (name, module, version)


def _binary(paths: object, buffers: object) -> dict[str, list[tuple[list[Any], memoryview]]]:
    """The buffers of a message with their paths, by the attribute that they belong to."""
    result: dict[str, list[tuple[list[Any], memoryview]]] = {}
    if not isinstance(paths, list) or not isinstance(buffers, list):
        return result
    for path, buffer in zip(paths, buffers, strict=False):
        honest = isinstance(path, list) and path and all(type(step) in {str, int} for step in path)
        if honest and isinstance(path[0], str) and isinstance(buffer, (bytes, bytearray, memoryview)):
            result.setdefault(path[0], []).append((clean(path), memoryview(buffer)))
    return result


def _part(value: object, binary: Iterable[tuple[list[Any], memoryview]], room: int) -> _Part | None:
    """An attribute, cleaned, with those buffers that have a place in it; None if it is larger than `room`."""
    kept = (_GONE, 0) if value is _GONE else clean_within(value, room)
    if kept is None:
        return None
    value, size = kept
    buffers = []
    for path, buffer in binary:
        if not _leads(path, value):
            continue
        size += buffer.nbytes * 4 // 3 + _ENTRY
        if size > room:
            return None
        buffers.append({"encoding": "base64", "path": path, "data": base64.b64encode(bytes(buffer)).decode("ascii")})
        if len(path) == 1:
            value = _GONE
    if value is _GONE and not buffers:
        return None
    return _Part(value, buffers, size + _ENTRY)


def _leads(path: list[Any], value: object) -> bool:
    """Whether a path of keys and indexes leads into `value`, so that a front end can put a buffer there."""
    for depth, step in enumerate(path[1:], start=2):
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step) if depth < len(path) else value
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return False
    return _POISON.isdisjoint(path)
