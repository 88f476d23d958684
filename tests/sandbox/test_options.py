"""The security options one by one, on both engines: what each takes away, and that it takes away nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sandbox.inner import value

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.faces.selfcheck.check import PROBES
from nbagent.faces.selfcheck.probe import ProbeVerdict, judge
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.limits import seccomp
from nbagent.sandbox.machine.userland import SHELLS
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRY = """
import json, os, socket, subprocess, sys
found = {}
def attempt(name, work):
    try:
        found[name] = work()
    except Exception as error:
        found[name] = type(error).__name__
"""
PROGRAM = "attempt('program', lambda: subprocess.run(['/bin/echo', 'ran'], capture_output=True, text=True).stdout)\n"
PROCESS = "attempt('process', lambda: os.waitpid(os.fork() or os._exit(7), 0)[1] >> 8)\n"
SHELL = "attempt('shell', lambda: subprocess.run('echo ran', shell=True, capture_output=True, text=True).stdout)\n"
LOOPBACK = "attempt('loopback', lambda: socket.create_server(('127.0.0.1', 0)).close())\n"
IPV6 = "attempt('ipv6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close())\n"
UNIX = "attempt('unix', lambda: [each.close() for each in socket.socketpair()] and 'made')\n"
ROOT = "attempt('root', lambda: bool(os.statvfs('/').f_flag & os.ST_RDONLY))\n"
ALL = f"{TRY}{PROGRAM}{PROCESS}{SHELL}{LOOPBACK}{IPV6}{UNIX}{ROOT}print(json.dumps(found))"
FREE: dict[str, Any] = {
    "program": "ran\n",
    "process": 7,
    "shell": "ran\n",
    "loopback": None,
    "ipv6": None,
    "unix": "made",
    "root": True,
}
REFUSED = "PermissionError"
TAKEN: dict[str, dict[str, Any]] = {
    "allow_shell": {"shell": REFUSED},
    "allow_subprocess": {"shell": REFUSED, "program": REFUSED, "process": REFUSED},
    "allow_network_tools": {"loopback": REFUSED, "ipv6": REFUSED},
    "read_only_root": {"root": False},
}


def spec(**options: Any) -> SandboxSpec:
    """The default level with other options."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, security=options))


@pytest.mark.parametrize("option", [None, *TAKEN])
async def test_each_option_takes_away_what_it_says(engine: Engine, option: str | None) -> None:
    """With one of them off, what it names is refused by Linux, and all the rest works as at the default level."""
    async with Kernel(engine, spec(**{option: False} if option else {})) as kernel:
        found = await value(kernel, ALL)
    assert found == FREE | (TAKEN[option] if option else {})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell_less(engine: Engine) -> AsyncIterator[Kernel]:
    """A kernel that may run programs, but no shell."""
    async with Kernel(engine, spec(allow_shell=False)) as kernel:
        yield kernel


@pytest.mark.parametrize("code", ["!ls", "x = !ls", "%sx ls", "%%bash\nls", "%%sh\nls", "%%script sh\nls", "!!ls"])
async def test_a_shell_that_is_asked_for_is_a_clear_error(shell_less: Kernel, code: str) -> None:
    """IPython's own ways to one say that there is none, instead of failing without a word."""
    cell = await shell_less.run(code)
    (error,) = [each for each in cell.outputs if each["output_type"] == "error"]
    assert error["ename"] == "PermissionError"
    assert "no shell" in error["evalue"] or "Permission denied" in error["evalue"]


async def test_no_shell_of_the_system_runs(shell_less: Kernel) -> None:
    """By whatever name and path; what programs start by a shell fails with them."""
    code = f"""
import glob, json, os, subprocess
ran = []
for name in {SHELLS}:
    for folder in ("/bin", "/usr/bin", "/sbin", "/usr/sbin", "/opt/python/bin"):
        try:
            subprocess.run([f"{{folder}}/{{name}}", "-c", "exit 5"], timeout=5)
            ran.append(f"{{folder}}/{{name}}")
        except OSError:
            pass
try:
    with open("/etc/shells") as shells:
        listed = shells.read().split()
except OSError:
    listed = []
for link in glob.glob("/proc/*/exe"):
    try:
        if os.path.basename(os.readlink(link)) in {SHELLS}:
            ran.append(link)
    except OSError:
        pass
print(json.dumps([ran, os.system("exit 0") == 0]))
"""
    assert await value(shell_less, code) == [[], False]


