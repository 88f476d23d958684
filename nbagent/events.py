"""What happens in a session, as frozen facts.

Each fact is written to the session's append-only log before anyone shows it (`store.Journal`), wrapped in a `Record`
that carries its sequence number and time. The log is the truth; notebooks, terminals and panels are views of it.

Outputs are nbformat 4 outputs as plain dicts: `{"output_type": "stream" | "display_data" | "execute_result" | "error",
…}`, safe to write into a notebook as they are.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Output = dict[str, Any]
"""One nbformat 4 output."""

CellStatus = Literal["ok", "error", "timeout", "interrupted", "died"]
"""How a cell ended: `timeout` and `interrupted` were stopped, `died` took the kernel with it."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all events."""


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


class Package(msgspec.Struct, frozen=True):
    """A distribution that was installed for a session.

    Attributes:
        name: The distribution's normalised name, for example `opencv-python-headless`.
        version: Its exact version.
        sha256: The hash of the wheel that was installed, in hexadecimal.
        requested: Whether it was asked for itself, or came as a dependency.
    """

    name: str
    version: str
    sha256: str
    requested: bool = True


class FileSeen(msgspec.Struct, frozen=True):
    """A file in the sandbox.

    Attributes:
        path: Where code has it, for example `/workspace/model.pkl`; signs that mislead a reader are replaced.
        size: Bytes.
    """

    path: str
    size: int


class FileLeft(msgspec.Struct, frozen=True):
    """A file that a cell left for the person, and that did not reach them.

    Attributes:
        path: Where code has it; signs that mislead a reader are replaced.
        why: Why not, in words that go on a sentence.
    """

    path: str
    why: str


class Claim(msgspec.Struct, frozen=True):
    """A number in an answer, and where it comes from.

    Attributes:
        text: The number, as the answer has it.
        cell: The cell whose output shows it; 0 if none does.
        output: Which of that cell's outputs, from 0; -1 if none.
        shown: How it stands there, for example `12.3456` for a claim of `12.3`.
    """

    text: str
    cell: int = 0
    output: int = -1
    shown: str = ""

    @property
    def supported(self) -> bool:
        """Whether an output shows it."""
        return self.cell > 0


