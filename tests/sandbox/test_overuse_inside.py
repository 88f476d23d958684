"""What a sandbox may take of the machine's beside what its group is charged for, in both engines."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import machine
import pytest
import pytest_asyncio
from sandbox.inner import value

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.inside import overuse_inside
from nbagent.sandbox.inside.overuse_inside import BOUNDS, OveruseWatch
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def isolated(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel at the default level, with so much memory that its group doesn't refuse connections first."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, memory_mb=6000))) as kernel:
        yield kernel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def untrusted(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel at the lowest level."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED))) as kernel:
        yield kernel


TAKE = {
    "terminals": "import os\nheld = [os.openpty() for _ in range(80)]",
    "locks of files": (
        "import fcntl\nheld = [open(f'/tmp/{n}', 'wb') for n in range(50)]\n"
        "for n in range(12_000):\n    fcntl.lockf(held[n % 50], fcntl.LOCK_EX, 1, 2 * (n // 50))"
    ),
    "open files": """
import ctypes, os
libc = ctypes.CDLL(None)
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        for _ in range(45_000):
            file = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
            libc.mmap(None, 4096, 1, 2, file, 0)
            os.close(file)
        os.read(os.pipe()[0], 1)
    children.append(child)
""",
    "watches of epoll": """
import os, select
files = [end for _ in range(500) for end in os.pipe()]
held = [select.epoll() for _ in range(120)]
for each in held:
    for file in files:
        each.register(file, 0)
""",
    "files in flight": """
import array, os, socket
one, other = socket.socketpair()
for _ in range(8):
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 60))])
# Only a socket that is in flight itself has these.
first, last = socket.socketpair()
socket.send_fds(first, [b"x"], [other.fileno()])
other.close()
""",
    "MB in Internet sockets": """
import socket
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
server.bind(("127.0.0.1", 0))
server.listen(4096)
sent = 0
while sent < 800 << 20:
    client = socket.create_connection(server.getsockname())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    client.setblocking(False)
    try:
        while True:
            sent += client.send(bytes(1 << 16))
    except BlockingIOError:
        client.close()
""",
    "Internet sockets": """
import socket
servers, sent = [], 0
for number in range(14_000):
    if not number % 4000:
        servers.append(socket.create_server(("127.0.0.1", 0), backlog=4096))
    client = socket.create_connection(servers[-1].getsockname())
    client.send(b"x")
    client.close()
""",
}


@pytest.mark.parametrize("what", TAKE)
async def test_a_sandbox_that_takes_too_much_is_ended_and_says_so(isolated: Kernel, what: str) -> None:
    """The cell, and so the person and the model, are told what it had and may have; another kernel goes on."""
    # What hardly ran isn't looked at again (`IDLE_SECONDS`), and 80 terminals are taken within 2 ms on a fast machine.
    cell = await isolated.run(f"{TAKE[what]}\nimport time; sum(range(1_000_000)); time.sleep(60)")
    assert cell.status == "died"
    assert "was ended for what it took of the machine: it had " in cell.note
    # To fill sockets takes many of them: where many are made between two looks, their number is what is seen first.
    seen = [what, "Internet sockets"] if what == "MB in Internet sockets" else [what]
    assert any(f" {each}, of which a sandbox may have {BOUNDS[each]:,}" in cell.note for each in seen)
    assert (await isolated.run("1 + 1")).text == "2"


async def test_a_thread_has_no_table_of_open_files_of_its_own(isolated: Kernel) -> None:
    """Nobody would count what is in it; to close a range of files of one's own goes on."""
    code = """
import ctypes, json, os, threading
libc = ctypes.CDLL(None, use_errno=True)
def close(flags, found):
    last = ctypes.c_uint(-1)
    found += [libc.syscall(436, ctypes.c_uint(2**20), last, ctypes.c_ulong(flags)), ctypes.get_errno()]
found = []
for flags in (0, 2, 2 | 4, 2 | 1 << 32):
    thread = threading.Thread(target=close, args=(flags, found))
    thread.start()
    thread.join()
print(json.dumps(found))
"""
    assert await value(isolated, code) == [0, 0, -1, 22, -1, 22, -1, 22]


async def test_what_programs_need_is_there(isolated: Kernel) -> None:
    """Some terminals, for `!command` and others, and locks of databases."""
    code = """
import json, os, pty, sqlite3
held = [os.openpty() for _ in range(20)]
get_ipython().system("test -t 1")
one, other = (sqlite3.connect("/tmp/x.db", timeout=0) for _ in range(2))
one.execute("pragma journal_mode=wal")
one.execute("create table t (a)")
one.execute("begin immediate")
found = [_exit_code]
try:
    other.execute("begin immediate")
except sqlite3.OperationalError as error:
    found.append(str(error))
print(json.dumps(found))
"""
    assert await value(isolated, code) == [0, "database is locked"]


