"""The bodies of requests and of replies, but for those of jobs, which `job_messages.py` has.

`channel_messages.py` has what goes over a session's WebSocket. `.ci/panel_types.py` makes `panel/src/events.ts` of
these three and of the events.
"""

from __future__ import annotations

import msgspec

from nbagent.core.errors import NbagentError
from nbagent.session.catalog.session_list import SessionInfo, State
from nbagent.session.manager import SearchHit

PROTOCOL = 1
"""The number of this protocol; a page of another number says that one of the two is older."""


class Refusal(msgspec.Struct, frozen=True):
    """The reply to a request that is refused, with the HTTP status that says of what kind it is.

    Attributes:
        message: What is wrong.
        mend: What can be done about it.
        kind: The error's class in `nbagent.core.errors`; empty if it is none of these.
    """

    message: str
    mend: str = ""
    kind: str = ""

    @classmethod
    def of(cls, error: NbagentError) -> Refusal:
        """The refusal that an error is the reason of."""
        return cls(error.message, error.mend, type(error).__name__)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a page needs to know of this server first.

    Attributes:
        version: Of nbagent.
        protocol: See `PROTOCOL`.
        model: The model of new sessions; None if it is found by itself.
        trust: Their trust level.
        engine: Their engine; None if it is chosen by itself.
        approvals: What the person is asked about in them.
        budget: What a question in them may use, in words.
        lists_hosts: Whether hosts are listed that they may reach: then the person is asked about others.
        max_upload_mb: MiB of the largest file that can be uploaded.
        problem: What is wrong with the person's settings; empty if nothing is.
        making: What is being made for a first kernel, and how far that is; empty if nothing is.
    """

    version: str
    protocol: int = PROTOCOL
    model: str | None = None
    trust: str = "isolated"
    engine: str | None = None
    approvals: str = "never-ask"
    budget: str = ""
    lists_hosts: bool = False
    max_upload_mb: int = 0
    problem: str = ""
    making: str = ""


class Loss(msgspec.Struct, frozen=True):
    """How a kernel ended last, as the rest of a sentence about it; empty if it runs its first."""

    loss: str


class EngineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An engine.

    Attributes:
        starts: Whether it would start a sandbox here, at the trust level of new sessions.
        chosen: Whether it is the one that new sessions get.
        kernel: What its sandboxes run on, such as the host's kernel.
        why_not: Why it would not start one.
        mend: What can be done about it.
    """

    name: str
    starts: bool
    chosen: bool
    kernel: str = ""
    why_not: str = ""
    mend: str = ""


class EngineList(msgspec.Struct, frozen=True):
    """The engines of this machine."""

    engines: list[EngineEntry]


class ModelProvider(msgspec.Struct, frozen=True):
    """A provider of models.

    Attributes:
        key: The environment variable that has its key; empty if none has.
        problem: Why it has no models here; empty if it has.
    """

    name: str
    key: str = ""
    problem: str = ""


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """Models that can be named.

    Attributes:
        models: At most as many as were asked for, of those that have all words of the search in their names.
        total: How many have.
        default: The model that is meant if none is named; None if there is none.
    """

    models: list[str]
    total: int
    default: str | None
    providers: list[ModelProvider]


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list; the times are seconds since the epoch."""

    id: str
    title: str
    state: State
    started: float
    changed: float
    engine: str
    trust: str
    questions: int
    cells: int
    tokens: int
    cost: float | None

    @classmethod
    def of(cls, info: SessionInfo) -> SessionEntry:
        """The entry of a session, which says nothing of where it is on the host."""
        return cls(**{name: getattr(info, name) for name in cls.__struct_fields__})


class SessionList(msgspec.Struct, frozen=True):
    """The sessions of this person, the latest first.

    Attributes:
        sessions: At most as many as were asked for.
        total: How many there are.
    """

    sessions: list[SessionEntry]
    total: int


class FoundText(msgspec.Struct, frozen=True, kw_only=True):
    """A session in which something was found; see `nbagent.session.manager.SearchHit`."""

    session: SessionEntry
    turn: int
    where: str
    text: str

    @classmethod
    def of(cls, hit: SearchHit) -> FoundText:
        """The same, with the session as in a list."""
        return cls(session=SessionEntry.of(hit.session), turn=hit.turn, where=hit.where, text=hit.text)


class FoundTexts(msgspec.Struct, frozen=True):
    """The result of a search; `is_whole` says whether all sessions were searched."""

    hits: list[FoundText]
    is_whole: bool


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a page may say of a new session; see `nbagent.core.options` for each. None for what the settings say."""

    model: str | None = None
    trust: str | None = None
    engine: str | None = None
    approvals: str | None = None
    allow: list[str] | None = None
    unattended: str | None = None
    data: list[str] | None = None
    """Paths below the server's root folder."""
    timeout: float | None = None
    memory_mb: int | None = None
    accept: list[str] | None = None
    budget: str | None = None
    allow_hosts: list[str] | None = None
    ask_hosts: bool | None = None
    install: bool | None = None
    restore: str | None = None
    replies: str | None = None
    fallback: list[str] | None = None
    critic: str | None = None
    redact: str | None = None
    forge: bool | None = None
    keep_minutes: float | None = None
    kernel: str | None = None
    """The id of a kernel of this server that the session is to join, such as that of the open notebook."""
    demo: bool = False
    """Whether it is the demo, which has its own data and recorded replies."""


class Created(msgspec.Struct, frozen=True):
    """A session that was started; `question` is the one that the demo's recorded replies answer."""

    id: str
    question: str = ""


class NewTitle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another title for a session; an empty one stands for its first question."""

    title: str


class UploadedFile(msgspec.Struct, frozen=True):
    """A file that is in the sandbox now; its size is in bytes, `unpacked` the number of files it was unpacked to."""

    path: str
    size: int
    sha256: str
    unpacked: int = 0


class FileEntry(msgspec.Struct, frozen=True):
    """A file or folder in the sandbox; `modified` is in seconds since the epoch, `size` in bytes."""

    path: str
    kind: str
    size: int
    modified: float


class ArtifactEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file that reached the host, or a figure; see `nbagent.state.Artifact`."""

    id: str
    name: str
    content_type: str
    size: int
    sha256: str
    created: float
    cell: int


class FileList(msgspec.Struct, frozen=True):
    """The files of a session.

    Attributes:
        files: Those in the sandbox, if it runs; a long list is cut.
        total: How many there are.
        artifacts: Those that reached the host, and figures.
        is_running: Whether the sandbox could be asked.
    """

    files: list[FileEntry]
    total: int
    artifacts: list[ArtifactEntry]
    is_running: bool
