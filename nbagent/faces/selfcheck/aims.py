"""Prepares targets for the attacks on the host: files, servers, processes, shared memory.

They are used by nothing else and removed afterwards. The host can see whatever an attack did to them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.metadata
import os
import re
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbagent.faces.selfcheck.system_calls_inside import CALLS
from nbagent.sandbox.data.mirror import SMALL
from nbagent.sandbox.data.mounts import Mount, for_client
from nbagent.sandbox.leases.lease import runtime_root
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.paths import DATA

VARIABLE = "NBAGENT_SELF_CHECK_SECRET"
START_UP = (
    ".ipython/profile_default/startup/00.py",
    ".local/lib/python3/site-packages/nbagent.pth",
    ".local/share/jupyter/kernels/python3/kernel.json",
    ".config/nbagent/config.toml",
    ".git/hooks/pre-commit",
    "sitecustomize.py",
)
"""Files that programs on the host would run or read, in a folder like a home folder."""
SAME_EVERYWHERE = frozenset(
    """
    HOME USER LOGNAME LANG PATH TMPDIR PWD HOSTNAME IPYTHONDIR NBAGENT PYTHONDONTWRITEBYTECODE
    PYDEVD_DISABLE_FILE_VALIDATION PYDEVD_USE_FRAME_EVAL LOKY_MAX_CPU_COUNT LD_LIBRARY_PATH JPY_PARENT_PID MPLBACKEND
    TERM CLICOLOR FORCE_COLOR CLICOLOR_FORCE PAGER GIT_PAGER LC_CTYPE COLUMNS LINES OMP_NUM_THREADS
    POLARS_TABLE_WIDTH POLARS_FMT_MAX_ROWS POLARS_FMT_MAX_COLS POLARS_FMT_STR_LEN POLARS_MAX_THREADS
    PYTHONHASHSEED PYTHONHOME PYTHONPATH TZ
    """.split()
)
"""Environment variables that nbagent, IPython or an image set inside."""


@dataclass
class Heard:
    """The calls that reached the host's servers."""

    connections: int = 0
    datagrams: int = 0


@dataclass
class Aims:
    """The targets of one run.

    Attributes:
        host: What the attacks are told of them.
        secret: The content of the canary file, also in the environment.
        folder: The folder of the files.
        heard: The calls that reached the servers.
    """

    host: dict[str, Any]
    secret: str
    folder: Path
    heard: Heard = field(default_factory=Heard)

    @property
    def data(self) -> tuple[Mount, ...]:
        """The data of the sandbox: a file, a folder, and the data of a kernel that was started for a folder."""
        folder, clone = self.folder / "data", self.folder / "clone"
        return (Mount(folder / "outer.txt", f"{DATA}/outer.txt"), Mount(folder, f"{DATA}/folder"), *for_client(clone))

    @contextlib.contextmanager
    def add_later(self) -> Iterator[None]:
        """Add to the data while the sandbox runs: secrets, links to them, a socket, and at last a table."""
        data, canary = self.folder / "data", self.folder / "canary"
        with _unix(str(data / "later")):
            (data / "later-git").mkdir()
            (data / "later-git").rename(data / ".later-git")
            for at in (data / ".later-env", data / "later-inner" / ".env", data / ".later-git" / "config"):
                at.write_text(self.secret)
                at.chmod(0o666)
            (data / "later-link").symlink_to(canary)
            (data / "later-folder").rename(data / ".later-folder")
            (data / "later-folder").symlink_to("../outside")
            (data / "later.csv").write_text("a\n1\n")
            (data / "later.csv").chmod(0o666)
            yield

    def state(self) -> dict[str, str]:
        """A digest of each file and folder that the attacks may not change."""
        found = {}
        for path in sorted((*(self.folder / "tree").rglob("*"), *(self.folder / "data").rglob("*"))):
            at = path.lstat()
            if "later" in str(path.relative_to(self.folder)):
                continue
            content = path.read_bytes() if path.is_file() else b""
            said = f"{at.st_mode} {at.st_size} {at.st_mtime_ns} {at.st_uid}".encode() + content
            found[str(path.relative_to(self.folder))] = hashlib.sha256(said).hexdigest()
        return found


