"""Takes files in and gives them out, inside the sandbox: `transfer.py` sends this source there. Not for the host.

Folders are opened one below the other and never through a link, so that what hostile code planted on the way, or at the
end of it, is refused rather than followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import time
from typing import Any

CHUNK_BYTES = 256 * 1024
DESCRIPTOR, BYTES = b"d", b"b"
"""What is answered when memory is handed over: that it has come, or that its bytes are wanted."""
MAX_COUNTED_FILES = 100_000
"""Files and folders that are looked at to list some of them."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
CHANGED = "it changed while it was sent"
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
COMING: dict[str, Any] = {}
"""The upload under way: its token, descriptors of its staged file and folder, its hash and size so far."""


class RefusedError(Exception):
    """What can't be done, in a sentence."""


def main(verb: str, *arguments: Any) -> Any:
    """Do what is asked; what goes wrong is told as `{"error": …, "errno": …}`."""
    try:
        return VERBS[verb](*arguments)
    except RefusedError as error:
        return {"error": str(error), "errno": 0}
    except OSError as error:
        return {"error": os.strerror(error.errno or 0), "errno": error.errno or 0}


# -- folders and files ----------------------------------------------------------------------------------------------


def folder_at(base: str, parts: list[str], make: bool = False) -> int:
    """A descriptor of a folder, opened part by part; those that are missing are made if asked for."""
    at = os.open(base, FOLDER_FLAGS)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
            below = os.open(part, FOLDER_FLAGS, dir_fd=at)
        except NotADirectoryError:
            raise RefusedError(f"{part!r} is a link, or no folder") from None
        finally:
            os.close(at)
        at = below
    return at


def kind_of(mode: int) -> str:
    """What a file is."""
    return KINDS.get(stat.S_IFMT(mode), "special file")


def identity(status: os.stat_result) -> list[int]:
    """What changes when a file is replaced or written to."""
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def open_plain(base: str, parts: list[str]) -> int:
    """A descriptor of a plain file with one name, without waiting for what may never come."""
    folder = folder_at(base, parts[:-1])
    try:
        check_plain(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))
        # It may have been replaced just now.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        check_plain(os.fstat(file))
    except BaseException:
        os.close(file)
        raise
    return file


def check_plain(status: os.stat_result) -> None:
    """Refuse what is no plain file of one name."""
    kind = kind_of(status.st_mode)
    if kind != "file":
        raise RefusedError(f"it is a {kind}, not a plain file")
    if status.st_nlink == 0:  # it was replaced or removed since it was opened
        raise RefusedError(CHANGED)
    if status.st_nlink != 1:
        raise RefusedError("it is a hard link: the same file has another name")


# -- out ------------------------------------------------------------------------------------------------------------


def look(base: str, parts: list[str]) -> dict[str, Any]:
    """What a file is now."""
    file = open_plain(base, parts)
    try:
        status = os.fstat(file)
    finally:
        os.close(file)
    return {"size": status.st_size, "identity": identity(status)}


def send(base: str, parts: list[str], offset: int, length: int, known: list[int]) -> dict[str, Any]:
    """Publish a part of a file, as messages that belong to the request that asked for it."""
    from IPython import get_ipython

    kernel = get_ipython().kernel
    file = open_plain(base, parts)
    sent = 0
    try:
        while sent < length and (chunk := os.pread(file, min(CHUNK_BYTES, length - sent), offset + sent)):
            sent += len(chunk)
            kernel.session.send(
                kernel.iopub_socket, "nbagent_chunk", {"size": len(chunk)}, parent=kernel.get_parent(), buffers=[chunk]
            )
        same = identity(os.fstat(file)) == known
    finally:
        os.close(file)
    if sent != length or not same:
        raise RefusedError(CHANGED)
    return {"sent": sent}


def pour(base: str, parts: list[str], known: list[int], address: str) -> dict[str, Any]:
    """Give out a file over a socket."""
    file = open_plain(base, parts)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            sent = copy(connection.fileno(), file, known[1])
        same = identity(os.fstat(file)) == known
    finally:
        os.close(file)
    if sent != known[1] or not same:
        raise RefusedError(CHANGED)
    return {"sent": sent}


def copy(to: int, source: int, size: int) -> int:
    """Copy so many bytes from the beginning of a file, or as many as it has; returns how many."""
    done = 0
    while done < size and (more := os.sendfile(to, source, done, size - done)):
        done += more
    return done


def entries(base: str, parts: list[str], bound: int, seconds: float) -> dict[str, Any]:
    """What there is below a folder: path, kind, bytes and time of change of each, as many as are wanted."""
    end = time.monotonic() + seconds
    found: list[tuple[str, str, int, int]] = []
    total, folders = 0, [""]
    while folders:
        path = folders.pop(0)
        try:
            folder = folder_at(base, [*parts, *path.split("/")[:-1]])
        except (OSError, RefusedError):
            if not path:
                raise
            continue
        try:
            with os.scandir(folder) as scan:
                for entry in scan:
                    total += 1
                    if total > MAX_COUNTED_FILES or (not total % 256 and time.monotonic() > end):
                        return {"entries": sorted(found), "total": total, "whole": False}
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}{entry.name}/")
                    if len(found) < bound and not entry.name.startswith(".nbagent-"):
                        found.append((path + entry.name, *facts(entry.stat(follow_symlinks=False))))
        except FileNotFoundError:
            # Code that runs meanwhile, in a thread, took it away.
            continue
        finally:
            os.close(folder)
    return {"entries": sorted(found), "total": total, "whole": True}


