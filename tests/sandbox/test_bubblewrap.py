"""The embedded engine: the contract, and what is particular to bubblewrap."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine
import pytest
from machine import works
from sandbox.contract import Holds
from sandbox.inner import isolated_with, sandbox_of

import nbagent
from nbagent.core.errors import SandboxError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox import environment
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.engines import bwrap_network
from nbagent.sandbox.engines.bwrap_arguments import HIDDEN
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Bubblewrap."""
    return works("bubblewrap")


class TestBubblewrap(Holds):
    """The contract."""

    def process(self, kernel: Kernel) -> int:
        """Bubblewrap itself, which joined the group before it became it."""
        return sandbox_of(kernel).instance._process.pid


async def test_a_kernel_out_of_memory_whose_end_is_told_late(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may run the process that tells of the end long after: the cause is told all the same."""
    monkeypatch.setattr("nbagent.sandbox.exit.SURVIVED_SECONDS", 0.2)

    async def hold_up() -> None:
        os.kill(monitor, signal.SIGSTOP)
        while not sandbox.usage().oom_kills():
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.5)
        os.kill(monitor, signal.SIGCONT)

    async with Kernel(engine, isolated_with(memory_mb=256)) as kernel:
        sandbox: Any = sandbox_of(kernel)
        monitor = sandbox.instance._process.pid
        cell, _ = await asyncio.gather(kernel.run("taken = bytearray(512 << 20)"), hold_up())
        assert "ran out of memory (limit 256 MB" in cell.note


USER = 54_321
SCRIPT = """
import asyncio, json, os, sys
from nbagent.core.errors import SandboxError
from nbagent.kernel.kernel import Kernel
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.sandbox.spec import SandboxSpec
from nbagent.sandbox.registry import engines

async def attempt(accept, codes, **limits):
    spec = SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **limits), accept=frozenset(accept))
    found = {}
    try:
        async with Kernel(engines()["bubblewrap"], spec) as kernel:
            for name, code in codes.items():
                cell = await kernel.run(code)
                found[name] = [cell.status, cell.text, str(cell.outputs[:1])]
    except SandboxError as error:
        found["error"] = [type(error).__name__, error.message, error.mend]
    return found

async def main():
    report = engines()["bubblewrap"].check()
    print(json.dumps({
        "report": [report.available, report.reason, {each.name: each.enforced for each in report.controls}],
        "refused": await attempt((), {"one": "1"}),
        "cpu": await attempt(("memory",), {"one": "1"}, cpus=0.1),
        "accepted": await attempt(("memory",), json.loads(sys.argv[1]), pids=60, memory_mb=1024),
    }))

asyncio.run(main())
"""
CODES = {
    "uid": "import os; os.getuid()",
    "status": "print(open('/proc/self/status').read())",
    "home": "import os; os.listdir(os.environ['HOME'])",
    "canary": "open({canary!r})",
    "network": "import socket; socket.create_connection(('127.0.0.1', {tcp}), 2)",
    "site": "open('/opt/site/x', 'w')",
    "kernel": "open('/opt/kernel/x', 'w')",
    "unshare": "import ctypes; ctypes.CDLL(None).unshare(0x10000000)",
    "polars": "import polars; polars.DataFrame({{'a': [1, 2]}})['a'].sum()",
    "program": "import subprocess; subprocess.run(['echo', 'ran'], capture_output=True).stdout",
    "forks": """
import os, time
children = []
try:
    while len(children) < 500:
        child = os.fork()
        if not child:
            time.sleep(1000)
        children.append(child)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
len(children)
""",
    "first": """
import os, resource, signal
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        return []
    return [function.__name__]
(attempt(os.kill, 1, signal.SIGTERM) + attempt(os.kill, 1, signal.SIGSTOP) + attempt(open, '/proc/1/mem', 'r+b')
    + attempt(open, '/proc/1/environ') + attempt(os.listdir, '/proc/1/fd')
    + attempt(resource.prlimit, 1, resource.RLIMIT_NOFILE, (0, 0)) + attempt(os.setpriority, os.PRIO_USER, 0, 19)
    + attempt(open, '/proc/1/oom_score_adj', 'w'))
