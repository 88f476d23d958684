"""Events of the whole session: its start and end, its data, and what a person allows."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nbagent.core.events.base import Fact


class DataSeen(msgspec.Struct, frozen=True):
    """A file or folder that the sandbox sees read-only.

    Attributes:
        path: Its path in the sandbox, such as `/tmp/data/sales.csv`.
        source: Its absolute path on the host.
        size: Bytes; for a folder, of all its files.
    """

    path: str
    source: str
    size: int


class SessionStarted(Fact, frozen=True, kw_only=True):
    """An engine was chosen, and the kernel is up."""

    session: str
    engine: str
    trust: str
    environment: str
    """Digest of the image or of the kernel environment, `sha256:…`."""
    python: str
    nbagent: str
    data: list[DataSeen] = []
    sandbox: str = ""
    """The engine's name of the sandbox: of a container or a control group."""
    limits: dict[str, float | None] = {}
    """Each field of `limits.Limits`; None for no limit."""
    security: dict[str, Any] = {}
    """Each security option of `policy.Trust` by name."""
    accepted: list[str] = []
    """Limits that a person accepted as unenforced."""
    seconds: float = 0.0
    """Seconds from the start to the kernel's first answer."""


class SessionResumed(Fact, frozen=True, kw_only=True):
    """A session was resumed in another process.

    `kept` says whether its kernel was taken over with its variables; if not, `StateLost` follows.
    """

    kept: bool
    note: str
    engine: str = ""
    environment: str = ""
    """As in `SessionStarted`; a new kernel may have a newer one."""
    sandbox: str = ""


class Renamed(Fact, frozen=True, kw_only=True):
    """A person gave the session a title; an empty one removes it."""

    title: str


class SessionEnded(Fact, frozen=True, kw_only=True):
    """The sandbox was stopped on purpose."""

    reason: str = ""


class DataLeftOut(Fact, frozen=True, kw_only=True):
    """Something in the data is not shown to code: a link that leads out of it, a hidden name, a socket."""

    reason: str
    """Why, in words."""
    paths: list[str]
    """The first such paths, below /tmp/data."""
    total: int
    text: str
    """The whole as a sentence."""


class QuotaReached(Fact, frozen=True, kw_only=True):
    """The session's quota on the host's disk is used up: further output is cut, and files stay in the sandbox."""

    cell: int
    limit: int
    """Bytes."""


class HostAsked(Fact, frozen=True, kw_only=True):
    """Code wants to reach a host that isn't listed, and waits until a face answers by `id`."""

    id: str
    host: str
    port: int


class HostDecided(Fact, frozen=True, kw_only=True):
    """It was decided whether code may reach a host; one event for each host, port and answer, and for each question."""

    id: str = ""
    """The id of the `HostAsked` that this ends; empty if nobody was asked."""
    host: str
    """The host's name; if the request names none, what it says instead, quoted."""
    port: int
    allowed: bool
    by: Literal["list", "person", "policy"]
    reason: str = ""
    address: str = ""
    """The address to which the first connection led, or would have led."""


class ApprovalAsked(Fact, frozen=True, kw_only=True):
    """The model wants to do something that needs approval; the turn waits until a face answers by `id`."""

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
    """What else a person should know, such as the description of an MCP server's tool."""
    rules: list[str] = []
    """The rules that are added if a person allows this for the session; empty if that isn't possible."""


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
    """The approval mode from now on; before the first of these events, `never-ask`."""

    mode: str
    """One of `consent.Mode`."""


class RedactionSet(Fact, frozen=True, kw_only=True):
    """What is hidden from models from now on; before the first of these events, `secrets`."""

    what: str
    """One of `redaction.What`."""
