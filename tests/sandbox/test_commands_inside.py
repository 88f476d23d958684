"""Programs that are executed inside are seen by process 1 and told, whoever executes them."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from nbagent.core.errors import LimitUnenforceable
from nbagent.core.events import CommandRun
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.inside.commands_inside import MAX_WORD, MAX_WORDS, PER_SECOND
from nbagent.sandbox.inside.commands_inside import UNREADABLE as HIDDEN
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec

LOGGED = {"log_all_commands": True}


class Watched:
    """A kernel whose programs are told."""

    def __init__(self, engine: Engine, **security: Any) -> None:
        self.told: list[CommandRun] = []
        trust = trust_for(TrustLevel.ISOLATED, security={**LOGGED, **security})
        self.kernel = Kernel(engine, SandboxSpec(trust=trust), notify=self._hear)

    def _hear(self, event: object) -> None:
        if isinstance(event, CommandRun):
            self.told.append(event)

    async def hears(self, enough: Callable[[list[CommandRun]], bool], seen: int) -> None:
        """Wait until what was told after the first `seen` is enough."""
        async with asyncio.timeout(60):
            while not enough(self.told[seen:]):
                await asyncio.sleep(0.02)

    async def words_of(self, code: str) -> list[list[str]]:
        """What a cell executed."""
        await asyncio.sleep(1.1)  # what is counted by the second begins anew
        seen = len(self.told)
        cell = await self.kernel.run(code)
        assert cell.status == "ok", cell.outputs
        await asyncio.sleep(0.3)
        # A program that is heard of when its cell has just ended belongs to none.
        assert {each.cell for each in self.told[seen:]} <= {cell.cell, 0}
        return [each.argv for each in self.told[seen:]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(engine: Engine) -> AsyncIterator[Watched]:
    """A sandbox in each engine."""
    found = Watched(engine)
    async with found.kernel:
        yield found


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import subprocess; subprocess.run(['/bin/ls', '-d', '/tmp'])", ["/bin/ls", "-d", "/tmp"]),
        ("import os; os.system('true')", ["/bin/sh", "-c", "true"]),
        ("import os; os.waitpid(os.posix_spawn('/bin/true', ['named so', 'x'], {}), 0)", ["/bin/true", "x"]),
        ("import subprocess; subprocess.run(['/bin/echo', 'ü' * 3])", ["/bin/echo", "üüü"]),
    ],
)
async def test_each_way_to_execute_is_seen(watched: Watched, code: str, words: list[str]) -> None:
    """Path and arguments, in the cell that it belongs to."""
    found = await watched.words_of(code)
    assert words[0] == found[0][0]
    assert words[1:] == found[0][-len(words[1:]) :]


async def test_what_a_program_executes_is_seen_too(watched: Watched) -> None:
    """A shell's programs are the sandbox's."""
    found = await watched.words_of("import os; os.system('/bin/ls / > /dev/null; /bin/cat /dev/null')")
    assert [each[0] for each in found] == ["/bin/sh", "/bin/ls", "/bin/cat"]


async def test_long_words_are_cut_and_many_are_counted(watched: Watched) -> None:
    """What one program can say is bounded, and how many are told one by one."""
    long = await watched.words_of("import subprocess; subprocess.run(['/bin/true', 'x' * 100_000, *['y'] * 200])")
    assert len(long[0]) <= MAX_WORDS
    assert max(map(len, long[0])) <= MAX_WORD
    many = await watched.words_of("for i in range(300): subprocess.run(['/bin/true', str(i)])")
    assert len(many) <= 300
    seen = len(watched.told)
    await watched.words_of("subprocess.run(['/bin/true', 'last'])")
    after = [each.argv for each in watched.told[seen:]]
    uncounted = sum(int(each[0][1:].split()[0]) for each in [*many, *after] if each[0].startswith("("))
    named = [each for each in many if not each[0].startswith("(")]
    assert len(named) + uncounted == 300
    assert len(named) >= PER_SECOND


UNREADABLE = """
import os, shutil, subprocess
shutil.copy("/bin/sh", "/tmp/closed")
os.chmod("/tmp/closed", 0o111)
print(subprocess.run(["/tmp/closed", "-c", "/bin/echo ran"], capture_output=True).stdout)
"""


async def test_what_can_t_be_seen_isn_t_executed(watched: Watched) -> None:
    """A program whose file can't be read closes its process to looks; what it would execute is told, and isn't."""
    seen = len(watched.told)
    cell = await watched.kernel.run(UNREADABLE)
    assert cell.text == "b''"
    await watched.hears(lambda told: len(told) > 1, seen)
    assert [each.argv[0] for each in watched.told[seen:]] == ["/tmp/closed", HIDDEN]
    # A program may be executed without any words, and one that isn't there is no secret.
    bare = (
        "import ctypes; pid = os.fork()\nif not pid: ctypes.CDLL(None).execve(b'/bin/true', None, None); os._exit(1)\n"
    )
    assert await watched.words_of(f"{bare}assert os.waitpid(pid, 0)[1] == 0") == [["/bin/true"]]


BUSY = """
import socket, subprocess, time
door = socket.socket(socket.AF_UNIX)
door.connect("/run/nbagent/controller.sock")
door.send(b"{")  # a request that never ends, which its server waits for
time.sleep(0.2)
for n in range(60):
    subprocess.run(["/bin/true", *["x" * 1000] * 8, str(n)])
    time.sleep(0.03)
