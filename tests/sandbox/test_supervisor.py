"""Process 1 of a sandbox, in both engines: who owns it, when it ends itself, and that code inside can't move it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import machine
import pytest
import pytest_asyncio
from jupyter_client import AsyncKernelClient
from sandbox.controller import abandoned_sandbox, controller
from sandbox.inner import value

from nbagent.core.errors import SandboxError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine, Hooks, Sandbox
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel with few processes, whose process 1 is attacked."""
    trust = trust_for(TrustLevel.ISOLATED, pids=64, memory_mb=512, tmp_mb=64)
    async with Kernel(engine, SandboxSpec(trust=trust)) as made:
        yield made


def folder_of(kernel: Kernel) -> Path:
    """Where the sandbox's socket is."""
    return kernel.about.folder


def ended(folder: Path, *, within: float) -> bool:
    """Whether a sandbox has ended, at the latest after so many seconds."""
    end = time.monotonic() + within
    while supervisor.is_alive(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# -- code inside ------------------------------------------------------------------------------------------------------

ATTACKS = {
    "signals": "import os, signal\nfor each in range(1, 65):\n    attempt(os.kill, 1, each)",
    "a signal by its descriptor": "import os\nattempt(os.pidfd_open, 1)",
    "a signal by its folder": (
        "import os, signal\nfolder = os.open('/proc/1', os.O_RDONLY | os.O_DIRECTORY)\n"
        "for each in range(1, 65):\n    attempt(signal.pidfd_send_signal, folder, each)"
    ),
    "signals to threads": "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    "for call in ((200, 1, 9), (234, 1, 1, 9), (129, 1, 9, 0), (297, 1, 1, 9, 0)):\n    attempt(check, *call)",
    "urgent data, through which Linux was left": (
        "import socket\none, other = socket.socketpair()\nattempt(one.send, b'x', socket.MSG_OOB)\n"
        "attempt(one.sendmsg, [b'x'], [], socket.MSG_OOB)\nattempt(other.recv, 1, socket.MSG_OOB)"
    ),
    "limits": "import resource\nfor each in range(16):\n    attempt(resource.prlimit, 1, each, (0, 0))",
    "processors": "import os\nattempt(os.sched_setaffinity, 1, {0})",
    "scheduling": "import os\nattempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))",
    "priority": "import os\nattempt(os.setpriority, 0, 1, 19)\nattempt(os.setpriority, 2, 0, 19)\n"
    "for group in (0, 1, os.getpgid(1)):\n    attempt(os.setpriority, 1, group, 19)",
    "priority of its files": (
        "number = {'x86_64': 251}.get(os.uname().machine, 30)\n"
        "for which, who in ((1, 1), (2, 0), (2, 1), (3, 0), (3, os.getuid())):\n"
        "    attempt(check, number, which, who, 3 << 13)"
    ),
    "signals by files": (
        "import fcntl, socket, struct\none, other = socket.socketpair()\n"
        "for command, argument in ((8, 1), (10, 9), (15, struct.pack('ii', 1, 1))):\n"
        "    attempt(fcntl.fcntl, one, command, argument)\n"
        "for command in (0x8901, 0x8902):\n    attempt(fcntl.ioctl, one, command, struct.pack('i', 1))"
    ),
    "hiding": "import ctypes\nassert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == -1",
    "files of its own": "for name in 'mem environ maps oom_score_adj clear_refs coredump_filter comm'.split():\n"
    "    attempt(open, f'/proc/1/{name}', 'r+b' if name != 'environ' else 'rb')",
    "descriptors": "import os\nattempt(os.listdir, '/proc/1/fd')\nattempt(os.readlink, '/proc/1/exe')\n"
    "attempt(os.readlink, '/proc/1/cwd')\nattempt(os.listdir, '/proc/1/root/')",
    "its socket": "import os\nattempt(os.stat, '/run/nbagent/s')\nattempt(os.stat, '/run/s')",
}
HELPERS = """
import ctypes, errno, json, os
reached = []
def attempt(function, *arguments):
    try:
        function(*arguments)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOSYS):
            return
        if isinstance(error, ValueError):
            return
        reached.append([function.__name__, repr(arguments), repr(error)])
        return
    reached.append([function.__name__, repr(arguments)])
def check(number, *arguments):
    ctypes.set_errno(0)
    if ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1:
        raise OSError(ctypes.get_errno(), "refused")
"""


@pytest.mark.parametrize("name", ATTACKS)
async def test_code_can_t_get_at_process_1(kernel: Kernel, name: str) -> None:
    """It can't signal it, change its limits or priority, look into it, or find its socket; and it lives on."""
    assert await value(kernel, f"{HELPERS}\n{ATTACKS[name]}\nprint(json.dumps(reached))") == []
    assert supervisor.is_alive(folder_of(kernel))


async def test_code_can_still_see_to_itself_and_its_children(kernel: Kernel) -> None:
    """Its own priority, processors and limits, and signals to what it started; others' limits can be read."""
    code = """
import json, os, resource, signal, subprocess
import zmq
zmq.Context().socket(zmq.PUB).close()  # its threads set how they are scheduled, and end the process if they can't
os.setpriority(os.PRIO_PROCESS, 0, os.nice(1))
os.sched_setaffinity(0, os.sched_getaffinity(0))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
ends = []
for end in (lambda each: each.terminate(), lambda each: os.killpg(each.pid, signal.SIGKILL)):
    child = subprocess.Popen(["/bin/sleep", "100"], start_new_session=True)
    resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
    end(child)
    ends.append(child.wait())
print(json.dumps(ends))
"""
    assert await value(kernel, code) == [-signal.SIGTERM, -signal.SIGKILL]


async def test_signals_to_everybody_miss_process_1(kernel: Kernel) -> None:
    """Neither the kernel's group nor `kill(-1)` has it: Ctrl-C for a program is not for the sandbox."""
    code = """
import json, os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.kill(0, signal.SIGTERM)
try:
    os.kill(-1, signal.SIGHUP)
except ProcessLookupError:
    pass  # there is nobody else
print(json.dumps(os.getpgid(0) == os.getpid()))
"""
    assert await value(kernel, code) is True
    with closing(supervisor.hold(folder_of(kernel))):
        pass


async def test_the_kernel_goes_first_when_memory_runs_out(kernel: Kernel) -> None:
    """Linux is told to kill what code made before process 1, which can't be told otherwise from inside."""
    code = "import json; print(json.dumps([int(open(f'/proc/{n}/oom_score_adj').read()) for n in (1, 'self')]))"
    first, own = await value(kernel, code)
    assert own > first


async def test_process_1_survives_a_full_sandbox(kernel: Kernel) -> None:
    """With no process and no memory left, it answers, refuses a shell with a reason, and the kernel works on."""
    fill = """
import json, os, time
children, hoard = [], []
try:
    while True:
        child = os.fork()
        if not child:
            time.sleep(1000)
        children.append(child)
except OSError:
    pass
print(json.dumps(len(children)))
"""
    assert await value(kernel, fill) > 10
    master, slave = pty.openpty()
    try:
        with (
            supervisor.open_shell(folder_of(kernel), slave) as connection,
            pytest.raises(SandboxError, match="can't be started"),
        ):
            await asyncio.to_thread(supervisor.shell_exit, connection)
    finally:
        os.close(master)
        os.close(slave)
    assert supervisor.is_alive(folder_of(kernel))
    assert (await kernel.run("for each in children:\n    os.kill(each, 9)\n    os.waitpid(each, 0)")).success


async def test_descriptors_are_not_left_to_programs(kernel: Kernel) -> None:
    """What the kernel was handed stays its own: a program that it starts has its sockets not open."""
    cell = await kernel.run("import os, time; os.system('ls -l /proc/self/fd'); time.sleep(0.2)")
    assert "socket:" not in str(cell.outputs)


# -- nonsense from outside --------------------------------------------------------------------------------------------


NONSENSE = (b"", b"\n", b"not json", b"[]", b"7", b'{"do": "dance"}', b'{"do": 7, "keep": []}', b"[" * 4096)


@pytest.mark.parametrize("request_", NONSENSE)
async def test_nonsense_is_survived(kernel: Kernel, request_: bytes) -> None:
    """Whatever a caller of the same user sends, with descriptors or not, the sandbox lives on."""
    for descriptors in ([], [0]):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(10)
            caller.connect(str(folder_of(kernel) / supervisor.SOCKET))
            if request_:
                socket.send_fds(caller, [request_], descriptors)
            caller.shutdown(socket.SHUT_WR)
            caller.recv(1000)
    supervisor.hold(folder_of(kernel)).close()
    assert (await kernel.run("1 + 1")).text == "2"


# -- owners -----------------------------------------------------------------------------------------------------------


async def test_without_keep_a_sandbox_ends_with_its_controller(engine: Engine) -> None:
    """Nobody wants it back: it ends within a second or two of its controller's death."""
    folder = abandoned_sandbox(engine.name, keep=0)
    assert ended(folder, within=3)


async def test_a_kept_sandbox_waits_and_then_ends(engine: Engine) -> None:
    """It lives on as long as its lease says, and not much longer; a look at it doesn't count."""
    folder = abandoned_sandbox(engine.name, keep=3)
    started = time.monotonic()
    assert supervisor.is_alive(folder)
    assert ended(folder, within=8)
    assert time.monotonic() - started > 1.5


async def test_busy_code_does_not_keep_it_alive(engine: Engine) -> None:
    """Code that ignores every signal and takes all the processor ends with the sandbox."""
    code = """
import os, signal, threading
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        while True:
            try:
                os.kill(1, signal.SIGHUP)
            except OSError:
                pass
"""
    folder = abandoned_sandbox(engine.name, keep=1, code=code)
    assert ended(folder, within=8)


async def test_nobody_s_output_wedges_nobody(engine: Engine) -> None:
    """Programs that print without end while nobody reads stop neither the kernel nor who takes it over."""
    code = "import os, threading\nx = 42\nthreading.Thread(target=os.system, args=('yes',)).start()"
    sandbox = await take_over(engine, abandoned_sandbox(engine.name, keep=60, code=code))
    assert await run(sandbox, "x") == "42"
    await sandbox.end()
    await sandbox.close()


async def take_over(engine: Engine, folder: Path) -> Sandbox:
    """What a session does that takes a sandbox over."""
    sandbox = engine.sandbox(Hooks())
    await sandbox.take_over(leases.Lease.take_over(folder))
    return sandbox


@contextlib.contextmanager
def client_of(sandbox: Sandbox) -> Iterator[AsyncKernelClient]:
    """A client of Jupyter's, connected to its kernel."""
    client = AsyncKernelClient()
    client.load_connection_info(sandbox.endpoint.connection_info)
    client.start_channels(stdin=False, hb=False)
    yield client
    client.stop_channels()


async def run(sandbox: Sandbox, code: str) -> str:
    """What a cell shows, through a client of its own."""
    said: list[str] = []

    def hear(message: dict[str, dict[str, dict[str, str]]]) -> None:
        said.append(str(message["content"].get("data", {}).get("text/plain", "")))

    with client_of(sandbox) as client:
        await client.execute_interactive(code, timeout=60, allow_stdin=False, output_hook=hear)
    return "".join(said)


async def test_a_sandbox_is_taken_over_with_its_variables(engine: Engine, leftovers: Callable[[], list[str]]) -> None:
    """After the controller's death another one goes on: same variables, same packages, installs, and a clean end."""
    before = leftovers()
    folder = abandoned_sandbox(engine.name, keep=60, code="x = 42")
    sandbox = await take_over(engine, folder)
    assert await run(sandbox, "x + 1") == "43"
    assert await sandbox.poll() is None
    # ... it is owned again, so that its time doesn't run on ...
    assert await asyncio.to_thread(_seconds_left, folder) is None
    await sandbox.signal(signal.SIGKILL)
    assert (await asyncio.wait_for(sandbox.wait(), 10)).code == -signal.SIGKILL
    await sandbox.close()
    assert set(leftovers()) <= set(before)


def _seconds_left(folder: Path) -> float | None:
    with supervisor._connect(folder) as connection:
        found: float | None = supervisor._ask(connection, {"do": "look"})["seconds_left"]
        return found


@pytest.mark.parametrize(("code", "status"), [("import os; os._exit(137)", 137), ("import os; os.abort()", -6)])
async def test_the_end_of_one_that_was_taken_over_is_told(engine: Engine, code: str, status: int) -> None:
    """How the kernel ended reaches the new controller too, and an exit code above 128 is no signal."""
    sandbox = await take_over(engine, abandoned_sandbox(engine.name, keep=60))
    with client_of(sandbox) as client:
        client.execute(code)
        assert (await asyncio.wait_for(sandbox.wait(), 20)).code == status
    await sandbox.close()


async def test_one_that_has_ended_is_not_taken_over(engine: Engine) -> None:
    """That is told, and who asked holds nothing of it; a sweep then removes it."""
    folder = abandoned_sandbox(engine.name, keep=0)
    assert ended(folder, within=5)
    before = machine.descriptors()
    with pytest.raises(SandboxError, match=r"has ended|is gone"):
        await take_over(engine, folder)
    await machine.swept()
    assert leases.abandoned(folder)
    assert machine.descriptors() <= before + 2


async def test_a_take_over_that_fails_leaves_the_sandbox(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be taken over now, for a reason outside of it, can be taken over later."""
    folder = abandoned_sandbox(engine.name, keep=60)
    with monkeypatch.context() as patch:
        patch.setattr("nbagent.sandbox.leases.scratch.settle", _no_room)
        with pytest.raises(SandboxError, match="No space left"):
            await take_over(engine, folder)
    sandbox = await take_over(engine, folder)
    assert await run(sandbox, "x") == "42"
    await sandbox.end()
    await sandbox.close()


def _no_room(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_stopped_controller_is_a_living_one(engine: Engine) -> None:
    """A controller that only does nothing for a while, as in a suspended laptop, keeps its sandbox."""
    with controller(engine.name, keep=0) as (process, folder):
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1)
        assert supervisor.is_alive(folder)
        assert not leases.abandoned(folder)
        process.send_signal(signal.SIGCONT)
    assert ended(folder, within=3)


async def test_a_hundred_restarts_cost_nothing() -> None:
    """Connections, pipes and sockets of kernels that were replaced are closed, however many there were."""
    async with Kernel(machine.works("bubblewrap")) as kernel:
        await kernel.restart()
        await machine.swept()
        before = machine.descriptors()
        for _ in range(RESTARTS):
            await kernel.restart()
        assert machine.descriptors() <= before
        assert (await kernel.run("1 + 1")).text == "2"


RESTARTS = int(os.environ.get("NBAGENT_TEST_RESTARTS", "5"))
"""A hundred by hand; each costs a start."""


# -- shells -----------------------------------------------------------------------------------------------------------


async def test_a_shell_is_one_inside(kernel: Kernel) -> None:
    """It has a terminal, runs as the sandbox's user with its walls, and its exit code is told."""
    master, slave = pty.openpty()
    connection = supervisor.open_shell(folder_of(kernel), slave)
    os.close(slave)
    os.write(
        master, b"echo $((6*7)) $(id -u) $(tty) $(cat /proc/self/status | grep -c 'Seccomp_filters:.*[23]'); exit 3\n"
    )
    assert await asyncio.to_thread(supervisor.shell_exit, connection) == 3
    connection.close()
    said = b""
    with contextlib.suppress(OSError):  # Linux says so at the end of a terminal, which it hands on piece by piece
        while piece := os.read(master, 65536):
            said += piece
    os.close(master)
    uid = json.loads((await kernel.run("import os; os.getuid()")).text)
    assert f"42 {uid}".encode() in said


async def test_a_shell_that_is_forgotten_goes(kernel: Kernel) -> None:
    """When the terminal is closed, the shell is hung up, and nothing of it stays."""
    master, slave = pty.openpty()
    with supervisor.open_shell(folder_of(kernel), slave) as connection:
        os.close(slave)
        os.close(master)
        # It may have been hung up, or have found its input at its end before it was.
        assert await asyncio.wait_for(asyncio.to_thread(supervisor.shell_exit, connection), 10) in (0, -signal.SIGHUP)


async def test_there_is_no_shell_where_none_is_allowed(engine: Engine) -> None:
    """Below the default level the request is refused with a reason, and the terminal is not kept."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED))) as kernel:
        master, slave = pty.openpty()
        with (
            supervisor.open_shell(folder_of(kernel), slave) as connection,
            pytest.raises(SandboxError, match="has no shell"),
        ):
            await asyncio.to_thread(supervisor.shell_exit, connection)
        os.close(master)
        os.close(slave)
