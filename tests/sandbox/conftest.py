"""What the attacks aim at, on the host, and kernels for them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from egress.callers import start  # noqa: F401 - fixtures
from egress.world import whole_world, world  # noqa: F401
from packages.index import index, make, own_uv, site  # noqa: F401

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.faces.selfcheck.aims import Aims, prepared
from nbagent.faces.selfcheck.check import Outcome, check
from nbagent.faces.selfcheck.probe import Finding, Probe
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aims]:
    """Something of each kind on the host that an attack could reach."""
    with prepared(state=tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.fixture(scope="module")
def aims(made: Aims) -> dict[str, Any]:
    """The aims by name, as code in a sandbox knows them, with the secret that it must not."""
    return {**made.host, "isolated": True, "secret": made.secret}


class Attacked:
    """What became of the attacks on each engine and level, which are tried once for all tests of a module."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, TrustLevel], Outcome] = {}

    async def outcome(self, engine: Engine, level: TrustLevel) -> Outcome:
        """All findings."""
        key = (engine.name, level)
        if key not in self._outcomes:
            self._outcomes[key] = await check(engine, level)
        return self._outcomes[key]

    async def finding(self, engine: Engine, level: TrustLevel, probe: Probe) -> Finding:
        """That of one probe."""
        outcome = await self.outcome(engine, level)
        return next(each for each in outcome.findings if each.probe.name == probe.name)


@pytest.fixture(scope="module")
def attacked() -> Attacked:
    """The attacks of the self-check."""
    return Attacked()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def isolated(engine: Engine, made: Aims) -> AsyncIterator[Kernel]:
    """A kernel at the default level that sees a file and a folder."""
    async with Kernel(engine, SandboxSpec(data=made.data)) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel whose limits are soon reached."""
    trust = trust_for(TrustLevel.ISOLATED, memory_mb=512, tmp_mb=32, pids=64)
    async with Kernel(engine, SandboxSpec(trust=trust)) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brief(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel whose cells have half a second, and as much to end when they are told to."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, timeout=0.5, grace=0.5))) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED])
async def strict(engine: Engine, request: pytest.FixtureRequest) -> AsyncIterator[Kernel]:
    """A kernel at each level that runs no programs, with the memory that Matplotlib and Polars need together."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(request.param, memory_mb=512))) as kernel:
        yield kernel


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder as somebody else may have made it, beside a secret of the person's."""
    folder = tmp_path / "clone"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("secret")
    (folder / "a.csv").write_text("a")
    (folder / "sub" / "b.csv").write_text("b")
    (folder / "sub" / ".env").write_text("secret")
    os.mkfifo(folder / "sub" / "pipe")
    for at, to in {
        "figures": "../.ssh",
        "data.csv": "../.ssh/id",
        "rootfs": "/",
        "chain.csv": "sub/chain.csv",
        "sub/chain.csv": "../figures/id",
        "folder": "sub",
        "absolute.csv": str(folder / "sub" / "b.csv"),
    }.items():
        (folder / at).symlink_to(to)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