class Usage(msgspec.Struct, frozen=True):
    """What the model used, in tokens, and in how many calls.

    Attributes:
        input_tokens: All that were read, those from a cache too.
        output_tokens: All that were written, those of its thinking too.
        calls: Replies that were asked for.
        cached_tokens: Of the input, what the provider had kept from an earlier call, which costs less.
        cost: US dollars, by the price list; None where a price isn't known, which is not nothing.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        if NO_USAGE in (self, other):
            return other if self == NO_USAGE else self
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
            self.cached_tokens + other.cached_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


NO_USAGE = Usage()


class Piece(msgspec.Struct, frozen=True):
    """Something that was sent to a model.

    Attributes:
        source: What it is: `system prompt`, `data description`, `tools`, `question`, `reply` (the model's own, which
            goes with what comes after it), `note` (nbagent's words), `cell 3`, `figure of cell 3`, `tool NAME`.
        size: Bytes, of a text as UTF-8, of a picture as base64; without the JSON around it.
        sha256: Of these bytes, in hexadecimal.
        redacted: What was hidden in it before, each secret by its kind.
    """

    source: str
    size: int
    sha256: str
    redacted: list[str] = []


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


class Asked(Fact, frozen=True, kw_only=True):
    """A person asked a question; `turn` counts from 1."""

    turn: int
    question: str
    model: str = ""
    replay: bool = False


Phase = Literal["comprehension", "orchestration", "reasoning", "evaluation", "conversation"]
"""Of a question, see `phases.py`."""


class PhaseEntered(Fact, frozen=True, kw_only=True):
    """A question came into a phase."""

    turn: int
    phase: Phase
    told: str = ""
    """What is known there: data and needs, tools, the first cell, the numbers of the answer."""


class ModelReplied(Fact, frozen=True, kw_only=True):
    """One reply of the model: its words, and the tools that it calls by name."""

    turn: int
    text: str
    tools: list[str] = []
    usage: Usage = Usage()
    model: str = ""
    """Which one, if it was a fallback; empty for the model that was asked."""


UNSURE = 0.5
"""Confidence below which a person is told of it."""


class CodeGenerated(Fact, frozen=True, kw_only=True):
    """The model replied with code as a structured object; its dependencies are installed before it runs."""

    turn: int
    code: str
    dependencies: list[str] = []
    """What is installed for it, by names on the index."""
    reasoning: str = ""
    confidence: float
    """The model's own, from 0 to 1."""


class ModelFailed(Fact, frozen=True, kw_only=True):
    """A model was asked and gave no whole reply; it is asked again after `wait`, or not at all."""

    turn: int
    model: str
    reason: str
    """One sentence, as a person is told it."""
    usage: Usage = Usage()
    """What the attempt has cost, as far as the provider told it; `calls` is 0 if it told nothing."""
    wait: float | None = None
    """Seconds until the same model is asked again; None if it isn't in this question."""


class SentToModel(Fact, frozen=True, kw_only=True):
    """A model was asked: what left for it, and where to. Each attempt is told, also of one that failed."""

    turn: int
    model: str
    host: str
    """Whose address it went to; empty for recorded replies, which are asked nothing."""
    size: int
    """Bytes of all its pieces."""
    pieces: list[Piece]
    """Those that this host was not sent before."""
    again: int = 0
    """How many it was, by nbagent in this process: with each call goes the conversation so far."""
    purpose: Literal["answer", "critique"] = "answer"


class Reflected(Fact, frozen=True, kw_only=True):
    """The code of a reply failed, or replies did the same again and again, and this is what is done about it."""

    turn: int
    attempt: int
    """Replies in a row whose code failed, or that were the same."""
    state: Literal["critique", "retry", "gave up"]
    error: str
    """The end of what came of the last one."""
    critique: str = ""
    usage: Usage = Usage()
    """Of the critic's model."""


class CellStarted(Fact, frozen=True, kw_only=True):
    """A cell began to run; `cell` counts from 1 within the session, `turn` is 0 for a cell a person ran."""

    cell: int
    turn: int
    code: str
    tool: str = ""
    """What the model called, for example `python`; `person` for a cell without a model; empty in an old log."""
    approver: str = ""
    """Who let it run: `person`, or `policy:NAME` where a policy did."""


class CommandRun(Fact, frozen=True, kw_only=True):
    """A program was executed inside. `cell` is 0 between two cells, and `pid` is as the sandbox sees it."""

    cell: int
    argv: list[str]
    pid: int


class OutputAdded(Fact, frozen=True, kw_only=True):
    """An output as it arrived. For a stream it is only the new text: join them, or wait for `CellFinished`."""

    cell: int
    output: Output


class OutputUpdated(Fact, frozen=True, kw_only=True):
    """Every display that carries this `display_id`, in any cell, now shows this data.

    `cell` is the one that the message says it belongs to: a claim. What the controller saw itself is `during`.
    """

    cell: int
    display_id: str
    data: dict[str, Any]
    metadata: dict[str, Any] = {}
    during: int | None = None
    """The cell that ran when it came, 0 for none; None in an old log."""
    changed: list[int] = []
    """The cells but `during` whose output it changed: they had ended."""


class OutputsCleared(Fact, frozen=True, kw_only=True):
    """`clear_output()` took effect: what the cell showed so far is gone."""

    cell: int


class IndexAsked(Fact, frozen=True, kw_only=True):
    """The package index is asked for these names: what leaves the machine of a request for packages.

    What they depend on is asked for as well; that is their publishers' word, and no choice of the code's.
    """

    cell: int
    names: list[str]
    unknown: list[str] = []
    """Of these, those that few people use: they count, see `packages/allowance.py`."""


class PackagesInstalled(Fact, frozen=True, kw_only=True):
    """Packages were added to the session's site folder. `cell` is 0 outside of a cell."""

    cell: int
    packages: list[Package]
    reason: str = ""
    seconds: float = 0.0


class InstallFailed(Fact, frozen=True, kw_only=True):
    """Packages were asked for and not installed; the environment is as it was."""

    cell: int
    requirements: list[str]
    reason: str
    refused: bool = False
    seconds: float = 0.0


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


class CellFinished(Fact, frozen=True, kw_only=True):
    """A cell ended. `outputs` are whole (within the limits that the outputs themselves name) and final."""

    cell: int
    status: CellStatus
    outputs: list[Output]
    execution_count: int | None
    duration: float
    """Seconds on a monotonic clock, the re-run after an install included."""
    note: str = ""
    """What must be told beside the outputs: why it was stopped, what was cut."""
    display_ids: list[str] = []
    """For each output the name by which updates reach it, or an empty string; empty if there is no such name."""
    memory_peak: int | None = None
    """Bytes: the most that the sandbox has used at once since it was started; None where the engine can't tell."""
    memory_limit: int | None = None
    """Bytes."""
    exit_code: int | None = None
    """The kernel's, if it ended with the cell; negative for a signal."""


class LateOutput(Fact, frozen=True, kw_only=True):
    """Output that arrived after its cell had ended; it says that it belongs to `cell`."""

    cell: int
    output: Output
    during: int | None = None
    """The cell that ran when it came, 0 for none; None in an old log."""


class StateLost(Fact, frozen=True, kw_only=True):
    """The kernel was replaced: variables and imports are gone; files under /workspace and /tmp too."""

    cell: int
    reason: str
    kept: tuple[str, ...] = ("outputs", "packages", "data")
    """What survived: the notebook's cells with their outputs, installed packages, and the data that was mounted."""


class StateRestored(Fact, frozen=True, kw_only=True):
    """After a loss, cells that had succeeded were run again in the new kernel, without showing their outputs again."""

    cell: int
    cells: list[int]
    """Those that succeeded again, in order."""
    failed: int = 0
    """The one that did not, at which it ended; 0 if there was none."""
    skipped: list[int] = []
    """Those after it."""
    reason: str = ""
    """Why it failed."""
    seconds: float = 0.0
    told: str = ""
    """All this in sentences."""


class WidgetState(Fact, frozen=True, kw_only=True):
    """The state of all live ipywidgets models, in the form that a notebook's metadata takes."""

    state: dict[str, Any]


class FileSaved(Fact, frozen=True, kw_only=True):
    """A file reached the host: from `/tmp/output` or `/workspace` after a cell, or the exported notebook."""

    path: str
    size: int
    sha256: str
    cell: int = 0
    source: str = ""
    """Where code has it."""


class FilesLeft(Fact, frozen=True, kw_only=True):
    """Files that a cell left in /tmp/output or /workspace did not reach the host."""

    cell: int
    files: list[FileLeft]


class QuotaReached(Fact, frozen=True, kw_only=True):
    """What the session may keep on the host's disk is used up: further output is cut, and files stay in the sandbox."""

    cell: int
    limit: int
    """Bytes."""


class FilesChanged(Fact, frozen=True, kw_only=True):
    """A cell made or changed files under /tmp, which stay there until somebody fetches them."""

    cell: int
    files: list[FileSeen]
    more: int = 0
    """How many more there are than are named."""


class DataLeftOut(Fact, frozen=True, kw_only=True):
    """Something in the data is not shown to code: a link that leads out of it, a hidden name, a socket."""

    reason: str
    """What it is, in words."""
    paths: list[str]
    """The first of them, below /tmp/data."""
    total: int
    text: str
    """All of it as a sentence."""


class FileUploaded(Fact, frozen=True, kw_only=True):
    """A person put a file, or the files of an archive, into the sandbox."""

    path: str
    name: str
    """Its own, which an archive's folder has without the ending."""
    size: int
    sha256: str
    source: str = ""
    """Where it lies on the host, absolute; empty if it came from memory."""
    unpacked: int = 0
    """Files that it was unpacked to below `path`; 0 if it was not."""


class FileDownloaded(Fact, frozen=True, kw_only=True):
    """A person fetched a file from the sandbox."""

    path: str
    size: int
    sha256: str
    to: str = ""
    """Where it is on the host, absolute; empty if it went to memory."""


class McpServerChanged(Fact, frozen=True, kw_only=True):
    """An MCP server was started or reached, failed, or was closed."""

    server: str
    """The person's name for it."""
    state: Literal["ready", "failed", "closed"]
    reason: str = ""
    """Why it failed, as a sentence."""
    version: str = ""
    """The name and version that it gives itself."""
    protocol: str = ""
    seconds: float = 0.0
    """That the start took."""


class McpToolsChanged(Fact, frozen=True, kw_only=True):
    """A server's tools are not what they were when they were first seen, or last accepted.

    A tool whose description or schema changed may be an update, or an attempt to make the model do something else.
    """

    server: str
    changed: list[str] = []
    added: list[str] = []
    removed: list[str] = []
    unusable: dict[str, str] = {}
    """Tools that are offered to no model, with the reason."""


class McpToolsSelected(Fact, frozen=True, kw_only=True):
    """Which MCP tools the model is offered for a question, and why."""

    tools: list[str]
    confidence: float
    """From 0 to 1."""
    missing: list[str] = []
    """Capabilities that the question needs and no tool has."""
    reasons: list[str] = []


class McpRequestDeclined(Fact, frozen=True, kw_only=True):
    """A server asked for what no server is given: a reply of the model, an answer of the person, their folders."""

    server: str
    method: str
    """The protocol's name of it, for example `sampling/createMessage`."""


class McpToolCalled(Fact, frozen=True, kw_only=True):
    """The model called a tool of an MCP server, outside of the sandbox, and this is what it was told."""

    server: str
    tool: str
    arguments: dict[str, Any]
    status: Literal["ok", "error", "failed"]
    """`error` is the tool's own answer; with `failed` there was none."""
    text: str
    seconds: float


class ToolStage(Fact, frozen=True, kw_only=True):
    """The tool forge has taken a tool to the next stage of its life, see `nbagent.forge`."""

    tool: str
    version: int
    stage: Literal["dormant", "creating", "installing", "testing", "active", "cleanup"]
    """`active` tools are in the library; after `cleanup` nothing is left but what was there before."""
    reason: str = ""
    """Why it failed, or who removed it, as a sentence."""
    seconds: float = 0.0
    """Since its making began."""
    code: str = ""
    """With `creating`, what is about to run in a sandbox of its own."""
    tests: str = ""
    dependencies: list[str] = []
    packages: list[Package] = []
    """With `testing`, what was installed for it in there."""
    sha256: str = ""
    """With `active`, of the file in the library."""


class ToolRefused(Fact, frozen=True, kw_only=True):
    """A tool of the library, or all of it, is not used: it is not what was put there."""

    tool: str
    """Empty for the whole library."""
    reason: str


class Answered(Fact, frozen=True, kw_only=True):
    """A turn ended. `success` is false when the model gave up, failed, or was stopped."""

    turn: int
    text: str
    success: bool
    attempts: int
    """One, and one more for each cell that failed."""
    usage: Usage = Usage()
    seconds: float = 0.0
    claims: list[Claim] = []
    """The numbers that the text claims."""


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


Event = (
    SessionStarted
    | Asked
    | PhaseEntered
    | ModelReplied
    | SentToModel
    | CodeGenerated
    | Reflected
    | ModelFailed
    | CellStarted
    | CommandRun
    | OutputAdded
    | OutputUpdated
    | OutputsCleared
    | IndexAsked
    | PackagesInstalled
    | InstallFailed
    | HostAsked
    | HostDecided
    | ApprovalAsked
    | ApprovalGiven
    | ApprovalsSet
    | RedactionSet
    | CellFinished
    | LateOutput
    | StateLost
    | StateRestored
    | WidgetState
    | FileSaved
    | FilesLeft
    | QuotaReached
    | FilesChanged
    | DataLeftOut
    | FileUploaded
    | FileDownloaded
    | McpServerChanged
    | McpToolsChanged
    | McpToolsSelected
    | McpRequestDeclined
    | McpToolCalled
    | ToolStage
    | ToolRefused
    | Answered
    | SessionResumed
    | Renamed
    | SessionEnded
)


def left_output(event: FilesLeft) -> Output:
    """How a cell's outputs say what of its files did not reach the person."""
    lines = [f"nbagent: {each.path} was not delivered: {each.why}.\n" for each in event.files]
    return {"output_type": "stream", "name": "stderr", "text": "".join(lines)}


class Record(msgspec.Struct, frozen=True):
    """An event as it stands in the log.

    Attributes:
        seq: Its place in the session, from 1, without gaps.
        at: Seconds since the epoch, UTC.
        event: The fact.
    """

    seq: int
    at: float
    event: Event
