"""Events of the whole session: its start and end, its data, and what a person allows.

The session emits them, unless an event's own docstring names somebody else.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nbagent.core.events.base import Fact
from nbagent.core.events.packages import Package


class DataSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or folder that the sandbox sees read-only.

    Attributes:
        path: Its path in the sandbox, such as `/tmp/data/sales.csv`.
        source: Its absolute path on the host.
        size: Bytes; for a folder, of all its files.
        state: Digest of the sizes, times and inodes of its files at the start; empty in an old log, and of very many.
    """

    path: str
    source: str
    size: int
    state: str = ""


class ColumnType(msgspec.Struct, frozen=True):
    """A column of a table, and its type as Polars names it."""

    name: str
    dtype: str


class SessionStarted(Fact, frozen=True, kw_only=True):
    """A new session has an engine, and its kernel is up."""

    session: str
    engine: str
    trust: str
    environment: str
    """Digest of the image or of the kernel environment, `sha256:…`."""
    python: str
    nbagent: str
    data: list[DataSeen] = []
    plain_names: bool = False
    """Whether code finds the data by plain names, too."""
    sandbox: str = ""
    """The engine's name of the sandbox: of a container or a control group."""
    limits: dict[str, float | None] = {}
    """Each field of `limits.Limits`; None for no limit."""
    machine: dict[str, Any] = {}
    """The properties of the machine that can change a result, see `sandbox/machine/traits.py`; empty in an old log."""
    security: dict[str, Any] = {}
    """Each security option of `policy.Trust` by name."""
    accepted: list[str] = []
    """Limits that a person accepted as unenforced."""
    packages: list[Package] = []
    """What the kernel has from the start; empty in an old log."""
    seconds: float = 0.0
    """Seconds from the start to the kernel's first answer."""
    isolation: str = ""
    """Of a kernel that somebody else started, what keeps its code from this machine, in words; empty of others."""
    kernelspec: str = ""
    """The kernelspec that starts such a kernel; empty in an old log."""


class SessionResumed(Fact, frozen=True, kw_only=True):
    """A session was resumed by a new owner."""

    kept: bool
    """Whether its kernel was taken over, with its variables; if not, `StateLost` follows."""
    note: str
    """What was kept and what was lost, in sentences."""
    engine: str = ""
    environment: str = ""
    """As in `SessionStarted`; a new kernel may have a newer environment."""
    python: str = ""
    packages: list[Package] = []
    """Of a new kernel; empty of one that was kept."""
    sandbox: str = ""


class Renamed(Fact, frozen=True, kw_only=True):
    """A person gave the session a title, or removed it with an empty one."""

    title: str


class SessionEnded(Fact, frozen=True, kw_only=True):
    """The sandbox was stopped on purpose."""

    reason: str = ""


class DataLeftOut(Fact, frozen=True, kw_only=True):
    """Parts of the data are not shown to code: links that lead out of it, hidden names, sockets.

    The sandbox emits it.
    """

    reason: str
    """Why, in words."""
    paths: list[str]
    """The first such paths, below /tmp/data."""
    total: int
    """The number of all such paths."""
    text: str
    """All of this in a sentence."""


class DataHashed(Fact, frozen=True, kw_only=True):
    """The data was hashed, as it was at the session's start; or a variable that was uploaded. Cells may run already."""

    hashes: dict[str, str]
    """The SHA-256 by path in the sandbox; without what is too large, or was changed meanwhile."""


class DataDescribed(Fact, frozen=True, kw_only=True):
    """The columns of the data were read, inside of the sandbox: what this says is as untrusted as the data."""

    schemas: dict[str, list[ColumnType]]
    """The columns of each table, by its path in the sandbox."""


class QuotaReached(Fact, frozen=True, kw_only=True):
    """The session's quota on the host's disk was used up: further output is cut, and files stay in the sandbox.

    The log emits it, once.
    """

    cell: int
    limit: int
    """Bytes."""


class HostAsked(Fact, frozen=True, kw_only=True):
    """Code asked for a host that isn't listed, and waits until a face answers by `id`. The kernel emits it."""

    id: str
    host: str
    port: int


class HostDecided(Fact, frozen=True, kw_only=True):
    """It was decided whether code may reach a host; the proxy emits one event for each host, port and answer.

    Each `HostAsked` is followed by one of these, too.
    """

    id: str = ""
    """The id of the `HostAsked` that this ends; empty if nobody was asked."""
    host: str
    """The host's name; if the request has no valid name, its words, quoted."""
    port: int
    allowed: bool
    by: Literal["list", "person", "policy"]
    reason: str = ""
    address: str = ""
    """The address to which the first connection led, or would have led."""


class ApprovalAsked(Fact, frozen=True, kw_only=True):
    """The model asked to do something that needs approval; the turn waits until a face answers by `id`.

    `Consent` emits this event, `ApprovalGiven` and `ApprovalsSet`.
    """

    id: str
    turn: int
    kind: str
    """`cell`, `shell`, `edit`, `install`, `mcp`, `tool` or `budget`."""
    tool: str
    """The model's name of the tool that does it."""
    what: str
    """The action in one line."""
    code: str = ""
    """The whole code that will run."""
    packages: list[str] = []
    """For an install, each package with its version."""
    note: str = ""
    """Further information for the person, such as the description of an MCP server's tool."""
    rules: list[str] = []
    """The rules that are added if the person allows this for the session; empty if that isn't possible."""
    allows: str = ""
    """What these rules allow, as a person says it."""


Decision = Literal["approve", "edit", "reject"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question whether the model may do something.

    Attributes:
        decision: `edit` approves other code than was asked about.
        by: `person`, or `policy:NAME` if no person was asked.
        code: For `edit`, the code that runs instead.
        reason: For `reject`, why.
        rules: What is allowed for the rest of the session from now on.
    """

    decision: Decision
    by: str
    code: str = ""
    reason: str = ""
    rules: list[str] = []

    @property
    def granted(self) -> bool:
        """Whether the action may happen, edited or not."""
        return self.decision != "reject"


class ApprovalGiven(Approval, Fact, frozen=True, kw_only=True):
    """A question was answered, by a person or by the policy for when nobody is there."""

    id: str
    turn: int


class ApprovalsSet(Fact, frozen=True, kw_only=True):
    """The approval mode was set. Before the first of these events it is `never-ask`."""

    mode: str
    """A `approvals.Mode`."""


class RedactionSet(Fact, frozen=True, kw_only=True):
    """It was set what is hidden from models. Before the first of these events, that is `secrets`."""

    what: str
    """A `redaction.What`."""
