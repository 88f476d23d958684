"""What every engine that isolates must hold to: `test_bubblewrap.py` and `test_docker.py` run all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandbox.conftest import Attacked
from sandbox.contract_data import ShowsData
from sandbox.contract_limits import HoldsLimits
from sandbox.inner import group_value, sandbox_of, value

from nbagent.core.policy import MIB, TrustLevel, trust_for
from nbagent.faces.selfcheck import files_inside, network_inside, programs_inside
from nbagent.faces.selfcheck.aims import SAME_EVERYWHERE
from nbagent.faces.selfcheck.check import PROBES
from nbagent.faces.selfcheck.probe import Probe, ProbeVerdict, source
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
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


class Holds(ShowsData, HoldsLimits):
    """Attacks, data, limits, start and end; a subclass for each engine says how to find the sandbox's process."""

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    # -- attacks ----------------------------------------------------------------------------------------------------

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

    # -- the host's boundary ----------------------------------------------------------------------------------------

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

    # -- system calls -----------------------------------------------------------------------------------------------

    async def test_sockets_are_of_three_families(self, isolated: Kernel) -> None:
        """Only Unix, IPv4 and IPv6 sockets exist: no netlink, vsock, packet, crypto or Bluetooth ones."""
        found = await value(isolated, FAMILIES)
        allowed = {int(family) for family, errors in found.items() if set(errors) - {1, 38}}
        assert allowed <= {1, 2, 10, 16}
        assert [family for family, errors in found.items() if 0 in errors] == ["1", "2", "10"]
        # Said as on a Linux without it, which libraries know.
        assert set(found["16"]) == {95}

    # -- the network ------------------------------------------------------------------------------------------------

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

    # -- sandboxes among themselves ---------------------------------------------------------------------------------

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

    # -- levels -----------------------------------------------------------------------------------------------------

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

    # -- its life ---------------------------------------------------------------------------------------------------

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