subprocess.run(["/bin/echo", "hidden"], stdout=subprocess.DEVNULL)
"""


async def test_nothing_hides_behind_a_busy_owner(watched: Watched) -> None:
    """Code that keeps its controller busy waits itself, and no program goes untold or takes another's words along."""
    found = await watched.words_of(BUSY)
    assert [each[-1] for each in found] == [*map(str, range(60)), "hidden"]
    assert await watched.words_of("subprocess.run(['/bin/true', 'after'])") == [["/bin/true", "after"]]


async def test_process_1_rests_when_a_shell_has_ended(watched: Watched) -> None:
    """The descriptor by which Linux asked of the shell's programs is closed, and not looked at for ever."""
    code = (
        "import os, time\nused = lambda: sum(map(int, open('/proc/1/stat').read().rpartition(')')[2].split()[11:13]))\n"
        "before = used(); time.sleep(1); print(used() - before)"
    )
    await type_into_a_shell(watched, "exit 0")
    cell = await watched.kernel.run(code)
    assert int(cell.text) < 10, "hundredths of a second in one second, of which a look for ever takes all"


async def type_into_a_shell(watched: Watched, line: str) -> None:
    """Start one, and type a line that ends it."""
    master, slave = pty.openpty()
    with supervisor.open_shell(watched.kernel.about.folder, slave) as connection:
        os.close(slave)
        os.write(master, f"{line}\n".encode())
        assert await asyncio.to_thread(supervisor.shell_exit, connection) == 0
    os.close(master)


async def test_a_shell_is_watched_as_well(watched: Watched) -> None:
    """What a person does in `nbagent shell` is told like what the code does."""
    seen = len(watched.told)
    await type_into_a_shell(watched, "/bin/ls -d /workspace; exit 0")
    await watched.hears(lambda told: ["/bin/ls", "-d", "/workspace"] in [each.argv for each in told], seen)


async def test_a_new_kernel_is_watched_again(watched: Watched) -> None:
    """After a death, and what was executed right before it is not lost."""
    await watched.kernel.run("import os, subprocess; subprocess.run(['/bin/true', 'before']); os._exit(3)")
    assert ["/bin/true", "before"] in [each.argv for each in watched.told]
    found = await watched.words_of("import subprocess; subprocess.run(['/bin/true', 'after'])")
    assert ["/bin/true", "after"] in found


async def test_nobody_watches_by_default(engine: Engine) -> None:
    """Without the option nothing is told, and where no program may run there is none to tell."""
    for level in (TrustLevel.ISOLATED, TrustLevel.UNTRUSTED):
        told: list[object] = []
        async with Kernel(engine, SandboxSpec(trust=trust_for(level)), notify=told.append) as kernel:
            await kernel.run("import os; os.system('true')")
        assert not [each for each in told if isinstance(each, CommandRun)]


async def test_what_can_t_be_told_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Linux that can't ask, and in the engine that watches nothing."""
    monkeypatch.setattr(seccomp, "can_ask", lambda: False)
    with pytest.raises(LimitUnenforceable, match="commands"):
        await Watched(engine).kernel.start()
    trust = trust_for(TrustLevel.TRUSTED, security=LOGGED)
    with pytest.raises(LimitUnenforceable, match="commands"):
        await Kernel(engines()["local"], SandboxSpec(trust=trust)).start()