@contextlib.contextmanager
def prepared(*, state: Path) -> Iterator[Aims]:
    """Make the targets, and remove them at the end; `state` has this run's events, which attacks must not see."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="nbagent-check-"))
        stack.callback(shutil.rmtree, folder, True)
        secret, name = secrets.token_hex(16), f"nbagent-check-{secrets.token_hex(6)}"
        os.environ[VARIABLE] = secret
        stack.callback(os.environ.pop, VARIABLE, None)
        files = _files(stack, folder, secret)
        canary = stack.enter_context(Path(files["canary"]).open())
        os.set_inheritable(canary.fileno(), True)
        heard = Heard()
        host = {
            **files,
            **_servers(stack, folder, name, heard),
            **_process(stack, name),
            **_memory(stack, name),
            **_calls(),
            "folder": str(folder),
            "runtime": str(runtime_root()),
            "state": str(state),
            "variable": VARIABLE,
            "environment": _environment(),
            "packages": sorted(_packages()),
            **_neighbour(stack, f"{name}-b"),
        }
        yield Aims(host, secret, folder, heard)


def _files(stack: contextlib.ExitStack, folder: Path, secret: str) -> dict[str, Any]:
    # Readable and writable by all users, so that the sandbox must protect them, not their mode.
    folder.chmod(0o711)
    canary = folder / "canary"
    canary.write_text(secret)
    data = folder / "data"
    tree = folder / "tree"
    for name in START_UP:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / "there").write_text("as it was")
    data.mkdir()
    for name in ("outer.txt", "inner.txt", "locked.txt"):
        (data / name).write_text(name)
    # Too large to be copied if it can't be linked: then it is mounted, and its locks are shared.
    os.truncate(data / "locked.txt", 2 * SMALL)
    (data / "link").symlink_to(canary)
    (data / "inner").mkdir()
    (data / "inner" / ".env").write_text(secret)
    (data / "later-inner").mkdir()
    (data / "later-folder").mkdir()
    (data / "later-folder" / "table.csv").write_text("b")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "table.csv").write_text(secret)
    _clone(folder / "clone", canary)
    os.mkfifo(data / "pipe")
    for path in (canary, data, tree, outside, *data.rglob("*"), *tree.rglob("*"), *outside.iterdir()):
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)
    fcntl.flock(stack.enter_context((data / "locked.txt").open()), fcntl.LOCK_EX)
    # So that opening it for writing finds a reader.
    stack.callback(os.close, os.open(data / "pipe", os.O_RDONLY | os.O_NONBLOCK))
    return {"canary": str(canary), "tree": str(tree), "start_up": list(START_UP)}


def _clone(folder: Path, canary: Path) -> None:
    """Make a folder like a hostile repository, whose links lead out of it."""
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "figures").symlink_to("../outside")
    (folder / "data.csv").symlink_to(canary)
    (folder / "first.csv").symlink_to("sub/second.csv")
    (folder / "sub" / "second.csv").symlink_to("../figures/table.csv")
    (folder / "rootfs").symlink_to("/")
    for at in (folder, folder / "sub"):
        at.chmod(0o755)


def _servers(stack: contextlib.ExitStack, folder: Path, name: str, heard: Heard) -> dict[str, Any]:
    """Start servers on all of the host's addresses and on two Unix sockets, which count calls."""
    tcp = stack.enter_context(_tcp())
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("0.0.0.0", 0))  # noqa: S104 - all addresses are attacked
    listening = [tcp]
    for address in (*(str(folder / each / "socket") for each in ("", "data", "outside")), "\0" + name):
        listening.append(stack.enter_context(_unix(address)))
    wake, woken = socket.socketpair()
    thread = threading.Thread(target=_serve, args=(listening, udp, woken, heard), name="nbagent-check", daemon=True)
    thread.start()

    def end() -> None:
        wake.close()
        thread.join()
        woken.close()

    stack.callback(end)
    return {
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "unix": str(folder / "socket"),
        "abstract": name,
        "sockets": [],
        "addresses": _addresses(),
        "resolvers": _resolvers(),
    }


