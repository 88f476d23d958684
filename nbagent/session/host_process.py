"""A host process owns a session without a face, and outlives whoever started it.

    async with await nbagent.host(model="openai:gpt-5.6", data="sales.csv") as session:
        await session.ask("Which region grew fastest?")     # … and `nbagent attach ID` from elsewhere, also later

The process leaves the login session and the terminal of its starter, is found by a lease as sandboxes are
(`sandbox/leases`), serves the session, and ends by itself when nobody was attached, and nothing ran, for
`keep_minutes`. It has the starter's environment, and so the keys of models in it. It reads an `Order` from one pipe,
and tells how its start went through another one. What it prints lands in the session's folder, in `host.log`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Unpack

import msgspec

from nbagent.core import fileio, folders
from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import NbagentError, SandboxError, StoreError
from nbagent.core.folders import LOG_FILE
from nbagent.core.options import Keywords, Options
from nbagent.session.catalog import lookup
from nbagent.session.sharing.attach import Attached
from nbagent.session.sharing.wire import Failure

if TYPE_CHECKING:
    from nbagent.session.session import Session

HOST_LOG_FILE = "host.log"
MAX_LOG_BYTES = 1024 * 1024
"""Bytes that the log may have; when it has more, its last `KEPT_LOG_BYTES` are kept."""
KEPT_LOG_BYTES = 256 * 1024
LOOK_SECONDS = 1.0
"""Seconds between two looks at whether anybody is attached."""
BEGIN_SECONDS = 60.0
"""Seconds that a process has to tell that it has begun."""
FIRST_FACE_SECONDS = 20.0
"""Seconds that a host waits for its first face, however short `keep_minutes` is."""
LEASE_ENGINE = "host"
"""Stands in the lease of a host, where that of a sandbox has its engine."""


class Order(msgspec.Struct, frozen=True):
    """The session that a host is to own.

    Attributes:
        given: The names of the options that were given for this session.
        resumes: Whether there is a session, for which those hold from now on.
    """

    session: str
    options: Options
    given: list[str]
    resumes: bool


class StartReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a host tells of its start: first its number, then that its session can be attached to, or why it can't.

    Attributes:
        pid: The process's number.
        failure: Why the session could not be started; None if it could.
    """

    pid: int
    failure: Failure | None = None


_REPORT = msgspec.json.Decoder(StartReport)


async def host(session: str | None = None, *, new: str | None = None, **keywords: Unpack[Keywords]) -> Attached:
    """Start a process that owns a session and outlives this one, and attach to it.

    Args:
        session: A session to resume, by its id or enough of its beginning; if a process owns it already, this
            attaches to that one. A new session by default.
        new: An id for a new session.
        **keywords: Options by name, as for `Session`, or for `Session.resumed` where there is a session.

    Raises:
        UsageError: There is no such session, or an option is wrong.
        NbagentError: The session's start raised it.
    """
    from nbagent.core import settings

    options = settings.load(**keywords)
    root = folders.state_root(options.state_dir).absolute()
    options = msgspec.structs.replace(options, state_dir=str(root), background=False)
    given = [name for name, value in keywords.items() if value is not None and name != "background"]
    if session is None:
        order = Order(new or folders.new_session_id(), options, given, resumes=False)
        folders.check_session_id(order.session)
    else:
        id = lookup.find(root, session).name
        order = Order(id, options, given, resumes=True)
        if lookup.is_running(root / "sessions" / id):
            # Whoever has it may end now, or have its lock for a moment only, to write the summary.
            with contextlib.suppress(NbagentError):
                return await _attach_when_ready(id, root)
    try:
        await _start(order, root / "sessions" / order.session)
    except StoreError:
        if session is None or not lookup.is_running(root / "sessions" / order.session):
            raise
        # Another process has resumed the same session a moment earlier.
    return await _attach_when_ready(order.session, root)


async def _attach_when_ready(session: str, root: Path) -> Attached:
    """Attach to a session, once its owner has started it."""
    attached = Attached(session, state_dir=root)
    while True:
        try:
            await attached.start()
        except NbagentError:
            if not lookup.is_running(attached.folder):
                raise
            await asyncio.sleep(0.1)
        else:
            return attached


async def _start(order: Order, folder: Path) -> None:
    """Start a host, and wait until its session can be attached to; if this is cancelled, the host is ended."""
    was_there = folder.exists()
    ours, theirs = os.pipe()
    status = os.fdopen(ours, "rb", buffering=0)
    begun: list[int] = []
    try:
        await to_the_end(_launch, order, folder, theirs, status, begun)
        await _wait_for(status, begun, folder)
    except BaseException:
        for pid in begun:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        if not was_there and not (folder / LOG_FILE).exists():
            with contextlib.suppress(OSError):
                (folder / HOST_LOG_FILE).unlink()
                folder.rmdir()
        raise
    finally:
        status.close()


def _launch(order: Order, folder: Path, theirs: int, status: IO[bytes], begun: list[int]) -> None:
    """Start the process, and wait for its number; in a thread that is waited for, so that no process stays unknown."""
    try:
        _spawn(order, folder, theirs)
    finally:
        os.close(theirs)
    waiting = select.poll()
    waiting.register(status, select.POLLIN)
    # The process has forked by now: its first message is there at once, or it has closed the pipe.
    if waiting.poll(BEGIN_SECONDS * 1000) and (line := status.readline()):
        begun.append(_REPORT.decode(line).pid)


