"""What every engine that isolates must hold to: `test_bubblewrap.py` and `test_docker.py` run all of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import pytest
from sandbox.conftest import Attacked
from sandbox.inner import sandbox_of

from nbagent.core.errors import DataError
from nbagent.core.policy import MIB, TrustLevel, trust_for
from nbagent.faces.selfcheck import files_inside, network_inside, programs_inside
from nbagent.faces.selfcheck.aims import SAME_EVERYWHERE
from nbagent.faces.selfcheck.check import PROBES
from nbagent.faces.selfcheck.probe import Probe, ProbeVerdict, source
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.data.mirror import SMALL
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.data.tree import Why
from nbagent.sandbox.spec import SandboxSpec

LEVELS = (TrustLevel.ISOLATED, TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED)
FAMILIES = """
import json, socket
found = {}
for family in range(46):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
        except OSError as error:
            found.setdefault(family, []).append(error.errno)
        else:
            found.setdefault(family, []).append(0)
print(json.dumps(found))
"""


LOOK = """
import json, os
found = {}
for at, _, names in os.walk("/tmp/data", followlinks=True):
    for name in names:
        path = os.path.join(at, name)
        found[os.path.relpath(path, "/tmp/data")] = open(path).read()
print(json.dumps(found))
"""


async def value(kernel: Kernel, code: str, **arguments: Any) -> Any:
    """What a cell prints as JSON in its last line."""
    cell = await kernel.run(code, **arguments)
    assert cell.status == "ok", (cell.note, cell.outputs)
    # What Python warns of goes to standard error, and is not it.
    text = "".join(each["text"] for each in cell.outputs if each.get("name") == "stdout")
    return json.loads(text.splitlines()[-1])


def isolated_with(**limits: Any) -> SandboxSpec:
    """The default level with other limits."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **limits))


