"""The lease of a sandbox: a private folder on the host, locked by the process that controls the sandbox.

    RUNTIME/nbagent-UID/kNAME/lock          held by the controller; Linux releases it however the controller ends
                              lease.json    the terms: what the sandbox is, and what of it lies elsewhere
                              k-1 … k-5, s  sockets: the kernel's, and that of process 1 (`machine/supervisor.py`)
                              in/           what the sandbox sees at /run/nbagent

A sandbox whose lock nobody holds has lost its controller, which its process 1 notices too: the sandbox ends itself
after the `keep` seconds of its spec, in which another process may take it over. What a dead controller leaves on disk,
with the daemon or among control groups is removed by the next start and by `nbagent clean` (`machine/reaper.py`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec

from nbagent.core import fileio
from nbagent.core.errors import SandboxError
from nbagent.sandbox.leases import users
from nbagent.sandbox.leases.locks import lock, unlock
from nbagent.sandbox.leases.origin import PathOrigin
from nbagent.sandbox.spec import SandboxSpec

SOCKET_PATH_LIMIT = 107
"""Bytes of a Unix socket's path, from unix(7)."""
PREFIX = "k"
HOST = "h"
"""Prefix of the leases of host processes (`session/host_process.py`), which have a lock and terms as a sandbox has."""
_NEW = ".new-"
STALE_NEW = 60.0
"""Seconds after which a folder that is still being made is abandoned."""
TEMPORARY = Path("/tmp")  # noqa: S108 - where there is no better one
LOCK_SECONDS = 2.0
"""Seconds to wait for a process that holds the lock only to look at a lease, or to sweep it up."""


class LeaseTerms(msgspec.Struct, kw_only=True):
    """What a lease says, as written to `lease.json`.

    Attributes:
        spec: What the sandbox is to be.
        key: The kernel connection's signing key.
        created: Seconds since the epoch.
        origin: Where the lease was written.
        scratch: The sandbox's scratch folder (`scratch.py`).
        uid: The user on the host that was reserved for the sandbox; None if it runs as the person.
        parts: What the engine made for the sandbox, by the engine's own names.
        environment: The digest of its image or environment, once it was started; so with the next two.
        python: The version of its Python.
        platform: Its machine and C library.
    """

    engine: str
    spec: SandboxSpec
    key: str
    created: float
    origin: PathOrigin = PathOrigin()
    scratch: str = ""
    uid: int | None = None
    parts: dict[str, Any] = {}
    environment: str = ""
    python: str = ""
    platform: str = ""


def runtime_root() -> Path:
    """The private folder of all leases of this user: its path is short, and a restart of the machine removes it.

    Raises:
        SandboxError: It belongs to somebody else, or can't be made.
    """
    given = (Path(each) for each in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()) if each)
    # A socket's path must be short. The folder below is checked.
    base = next((each for each in given if len(str(each)) <= SOCKET_PATH_LIMIT - 60 and _is_safe(each)), TEMPORARY)
    root = base / f"nbagent-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise _cannot_write(root, error) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SandboxError(f"{root} belongs to somebody else.", mend="Remove it, or set XDG_RUNTIME_DIR.")
    if found.st_mode & 0o077:
        root.chmod(0o700)
    return root


def _is_safe(folder: Path) -> bool:
    """Whether only this user and root can put another folder in place of one in there; others' is told after `su`."""
    try:
        status = folder.stat()
    except OSError:
        return False
    is_closed = not status.st_mode & 0o022 or bool(status.st_mode & stat.S_ISVTX)
    return status.st_uid in (0, os.getuid()) and is_closed and os.access(folder, os.W_OK)


def _cannot_write(path: Path, error: OSError) -> SandboxError:
    return SandboxError(
        f"{path} can't be written: {error.strerror or error}.", mend="Make room, or set XDG_RUNTIME_DIR."
    )


