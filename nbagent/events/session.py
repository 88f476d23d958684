"""A session as a whole: its beginning and end, what it sees, and what a person lets it do."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nbagent.events.base import Fact


class DataSeen(msgspec.Struct, frozen=True):
    """A file or folder that the sandbox sees read-only.

    Attributes:
        path: Where the sandbox sees it, for example `/tmp/data/sales.csv`.
        source: Where it lies on the host, absolute.
        size: Bytes, the sum of its files for a folder.
    """

    path: str
    source: str
    size: int


class SessionStarted(Fact, frozen=True, kw_only=True):
    """A sandbox was chosen and its kernel is up."""

    session: str
    engine: str
    trust: str
    environment: str
    """Digest of the image or of the kernel environment, `sha256:…`."""
    python: str
    nbagent: str
    data: list[DataSeen] = []
    sandbox: str = ""
    """What the engine calls it: a container's name, or a control group's."""
    limits: dict[str, float | None] = {}
    """Each bound of `policy.Limits` by name; None for one that there is not."""
    security: dict[str, Any] = {}
    """Each security option of `policy.Trust` by name."""
    accepted: list[str] = []
    """Limits that may stay unenforced, because a person said so."""
    seconds: float = 0.0
    """From the start's beginning to the kernel's first answer."""


class SessionResumed(Fact, frozen=True, kw_only=True):
    """A session whose process had ended goes on in another one.

    `kept` tells whether its kernel was taken over with its variables; if not, `StateLost` follows.
    """

    kept: bool
    note: str
    engine: str = ""
    environment: str = ""
    """As of `SessionStarted`; a new kernel may be made of something newer."""
    sandbox: str = ""


class Renamed(Fact, frozen=True, kw_only=True):
    """A person gave the session another title; an empty one stands for none."""

    title: str


class SessionEnded(Fact, frozen=True, kw_only=True):
    """The sandbox was stopped on purpose."""

    reason: str = ""


class DataLeftOut(Fact, frozen=True, kw_only=True):
    """Something in the data is not shown to code: a link that leads out of it, a hidden name, a socket."""

    reason: str
    """What it is, in words."""
    paths: list[str]
    """The first of them, below /tmp/data."""
    total: int
    text: str
    """All of it as a sentence."""


class QuotaReached(Fact, frozen=True, kw_only=True):
    """What the session may keep on the host's disk is used up: further output is cut, and files stay in the sandbox."""

    cell: int
    limit: int
    """Bytes."""


class HostAsked(Fact, frozen=True, kw_only=True):
    """Code wants to reach a host that isn't listed; a face may answer by `id`, and until then the code waits."""

    id: str
    host: str
    port: int


class HostDecided(Fact, frozen=True, kw_only=True):
    """Whether code may reach a host; told once for each host, port and answer."""

    host: str
    """Its name; for a request that names none, what it says instead, quoted."""
    port: int
    allowed: bool
    by: Literal["list", "person", "policy"]
    reason: str = ""
    address: str = ""
    """Where the first connection led, or would have led."""


class ApprovalAsked(Fact, frozen=True, kw_only=True):
    """The model wants to do something that a person must allow; a face may answer by `id`, and the turn waits."""

    id: str
    turn: int
    kind: str
    """`cell`, `shell`, `edit`, `install`, `mcp`, `tool` or `budget`."""
    tool: str
    """What does it, by the name that the model calls it."""
    what: str
    """What it is about, in one line."""
    code: str = ""
    """What will run, whole."""
    packages: list[str] = []
    """For an install, each package with its version."""
    note: str = ""
    """What else a person should know, such as what a tool of an MCP server says of itself."""
    rules: list[str] = []
    """What is allowed for the rest of the session by who allows this for it; empty where that can't be."""


class ApprovalGiven(Fact, frozen=True, kw_only=True):
    """A question was answered."""

    id: str
    turn: int
    decision: Literal["approve", "edit", "reject"]
    by: str
    """`person`, or `policy:NAME` where nobody was there."""
    code: str = ""
    """What runs instead, if it was edited."""
    reason: str = ""


class ApprovalsSet(Fact, frozen=True, kw_only=True):
    """What a person is asked about from now on; before the first of these it was nothing."""

    mode: str
    """One of `consent.Mode`."""


class RedactionSet(Fact, frozen=True, kw_only=True):
    """What is hidden in what goes to models from now on; before the first of these it was `secrets`."""

    what: str
    """One of `redaction.What`."""