def group_value(pid: int, controller: str, names: tuple[str, ...]) -> str:
    """The first of these files of the control group that a process is in."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        bases = ([controller] if controller in controllers.split(",") else []) + ([""] if not controllers else [])
        for base in bases:
            for name in names:
                at = Path("/sys/fs/cgroup") / base / path.lstrip("/") / name
                if at.is_file():
                    return at.read_text().strip()
    raise AssertionError(f"no group of {controller} binds process {pid}")


class Holds:
    """Attacks and limits; a subclass for each engine says how to find the sandbox's process on the host."""

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    def process(self, kernel: Kernel) -> int:
        """A process of the sandbox's, by its id on the host."""
        raise NotImplementedError

    # -- attacks ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("level", "probe"),
        [
            pytest.param(level, probe, id=f"{level}-{probe.name}")
            for level in LEVELS
            for probe in PROBES
            if level in probe.levels
        ],
    )
    async def test_an_attack_fails(self, attacked: Attacked, engine: Engine, level: TrustLevel, probe: Probe) -> None:
        """Whatever `nbagent doctor --self-check` tries fails, but for what the engine declares."""
        finding = await attacked.finding(engine, level, probe)
        assert finding.verdict in (ProbeVerdict.HELD, ProbeVerdict.KNOWN), finding.seen

    async def test_known_failures_are_failures(self, attacked: Attacked, engine: Engine) -> None:
        """Nothing is excused that has been mended since, nor what is in no list."""
        for name, reason in engine.known_failures.items():
            probe = next(each for each in PROBES if each.name == name)
            finding = await attacked.finding(engine, TrustLevel.ISOLATED, probe)
            assert (finding.verdict, finding.reason) == (ProbeVerdict.KNOWN, reason), name

    # -- the host's boundary ------------------------------------------------------------------------------------

    async def test_the_environment_is_an_allow_list(self, isolated: Kernel) -> None:
        """Of the host's variables none is inside; those there are nbagent's, IPython's or the image's own."""
        names = set(await value(isolated, "import json, os; print(json.dumps(sorted(os.environ)))"))
        assert names <= SAME_EVERYWHERE

    async def test_only_the_sandboxs_own_processes_are_seen(self, isolated: Kernel) -> None:
        """The process list is short, and a signal to everybody reaches nobody outside."""
        code = """
import glob, json, os
try:
    os.kill(-1, 0)
except OSError:
    pass
print(json.dumps([open(at).read().split("\\0")[0] for at in glob.glob("/proc/[0-9]*/cmdline")]))
"""
        assert len(await value(isolated, code)) <= 4

    # -- system calls -------------------------------------------------------------------------------------------

    async def test_sockets_are_of_three_families(self, isolated: Kernel) -> None:
        """Only Unix, IPv4 and IPv6 sockets exist: no netlink, vsock, packet, crypto or Bluetooth ones."""
        found = await value(isolated, FAMILIES)
        allowed = {int(family) for family, errors in found.items() if set(errors) - {1, 38}}
        assert allowed <= {1, 2, 10, 16}
        assert [family for family, errors in found.items() if 0 in errors] == ["1", "2", "10"]
        # Said as on a Linux without it, which libraries know.
        assert set(found["16"]) == {95}

    # -- the network --------------------------------------------------------------------------------------------

    async def test_no_name_is_resolved(self, isolated: Kernel) -> None:
        """A name fails at once, and no query leaves: there is nowhere to send one."""
        code = """
import json, socket
try:
    socket.getaddrinfo("example.com", 80)
    print(json.dumps(True))
except OSError:
    print(json.dumps(False))
"""
        started = time.monotonic()
        assert await value(isolated, code) is False
        assert time.monotonic() - started < 5

    async def test_the_host_s_network_at_the_trusted_level_only(self, engine: Engine, aims: dict[str, Any]) -> None:
        """The level `trusted` has the network, so the attack on it fails for the level's sake; it has no files."""
        async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.TRUSTED))) as kernel:
            code = source(network_inside.connect_to_loopback_of_the_host, aims)
            assert "127.0.0.1" in (await value(kernel, code))["got"]
            assert (await value(kernel, source(files_inside.read_by_absolute_path, aims)))["refused"]

    async def test_loopback_inside_works(self, isolated: Kernel) -> None:
        """Code may talk to itself: a server and its client in one sandbox."""
        code = """
import json, socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
server.close()
print(json.dumps(True))
"""
        assert await value(isolated, code) is True

    # -- sandboxes among themselves -----------------------------------------------------------------------------

    async def test_nothing_planted_outlives_the_kernel(self, engine: Engine) -> None:
        """Start-up files that code leaves are gone with a restart, and are nothing that the host would read."""
        plant = """
import os
os.makedirs("/home/sandbox/.ipython/profile_default/startup", exist_ok=True)
for at in ("/home/sandbox/.ipython/profile_default/startup/00.py", "/workspace/sitecustomize.py",
           "/tmp/sitecustomize.py", "/workspace/usercustomize.py", "/workspace/json.py"):
    open(at, "w").write("import builtins; builtins.planted = True")
"""
        look = """
import builtins, json, os, sys
print(json.dumps([hasattr(builtins, "planted"), os.listdir("/workspace"), "json.py" in (json.__file__ or "")]))
"""
        async with Kernel(engine) as kernel:
            assert (await kernel.run(plant)).success
            await kernel.restart()
            assert await value(kernel, look) == [False, [], False]

    # -- data ---------------------------------------------------------------------------------------------------

    async def test_data_is_read(self, isolated: Kernel) -> None:
        """Files and folders lie at /tmp/data, with what is in them."""
        code = """
import json
print(json.dumps([open("/tmp/data/outer.txt").read(), open("/tmp/data/folder/inner.txt").read()]))
"""
        assert await value(isolated, code) == ["outer.txt", "inner.txt"]

    async def test_any_name_can_be_mounted(self, engine: Engine, tmp_path: Path) -> None:
        """Spaces, other scripts, colons, commas, quotes, line breaks, options and long names are names."""
        names = [
            "with two  spaces.csv",
            "größe-数据-📈.csv",
            "x" * 230 + ".csv",
            "a:b.csv",
            "a,b=c.csv",
            "line\nbreak.csv",
            "-rf",
            'it\'s "quoted" $(touch x) `x`.csv',
            "back\\slash\\040.csv",
            "%2e%2e.csv",
            " leading and trailing ",
        ]
        for name in names:
            (tmp_path / name).write_text(name)
        data = tuple(Mount(tmp_path / name, f"/tmp/data/{name}") for name in names)
        code = """
import json, os
found = sorted(os.listdir("/tmp/data"))
print(json.dumps([found, [open("/tmp/data/" + name).read() == name for name in found]]))
"""
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            found, right = await value(kernel, code)
        assert found == sorted(names)
        assert all(right)

    async def test_a_private_file_is_readable_through_a_copy(self, engine: Engine, tmp_path: Path) -> None:
        """A file of mode 0600 is readable inside, its original untouched, and its copy goes with the sandbox."""
        private = tmp_path / "private.csv"
        private.write_text("a,b\n1,2\n")
        private.chmod(0o600)
        async with Kernel(engine, SandboxSpec(data=(Mount(private, "/tmp/data/private.csv"),))) as kernel:
            scratch = sandbox_of(kernel).scratch
            assert await value(kernel, "import json; print(json.dumps(open('/tmp/data/private.csv').read()))")
            assert not scratch.stat().st_mode & 0o077, "another user of the host could read the copy"
            writing = await kernel.run("open('/tmp/data/private.csv', 'a')")
            assert writing.status == "error"
        assert private.read_text() == "a,b\n1,2\n"
        assert private.stat().st_mode & 0o777 == 0o600
        assert not scratch.exists()

    async def test_a_private_folder_is_readable_file_by_file(self, engine: Engine, tmp_path: Path) -> None:
        """Of a folder of mode 0700 every file is readable inside, in folders of that mode too, and none is writable."""
        folder = tmp_path / "closed"
        for each in (folder, folder / "inner", folder / "inner" / "innermost"):
            each.mkdir(mode=0o700)
            (each / "file.csv").write_text(each.name)
            (each / "file.csv").chmod(0o600)
        code = """
import json, os
found = {}
for at, _, files in os.walk("/tmp/data"):
    for name in files:
        path = os.path.join(at, name)
        found[path] = [open(path).read(), os.access(path, os.W_OK)]
print(json.dumps(found))
"""
        async with Kernel(engine, SandboxSpec(data=(Mount(folder, "/tmp/data"),))) as kernel:
            assert await value(kernel, code) == {
                "/tmp/data/file.csv": ["closed", False],
                "/tmp/data/inner/file.csv": ["inner", False],
                "/tmp/data/inner/innermost/file.csv": ["innermost", False],
            }
        assert folder.stat().st_mode & 0o777 == 0o700

    async def test_links_lead_nowhere_outside(self, engine: Engine, clone: Path) -> None:
        """Of a folder that somebody else made, links to what is outside or hidden are not there; the others work."""
        data = (Mount(clone, "/tmp/data/clone"), Mount(clone / "sub", "/tmp/data/sub"))
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            assert await value(kernel, LOOK) == {
                "clone/a.csv": "a",
                "clone/absolute.csv": "b",
                "clone/folder/b.csv": "b",
                "clone/sub/b.csv": "b",
                "sub/b.csv": "b",
            }
            left_out = sandbox_of(kernel).data.left_out
        assert left_out == {
            Why.HIDDEN: ["clone/.git", "clone/sub/.env", "sub/.env"],
            Why.SPECIAL: ["clone/sub/pipe", "sub/pipe"],
            Why.LINK: [
                *(f"clone/{each}" for each in ("chain.csv", "data.csv", "figures", "rootfs", "sub/chain.csv")),
                "sub/chain.csv",
            ],
        }

    async def test_data_is_seen_as_it_is(self, engine: Engine, clone: Path) -> None:
        """What is added, replaced, written to or removed on the host is seen, filtered as at the start."""
        (clone / "replaced.csv").write_text("old")
        (clone / "removed.csv").write_text("r")
        (clone / "becomes").mkdir()
        (clone / "becomes" / "x.csv").write_text("x")
        single = clone.parent / "single.csv"
        single.write_text("old")
        data = (Mount(clone, "/tmp/data/clone"), Mount(single, "/tmp/data/single.csv"))
        async with Kernel(engine, SandboxSpec(data=data)) as kernel:
            before = await value(kernel, LOOK)
            assert (before["clone/replaced.csv"], before["single.csv"]) == ("old", "old")
            for at in (clone / ".env", clone / "sub" / ".env", clone / ".git" / "config"):
                at.write_text("secret")
            (clone / "later.csv").symlink_to("../.ssh/id")
            (clone / "becomes").rename(clone / "was")
            (clone / "becomes").symlink_to("../.ssh")
            for at in (clone / "replaced.csv", single):
                (clone.parent / "new").write_text("new")
                (clone.parent / "new").replace(at)
            (clone / "removed.csv").unlink()
            (clone / "sub" / "deep").mkdir()
            (clone / "sub" / "deep" / "added.csv").write_text("added")
            with (clone / "a.csv").open("a") as file:
                file.write("+")
            changed = time.monotonic()
            expected = before | {
                "clone/a.csv": "a+",
                "clone/replaced.csv": "new",
                "single.csv": "new",
                "clone/was/x.csv": "x",
                "clone/sub/deep/added.csv": "added",
                "clone/folder/deep/added.csv": "added",
            }
            del expected["clone/removed.csv"], expected["clone/becomes/x.csv"]
            while (now := await value(kernel, LOOK)) != expected and time.monotonic() < changed + 100 * machine.pace():
                await asyncio.sleep(0.02)
            assert now == expected
            await kernel.restart()
            assert await value(kernel, LOOK) == expected

    async def test_who_takes_a_sandbox_over_goes_on_with_its_data(self, engine: Engine, clone: Path) -> None:
        """What changes while nobody holds it, and later, is seen after that; with the sandbox the mirror goes."""
        kernel = Kernel(engine, SandboxSpec(data=(Mount(clone, "/tmp/data"),), owner="somebody", keep=60))
        other = Kernel(engine)
        try:
            await kernel.start()
            folder, scratch = kernel.about.folder, sandbox_of(kernel).scratch
            await kernel.detach()
            (clone / "meanwhile.csv").write_text("m")
            (clone / ".env").write_text("secret")
            await other.take_over(folder)
            (clone / "later.csv").write_text("l")
            end = time.monotonic() + 100 * machine.pace()
            while "later.csv" not in (now := await value(other, LOOK)) and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert (now["meanwhile.csv"], now["later.csv"]) == ("m", "l")
            assert not [path for path in now if "id" in path or ".env" in path]
        finally:
            await kernel.stop()
            await other.stop()
        assert not scratch.exists()
        assert (clone / "a.csv").stat().st_nlink == 1
        assert (clone.parent / ".ssh" / "id").read_text() == "secret"

    @pytest.mark.needs("root")
    async def test_a_file_that_is_mounted_is_seen_when_it_is_replaced(self, engine: Engine, elsewhere: Path) -> None:
        """A large file of another file system is mounted alone; a new one in its place comes as a copy."""
        (elsewhere / "large").write_bytes(b"1" * (2 * SMALL))
        look = "import json; print(json.dumps(open('/tmp/data/large').read(1)))"
        async with Kernel(engine, SandboxSpec(data=(Mount(elsewhere, "/tmp/data"),))) as kernel:
            assert [each.target for each in sandbox_of(kernel).data.mounts] == ["/tmp/data", "/tmp/data/large"]
            assert await value(kernel, look) == "1"
            (elsewhere / "new").write_bytes(b"2" * (2 * SMALL))
            (elsewhere / "new").replace(elsewhere / "large")
            end = time.monotonic() + 100 * machine.pace()
            while (now := await value(kernel, look)) != "2" and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert now == "2"

    async def test_data_that_is_gone_is_an_error(self, engine: Engine, tmp_path: Path) -> None:
        """A file that vanished before the start is named."""
        with pytest.raises(DataError, match=r"gone\.csv"):
            await Kernel(engine, SandboxSpec(data=(Mount(tmp_path / "gone.csv", "/tmp/data/gone.csv"),))).start()

    async def test_a_link_in_a_folder_leads_nowhere(self, engine: Engine, tmp_path: Path, aims: dict[str, Any]) -> None:
        """A link from a mounted folder to a file outside of it is dangling inside."""
        folder = tmp_path / "data"
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "link").symlink_to(aims["canary"])
        assert (folder / "link").read_text() == aims["secret"]
        async with Kernel(engine, SandboxSpec(data=(Mount(folder, "/tmp/data"),))) as kernel:
            cell = await kernel.run("open('/tmp/data/link')")
        assert cell.status == "error"

    # -- limits -------------------------------------------------------------------------------------------------

    async def test_the_limits_are_set_on_the_group(self, engine: Engine) -> None:
        """Memory, no swap, cores and processes are bounds of the control group that the kernel is in."""
        async with Kernel(engine, isolated_with(memory_mb=300, cpus=0.5, pids=100)) as kernel:
            pid = self.process(kernel)
            assert group_value(pid, "memory", ("memory.limit_in_bytes", "memory.max")) == str(300 * MIB)
            assert group_value(pid, "cpu", ("cpu.cfs_quota_us", "cpu.max")) in ("50000", "50000 100000")
            assert group_value(pid, "pids", ("pids.max",)) == "100"
            if Path("/sys/fs/cgroup/memory").is_dir():
                # Version 2 counts with all memory what waits in connections; this one apart, in whole pages.
                tcp = int(group_value(pid, "memory", ("memory.kmem.tcp.limit_in_bytes",)))
                assert 300 * MIB // 8 - 4096 < tcp <= 300 * MIB // 8

    async def test_memory_of_the_kernel_is_bounded(self, engine: Engine) -> None:
        """A kernel that takes too much is killed, called out of memory with the limit, and replaced."""
        async with Kernel(engine, isolated_with(memory_mb=256)) as kernel:
            cell = await kernel.run("x = bytearray(10**9)")
            assert cell.status == "died"
            assert "ran out of memory (limit 256 MB" in cell.note
            assert "--memory" in cell.note
            assert (await kernel.run("1 + 1")).text == "2"

    async def test_memory_of_a_child_is_bounded(self, engine: Engine) -> None:
        """A child that takes too much is killed alone: the kernel keeps its variables."""
        code = """
import json, subprocess, sys
kept = 5
print(json.dumps(subprocess.run([sys.executable, "-c", "x = bytearray(10**9)"]).returncode))
"""
        async with Kernel(engine, isolated_with(memory_mb=256)) as kernel:
            assert await value(kernel, code) == -9
            assert (await kernel.run("kept")).text == "5"

    async def test_a_million_files_stay_inside(self, engine: Engine) -> None:
        """Empty files without end meet the memory's bound: refused, or the kernel is out of memory."""
        code = """
import os
for number in range(1_000_000):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))
"""
        async with Kernel(engine, isolated_with(memory_mb=256, tmp_mb=32)) as kernel:
            cell = await kernel.run(code, timeout=120)
            assert cell.status in ("died", "error")
            assert "memory" in cell.note or "No space" in str(cell.outputs)
            assert (await kernel.run("1 + 1")).text == "2"

    async def test_a_fork_bomb_is_bounded(self, small: Kernel) -> None:
        """Processes end at the limit, this process stays quick, and the kernel works on."""
        code = """
import json, os, signal, time
children = []
try:
    while len(children) < 5000:
        child = os.fork()
        if not child:
            time.sleep(1000)
        children.append(child)
except BlockingIOError:
    pass
print(json.dumps(len(children)))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
        running = asyncio.create_task(value(small, code))
        slowest = 0.0
        while not running.done():
            started = time.monotonic()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.monotonic() - started)
        assert 10 < await running < 64
        assert slowest < 2
        assert (await small.run("1 + 1")).text == "2"

    async def test_orphans_don_t_count_for_ever(self, small: Kernel) -> None:
        """What code leaves behind is collected, so that it doesn't use up the limit on processes."""
        code = """
import os
for _ in range(200):
    child = os.fork()
    if not child:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
"""
        cell = await small.run(code)
        assert cell.status == "ok", cell.outputs

    @pytest.mark.parametrize(
        "code",
        [
            "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt: pass",
            "import ctypes; ctypes.PyDLL(None).sleep(1000)",
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        ],
        ids=["swallows the interrupt", "holds the interpreter's lock", "ignores the signal"],
    )
    async def test_what_doesn_t_stop_is_killed(self, brief: Kernel, code: str) -> None:
        """Code that ignores the interrupt ends at deadline plus grace, and no process of it is left."""
        process = self.process(brief)
        started = time.monotonic()
        cell = await brief.run(code)
        assert cell.status == "timeout"
        assert "killed" in cell.note
        assert time.monotonic() - started < 0.5 + 0.5 + 15
        assert not Path(f"/proc/{process}").exists()
        assert (await brief.run("1 + 1", timeout=20)).text == "2"

    # -- levels -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("probe", programs_inside.GROUP.probes, ids=lambda probe: probe.name)
    async def test_programs_run_at_the_default_level(
        self, isolated: Kernel, aims: dict[str, Any], probe: Probe
    ) -> None:
        """Data analysis is free inside: programs, shells and processes work."""
        found = await value(isolated, probe.source(aims))
        assert found.get("got"), found

    async def test_threads_and_libraries_work_below_it(self, strict: Kernel) -> None:
        """Polars, NumPy and Matplotlib need threads and no processes."""
        code = """
import json, threading
import numpy, polars
import matplotlib.pyplot as plt
thread = threading.Thread(target=plt.plot, args=([1, 2],))
thread.start()
thread.join()
plt.gcf().savefig("/tmp/x.png")
plt.close()
total = polars.DataFrame({"a": range(1000)}).sum()["a"][0]
print(json.dumps([total, int(numpy.ones((99, 99)).dot(numpy.ones(99))[0])]))
"""
        assert await value(strict, code) == [499500, 99]

    async def test_untrusted_is_small(self, engine: Engine) -> None:
        """The lowest level has 256 MB, half a core and 64 processes."""
        async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.UNTRUSTED))) as kernel:
            pid = self.process(kernel)
            assert group_value(pid, "memory", ("memory.limit_in_bytes", "memory.max")) == str(256 * MIB)
            assert group_value(pid, "cpu", ("cpu.cfs_quota_us", "cpu.max")).split()[0] == "50000"
            assert group_value(pid, "pids", ("pids.max",)) == "64"

    # -- its life -----------------------------------------------------------------------------------------------

    async def test_the_report_says_what_is_enforced(self, engine: Engine) -> None:
        """The engine reports each control as enforced, and which environment it starts."""
        report = engine.check()
        assert report.available
        assert {each.name for each in report.controls if each.enforced} == {
            *"network egress files processes user memory cpu pids tmp".split(),
            "system calls",
            "commands",
        }
        assert report.environment.startswith("sha256:")

    async def test_the_report_comes_at_once(self, engine: Engine) -> None:
        """What the engine can do is found out in a moment."""
        started = time.monotonic()
        engine.check()
        assert time.monotonic() - started < 4

    async def test_ending_twice_is_ending_once(self, engine: Engine) -> None:
        """`end`, `wait` and `close` can be called again by a client that isn't sure."""
        kernel = Kernel(engine)
        await kernel.start()
        sandbox = sandbox_of(kernel)
        for _ in range(2):
            await sandbox.end()
            assert (await sandbox.wait()).code == -9
            await sandbox.close()
        assert await sandbox.poll() == sandbox.last_exit
        await kernel.stop()
        await kernel.stop()

    async def test_a_sandbox_with_much_memory_leaves_no_group(self, engine: Engine) -> None:
        """A kernel that holds much memory takes Linux a while to take down; what it was in goes all the same."""
        async with Kernel(engine) as kernel:
            process = self.process(kernel)
            assert (await kernel.run("x = b'x' * 1_500_000_000")).success
            folder = sandbox_of(kernel).handoff.folder.name  # type: ignore[union-attr]
        assert not list(Path("/sys/fs/cgroup").glob(f"*/nbagent/{folder}"))
        assert not Path(f"/proc/{process}").exists()

    async def test_ten_start_at_once(self, engine: Engine) -> None:
        """Ten sandboxes can be started at the same time, and each is its own."""
        kernels = [Kernel(engine) for _ in range(10)]
        try:
            await asyncio.gather(*(kernel.start() for kernel in kernels))
            cells = await asyncio.gather(*(kernel.run(f"x = {n}; x") for n, kernel in enumerate(kernels)))
            assert [cell.text for cell in cells] == [str(n) for n in range(10)]
        finally:
            await asyncio.gather(*(kernel.stop() for kernel in kernels))

    @pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.4, 0.6, 0.8])
    async def test_a_cancelled_start_leaves_nothing(
        self, engine: Engine, share: float, leftovers: Callable[[], list[str]]
    ) -> None:
        """Whenever a start is given up, what it made so far is gone when the cancellation is over."""
        before = leftovers()
        began = time.monotonic()
        async with Kernel(engine):
            takes = time.monotonic() - began
        kernel = Kernel(engine)
        for late in (1.0, 0.5, 0.25):
            starting = asyncio.create_task(kernel.start())
            await asyncio.sleep(takes * share * late)
            starting.cancel()
            await asyncio.wait([starting])
            if starting.cancelled():
                break
            # This start was faster than the one that was measured, and there was nothing to give up.
            starting.result()
            await kernel.stop()
        assert starting.cancelled()
        assert leftovers() == before