def _spawn(order: Order, folder: Path, status: int) -> None:
    try:
        fileio.make_folder(folder)
        with fileio.opened(folder / HOST_LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as opened:
            log = os.dup(opened.fileno())
    except OSError as error:
        raise fileio.cannot_write(folder, error, mend="Name another folder in NBAGENT_STATE_DIR.") from error
    try:
        # `-P`: what lies in the current folder may be somebody else's, and is no module of ours.
        command = [sys.executable, "-P", "-m", "nbagent.session.host_process", str(status)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[status], start_new_session=True
        ) as process:
            try:
                # It forks the host, whose parent is then not this process, and ends.
                process.communicate(msgspec.json.encode(order), timeout=BEGIN_SECONDS)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise SandboxError(
                    f"The process of the session did not begin within {BEGIN_SECONDS:g} seconds."
                ) from error
    except OSError as error:
        raise SandboxError(f"No process can be started for the session: {error}.") from error
    finally:
        os.close(log)


async def _wait_for(status: IO[bytes], begun: list[int], folder: Path) -> None:
    """Wait until the host tells that it is ready; on the loop, since a thread could not be cancelled."""
    reader = asyncio.StreamReader(limit=MAX_LOG_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), status)
    with contextlib.closing(transport):
        if line := await reader.readline():
            if (failure := _REPORT.decode(line).failure) is None:
                return
            begun.clear()  # the host ends by itself
            raise failure.as_error()
    with contextlib.suppress(OSError):
        if said := (folder / HOST_LOG_FILE).read_bytes()[-2000:].decode(errors="replace").strip():
            raise SandboxError(f"The process of the session ended at its start: {said.splitlines()[-1]}")
    raise SandboxError("The process of the session was killed at its start.")


# -- in the host itself ---------------------------------------------------------------------------------------------


def main() -> None:
    """Own the session that standard input names, until it ends."""
    status = os.fdopen(int(sys.argv[1]), "wb", buffering=0)
    os.set_inheritable(status.fileno(), False)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if os.fork():
        os._exit(0)  # so that the host is nobody's child, and no zombie of its starter
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _tell(status)
    asyncio.run(_serve(order, status))


def _tell(status: IO[bytes], failure: Failure | None = None) -> None:
    with contextlib.suppress(OSError):  # the starter may have ended; the session goes on
        status.write(msgspec.json.encode(StartReport(os.getpid(), failure)) + b"\n")


async def _serve(order: Order, status: IO[bytes]) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101 - it runs
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        with _leased(order), contextlib.suppress(asyncio.CancelledError):
            session = _made(order)
            try:
                await session.start()
                if session.server is None or not session.server.is_open:
                    mend = "Name a folder of another file system in NBAGENT_STATE_DIR."
                    raise StoreError(f"No socket can be made in {session.folder}.", mend=mend)
                _tell(status)
                status.close()
                await _stay(session)
            finally:
                await session.stop()
    except NbagentError as error:
        if status.closed:
            raise
        _tell(status, Failure.of(error))
    except Exception as error:
        if not status.closed:
            _tell(status, Failure("NbagentError", f"nbagent itself failed: {error!r}"))
        raise


def _made(order: Order) -> Session:
    from nbagent.session.session import Session

    if order.resumes:
        given = {name: getattr(order.options, name) for name in {*order.given, "state_dir"}}
        return Session.resumed(order.session, **given)
    # A trust level that was named is one that no kernel may fall short of; one that runs already needs no engine; an
    # image that was named needs one that takes images.
    named: Keywords = {}
    if "trust" in order.given:
        named["trust"] = order.options.trust
    if "engine" in order.given:
        named["engine"] = order.options.engine
    if "image" in order.given:
        named["image"] = order.options.image
    return Session(order.options, session=order.session, **named)


@contextlib.contextmanager
def _leased(order: Order) -> Iterator[None]:
    """Hold a lease, by which this process is found and what it leaves when it is killed is swept up."""
    from nbagent.core.policy import TrustLevel, trust_for
    from nbagent.sandbox.leases.lease import HOST, Lease
    from nbagent.sandbox.spec import SandboxSpec

    lease = Lease.take(
        LEASE_ENGINE, SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED), owner=order.session), prefix=HOST
    )
    lease.write(parts={"pid": os.getpid()})
    try:
        yield
    finally:
        lease.remove()


async def _stay(session: Session) -> None:
    """Serve the session until it ends, or nobody was attached and nothing ran for `keep_minutes`."""
    keep, quiet = session.options.keep_minutes * 60, time.monotonic() + FIRST_FACE_SECONDS
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(session.closed(), LOOK_SECONDS)
            return
        if not session.is_running:  # it is being stopped, which takes a moment
            continue
        _bound(session.folder / HOST_LOG_FILE)
        if session.is_busy:
            quiet = time.monotonic()
        elif time.monotonic() > quiet + keep:
            await session.stop(f"Nobody was attached for {session.options.keep_minutes:g} minutes.")
        elif not session.folder.exists():
            await session.stop("Its folder is gone.")


def _bound(log: Path) -> None:
    """Keep the end of a log that has grown too long."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > MAX_LOG_BYTES:
            with log.open("rb+") as file:
                file.seek(-KEPT_LOG_BYTES, os.SEEK_END)
                end = file.read(KEPT_LOG_BYTES)
                file.seek(0)
                file.truncate()
                file.write(end)


if __name__ == "__main__":
    main()
