"""What every face may do with a session, whether this process owns it (`Session`) or is attached to it (`Attached`).

A face takes an `AnySession` and never asks which one it has. Some calls are answered at once where the session is in
this process, and have to be awaited where it isn't: `settled` awaits what must be.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort
    from nbagent.core.events import Answer, Cell, Decision, Package, Record
    from nbagent.kernel.transfer.outside import UploadSource
    from nbagent.session.files.sandbox_files import Listing, Pulled, Uploaded
    from nbagent.session.files.session_files import Attachment
    from nbagent.state import Artifact

T = TypeVar("T")


class AnySession(Protocol):
    """A session, wherever it runs. A call that needs the sandbox raises a `UsageError` unless the session runs.

    The calls that need the log alone are made here, for every session.

    From another process each call may also raise `OwnerGone`: the process that owned the session has ended.

    Attributes:
        id: The session's id, also its folder's name.
    """

    id: str

    @property
    def folder(self) -> Path:
        """The session's own folder on the host."""

    @property
    def last(self) -> int:
        """The number of the log's last record, as far as this process has read it."""

    @property
    def is_running(self) -> bool:
        """Whether cells can run and questions be asked."""

    @property
    def engine(self) -> str:
        """The engine's name; empty before the start if it is chosen by itself."""

    @property
    def trust(self) -> str:
        """The trust level's name."""

    @property
    def isolation(self) -> str:
        """Of a kernel that somebody else started, what keeps its code from this machine; empty of a session's own."""

    @property
    def data(self) -> list[str]:
        """The paths at which the code sees its data."""

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Rules of the hosts that the code may reach; None for the whole network."""

    @property
    def is_replay(self) -> bool:
        """Whether the model's replies are recorded ones."""

    @property
    def turns(self) -> int:
        """Questions asked so far."""

    @property
    def unfinished(self) -> Answer | None:
        """The answer so far of the last question, if that failed or was stopped; None if it was answered."""

    @property
    def attended(self) -> bool:
        """Whether somebody at this face answers `ApprovalAsked`."""

    @property
    def news(self) -> list[Record]:
        """What `start` found out before anybody could follow; empty if another process has started the session."""

    @property
    def outlasts_login(self) -> bool:
        """Whether what `detach` leaves running goes on when the person logs out."""

    # -- its life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the session's sandbox, or attach to the process that owns the session.

        A model that was named is opened too, so that what is wrong with it shows first.

        Raises:
            UsageError: It was started before, the model can't be had, or no process owns the session.
            SandboxError: No engine works here, or the sandbox can't be started.
            StoreError: The session's folder can't be read or written.
        """

    async def detach(self) -> None:
        """Leave what runs running: the kernel for `connect` during `keep_minutes`, or the session with its owner.

        In the process that owns the session, this waits for a running cell; cancelling this call keeps the session.
        """

    async def stop(self, reason: str = "") -> None:
        """End the session and its sandbox, whoever owns it; its folder and log stay. May be called at any time.

        A session has one end: all who call this at the same time wait for it, and it goes on if they are cancelled.
        """

    async def closed(self) -> None:
        """Wait until the session has ended, or its owner has let go of it or died.

        Raises:
            OSError: A reader that follows the session raised it, such as one that writes to a terminal that is gone.
        """

    # -- what happens -------------------------------------------------------------------------------------------

    def since(self, seq: int = 0) -> Iterator[Record]:
        """The records of the log after number `seq`."""
        from nbagent.core.session_log import read_log

        return read_log(self.folder, since=seq)

    def follow(self, reader: Callable[[Record], None]) -> Callable[[], None]:
        """Call `reader` with each record from now on, once and in order; returns a function that ends this."""

    async def follow_since(self, reader: Callable[[Record], None], seq: int) -> Callable[[], None]:
        """Call `reader` with the records after number `seq`, and from then on as `follow` does.

        Returns:
            A function that ends this, once the reader has had all records that are in the log.

        Raises:
            StoreError: The log can't be read.
        """
        from nbagent.session.stream import follow_since

        return await follow_since(reader, seq, folder=self.folder, follow=self.follow)

    def follow_words(self, reader: Callable[[int, str], None]) -> Callable[[], None]:
        """Call `reader` with the words of each reply as the model writes them; returns a function that ends this.

        It gets the question's number and the next words; first, those of a reply that is being written now. They are no
        events. With `ModelReplied`, which has the whole text, or `ModelFailed`, the words so far are over.
        """

    async def artifacts(self) -> list[Artifact]:
        """The files that reached the host, and the figures of the cells: each with its size, hash, type and cell."""
        from nbagent.state.views import ViewReader

        return await asyncio.to_thread(ViewReader(self.folder.parent.parent).artifacts, self.id)

    async def load_artifact(self, artifact_id: str) -> bytes:
        """The content of one of `artifacts()`.

        Raises:
            StoreError: There is none of that id, or its file is gone or was changed since.
        """
        from nbagent.state.views import ViewReader

        return (await asyncio.to_thread(ViewReader(self.folder.parent.parent).load, artifact_id))[1]

    def keep_figure(self, name: str, content: bytes) -> Path | None:
        """Write a figure that this face shows to a file of the session's, and return its path.

        Returns:
            None if it can't be written, or the session's quota has no room for it.
        """

    # -- questions and cells ------------------------------------------------------------------------------------

    async def ask(self, question: str, *, files: Sequence[Attachment] = (), uploaded: Sequence[str] = ()) -> Answer:
        """Ask a question, and wait for the answer; cancelling this call stops the question.

        Args:
            question: In the person's words.
            files: What goes along with it: each is uploaded to /workspace first, and the model is told of it. Paths,
                open files, or pairs of a name and the bytes.
            uploaded: Paths of files that were uploaded for it already, of which the model is told too.

        Raises:
            DataError: A file can't be read.
            TransferError: A file can't be put into the sandbox.
            UsageError: There is no question, another one is being answered, or there is no model.
            ModelCallError: The model's provider failed; the cells that ran are kept.
            ReplayError: The recorded replies ran out.
            SandboxError: The sandbox failed.
        """

    def stream(self, question: str, *, files: Sequence[Attachment] = ()) -> AsyncGenerator[Record, None]:
        """Ask a question, and yield each event as it happens; the last one is `Answered`.

        A caller that leaves the loop early should close it (`contextlib.aclosing`), which stops the question.

        Raises:
            NbagentError: As for `ask`, after the events that came before.
        """
        from nbagent.session.stream import streamed

        return streamed(lambda: self.ask(question, files=files), follow=self.follow)

    async def run(self, code: str, *, timeout: float | None = None) -> Cell:  # noqa: ASYNC109 - the kernel's own
        """Run a cell without the model; cancelling this call stops this cell, and no other one.

        Packages that the code's PEP 723 block declares are the person's own word, as those of `install` are: no data
        can have chosen them. They don't count for `unknown_names`.

        Args:
            code: Python, as IPython takes it.
            timeout: Seconds; None for the session's limit.

        Raises:
            UsageError: The code can't be run at all.
            SandboxError: The sandbox failed.
        """

    def interrupt(self) -> None:
        """Stop what runs: the cell if one does, and the question it runs for. Doesn't wait for the end of them."""

    def interrupt_cell(self) -> bool:
        """Stop the running cell only: the model is told, and goes on. Returns whether one was running."""

    @property
    def runs(self) -> KernelPort:
        """What runs cells for an agent that isn't the session's own, see `nbagent.agent.KernelMiddleware`."""

    async def system_prompt(self, *, images: bool = False) -> str:
        """What a model that isn't the session's own must know of the sandbox and the data.

        Args:
            images: Whether the model is shown the figures.
        """

    # -- packages and files -------------------------------------------------------------------------------------

    async def install(self, requirements: list[str]) -> list[Package]:
        """Install distributions for the session.

        Raises:
            InstallRefused: Policy or the form of the request forbids it.
            InstallError: It failed; the environment is as it was.
        """

    async def upload(
        self, source: UploadSource, name: str | None = None, *, to: str = "/workspace", unpack: bool = False
    ) -> Uploaded:
        """Put a file into the sandbox; it is there whole or not at all, in place of a plain file of that name.

        Args:
            source: Bytes, the path of a file, or an open binary file.
            name: Its name inside; the file's own by default.
            to: A folder inside, below /workspace or /tmp; made if it isn't there.
            unpack: Unpack a zip or tar archive instead, into a new folder of its name without the ending.

        Raises:
            DataError: The file can't be read.
            TransferLimit: The place, the size, or what is in the archive is not allowed.
            TransferError: It can't be written there, or was stopped.
        """

    @overload
    async def download(self, path: str, *, bound: int | None = None) -> bytes: ...

    @overload
    async def download(
        self, path: str, to: str | Path, *, overwrite: bool = False, bound: int | None = None
    ) -> Path: ...

    async def download(
        self, path: str, to: str | Path | None = None, *, overwrite: bool = False, bound: int | None = None
    ) -> bytes | Path:
        """Fetch a plain file from the sandbox.

        Args:
            path: Where it is inside, below /workspace or /tmp.
            to: A file, or a folder that is there, on the host; without it the contents are returned, up to 256 MB.
            overwrite: Whether a file that is there may be replaced; a link never is followed.
            bound: The most bytes that it may have, if it must have fewer.

        Returns:
            The contents, or where they are.

        Raises:
            TransferLimit: It is too large, no plain file, or the path is not allowed.
            TransferError: It isn't there, changed while it was read, or its place on the host is taken.
            StoreError: The host's file can't be written.
        """

    async def pull(self, name: str, to: str | Path) -> Pulled:
        """Fetch a variable of the kernel's as a file: a table as Arrow, an array as `.npy`, plain data as JSON.

        Args:
            name: The variable's name.
            to: The file on the host, which may be there; or the path of new `SealedMemory`, which is sealed then.

        Returns:
            What it is; the sandbox says so, and the file was written by code under suspicion.

        Raises:
            TransferError: There is no such variable, or it is nothing of the kind.
        """

    async def files(self, folder: str | None = None, *, limit: int = 1000) -> Listing:
        """List /workspace and /tmp, /tmp/data and /tmp/output included, or one folder of them.

        Raises:
            TransferError: There is no such folder.
        """

    async def variables(self) -> list[str]:
        """The kernel's variables, the latest first, each as `name: type` and its size; waits for a running cell.

        The sandbox says so. There are at most 40.
        """

    async def deliver(self) -> dict[str, str]:
        """Collect what cells left in /tmp/output and /workspace and what still waits; to be called at the end.

        Returns:
            Why what can't be had will not reach the person, by its path in the sandbox. It is gone when the session
            ends.

        Raises:
            StoreError: The host's folder can't be written.
        """

    # -- the notebook -------------------------------------------------------------------------------------------

    async def check_export(self, path: str | Path, *, force: bool = False) -> None:
        """Complain of a place for the notebook before any work is done for it; arguments and errors as for `export`."""

    async def export(
        self, path: str | Path, *, force: bool = False, environment: bool = False, keep_attempts: bool | None = None
    ) -> Path:
        """Write the session's notebook, and return its absolute path.

        Args:
            path: Its name ends in `.ipynb`; or in `.html`, `.md`, `.py` or `.zip`, for what is made of a notebook. A
                notebook that nbagent wrote, and nobody changed since, is replaced.
            force: Whether any other file is replaced too; data never is.
            environment: Whether a requirements file with hashes and an `environment.yml` are written beside it.
            keep_attempts: Whether the model's failed and superseded attempts stay. If not, a run of the rest in a fresh
                sandbox must show the same without them, as of `nbagent export`. In both cases the columns of the data
                are looked up, and the call must be awaited. With None, all is written at once, as it is.

        Raises:
            UsageError: It has another ending, or something is there that must not be replaced.
            DataError: The data for a zip is no longer there.
            StoreError: It can't be written; a file that was there is intact.
        """

    # -- what the person decides --------------------------------------------------------------------------------

    async def use_model(self, name: str) -> None:
        """Have another model answer from the next question on; it is told the questions and answers so far.

        Args:
            name: `provider:model`, or `replay:FILE`.

        Raises:
            UsageError: A question is being answered, or the model can't be had; the one before it stays.
        """

    async def undo_turn(self, turn: int, *, undo: bool = True) -> None:
        """Take back what a question did to the kernel, or have it back: a new kernel runs the other cells again.

        The question is left out of exports. Uploaded files stay. What cells did outside of the sandbox stays, such as
        files that they saved. What can't be run again is told by `StateRestored`.

        Args:
            turn: The question's number.
            undo: False to have it back.

        Raises:
            UsageError: There is no such question, another one is being answered, or the kernel is not nbagent's,
                or a variable that its cells need was given to an earlier process of the session.
            SandboxError: The new kernel did not start.
        """

    def set_approvals(self, mode: str) -> Awaitable[None] | None:
        """Set what the person is asked about, from now on.

        Args:
            mode: `ask`, `auto-edit`, `allow-list` or `never-ask`.

        Raises:
            UsageError: There is no such mode.
        """

    def rename(self, title: str) -> Awaitable[None] | None:
        """Give the session another title; an empty one stands for its first question."""

    def attend(self, answers: bool = True) -> Awaitable[None] | None:
        """Say whether somebody at this face answers `ApprovalAsked`; if nobody does anywhere, a policy answers."""

    def approve(
        self, id: str, decision: Decision = "approve", *, code: str = "", reason: str = "", always: bool = False
    ) -> bool | Awaitable[bool]:
        """Answer an `ApprovalAsked`; the turn goes on, and the model is told of a no.

        Args:
            id: That of the `ApprovalAsked`.
            decision: `approve`, `edit` or `reject`.
            code: For `edit`, what is to run instead.
            reason: For `reject`, why not.
            always: Whether the same may happen for the rest of the session without a question.

        Returns:
            Whether the question was still open.

        Raises:
            UsageError: There is no such decision, or an edit has no code, or is of something that has none.
        """

    def approve_host(self, id: str, *, allow: bool, remember: bool = True) -> bool | Awaitable[bool]:
        """Answer a `HostAsked`.

        Args:
            id: That of the `HostAsked`.
            allow: Whether the code may reach the host.
            remember: Whether that holds for the session, or for the requests that wait; a denial always holds.

        Returns:
            Whether the question was still open: after a minute without an answer it is a denial.
        """

    def allow_host(self, entry: str) -> Awaitable[None] | None:
        """Let the code reach a host from now on, also one that was denied before.

        Args:
            entry: `HOST`, `HOST:PORT` or `*.DOMAIN`.

        Raises:
            UsageError: It is in another form, or this session's code has no list of hosts.
        """


async def settled(value: T | Awaitable[T]) -> T:
    """What a call returned, awaited if it must be."""
    if inspect.isawaitable(value):
        found: T = await value
        return found
    return value
