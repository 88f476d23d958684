"""A kernel in each engine, its events, and a package index that the tests fill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import machine
import pytest
import pytest_asyncio
from kernel.carry import Carry, run
from kernel.shared import Events
from packages.index import Index

from nbagent.core.policy import InstallPolicy, TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index that uv takes for the only one, for all kernels of a module."""
    folder: Path = tmp_path_factory.mktemp("uv")
    index = Index()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", f"{index.url}/simple")
        patch.setenv("UV_CACHE_DIR", str(folder))
        patch.setenv("UV_HTTP_RETRIES", "0")
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield index
    index.close()


@pytest.fixture(scope="module")
def all_events() -> Events:
    """What the module's kernel told so far."""
    return Events()


@pytest.fixture
def events(all_events: Events) -> Events:
    """What the module's kernel tells in this test."""
    all_events.clear()
    return all_events


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(engine: Engine, all_events: Events, packages: Index) -> AsyncIterator[Kernel]:
    """A kernel whose limits are soon reached; tests may kill it, it comes back."""
    assert packages.url
    trust = trust_for(TrustLevel.ISOLATED, timeout=60, grace=5, memory_mb=512)
    async with Kernel(
        engine, SandboxSpec(trust=trust, install=InstallPolicy(unknown_names=1000)), notify=all_events.append
    ) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def untrusted() -> AsyncIterator[Kernel]:
    """A sandbox for code of unknown origin, for all tests of a module: no processes, no sockets, little memory."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED, grace=1))
    async with Kernel(machine.works("bubblewrap"), spec) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def carry(untrusted: Kernel) -> AsyncIterator[Carry]:
    """What carries, with nothing in the folders yet."""
    await run(untrusted, "import os, shutil, threading, time\nos.chdir('/workspace')")
    yield Carry(untrusted)
    await run(
        untrusted, "for it in os.scandir('.'): shutil.rmtree(it) if it.is_dir(follow_symlinks=False) else os.unlink(it)"
    )