class Lease:
    """A lease that this process holds, from `take` or `take_over` until `release` or the process's end."""

    def __init__(self, folder: Path, terms: LeaseTerms, file: IO[bytes]) -> None:
        self.folder = folder
        self.terms = terms
        self.held: socket.socket | None = None
        """The connection to process 1, by which process 1 knows that its controller lives."""
        self._lock = file
        _HELD.add(self)

    @property
    def name(self) -> str:
        """The sandbox's name, which its folder, its control group and the label of its container have."""
        return self.folder.name

    @classmethod
    def take(cls, engine: str, spec: SandboxSpec, *, key: str = "", prefix: str = PREFIX) -> Lease:
        """Make a lease: a new folder that is locked and has its terms before anybody can see it."""
        root = runtime_root()
        terms = LeaseTerms(
            engine=engine, spec=_spec_to_write(spec), key=key, created=time.time(), origin=PathOrigin.here()
        )
        try:
            staged = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
            (staged / "lock").touch(mode=0o600)
            lease = cls(staged, terms, lock(staged))
        except OSError as error:
            raise _cannot_write(root, error) from error
        try:
            lease.write()
            lease.folder = staged.rename(root / f"{prefix}{staged.name.removeprefix(_NEW)}")
        except BaseException:
            lease.remove()
            raise
        return lease

    @classmethod
    def take_over(cls, folder: Path) -> Lease:
        """Take over the lease of a sandbox whose controller is dead.

        Raises:
            SandboxError: Another process holds it, or it is gone.
        """
        try:
            file = lock(folder, patience=LOCK_SECONDS)
        except BlockingIOError:
            raise SandboxError(f"The sandbox {folder.name} belongs to another process.") from None
        except OSError as error:
            raise SandboxError(f"The sandbox {folder.name} is gone.") from error
        terms = read_terms(folder)
        if terms is None:
            unlock(file)
            raise SandboxError(f"Nothing is known of the sandbox {folder.name}.")
        return cls(folder, terms, file)

    def write(self, **changes: Any) -> None:
        """Change some of the terms, and write all of them: whole, or not at all."""
        for name, value in changes.items():
            setattr(self.terms, name, value)
        try:
            fileio.write(self.folder / "lease.json", ENCODER.encode(self.terms))
        except OSError as error:
            raise _cannot_write(self.folder, error) from error

    def assign(self, spec: SandboxSpec) -> None:
        """Write the spec of the person to whom the sandbox was assigned."""
        self.write(spec=_spec_to_write(spec))

    def let_go(self) -> None:
        """Close the connection to process 1, which then ends the sandbox or waits, as the spec says."""
        if self.held is not None:
            self.held.close()
            self.held = None

    def release(self) -> None:
        """Release the lock; the folder stays."""
        self.let_go()
        _HELD.discard(self)
        unlock(self._lock)

    def remove(self, *, keep_scratch: bool = False) -> None:
        """Remove its folders, free its user and release the lock; nothing happens if it was released, as in a fork."""
        if self._lock.closed:
            return
        # First: while the lease is there, others know that this is somebody's.
        if self.terms.scratch and not keep_scratch:
            fileio.remove(Path(self.terms.scratch))
        # At once for all who look: half a folder would be taken for what a dead process has left.
        going = self.folder.with_name(f"{_NEW}{self.folder.name}")
        with contextlib.suppress(OSError):
            self.folder.rename(going)
        for each in (going, self.folder):
            shutil.rmtree(each, ignore_errors=True)
        if self.terms.uid is not None:
            users.free(self.terms.uid, self.folder)
        self.release()


def _spec_to_write(spec: SandboxSpec) -> SandboxSpec:
    """The spec as it is written: without its data, unless the kernel may be kept; names of data may be no text."""
    return spec if spec.keep else replace(spec, data=())


_HELD: set[Lease] = set()
"""The leases that this process holds."""


def _let_go_in_child() -> None:
    # A fork shares the connections of its parent, and would keep them after the parent's death.
    for lease in list(_HELD):
        lease.release()


os.register_at_fork(after_in_child=_let_go_in_child)


def read_terms(folder: Path) -> LeaseTerms | None:
    """What the lease in a folder says; None if that isn't there or can't be read."""
    try:
        return _DECODER.decode((folder / "lease.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def abandoned(folder: Path) -> bool:
    """Whether nobody holds a lease, or its folder is gone; a folder that this user may not read belongs to somebody."""
    try:
        unlock(lock(folder))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def all_folders() -> Iterator[Path]:
    """The folders of all leases in this user's runtime folder; what was left half made is removed."""
    for folder in sorted(runtime_root().iterdir()):
        if folder.name.startswith((PREFIX, HOST)) and folder.is_dir():
            yield folder
        elif folder.name.startswith(_NEW):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > STALE_NEW and abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def find(owner: str, *, prefix: str = PREFIX) -> Path | None:
    """The folder of the lease of a session's sandbox, or of its host process (`HOST`); None if there is none."""
    return owned(prefix).get(owner) if owner else None


def owned(prefix: str = PREFIX) -> dict[str, Path]:
    """The folders of the leases of all sessions' sandboxes, or host processes, by session."""
    terms = ((folder, read_terms(folder)) for folder in all_folders() if folder.name.startswith(prefix))
    return {each.spec.owner: folder for folder, each in terms if each is not None and each.spec.owner}


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)


def decode(kind: type, value: Any) -> Any:
    """Make a value of a type that JSON lacks, as msgspec's `dec_hook`."""
    if kind is Path:
        return Path(value)
    raise TypeError(kind.__name__)


ENCODER = msgspec.json.Encoder(enc_hook=_encode)
_DECODER = msgspec.json.Decoder(LeaseTerms, dec_hook=decode)