def _unix(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    if not address.startswith("\0"):
        Path(address).chmod(0o777)
    return server


def _tcp() -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", 0))  # noqa: S104


def _serve(listening: list[socket.socket], udp: socket.socket, woken: socket.socket, heard: Heard) -> None:
    with selectors.DefaultSelector() as selector:
        for each in (*listening, udp, woken):
            selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    return
                if key.fileobj is udp:
                    said, caller = udp.recvfrom(100)
                    heard.datagrams += 1
                    with contextlib.suppress(OSError):
                        udp.sendto(said + b" back", caller)
                else:
                    server = next(each for each in listening if each is key.fileobj)
                    server.accept()[0].close()
                    heard.connections += 1


def _addresses() -> list[str]:
    """The host's addresses besides loopback, and the usual ones of a container engine's gateway."""
    with contextlib.suppress(OSError):
        text = Path("/proc/net/fib_trie").read_text()
        found = re.findall(r"-- ([0-9.]+)\n\s+/32 host LOCAL", text)
        own = [each for each in dict.fromkeys(found) if not each.startswith("127.")]
        if own:
            return own
    return ["127.0.0.1"]


def _resolvers() -> list[str]:
    with contextlib.suppress(OSError):
        found = re.findall(r"(?m)^nameserver\s+([0-9.]+)\s*$", Path("/etc/resolv.conf").read_text())
        return [each for each in found if not each.startswith("127.")]
    return []


def _process(stack: contextlib.ExitStack, name: str) -> dict[str, Any]:
    """Start a process that an attack could find by its command line, with the secret in its environment."""
    marker = f"{name}-process"
    code = "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, marker], stdin=subprocess.DEVNULL, start_new_session=True
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return {"marker": marker, "process": process.pid}


def _memory(stack: contextlib.ExitStack, name: str) -> dict[str, Any]:
    """Make System V shared memory, a file in /dev/shm and a POSIX message queue, readable by all users."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**30) + 1
    create, remove, queue = 0o1000, 0, f"/{name}".encode()
    made = libc.shmget(key, 4096, create | 0o666)
    if made >= 0:
        stack.callback(libc.shmctl, made, remove, None)
    with contextlib.suppress(OSError):
        shared = Path("/dev/shm") / name  # noqa: S108 - shared memory is the point
        shared.touch()
        shared.chmod(0o666)
        stack.callback(shared.unlink, missing_ok=True)
    opened = libc.mq_open(queue, os.O_CREAT | os.O_RDWR, 0o666, None)
    if opened >= 0:
        os.close(opened)
        stack.callback(libc.mq_unlink, queue)
    return {"shm_key": key, "shm_name": name}


def _neighbour(stack: contextlib.ExitStack, name: str) -> dict[str, Any]:
    """Names for what a second sandbox leaves behind; without isolation, it is left on the host."""
    libc = ctypes.CDLL(None, use_errno=True)
    key, remove = secrets.randbelow(2**30) + 1, 0

    def clear() -> None:
        Path("/dev/shm", name).unlink(missing_ok=True)  # noqa: S108 - shared memory is the point
        if (made := libc.shmget(key, 0, 0)) >= 0:
            libc.shmctl(made, remove, None)

    stack.callback(clear)
    return {"neighbour": name, "neighbour_key": key}


def _calls() -> dict[str, Any]:
    """The numbers of system calls on this machine."""
    others = ("execve", "execveat", "io_setup", "io_destroy")
    numbers = {name: seccomp.number(name) for name in (*CALLS, *others)}
    return {
        "calls": {name: (numbers[name], CALLS[name]) for name in CALLS if numbers[name] >= 0},
        **{name: numbers[name] for name in ("io_setup", "io_destroy")},
        "exec": {name: numbers[name] for name in ("execve", "execveat")},
    }


def _environment() -> dict[str, str]:
    """The host's environment variables with digests of their values, so that attacks aren't told the values."""
    return {
        name: hashlib.sha256(value.encode(errors="replace")).hexdigest()
        for name, value in os.environ.items()
        if name not in SAME_EVERYWHERE and not name.lower().endswith("_proxy")
    }


def _packages() -> set[str]:
    """The names of packages that this Python and its base Python have installed, as folders have them."""
    places = [*sys.path, *map(str, Path(sys.base_prefix).glob("lib/python3*/site-packages"))]
    places += map(str, Path("/usr/lib").glob("python3*/dist-packages"))
    found = {each.metadata["Name"] or "" for each in importlib.metadata.distributions(path=places)}
    return {name.lower().replace("-", "_") for name in found if name} - {"pip", "setuptools", "wheel"}
