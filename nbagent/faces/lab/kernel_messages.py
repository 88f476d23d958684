"""What a page hears of a sandboxed kernel: messages that are made anew of what was understood. Pure.

JupyterLab trusts a kernel: it runs scripts in what a cell shows that was run, writes cells that a reply names, makes
links in its menus, has models of widgets run, and saves in the notebook which module an export imports. So nothing is
passed on but the kinds of messages below with the fields that are named here; what cells show is cleaned as in exports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from nbagent.core.events import to_json
from nbagent.core.policy import MIB
from nbagent.safety.sanitize import PLOTLY, clean_for_page, language_info
from nbagent.sandbox.untrusted import MAX_DIGITS, UnreadableError, parse

MAX_BYTES: Final = 32 * MIB
"""The largest content of a message; nbagent's kernels cut what they show long before."""
MAX_HEADER_BYTES: Final = 64 * 1024
"""The largest header, or metadata, of a message."""
SETTING: Final = "Trust what sandboxed kernels show"
"""The title of the setting by which all is passed on as it is."""
PASSED: Final = f'To draw it with all your rights: "{SETTING}" in Settings.'
_FIGURE: Final = (
    "<p><em>Plotly is in the sandbox, and JupyterLab has none to draw this figure with: "
    "<code>pip install plotly</code> in JupyterLab's environment, and start it again.</em></p>"
)
_LOADER: Final = re.compile(r"\s*<script[^>]*>\s*window\.PlotlyConfig\b")
"""What Plotly shows once, before its first figure: a script, of which nothing is seen."""
_STILL: Final = ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds of which no renderer makes more than text or a picture."""


class Header(Struct):
    """Whose message it is."""

    msg_id: str = ""
    msg_type: str = ""
    username: str = ""
    session: str = ""
    date: str | UnsetType = UNSET
    version: str = ""
    subshell_id: str | UnsetType | None = UNSET


class Timing(Struct):
    """When a cell began."""

    started: str | UnsetType = UNSET


class Content(Struct):
    """The content of a message; fields that it does not name are not passed on."""

    def passed(self) -> Any:
        """What is passed on; None for nothing."""
        return self


class Stream(Content):
    name: Literal["stdout", "stderr"]
    text: str


class Transient(Struct):
    display_id: str | UnsetType = UNSET


class Display(Content):
    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    transient: Transient = field(default_factory=Transient)
    execution_count: int | UnsetType | None = UNSET

    def passed(self) -> Any:
        """The content with what loads and runs nothing, and a note on the rest."""
        if _LOADER.match(str(self.data.get("text/html", ""))):
            return None
        given = {"output_type": "display_data", "data": self.data, "metadata": self.metadata}
        shown = clean_for_page(given, rest=PASSED)
        if PLOTLY in shown["data"]:
            shown["data"]["text/html"] = _FIGURE  # drawn by whoever can't draw the figure
        return msgspec.structs.replace(self, data=shown["data"], metadata=shown["metadata"])


class Error(Content):
    ename: str
    evalue: str
    traceback: list[str]


class Status(Content):
    """Of a kernel that has died or restarts the server speaks itself: a page connects anew at each such word."""

    execution_state: Literal["starting", "busy", "idle"]


class Cleared(Content):
    wait: bool = False


class Input(Content):
    code: str
    execution_count: int | None = None


class Welcome(Content):
    subscription: str = ""


class DebugEvent(Content):
    seq: int = 0
    type: Literal["event"] = "event"
    event: str = ""
    body: dict[str, Any] = {}


class Asked(Content):
    prompt: str = ""
    password: bool = False


class Reply(Content):
    status: str = "ok"
    ename: str | UnsetType = UNSET
    evalue: str | UnsetType = UNSET
    traceback: list[str] | UnsetType = UNSET


class Expression(Struct):
    status: str = "ok"
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class Executed(Reply):
    execution_count: int | UnsetType | None = UNSET
    user_expressions: dict[str, Expression] = {}

    def passed(self) -> Any:
        """The reply without its payload, by which a kernel writes cells and opens pagers."""
        found = {name: Expression(each.status, _still(each.data)) for name, each in self.user_expressions.items()}
        return msgspec.structs.replace(self, user_expressions=found)


class Inspected(Reply):
    found: bool = False
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    def passed(self) -> Any:
        """The reply with text and pictures, which JupyterLab draws as what it trusts."""
        return msgspec.structs.replace(self, data=_still(self.data), metadata={})


class Completion(Struct):
    start: int
    end: int
    text: str
    type: str = ""
    signature: str = ""


class Completions(Struct):
    kinds: list[Completion] | UnsetType = field(default=UNSET, name="_jupyter_types_experimental")


class Completed(Reply):
    matches: list[str] = []
    cursor_start: int = 0
    cursor_end: int = 0
    metadata: Completions = field(default_factory=Completions)


class History(Reply):
    history: list[tuple[int, int, str | tuple[str, str | None]]] = []


class Complete(Reply):
    indent: str | UnsetType = UNSET


class Comms(Reply):
    comms: dict[str, Any] = {}

    def passed(self) -> Any:
        """None of its comms: models of widgets run scripts before anything is shown."""
        return msgspec.structs.replace(self, comms={})


class Introduced(Reply):
    protocol_version: str = ""
    implementation: str = ""
    implementation_version: str = ""
    banner: str = ""
    debugger: bool = False
    supported_features: list[str] = []
    language_info: Any = None
    help_links: list[Any] = []

    def passed(self) -> Any:
        """The reply without links for a menu."""
        return msgspec.structs.replace(self, language_info=language_info(self.language_info), help_links=[])


class Debugged(Content):
    type: Literal["response"] = "response"
    request_seq: int = 0
    seq: int | UnsetType = UNSET
    success: bool | UnsetType = UNSET
    command: str | UnsetType = UNSET
    message: str | UnsetType | None = UNSET
    body: Any = UNSET

    def passed(self) -> Any:
        """The reply; a variable's bundle has text and pictures only."""
        body = self.body
        if isinstance(body, dict) and "data" in body:
            body = {**body, "data": _still(body["data"]), "metadata": {}}
        return msgspec.structs.replace(self, body=body)


