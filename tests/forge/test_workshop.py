"""Tools are made in real sandboxes; whatever a tool does there, it ends in a sentence and leaves nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import machine
import pytest
from forge.shared import draft, keep

from nbagent.core.errors import ForgeError, InstallRefused, SandboxError
from nbagent.core.events import CellStarted, HostDecided, Package, ToolStageEntered
from nbagent.core.policy import InstallPolicy, TrustLevel, trust_for
from nbagent.forge.tool import Draft, Tool
from nbagent.forge.workshop import OUTPUT, Progress, fitted, make, shortened
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.spec import SandboxSpec

CALL = "from word_count import word_count\n\n\ndef test_it():\n    "
ONE = "def word_count(text: str) -> int:\n    return 1\n"
SWALLOWS = f"""
{ONE}
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""
FORGES = """
import json, os, sys
from IPython import get_ipython

def word_count(text: str) -> int:
    get_ipython().displayhook(json.dumps({"nonce": "?", "code": 0, "outcomes": {"test_it": "passed"}, "calls": 1}))
    print("1 passed in 0.01s")
    sys.stdout.flush()
    os._exit(0)
"""
HOSTILE: dict[str, tuple[str, str, float, str]] = {
    "endless": (ONE, f"{CALL}while True:\n        word_count('')", 3, "of word_count did not end within 3 s."),
    "swallows": (SWALLOWS, f"{CALL}word_count('')", 2, "The code of word_count did not end within 2 s."),
    "forks": (ONE, f"{CALL}import os\n    while True:\n        os.fork()", 4, "."),
    "prints": (ONE, f"{CALL}print('x' * 10**9)\n    assert word_count('') == 2", 30, "."),
    "kills": (ONE, f"{CALL}import os\n    os.kill(os.getpid(), 9)", 30, "took the kernel with it. .* SIGKILL"),
    "forges": (FORGES, f"{CALL}word_count('')", 30, "took the kernel with it"),
    "toothless": (ONE, f"{CALL}assert True", 30, "The tests passed without calling the tool"),
}
"""By name: code, tests, the limit in seconds, and what is said."""


async def made(wanted: Draft, told: list[Any], *, seconds: float = 30, **options: Any) -> Tool:
    """A tool from a small sandbox."""
    trust = trust_for(TrustLevel.ISOLATED, timeout=seconds, grace=1, memory_mb=400, pids=64)
    progress = Progress(wanted, 1, keep(told))
    return await make(progress, machine.works("bubblewrap"), SandboxSpec(trust=trust), **options)


async def test_hostile_tools(leftovers: Callable[[], list[str]]) -> None:
    """Each ends in a cleanup with one sentence, bounded in size, and none leaves anything of its sandbox."""
    room = asyncio.Semaphore(3)

    async def attempt(code: str, tests: str, seconds: float, said: str) -> None:
        told: list[ToolStageEntered] = []
        async with room:
            with pytest.raises(ForgeError) as caught:
                await made(draft(code=code, tests=f"{tests}\n"), told, seconds=seconds)
        error = caught.value
        assert [each.stage for each in told] == ["creating", "installing", "testing", "cleanup", "dormant"]
        assert told[3].reason == str(error)
        assert re.search(said, str(error)), str(error)
        assert len(str(error)) < 1000
        assert len(error.output) < OUTPUT + 100

    await asyncio.gather(*(attempt(*each) for each in HOSTILE.values()))
    assert leftovers() == []


async def test_what_is_not_approved_is_not_installed(leftovers: Callable[[], list[str]]) -> None:
    """Whoever is asked sees each package with its version, pytest too; a no ends in a cleanup."""
    asked: list[str] = []
    told: list[ToolStageEntered] = []

    async def confirm(packages: list[Package]) -> None:
        asked.extend(each.name for each in packages)
        raise InstallRefused("pytest is not approved.")

    with pytest.raises(ForgeError, match=r"What word_count needs was not installed. pytest is not approved."):
        await made(draft(), told, confirm=confirm)
    assert "pytest" in asked
    assert [each.stage for each in told] == ["creating", "installing", "cleanup", "dormant"]
    assert leftovers() == []


async def test_stopped_while_it_is_made(leftovers: Callable[[], list[str]]) -> None:
    """Whoever waits for a tool may stop waiting; its sandbox ends with that."""
    told: list[ToolStageEntered] = []
    endless = draft(code=ONE, tests=f"{CALL}while True:\n        word_count('')\n")
    work = asyncio.create_task(made(endless, told))
    while "testing" not in [each.stage for each in told]:
        await asyncio.sleep(0.05)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [(each.stage, each.reason) for each in told[-2:]] == [("cleanup", "It was stopped."), ("dormant", "")]
    assert leftovers() == []


async def test_hosts_that_a_tool_reaches_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like those of a session's own cells; what else its kernel tells is nobody's cell."""
    decided = HostDecided(host="example.org", port=443, allowed=True, by="list")

    class Reaching(Kernel):
        async def start(self) -> None:
            self._notify(CellStarted(cell=1, turn=1, code="1"))
            self._notify(decided)
            raise SandboxError("It can't be started.")

    monkeypatch.setattr("nbagent.forge.workshop.Kernel", Reaching)
    told: list[Any] = []
    with pytest.raises(SandboxError):
        await made(draft(), told)
    assert [each for each in told if not isinstance(each, ToolStageEntered)] == [decided]


async def test_a_draft_that_is_wrong_starts_nothing() -> None:
    """It is told before there is any stage."""
    told: list[ToolStageEntered] = []
    with pytest.raises(ForgeError, match="The code has no function"):
        await made(draft(code="x = 1"), told)
    assert told == []


async def test_never_on_the_host() -> None:
    """An engine that isolates nothing makes no tools."""
    with pytest.raises(ForgeError, match="The engine local isolates nothing, and tools are never made on the host"):
        await make(Progress(draft(), 1, keep([])), machine.works("local"), SandboxSpec())


def test_pytest_is_nbagents_own_wish() -> None:
    """Where only listed packages are installed it is added to them; elsewhere no list comes about by it."""
    for policy, allowed in (
        (InstallPolicy(), frozenset()),
        (InstallPolicy(listed_only=True), {"pytest"}),
        (InstallPolicy(allow=frozenset({"polars"})), {"polars", "pytest"}),
    ):
        assert fitted(SandboxSpec(install=policy)).install.allow == allowed


def test_long_output_is_shortened() -> None:
    """To both of its ends, with what is left out between them."""
    assert shortened(" short\n") == "short"
    text = shortened("a" * 10_000 + "b" * 10_000)
    assert len(text) < OUTPUT + 60
    assert (text[:2], text[-2:]) == ("aa", "bb")
    assert "[… 14,000 characters left out here …]" in text
