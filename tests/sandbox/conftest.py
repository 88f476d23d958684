"""What the attacks aim at, on the host, and kernels for them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from sandbox.callers import start  # noqa: F401 - fixtures
from sandbox.index import index, make, own_uv, site  # noqa: F401
from sandbox.world import whole_world, world  # noqa: F401

from nbagent.kernel.kernel import Kernel
from nbagent.policy import TrustLevel, trust_for
from nbagent.sandbox.base import Engine
from nbagent.sandbox.leases import runtime_root
from nbagent.sandbox.mounts import Mount
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture(scope="module")
def aims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Something of each kind on the host that an attack could reach, by name; all of it works from the host itself."""
    folder = tmp_path_factory.mktemp("host")
    secret = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        os.environ["NBAGENT_TEST_SECRET"] = secret
        stack.callback(os.environ.pop, "NBAGENT_TEST_SECRET")
        marker = f"nbagent-test-{secrets.token_hex(8)}"
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", marker])
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield {
            **_files(folder, secret),
            **_servers(stack, folder),
            "secret": secret,
            "marker": marker,
            "addresses": _addresses(),
            "shm_key": _shared_memory(stack),
            "runtime": str(runtime_root()),
        }


def _files(folder: Path, secret: str) -> dict[str, str]:
    # Readable by anybody who gets to them: the sandbox, not the mode, must keep them.
    for each in (folder, *folder.parents):
        if each.owner() == "root" and str(each).startswith("/tmp/"):
            each.chmod(0o755)
    canary = folder / "canary"
    canary.write_text(secret)
    tree = folder / "tree"
    tree.mkdir()
    tree.chmod(0o777)
    (tree / "there").write_text("as it was")
    data = folder / "data"
    data.mkdir()
    data.chmod(0o777)
    for name in ("outer.txt", "inner.txt"):
        (data / name).write_text(name)
        (data / name).chmod(0o666)
    return {"canary": str(canary), "tree": str(tree), "data": str(data)}


def _servers(stack: contextlib.ExitStack, folder: Path) -> dict[str, Any]:
    tcp = stack.enter_context(socket.create_server(("0.0.0.0", 0)))  # noqa: S104 - all addresses are attacked
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("0.0.0.0", 0))  # noqa: S104
    name = f"nbagent-test-{secrets.token_hex(8)}"
    for address in (str(folder / "socket"), "\0" + name):
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(address)
        server.listen()
    (folder / "socket").chmod(0o777)

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                said, caller = udp.recvfrom(100)
                if said == b"":
                    return
                udp.sendto(said + b" back", caller)

    thread = threading.Thread(target=answer)
    thread.start()

    def end() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", udp.getsockname()[1]))
        thread.join()

    stack.callback(end)
    return {
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "unix": str(folder / "socket"),
        "abstract": name,
    }


def _addresses() -> list[str]:
    """The host's own addresses beside loopback's."""
    found = [each.address for some in psutil.net_if_addrs().values() for each in some if each.family == socket.AF_INET]
    return [each for each in found if not each.startswith("127.")] or ["127.0.0.1"]


def _shared_memory(stack: contextlib.ExitStack) -> int:
    """The key of a piece of System V shared memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**30) + 1
    create, remove = 0o1000, 0
    made = libc.shmget(key, 4096, create | 0o666)
    assert made >= 0
    stack.callback(libc.shmctl, made, remove, None)
    return key


@pytest.fixture(scope="module")
def inside(aims: dict[str, Any]) -> dict[str, Any]:
    """The aims as code in a sandbox knows them."""
    return aims | {"data_file": "/tmp/data/outer.txt", "data_folder": "/tmp/data/folder"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def isolated(engine: Engine, aims: dict[str, Any]) -> AsyncIterator[Kernel]:
    """A kernel at the default level that sees a file and a folder."""
    data = Path(aims["data"])
    mounts = (Mount(data / "outer.txt", "/tmp/data/outer.txt"), Mount(data, "/tmp/data/folder"))
    async with Kernel(engine, SandboxSpec(data=mounts)) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unprotected() -> AsyncIterator[Kernel]:
    """A kernel that nothing isolates, to show that the attacks are attacks."""
    async with Kernel(engines()["local"], SandboxSpec(trust=trust_for(TrustLevel.TRUSTED))) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def outside(aims: dict[str, Any]) -> dict[str, Any]:
    """The aims as code on the host knows them, with data of its own to spoil."""
    copy = shutil.copytree(aims["data"], f"{aims['data']}-of-local")
    return aims | {"data_file": f"{copy}/outer.txt", "data_folder": str(copy)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel whose limits are soon reached."""
    trust = trust_for(TrustLevel.ISOLATED, memory_mb=512, tmp_mb=32, pids=64)
    async with Kernel(engine, SandboxSpec(trust=trust)) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED])
async def strict(engine: Engine, request: pytest.FixtureRequest) -> AsyncIterator[Kernel]:
    """A kernel at each level that runs no programs, with the memory that Matplotlib and Polars need together."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(request.param, memory_mb=512))) as kernel:
        yield kernel
