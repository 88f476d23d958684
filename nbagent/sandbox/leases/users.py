"""Reserves a user id for each sandbox that root starts.

Linux limits some things for each user: processes, pipes, open files on their way between processes. Two sandboxes with
one user id could use up each other's share. Only root can give a process another user id: in the user namespace that
anybody else makes, all ids stand for that person.

    /run/nbagent-users/lock      held while one is reserved or freed
                       80123     a reserved user: the folder of its lease, and where that was written down (`origin.py`)

So a user is reserved for as long as the lease's folder is there, whether anybody holds the lease or not.
"""

from __future__ import annotations

import contextlib
import grp
import itertools
import os
import pwd
import secrets
from collections.abc import Iterator
from pathlib import Path

from nbagent.core.errors import SandboxError
from nbagent.sandbox.leases import origin
from nbagent.sandbox.leases.locks import lock, unlock

WIDE = range(65_536, 100_000)
"""User ids, and group ids of the same numbers, that nobody has usually.

systemd lists 65536 to 524287 as unused (https://systemd.io/UIDS-GIDS/), and Debian's adduser gives none of them to
anybody by default (Debian Policy 9.2.2). From 100000 on useradd gives people subordinate ones (`SUB_UID_MIN` in
login.defs(5)), and from 200000 on directories have their people's (sssd-ldap(5)).
"""
NARROW = range(60_706, 61_184)
"""The same for systems with 65,536 ids only, as most containers with a user namespace are.

systemd lists them as unused, between its greeters' and those of `DynamicUser=`. Debian keeps 60000 to 64999 for its
packages, of which none has one of these (/usr/share/doc/base-passwd/README).
"""
SHARED = Path("/run/nbagent-users")
"""One folder for the whole machine, which shares its user ids; a restart removes it, as it ends the sandboxes."""
LOCK_SECONDS = 10.0
"""Seconds to wait for other processes that reserve or free a user, which takes each of them milliseconds."""


def mapped() -> range:
    """The users that this process's user namespace has for sandboxes."""
    for users in (WIDE, NARROW):
        if all(_maps(Path(f"/proc/self/{name}"), users) for name in ("uid_map", "gid_map")):
            return users
    raise SandboxError(
        "The user namespace that nbagent runs in has no user for the sandbox.",
        mend="Map 65,536 users into it, or run nbagent as an ordinary user.",
    )


def _maps(table: Path, users: range) -> bool:
    """Whether a table as user_namespaces(7) has it maps all of them, in one piece."""
    if not table.exists():
        return True  # this Linux has no user namespaces
    for line in table.read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= users.start and users.stop <= first + count:
            return True
    return False


def reserve(lease: Path, *, among: range) -> int:
    """Reserve a user for the sandbox of a lease, until `free` or until the lease is gone.

    It is a random one: a process that can't see what is reserved here, such as in a container with a folder /run of its
    own, will hardly ever take the same.
    """
    start = secrets.randbelow(len(among))
    try:
        folder = _folder(lease.parent)
        for uid in itertools.chain(among[start:], among[:start]):
            # Without the lock, since a directory on the network may take its time to answer.
            if not _is_somebody(uid) and _take(folder / str(uid), lease):
                return uid
    except OSError as error:
        raise SandboxError(f"No user can be reserved for the sandbox: {error}.", mend="Make room.") from error
    raise SandboxError(
        f"All of the {len(among):,} users that sandboxes may have are taken.",
        mend="End some, for example with: nbagent clean",
    )


def _take(file: Path, lease: Path) -> bool:
    """Write down that a user is reserved for a lease; returns False if it is reserved already."""
    with _hold_lock(file.parent):
        if file.exists():
            return False
        origin.note(lease, at=file)
        return True


def free(uid: int, lease: Path) -> None:
    """Free a user that was reserved for a lease; nothing happens if another lease has it."""
    for each in _folders(lease.parent):
        with contextlib.suppress(OSError, SandboxError), _hold_lock(each) as folder:
            if origin.read_note(folder / str(uid)) == lease:
                (folder / str(uid)).unlink()


def sweep(runtime: Path) -> list[int]:
    """Free the users whose lease is gone, unless a process still runs as one; returns the freed ones.

    They are noted beside the folder of leases, `runtime`, where nothing can be written to /run.
    """
    freed: list[int] = []
    for each in _folders(runtime):
        # Most often there is nothing to do, and no need to lock.
        if not any(_is_abandoned(file) for file in _files(each)):
            continue
        with contextlib.suppress(OSError, SandboxError), _hold_lock(each) as folder:
            running = _users_of_processes()
            for file in _files(folder):
                if _is_abandoned(file) and int(file.name) not in running:
                    file.unlink()
                    freed.append(int(file.name))
    return freed


def _folder(runtime: Path) -> Path:
    """The folder where users are noted; it is made if it isn't there."""
    for folder in (SHARED, runtime / "users"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / "lock").touch(mode=0o600)
            return folder
    raise SandboxError(f"Neither {SHARED.parent} nor {runtime} can be written.", mend="Make room.")


def _folders(runtime: Path) -> list[Path]:
    """The folders where this process may have noted users."""
    return [each for each in (SHARED, runtime / "users") if os.access(each / "lock", os.W_OK)]


def _files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.name.isdecimal())


def _is_abandoned(file: Path) -> bool:
    """Whether the lease that a file names is gone, or the file names none because its writer died."""
    return origin.read_note(file) is None or bool(origin.is_gone(file))


@contextlib.contextmanager
def _hold_lock(folder: Path) -> Iterator[Path]:
    try:
        held = lock(folder, patience=LOCK_SECONDS)
    except BlockingIOError:
        raise SandboxError(f"{folder} is locked by a process that doesn't go on.") from None
    try:
        yield folder
    finally:
        unlock(held)


def _is_somebody(uid: int) -> bool:
    """Whether this machine has a user or a group of that number."""
    for look in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look(uid)
            return True
    return False


def _users_of_processes() -> set[int]:
    """The users of all processes: a lease's folder may have been removed while its sandbox lives."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
            # A zombie runs nothing, and where nobody collects it, it stays. One with threads has ended its first only.
            if fields["State"].split()[0] != "Z" or int(fields["Threads"]) > 1:
                found.update(map(int, fields["Uid"].split()))
    return found