def facts(status: os.stat_result) -> tuple[str, int, int]:
    """Kind, bytes if it is a file, and time of change."""
    kind = kind_of(status.st_mode)
    return kind, status.st_size if kind == "file" else 0, status.st_mtime_ns


# -- in -------------------------------------------------------------------------------------------------------------


def begin(token: str, base: str, parts: list[str]) -> dict[str, Any]:
    """Make a staged file beside the place of the one that comes; what an earlier upload left half done is dropped."""
    drop()
    folder = folder_at(base, parts[:-1], make=True)
    staged = f".nbagent-{token}"
    try:
        check_place(folder, parts[-1])
        file = os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    except BaseException:
        os.close(folder)
        raise
    COMING.update(token=token, folder=folder, staged=staged, file=file, name=parts[-1], size=0, hash=hashlib.sha256())
    free = os.fstatvfs(file)
    return {"free": free.f_bavail * free.f_frsize}


def check_place(folder: int, name: str) -> None:
    """Refuse to put a file where there is something else than a plain file."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(f"there is a {kind_of(status.st_mode)} of that name already")


def coming(token: str) -> dict[str, Any]:
    """The upload under way."""
    if COMING.get("token") != token:
        raise RefusedError("the kernel was replaced meanwhile")
    return COMING


def put(token: str) -> dict[str, Any]:
    """Write what came along with the request."""
    from IPython import get_ipython

    upload = coming(token)
    for buffer in get_ipython().kernel.get_parent()["buffers"]:
        left = memoryview(buffer)
        upload["hash"].update(left)
        upload["size"] += len(left)
        while left:
            left = left[os.write(upload["file"], left) :]
    return {"size": upload["size"]}


def fill(token: str, address: str) -> dict[str, Any]:
    """Write what memory has whose descriptors come over a socket; or the bytes, where no descriptor arrives."""
    upload = coming(token)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        while True:
            said, found, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
            if not said:
                return {"size": upload["size"]}
            if found:
                try:
                    size = os.fstat(found[0]).st_size
                    copy(upload["file"], found[0], size)
                finally:
                    os.close(found[0])
            else:
                connection.sendall(BYTES)
                size = take_bytes(connection, upload["file"])
            upload["size"] += size
            connection.sendall(DESCRIPTOR)


def hold(base: str, parts: list[str], address: str) -> dict[str, Any]:
    """Hold the memory whose descriptor comes over a socket under a name, until a cell that names it has ended."""
    from IPython import get_ipython

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        _, found, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not found:
            return {"held": False}
        events = get_ipython().events

        def release(ran: Any) -> None:
            if ran is not None and f"/{parts[-1]}" not in ran.info.raw_cell:
                return
            events.unregister("post_run_cell", release)
            with contextlib.suppress(OSError):
                os.unlink(parts[-1], dir_fd=folder)
            os.close(folder)
            os.close(found[0])

        folder = folder_at(base, parts[:-1], make=True)
        events.register("post_run_cell", release)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(parts[-1], dir_fd=folder)
        os.symlink(f"/proc/self/fd/{found[0]}", parts[-1], dir_fd=folder)
        connection.sendall(DESCRIPTOR)
        return {"held": True}


def take_bytes(connection: socket.socket, file: int) -> int:
    """Write bytes that come over a socket, behind their number; returns that."""
    size = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
    left = size
    while left and (data := connection.recv(min(left, 4 * CHUNK_BYTES))):
        left -= len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
    return size - left


def check_whole(token: str, size: int, digest: str) -> dict[str, Any]:
    """The upload, if all of it has come; without a digest, only its bytes are counted."""
    upload = coming(token)
    if os.fstat(upload["file"]).st_size != size or digest not in ("", upload["hash"].hexdigest()):
        raise RefusedError("it did not arrive as it was sent")
    return upload


def finish(token: str, base: str, parts: list[str], size: int, digest: str) -> dict[str, Any]:
    """Move the staged file to its place, if all of it has come."""
    upload = check_whole(token, size, digest)
    check_place(upload["folder"], upload["name"])
    os.fchmod(upload["file"], 0o644)
    os.rename(upload["staged"], upload["name"], src_dir_fd=upload["folder"], dst_dir_fd=upload["folder"])
    status = os.fstat(upload["file"])
    if look(base, parts)["identity"] != identity(status):
        raise RefusedError("its folder was moved away meanwhile")
    close()
    return {"size": status.st_size, "changed": status.st_mtime_ns}


def archive(token: str, size: int, digest: str) -> dict[str, Any]:
    """Descriptors of a whole upload and its folder, for `unpack_inside.py`."""
    upload = check_whole(token, size, digest)
    return {"file": upload["file"], "folder": upload["folder"]}


def drop() -> dict[str, Any]:
    """Give up the upload under way, if there is one."""
    if COMING:
        with contextlib.suppress(OSError):
            os.unlink(COMING["staged"], dir_fd=COMING["folder"])
        close()
    return {}


def close() -> None:
    """Forget the upload under way."""
    for name in ("file", "folder"):
        os.close(COMING[name])
    COMING.clear()


VERBS: dict[str, Any] = {
    "look": look, "send": send, "pour": pour, "entries": entries,
    "begin": begin, "put": put, "fill": fill, "hold": hold, "finish": finish, "archive": archive, "drop": drop,
}  # fmt: skip