""",
    "memory": "x = bytearray(3 * 10**9)",
}


def as_user(script: str, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script with this Python as an ordinary user, who has a home and a cache with the kernel environment.

    What of this Python's lies in root's home is put where the user can reach it, in a mount namespace of its own.
    """
    home = Path(tempfile.mkdtemp(prefix="nbu-", dir="/tmp"))
    cache = home / "cache" / "nbagent"
    cache.mkdir(parents=True)
    made = environment.find()
    assert made is not None
    (cache / "environments").symlink_to(Path(made.folder).parent.resolve())
    needed = [sys.prefix, sys.base_prefix, Path(made.folder).resolve(), Path(nbagent.__file__).parent.parent]
    lines = ["set -e"]
    hidden = {str(each): _closed(Path(each)) for each in needed}
    for number, at in enumerate(hidden):
        (home / f"stash-{number}").mkdir()
        lines.append(f"mount --rbind {at} {home}/stash-{number}")
    for closed in {each for each in hidden.values() if each}:
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {closed}")
    for number, (at, closed) in enumerate(hidden.items()):
        if closed:
            lines.append(f"mkdir -p {at} && mount --rbind {home}/stash-{number} {at}")
    lines.append(f'{before} exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"')
    for path in (home, *home.rglob("*")):
        os.chown(path, USER, USER, follow_symlinks=False)
    variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": os.environ["PATH"]}
    variables |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines), "sh"]
        return subprocess.run(
            [*command, sys.executable, "-W", "error", "-c", script, *arguments],
            env=variables, cwd="/", capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(home)


def _closed(path: Path) -> str:
    """The topmost folder on the way that others may not enter, or nothing."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return str(folder)
    return ""


@pytest.fixture(scope="module")
def ordinary(aims: dict[str, Any]) -> dict[str, Any]:
    """What an ordinary user of this machine gets, with the default and with an accepted limit."""
    codes = {name: code.format(**aims) if "{" in code else code for name, code in CODES.items()}
    # More processes of this user than the sandbox may have: they are not the sandbox's.
    crowd = f"setpriv --reuid {USER} --regid {USER} --clear-groups sh -c " + (
        "'for i in $(seq 100); do sleep 15 & done; wait' > /dev/null 2>&1 & sleep 0.5;"
    )
    done = as_user(SCRIPT, json.dumps(codes), before=crowd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.needs("root")
class TestOrdinaryUser:
    """Somebody who may not make control groups, which is most people."""

    def test_what_is_not_enforced_is_told(self, ordinary: dict[str, Any]) -> None:
        """The report says which limits aren't enforced here; all walls are."""
        available, reason, controls = ordinary["report"]
        assert available, reason
        assert {name for name, enforced in controls.items() if not enforced} == {"memory", "cpu"}

    def test_nothing_is_weakened_silently(self, ordinary: dict[str, Any]) -> None:
        """Without acceptance by name the start is refused, with the mend."""
        kind, message, mend = ordinary["refused"]["error"]
        assert kind == "LimitUnenforceable"
        assert "memory" in message
        assert "--accept memory" in mend

    def test_each_limit_is_accepted_for_itself(self, ordinary: dict[str, Any]) -> None:
        """Who accepts that memory is unbounded has not accepted it of the processor."""
        assert "--accept cpu" in ordinary["cpu"]["error"][2]

    def test_the_sandbox_works(self, ordinary: dict[str, Any]) -> None:
        """With the limit accepted, code runs, with libraries and programs, as this user."""
        found = ordinary["accepted"]
        assert found["uid"][:2] == ["ok", str(USER)]
        assert found["polars"][:2] == ["ok", "3"]
        assert found["program"][:2] == ["ok", "b'ran\\n'"]

    def test_the_walls_hold(self, ordinary: dict[str, Any]) -> None:
        """No capability, no file of theirs, no network, nothing to write to, no new namespace."""
        found = ordinary["accepted"]
        status = dict(line.split(":", 1) for line in found["status"][1].splitlines())
        assert [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")] == [0] * 5
        assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
        assert "nbagent" not in found["home"][1]
        for name in ("canary", "network", "site", "kernel"):
            assert found[name][0] == "error", found[name]
        assert found["unshare"][1] == "-1"

    def test_process_1_is_out_of_reach(self, ordinary: dict[str, Any]) -> None:
        """Though it is the same user's, code can neither look into it, nor signal it, nor change its limits."""
        assert ordinary["accepted"]["first"][:2] == ["ok", "[]"]

    def test_what_can_be_bounded_is(self, ordinary: dict[str, Any]) -> None:
        """Processes are counted in the sandbox alone, and the memory of each is bounded."""
        found = ordinary["accepted"]
        assert 10 < int(found["forks"][1].splitlines()[-1]) < 60
        assert found["memory"][0] in ("error", "died")
        assert "MemoryError" in found["memory"][2]


async def test_a_program_without_variables_is_of_the_same_python(engine: Engine) -> None:
    """The loader finds the base Python's own library, and neither another release's in the system nor none."""
    code = """
import subprocess, sys
told = subprocess.run([sys.executable, '-c', 'import sys; print(sys.version)'], env={}, capture_output=True, text=True)
told.stdout.strip() == sys.version, told.stderr"""
    async with Kernel(engine, isolated_with()) as kernel:
        assert (await kernel.run(code)).text == "(True, '')"


async def test_a_limit_that_linux_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux's reason is told, and no group stays."""
    monkeypatch.setattr("nbagent.sandbox.limits.cgroup.cgroupfs.PERIOD", 50)  # microseconds: too short
    with pytest.raises(SandboxError, match="limits can't be set"):
        await Kernel(works("bubblewrap"), SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, cpus=0.5))).start()


