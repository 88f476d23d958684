"""What every face may do with a session, whether this process owns it (`Session`) or is attached to it (`Attached`).

A face takes an `AnySession` and never asks which one it has. Some calls are answered at once where the session is in
this process, and have to be awaited where it isn't: `settled` awaits what must be.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from nbagent.core.events import Answer, Cell, Package, Record
    from nbagent.kernel.transfer.ends import Source
    from nbagent.kernel.variables import Written
    from nbagent.safety.consent import Decision
    from nbagent.session.attachments import Given
    from nbagent.session.listing import Listing, Uploaded
    from nbagent.state import Artifact

T = TypeVar("T")


class AnySession(Protocol):
    """A session, wherever it runs. Each call is described at `nbagent.session.session.Session`.

    Attributes:
        id: The session's name.
    """

    id: str

    @property
    def folder(self) -> Path:
        """The session's own folder on the host."""

    @property
    def last(self) -> int:
        """The number of the log's last record that is known here."""

    @property
    def is_running(self) -> bool:
        """Whether cells can run and questions be asked."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def trust(self) -> str:
        """The trust level's name."""

    @property
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""

    @property
    def turns(self) -> int:
        """Questions asked so far."""

    @property
    def attended(self) -> bool:
        """Whether somebody at this face answers `ApprovalAsked`."""

    # -- its life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the session, or come to its door."""

    async def detach(self) -> None:
        """Leave without ending the session."""

    async def stop(self, reason: str = "") -> None:
        """End the session and its sandbox; its folder and log stay."""

    async def closed(self) -> None:
        """Wait until the session has ended, or its owner has."""

    # -- what happens -------------------------------------------------------------------------------------------

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records of the log after number `seq`."""

    def follow(self, reader: Callable[[Record], None], *, since: int | None = None) -> Callable[[], None]:
        """Call `reader` with each record, as it happens; returns what ends that."""

    def artifacts(self) -> list[Artifact]:
        """The files that reached the host, and the figures of its cells."""

    def load_artifact(self, artifact_id: str) -> bytes:
        """The content of one of `artifacts()`."""

    # -- what is to be done -------------------------------------------------------------------------------------

    async def ask(self, question: str, *, files: Sequence[Given] = ()) -> Answer:
        """Ask a question, and wait for the answer."""

    def stream(self, question: str, *, files: Sequence[Given] = ()) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens."""

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model."""

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session."""

    async def upload(
        self, source: Source, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """Put a file into the sandbox."""

    @overload
    async def download(self, path: str) -> bytes: ...

    @overload
    async def download(self, path: str, to: str | Path, *, overwrite: bool = False) -> Path: ...

    async def pull(self, name: str, to: str | Path) -> Written:
        """Fetch a variable of the kernel's as a file."""

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """What there is in the sandbox's folders."""

    async def deliver(self) -> dict[str, str]:
        """Collect the files that cells left; returns those that can't be had, each with why."""

    def export(self, path: str | Path, *, force: bool = False) -> Path | Awaitable[Path]:
        """Write the session's notebook."""

    def rename(self, title: str) -> Awaitable[None] | None:
        """Give the session another title."""

    def attend(self, answers: bool = True) -> Awaitable[None] | None:
        """Say whether somebody at this face answers `ApprovalAsked`."""

    def approve(
        self, name: str, decision: Decision = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> bool | Awaitable[bool]:
        """Answer an `ApprovalAsked`."""

    def approve_host(self, name: str, *, allow: bool, remember: bool = True) -> bool | Awaitable[bool]:
        """Answer a `HostAsked`."""

    def allow_host(self, entry: str) -> Awaitable[None] | None:
        """Let the code reach a host from now on."""

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for."""

    def interrupt_cell(self) -> bool:
        """Stop the running cell only; returns whether one was running."""


async def settled(value: T | Awaitable[T]) -> T:
    """What a call returned, awaited if it must be."""
    if inspect.isawaitable(value):
        found: T = await value
        return found
    return value