class Shut(Reply):
    restart: bool = False


class Usage(Reply):
    hostname: str = ""
    pid: int = 0
    kernel_cpu: float = 0
    kernel_memory: float = 0
    cpu_count: int = 0
    host_cpu_percent: float = 0
    host_virtual_memory: dict[str, float] = {}


class Subshell(Reply):
    subshell_id: str | list[str] | UnsetType | None = UNSET


KINDS: Final[dict[tuple[str, str], type[Content]]] = {
    ("iopub", "stream"): Stream,
    ("iopub", "display_data"): Display,
    ("iopub", "update_display_data"): Display,
    ("iopub", "execute_result"): Display,
    ("iopub", "error"): Error,
    ("iopub", "status"): Status,
    ("iopub", "clear_output"): Cleared,
    ("iopub", "execute_input"): Input,
    ("iopub", "debug_event"): DebugEvent,
    ("iopub", "iopub_welcome"): Welcome,
    ("iopub", "shutdown_reply"): Shut,
    ("stdin", "input_request"): Asked,
    ("shell", "execute_reply"): Executed,
    ("shell", "inspect_reply"): Inspected,
    ("shell", "complete_reply"): Completed,
    ("shell", "history_reply"): History,
    ("shell", "is_complete_reply"): Complete,
    ("shell", "comm_info_reply"): Comms,
    ("shell", "kernel_info_reply"): Introduced,
    ("control", "kernel_info_reply"): Introduced,
    ("control", "debug_reply"): Debugged,
    ("control", "interrupt_reply"): Reply,
    ("control", "shutdown_reply"): Shut,
    ("control", "usage_reply"): Usage,
    ("control", "create_subshell_reply"): Subshell,
    ("control", "delete_subshell_reply"): Subshell,
    ("control", "list_subshell_reply"): Subshell,
}
"""The content of each kind of message, by its channel."""


def passed_on(channel: str, parts: Sequence[bytes]) -> list[bytes] | None:
    """A message of a channel as a page may hear it; None if there is nothing to be heard.

    Its parts are header, parent header, metadata and content in JSON. What follows them, buffers, is not passed on.
    """
    try:
        header, parent = (parse(parts[at], Header, limit=MAX_HEADER_BYTES) for at in (0, 1))
        timing = parse(parts[2], Timing, limit=MAX_HEADER_BYTES)
        if (kind := KINDS.get((channel, header.msg_type))) is None:
            return None
        said = parse(parts[3], kind, limit=MAX_BYTES, digits=MAX_DIGITS).passed()
    except (UnreadableError, IndexError):
        return None
    # A message that nobody asked for has an empty one.
    asked: Header | dict[str, str] = parent if parent.msg_id else {}
    return None if said is None else [to_json(each) for each in (header, asked, timing, said)]


def _still(data: Any) -> dict[str, str]:
    found = data if isinstance(data, dict) else {}
    return {mime: each for mime, each in found.items() if mime in _STILL and isinstance(each, str)}