async def test_nothing_is_left_open() -> None:
    """Starting again and again costs neither descriptors nor threads."""
    engine = works("bubblewrap")
    async with Kernel(engine):
        pass
    await machine.swept()
    before, threads = machine.descriptors(), machine.own_threads()
    for _ in range(5):
        async with Kernel(engine) as kernel:
            await kernel.restart()
    await machine.swept()
    assert machine.descriptors() <= before
    assert machine.own_threads() == threads


async def test_what_of_proc_is_the_machine_s_is_hidden() -> None:
    """As in Docker: the person's keys have names, and a sandbox of theirs runs as their uid."""
    code = f"""
import os
for path in {[f"/proc/{name}" for name in HIDDEN]}:
    try: found = os.listdir(path) if os.path.isdir(path) else open(path).read(9)
    except OSError: found = ''
    if found: print(path, found)
"""
    async with Kernel(works("bubblewrap")) as kernel:
        cell = await kernel.run(f"{code}print(os.path.ismount('/proc/keys') or not os.path.exists('/proc/keys'))")
    assert cell.text == "True", cell.outputs


def test_a_network_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    """Where bwrap has ended, or its child, nothing is set and nothing raised: the start tells what is wrong."""
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
        assert not bwrap_network.bound(tmp_path, ended, {})
        (tmp_path / "status.json").write_text(json.dumps({"child-pid": ended.pid}))
        assert not bwrap_network.bound(tmp_path, ended, {"net.ipv4.tcp_rmem": "4096 131072 131072"})


def test_nothing_is_set_in_the_host_s_network(tmp_path: Path) -> None:
    """A number that bwrap wrote down may be another process's by now."""
    settings = Path("/proc/sys/net/ipv4/tcp_rmem")
    before = settings.read_text()
    (tmp_path / "status.json").write_text(json.dumps({"child-pid": os.getpid()}))
    with subprocess.Popen(["/bin/sleep", "60"]) as running:
        found = bwrap_network.bound(tmp_path, running, {"net.ipv4.tcp_rmem": before.strip()})
        running.kill()
    assert not found
    assert settings.read_text() == before