async def test_pip_works_without_a_shell(shell_less: Kernel) -> None:
    """`!pip install` is no shell command here, but a request to the host."""
    cell = await shell_less.run("!pip install polars")
    assert cell.status == "ok", cell.outputs
    assert "Already there" in cell.text or "Not installed" in cell.text


@pytest.mark.parametrize("level", [TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED])
async def test_the_strict_levels_have_their_options_off(engine: Engine, level: TrustLevel) -> None:
    """Neither programs nor shells, and `!command` says so; at the lowest level no sockets either."""
    async with Kernel(engine, SandboxSpec(trust=trust_for(level))) as kernel:
        found = await value(kernel, ALL)
        cell = await kernel.run("!ls")
    lowest = TAKEN["allow_network_tools"] if level is TrustLevel.UNTRUSTED else {}
    assert found == FREE | TAKEN["allow_subprocess"] | lowest
    assert "no shell" in str(cell.outputs)


# -- what else of the host is there ---------------------------------------------------------------------------------


async def test_cores_and_open_files_are_bounded(engine: Engine) -> None:
    """No core dump is written, given to a program of the host's, or has memory; a process has enough files open."""
    code = f"""
import ctypes, json, resource, subprocess
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
ctypes.CDLL(None).syscall({seccomp.number("setrlimit")}, resource.RLIMIT_CORE, (ctypes.c_ulong * 2)(0, 0))
written = [int(subprocess.run(["cat", "/proc/self/coredump_filter"], capture_output=True).stdout, 16),
           int(open("/proc/self/coredump_filter").read(), 16)]
print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE), written, resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""
    async with Kernel(engine) as kernel:
        assert await value(kernel, code) == [[1, 1], [0, 0], [8192, 8192]]


async def test_the_self_check_says_where_a_crash_goes(engine: Engine) -> None:
    """A limit of 1 keeps it from files and programs, and from no socket, by whichever words the host names one."""
    (probe,) = (each for each in PROBES if each.name == "leave_core_files")
    found = {}
    async with Kernel(engine) as kernel:
        for pattern in ("core", "/var/%e.core", "@core", "|/usr/lib/reader %P", "@/run/reader", "@@/run/reader"):
            await kernel.run(f"import io\nopen = lambda name: io.StringIO({pattern + chr(10)!r})")
            found[pattern] = judge(probe, await kernel.run(probe.source({}))).verdict
    assert [pattern for pattern, verdict in found.items() if verdict is ProbeVerdict.BROKEN] == [
        "@/run/reader",
        "@@/run/reader",
    ]
    assert set(found.values()) == {ProbeVerdict.HELD, ProbeVerdict.BROKEN}


async def test_of_the_host_s_python_only_the_interpreter_is_there() -> None:
    """In bubblewrap: the interpreter and its standard library; none of its packages, programs and configuration."""
    import sys

    from machine import works

    code = """
import json, os, sys
import bz2, ctypes, curses, dbm, decimal, hashlib, lzma, readline, sqlite3, ssl, uuid, zlib, zoneinfo
stdlib = os.path.dirname(os.__file__)
packages = [each for name in ("site-packages", "dist-packages", "test")
            if os.path.isdir(f"{stdlib}/{name}") for each in os.listdir(f"{stdlib}/{name}")]
writable = []
for name in ("site-packages", "."):
    try:
        open(f"{stdlib}/{name}/planted.py", "w")
        writable.append(name)
    except OSError:
        pass
print(json.dumps([os.listdir("/opt/python"), os.listdir("/opt/python/bin"), packages, writable, sys.version]))
"""
    async with Kernel(works("bubblewrap")) as kernel:
        folders, programs, packages, writable, version = await value(kernel, code)
    assert set(folders) <= {"bin", "lib", "lib64"}
    assert programs == [f"python{sys.version_info[0]}.{sys.version_info[1]}"]
    assert packages == []
    assert writable == []
    assert version == sys.version


async def test_command_lines_on_the_host_name_no_data(tmp_path: Path) -> None:
    """Everybody on a machine can read everybody's command lines: there is no path of the person's in bubblewrap's."""
    import psutil
    from machine import works

    from nbagent.sandbox.data.mounts import Mount

    secret = tmp_path / "secret-project.csv"
    secret.write_text("a\n1\n")
    async with Kernel(works("bubblewrap"), SandboxSpec(data=(Mount(secret, "/tmp/data/s.csv"),))) as kernel:
        assert (await kernel.run("open('/tmp/data/s.csv').read()")).success
        lines = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    assert any("bwrap" in each for each in lines)
    assert not [each for each in lines if "secret-project" in each]