async def test_locks_of_one_process_are_said_to_be_taken(untrusted: Kernel) -> None:
    """Where there is one process, databases work as ever, and Linux holds no lock for them."""
    code = """
import fcntl, json, os, sqlite3
one, other = (sqlite3.connect("/tmp/x.db", timeout=0) for _ in range(2))
one.execute("pragma journal_mode=wal")
one.execute("create table t (a)")
one.execute("insert into t values (7)")
one.commit()
found = other.execute("select * from t").fetchall()
one.execute("begin immediate")
try:
    other.execute("begin immediate")
except sqlite3.OperationalError as error:
    found.append(str(error))
file = open("/tmp/y", "wb")
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_EX)
found.append([line for line in open("/proc/locks") if line.split()[4] == str(os.getpid())])
print(json.dumps(found))
"""
    assert await value(untrusted, code) == [[7], "database is locked", []]


async def test_a_sandbox_is_idle_as_long_as_nothing_runs_or_begins(isolated: Kernel) -> None:
    """Looks may be left out only while no process works, begins or ends."""
    code = (
        f"exec({Path(overuse_inside.__file__).read_text()!r})"
        + """
import json, subprocess, sys
works = "import sys\\nfor line in sys.stdin:\\n    print(sum(range(1_000_000)), flush=True)"
child = subprocess.Popen([sys.executable, "-c", works], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def work():
    child.stdin.write(b"\\n")
    child.stdin.flush()
    child.stdout.readline()
def end():
    child.kill()
    child.wait()
watch = OveruseWatch()
found = [watch.is_idle()]
for change in (work, lambda: None, lambda: subprocess.run(["true"]), end):
    watch.clocks = {clock_of(child.pid): time.clock_gettime(clock_of(child.pid))}
    watch.newest = watch.newest_process()
    change()
    found.append(watch.is_idle())
print(json.dumps(found))
"""
    )
    assert await value(isolated, code) == [False, False, True, False, False]


async def test_others_locks_are_nobody_s_fault(isolated: Kernel, untrusted: Kernel, tmp_path: Path) -> None:
    """Locks that the host holds, of whatever kind and number, end no sandbox."""
    ofd_setlk, record = 37, "=hhxxxxqqixxxx"
    with ExitStack() as stack:
        files = [stack.enter_context((tmp_path / str(number)).open("wb")) for number in range(60)]
        for number in range(BOUNDS["locks of files"] + 2000):
            file, at = files[number % len(files)], 2 * (number // len(files))
            if number % 2:
                fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
            else:
                fcntl.fcntl(file, ofd_setlk, struct.pack(record, fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
        for kernel in (isolated, untrusted):
            cell = await kernel.run("import time; time.sleep(1)")
            assert cell.status == "ok", cell.note


async def test_a_hidden_process_counts_by_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lets nobody look is not one with no open files."""

    def refuse(_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    own = str(os.getpid())
    assert overuse_inside.open_files_of(own) >= 3
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        assert overuse_inside.open_files_of(own) >= 64
        patch.setattr(os, "listdir", refuse)
        assert overuse_inside.watches_of(own) >= 32 * 32
    assert overuse_inside.open_files_of("0") == overuse_inside.watches_of("0") == 0


async def test_watches_of_a_program_that_nobody_may_read_count(isolated: Kernel) -> None:
    """Linux shows nobody what such a process has open."""
    take = f"{TAKE['watches of epoll']}\nimport time\nprint('taken', flush=True)\ntime.sleep(60)"
    code = f"""
import os, shutil, subprocess, sys
shutil.copy(os.path.realpath(sys.executable), "/tmp/program")
os.chmod("/tmp/program", 0o111)
home = {{"PYTHONHOME": sys.base_prefix}}
child = subprocess.Popen(["/tmp/program", "-c", {take!r}], stdout=subprocess.PIPE, env=home)
print(child.stdout.readline())
child.wait()
"""
    cell = await isolated.run(code)
    assert "watches of epoll" in cell.note, cell


async def test_a_hidden_process_counts_by_what_it_has_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mappings of files count, one by one; of who lets nobody look, all that there may be."""
    own = str(os.getpid())
    shown = overuse_inside.mapped_files_of(own)
    assert 20 < shown < len(Path("/proc/self/maps").read_text().splitlines())

    def refuse(*_: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(overuse_inside, "read", refuse)
    assert overuse_inside.mapped_files_of(own) > shown
    assert overuse_inside.mapped_files_of("0") == 0


async def test_less_is_too_much_where_linux_s_own_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a bound is enough then; who has little stays, whatever the machine's memory does."""
    for counted, grown, ended in ((20, 0, False), (20, 600, True), (10, 600, False), (70, 0, True)):
        memory = iter([0, *[grown * 1024] * 9])
        monkeypatch.setattr(overuse_inside, "memory_of_linux", lambda memory=memory: next(memory))
        for name in ("locks", "open_files"):
            monkeypatch.setattr(overuse_inside, name, lambda: 5)
        monkeypatch.setattr(overuse_inside, "terminals", lambda counted=counted: counted)
        assert bool(OveruseWatch().overuse()) is ended


async def test_a_look_is_cheap() -> None:
    """Process 1 looks four times a second, beside every kernel that waits; it has few processes, a machine many."""
    watch, processes = OveruseWatch(), sum(each.name.isdecimal() for each in Path("/proc").iterdir())
    machine.within(20 * max(1, processes / 50), lambda: [watch.overuse() for _ in range(20)])
