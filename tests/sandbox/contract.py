"""What every engine that isolates must hold to: `test_bubblewrap.py` and `test_docker.py` run all of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyseccomp
import pytest
from sandbox import probes

from nbagent.errors import DataError
from nbagent.kernel.kernel import Kernel
from nbagent.policy import MIB, TrustLevel, trust_for
from nbagent.sandbox.base import SANDBOX_UID, Engine
from nbagent.sandbox.handoff import PROGRAMS
from nbagent.sandbox.mounts import Mount
from nbagent.sandbox.spec import SandboxSpec

# Calls through which sandboxes have been left, with arguments that do nothing even where they are allowed.
CALLS: dict[str, tuple[int, ...]] = {
    "unshare": (0,),
    "setns": (-1, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 0),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "move_mount": (-1, 0, -1, 0, 0),
    "open_tree": (-1, 0, 0),
    "fsopen": (0, 0),
    "fsmount": (-1, 0, 0),
    "mount_setattr": (-1, 0, 0, 0, 0),
    "ptrace": (0xFFFF, -1, 0, 0),
    "process_vm_readv": (-1, 0, 0, 0, 0, 0),
    "process_vm_writev": (-1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (-1, 0, 0),
    "kcmp": (-1, -1, 99, 0, 0),
    "keyctl": (0xFFFF, 0, 0, 0, 0),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "bpf": (0xFFFF, 0, 0),
    "perf_event_open": (0, -1, -1, -1, 0),
    "userfaultfd": (0xFFFF,),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "name_to_handle_at": (-1, 0, 0, 0, 0),
    "kexec_load": (0, 0xFFFF, 0, 0),
    "kexec_file_load": (-1, -1, 0, 0, 0xFFFF),
    "init_module": (0, 0, 0),
    "finit_module": (-1, 0, 0xFFFF),
    "delete_module": (0, 0),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, 0),
    "swapoff": (0,),
    "acct": (8,),
    "quotactl": (0xFFFF, 0, 0, 0),
    "syslog": (0xFFFF, 0, 0),
    "personality": (0xFFFFFFFF,),
    "settimeofday": (8, 0),
    "clock_settime": (-1, 0),
    "adjtimex": (0,),
    "sethostname": (0, -1),
    "setdomainname": (0, -1),
    "iopl": (99,),
    "ioperm": (-1, -1, 0),
    "fanotify_init": (0xFFFF, 0xFFFF),
    "mbind": (1, 1, 99, 0, 0, 99),
    "set_mempolicy": (99, 0, 0),
    "migrate_pages": (-1, 0, 0, 0),
    "move_pages": (-1, 1, 0, 0, 0, 99),
    "clone3": (0, 0),
    "process_madvise": (-1, 0, 0, 0, 0),
    "vhangup": None,  # type: ignore[dict-item]  # it does something where it is allowed
}
REFUSED = (1, 38)
"""EPERM and ENOSYS."""

CALL = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, (number, arguments) in json.loads(%r).items():
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    found[name] = [result, ctypes.get_errno()]
print(json.dumps(found))
"""
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


async def value(kernel: Kernel, code: str, **arguments: Any) -> Any:
    """What a cell prints as JSON in its last line."""
    cell = await kernel.run(code, **arguments)
    assert cell.status == "ok", (cell.note, cell.outputs)
    return json.loads(cell.text.splitlines()[-1])


def numbered(names: dict[str, tuple[int, ...]]) -> str:
    """Calls by name, with their numbers on this machine, as code takes them."""
    resolved = {name: pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in names}
    return json.dumps({name: (number, names[name]) for name, number in resolved.items() if number >= 0})


def isolated_with(**limits: Any) -> SandboxSpec:
    """The default level with other limits."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **limits))


def tree_hash(folder: str) -> str:
    """Everything about a folder that a write would change."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        at = path.lstat()
        found.update(f"{path} {at.st_mode} {at.st_size} {at.st_mtime_ns} {at.st_uid}".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


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


def _ids(probe: probes.Probe) -> str:
    return probe.__name__


class Holds:
    """Attacks and limits; a subclass for each engine says how to find the sandbox's process on the host."""

    pytestmark = pytest.mark.asyncio(loop_scope="module")

    def process(self, kernel: Kernel) -> int:
        """A process of the sandbox's, by its id on the host."""
        raise NotImplementedError

    # -- the host's boundary ------------------------------------------------------------------------------------

    @pytest.mark.parametrize("probe", [*probes.HOST, *probes.NETWORK], ids=_ids)
    async def test_an_attack_fails_inside(self, isolated: Kernel, inside: dict[str, Any], probe: probes.Probe) -> None:
        """Nothing of the host's can be read, written, reached or gained, and the secret is in no output."""
        before = tree_hash(inside["tree"]), tree_hash(inside["data"])
        cell = await isolated.run(probes.source(probe, inside))
        assert cell.status == "ok", cell.outputs
        found = json.loads(cell.text)
        assert not found.get("got"), found
        assert "NameError" not in found.get("error", ""), "the probe itself is wrong"
        assert (tree_hash(inside["tree"]), tree_hash(inside["data"])) == before

    async def test_writing_everywhere_changes_nothing_on_the_host(
        self, isolated: Kernel, inside: dict[str, Any]
    ) -> None:
        """Of all mounts only the sandbox's own tmpfs folders can be written."""
        code = """
import json, os
writable = []
for line in open("/proc/self/mountinfo"):
    at = line.split()[4].encode().decode("unicode_escape")
    name = os.path.join(at, "planted") if os.path.isdir(at) else at
    try:
        open(name, "a").close()
        writable.append([at, line.split(" - ")[1].split()[0]])
    except OSError:
        pass
print(json.dumps(writable))
"""
        before = tree_hash(inside["tree"]), tree_hash(inside["data"])
        writable = await value(isolated, code)
        kinds = {kind for at, kind in writable if not at.startswith("/dev/") and at != "/dev"}
        assert kinds == {"tmpfs"}
        assert {at for at, _ in writable} >= {"/tmp", "/workspace", "/home/sandbox"}
        assert {at for at, kind in writable if at.startswith("/dev") and kind not in ("tmpfs", "mqueue")} <= {
            f"/dev/{each}" for each in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "console")
        }
        assert (tree_hash(inside["tree"]), tree_hash(inside["data"])) == before

    @pytest.mark.parametrize(
        "folder", ["/", "/opt/kernel", "/opt/python", "/opt/site", "/run/nbagent", "/usr", "/etc", "/tmp/data", "/sys"]
    )
    async def test_what_the_sandbox_is_made_of_is_read_only(self, isolated: Kernel, folder: str) -> None:
        """Nothing can be planted where later code, or the host, would pick it up."""
        code = f"""
import json, os
try:
    open(os.path.join({folder!r}, "sitecustomize.py"), "w").close()
    print(json.dumps(True))
except OSError:
    print(json.dumps(False))
"""
        if folder == "/tmp/data":
            code = code.replace("/tmp/data", "/tmp/data/folder")
        assert await value(isolated, code) is False

    async def test_the_environment_is_an_allow_list(self, isolated: Kernel) -> None:
        """Of the host's variables none is inside; those there are nbagent's, IPython's or the image's own."""
        names = set(await value(isolated, "import json, os; print(json.dumps(sorted(os.environ)))"))
        allowed = {
            *"HOME USER LOGNAME LANG PATH TMPDIR PWD HOSTNAME IPYTHONDIR NBAGENT PYTHONDONTWRITEBYTECODE".split(),
            *"PYDEVD_DISABLE_FILE_VALIDATION PYDEVD_USE_FRAME_EVAL LOKY_MAX_CPU_COUNT LD_LIBRARY_PATH".split(),
            *"JPY_PARENT_PID MPLBACKEND TERM CLICOLOR FORCE_COLOR CLICOLOR_FORCE PAGER GIT_PAGER LC_CTYPE".split(),
            *"COLUMNS LINES POLARS_TABLE_WIDTH".split(),
        }
        assert names <= allowed

    async def test_no_descriptor_leads_outside(self, isolated: Kernel, aims: dict[str, Any]) -> None:
        """The kernel holds sockets, pipes and its own files; a file that was open here, inheritable, is not there."""
        code = """
import json, os
links = {}
for each in os.listdir("/proc/self/fd"):
    try:
        links[each] = os.readlink(f"/proc/self/fd/{each}")
    except OSError:
        pass
print(json.dumps(sorted(set(links.values()))))
"""
        with open(aims["canary"]) as canary:  # noqa: ASYNC230, PTH123 - it must be open meanwhile
            os.set_inheritable(canary.fileno(), True)
            async with Kernel(isolated.engine) as other:
                links = await value(other, code)
        own = ("socket:[", "pipe:[", "anon_inode:", "/dev/null", "/tmp/", "/proc/", "/workspace", "/dev/pts")
        assert all(link.startswith(own) for link in links), links

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

    async def test_the_user_is_nobodys(self, isolated: Kernel) -> None:
        """The user inside is not root, has no groups, and belongs to nobody on the host."""
        code = "import json, os; print(json.dumps([*os.getresuid(), *os.getresgid(), *os.getgroups()]))"
        assert set(await value(isolated, code)) <= {SANDBOX_UID, os.getuid() or SANDBOX_UID, os.getgid() or SANDBOX_UID}

    # -- system calls -------------------------------------------------------------------------------------------

    async def test_dangerous_system_calls_are_refused(self, isolated: Kernel) -> None:
        """Each of them fails with EPERM or ENOSYS, whatever its arguments."""
        found = await value(isolated, CALL % numbered({name: args or () for name, args in CALLS.items()}))
        assert {name: got for name, got in found.items() if got[0] != -1 or got[1] not in REFUSED} == {}
        assert len(found) > 45

    async def test_sockets_are_of_four_families(self, isolated: Kernel) -> None:
        """Only Unix, IPv4, IPv6 and netlink sockets exist: no vsock, packet, crypto or Bluetooth ones."""
        found = await value(isolated, FAMILIES)
        allowed = {int(family) for family, errors in found.items() if set(errors) - {*REFUSED}}
        assert allowed <= {1, 2, 10, 16}
        assert 0 in found["1"]

    async def test_netlink_tells_routes_only(self, isolated: Kernel) -> None:
        """Audit, netfilter, diagnostics and the other netlink protocols don't exist, nor pairs but of Unix sockets."""
        code = """
import json, socket
found = []
for protocol in range(23):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
        found.append(protocol)
    except OSError:
        pass
for family in (socket.AF_INET, 30):
    try:
        socket.socketpair(family)
        found.append(f"pair {family}")
    except OSError as error:
        if error.errno not in (1, 38):
            found.append(f"pair {family}: {error}")
print(json.dumps(found))
"""
        assert await value(isolated, code) == [0]

    async def test_new_namespaces_are_refused_to_clone(self, isolated: Kernel) -> None:
        """`clone` makes processes and threads, and no user, mount, network or other namespace."""
        flags = (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000)
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone")
        code = f"""
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
found = []
for flag in {flags}:
    result = libc.syscall(ctypes.c_long({number}), ctypes.c_long(flag | 17), 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    found.append([result, ctypes.get_errno()])
print(json.dumps(found))
"""
        assert all(result == -1 and error in REFUSED for result, error in await value(isolated, code))

    async def test_calls_of_other_architectures_are_refused(self, isolated: Kernel) -> None:
        """The 32-bit entry into Linux, whose calls have other numbers, is no way round the filter."""
        if os.uname().machine != "x86_64":
            return
        # mov eax, 20 (getpid); int 0x80; ret. A child runs it, since it may be killed for it.
        code = """
import ctypes, json, mmap, os
child = os.fork()
if not child:
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex("b814000000cd80c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    os._exit(1 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else 0)
print(json.dumps(os.waitpid(child, 0)[1]))
"""
        assert await value(isolated, code) != 1 << 8

    async def test_device_files_don_t_work(self, isolated: Kernel) -> None:
        """What could be made of a device by name is made by Linux only: every writable mount is nodev."""
        code = """
import json
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(json.dumps([at[4] for at in mounts if at[4] in ("/tmp", "/workspace", "/home/sandbox") and "nodev" not in at[5]]))
"""
        assert await value(isolated, code) == []

    # -- the network --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "address", ["169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.1.1", "1.1.1.1", "100.100.100.200"]
    )
    async def test_no_address_has_a_route(self, isolated: Kernel, address: str) -> None:
        """Metadata services, private ranges and the Internet are refused by Linux at once, not by a timeout."""
        code = f"""
import json, socket
found = []
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    with socket.socket(socket.AF_INET, kind) as client:
        client.settimeout(10)
        found.append(client.connect_ex(({address!r}, 53)))
print(json.dumps(found))
"""
        started = time.monotonic()
        assert set(await value(isolated, code)) <= {101, 113, 1}
        assert time.monotonic() - started < 2

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
        assert time.monotonic() - started < 3

    async def test_programs_have_no_network_either(self, isolated: Kernel, inside: dict[str, Any]) -> None:
        """A program that knows nothing of proxies finds no route."""
        code = f"""
import json, subprocess, sys
ask = "import socket; socket.create_connection(('{inside["addresses"][0]}', {inside["tcp"]}), 3)"
print(json.dumps(subprocess.run([sys.executable, "-c", ask], capture_output=True).returncode))
"""
        assert await value(isolated, code) != 0

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

    async def test_the_host_s_network_at_the_trusted_level_only(self, engine: Engine, inside: dict[str, Any]) -> None:
        """The level `trusted` has the network, so the attack above fails for the level's sake."""
        async with Kernel(engine, SandboxSpec(trust=trust_for(TrustLevel.TRUSTED))) as kernel:
            code = probes.source(probes.connect_to_loopback_of_the_host, inside)
            assert (await value(kernel, code))["got"] is True
            code = probes.source(probes.read_by_absolute_path, inside)
            assert "error" in await value(kernel, code)

    # -- sandboxes among themselves -----------------------------------------------------------------------------

    async def test_sandboxes_see_nothing_of_each_other(self, engine: Engine, isolated: Kernel) -> None:
        """Files, shared memory, abstract sockets and sockets of the controller's are each sandbox's own."""
        leave = """
import ctypes, json, os, socket
for folder in ("/tmp", "/workspace", "/home/sandbox", "/dev/shm"):
    open(folder + "/left", "w").write("left")
server = socket.socket(socket.AF_UNIX)
server.bind("\\0left")
server.listen()
key = ctypes.CDLL(None).shmget(4711, 4096, 0o1666)
print(json.dumps(os.stat("/run/nbagent/host.sock").st_ino))
"""
        look = """
import ctypes, json, os, socket
seen = [folder for folder in ("/tmp", "/workspace", "/home/sandbox", "/dev/shm") if os.path.exists(folder + "/left")]
with socket.socket(socket.AF_UNIX) as client:
    if client.connect_ex("\\0left") == 0:
        seen.append("socket")
if ctypes.CDLL(None).shmget(4711, 0, 0) >= 0:
    seen.append("shared memory")
print(json.dumps([seen, os.stat("/run/nbagent/host.sock").st_ino, sorted(os.listdir("/run/nbagent"))]))
"""
        door = await value(isolated, leave)
        async with Kernel(engine) as other:
            seen, other_door, listed = await value(other, look)
        assert seen == []
        assert other_door != door
        assert listed == sorted(["host.sock", *PROGRAMS])
        # ... and where it was left, it is seen.
        assert len((await value(isolated, look))[0]) == 6

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
            scratch = kernel.provisioner.scratch
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

    async def test_the_cores_are_bounded(self, engine: Engine) -> None:
        """Half a core computes for half of the time, however many threads try."""
        code = """
import json, subprocess, sys, time
spin = "import time; end = time.time() + 2\\nwhile time.time() < end: pass\\nprint(time.process_time())"
run = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
print(json.dumps(sum(float(each.communicate()[0]) for each in run)))
"""
        async with Kernel(engine, isolated_with(cpus=0.5)) as kernel:
            assert await value(kernel, code) < 1.5

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

    @pytest.mark.parametrize("folder", ["/tmp", "/workspace", "/home/sandbox", "/dev/shm"])
    async def test_files_are_bounded(self, small: Kernel, folder: str) -> None:
        """A file grows to the tmpfs's size and not further; the host's disk has nothing of it."""
        code = f"""
import errno, json, os
written = 0
try:
    with open("{folder}/big", "wb", buffering=0) as file:
        while written < 10**9:
            written += file.write(bytes(2**20))
except OSError as error:
    print(json.dumps([written >> 20, error.errno == errno.ENOSPC]))
finally:
    os.unlink("{folder}/big")
"""
        written, full = await value(small, code)
        assert full
        assert 30 <= written <= 33

    async def test_a_sparse_terabyte_costs_nothing(self, small: Kernel) -> None:
        """A file that only says it is large takes no room anywhere."""
        code = """
import json, os
with open("/tmp/sparse", "wb") as file:
    try:
        file.truncate(2**40)
    except OSError:
        pass
blocks = os.stat("/tmp/sparse").st_blocks
os.unlink("/tmp/sparse")
print(json.dumps(blocks))
"""
        assert await value(small, code) == 0

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
        assert slowest < 0.5
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
    async def test_what_doesn_t_stop_is_killed(self, engine: Engine, code: str) -> None:
        """Code that ignores the interrupt ends at deadline plus grace, and no process of it is left."""
        async with Kernel(engine, isolated_with(timeout=0.5, grace=0.5)) as kernel:
            process = self.process(kernel)
            started = time.monotonic()
            cell = await kernel.run(code)
            assert cell.status == "timeout"
            assert "killed" in cell.note
            assert time.monotonic() - started < 0.5 + 0.5 + 3
            assert not Path(f"/proc/{process}").exists()
            assert (await kernel.run("1 + 1")).text == "2"

    # -- levels -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("probe", probes.PROGRAMS, ids=_ids)
    async def test_programs_run_at_the_default_level(
        self, isolated: Kernel, inside: dict[str, Any], probe: probes.Probe
    ) -> None:
        """Data analysis is free inside: programs, shells and processes work."""
        found = await value(isolated, probes.source(probe, inside))
        assert found.get("got"), found

    @pytest.mark.parametrize("probe", probes.PROGRAMS, ids=_ids)
    async def test_no_program_runs_below_it(self, strict: Kernel, inside: dict[str, Any], probe: probes.Probe) -> None:
        """At the levels `sandboxed` and `untrusted` Linux itself refuses to run programs and to make processes."""
        found = await value(strict, probes.source(probe, inside))
        assert not found.get("got"), found
        assert found.get("errno") in (None, 1, 11, 38), found

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

    async def test_an_attack_fails_below_it_too(self, strict: Kernel, inside: dict[str, Any]) -> None:
        """The stricter levels have all of the default's walls."""
        for probe in (*probes.SECRETS, probes.be_privileged, *probes.NETWORK):
            found = await value(strict, probes.source(probe, inside))
            assert not found.get("got"), (probe.__name__, found)

    async def test_the_filter_can_t_be_taken_back(self, strict: Kernel) -> None:
        """A thread started before or after it is bound like the first, and a new filter only adds to it."""
        code = """
import json, os, threading
found = []
def attempt():
    try:
        os.execv("/bin/true", ["true"])
    except OSError as error:
        found.append(error.errno)
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
statuses = [open(f"/proc/self/task/{each}/status").read() for each in os.listdir("/proc/self/task")]
print(json.dumps([found, sorted({line.split()[1] for s in statuses for line in s.splitlines()
                                 if line.startswith(("Seccomp:", "NoNewPrivs:"))})]))
"""
        assert await value(strict, code) == [[1], ["1", "2"]]

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
        }
        assert report.environment.startswith("sha256:")

    async def test_the_report_comes_at_once(self, engine: Engine) -> None:
        """What the engine can do is found out in well under a second."""
        started = time.monotonic()
        engine.check()
        assert time.monotonic() - started < 1

    async def test_ending_twice_is_ending_once(self, engine: Engine) -> None:
        """`kill`, `wait` and `cleanup` can be called again by a client that isn't sure."""
        kernel = Kernel(engine)
        await kernel.start()
        provisioner = kernel.provisioner
        for _ in range(2):
            await provisioner.kill()
            assert await provisioner.wait() == -9
            await provisioner.cleanup()
        assert await provisioner.poll() == -9
        assert not provisioner.has_process
        await kernel.stop()
        await kernel.stop()

    async def test_a_sandbox_with_much_memory_leaves_no_group(self, engine: Engine) -> None:
        """A kernel that holds much memory takes Linux a while to take down; what it was in goes all the same."""
        async with Kernel(engine) as kernel:
            process = self.process(kernel)
            assert (await kernel.run("x = b'x' * 1_500_000_000")).success
            folder = kernel.provisioner.handoff.folder.name  # type: ignore[union-attr]
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

    @pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3])
    async def test_a_cancelled_start_leaves_nothing(
        self, engine: Engine, seconds: float, leftovers: Callable[[], list[str]]
    ) -> None:
        """Whenever a start is given up, what it made so far is gone when the cancellation is over."""
        before = leftovers()
        kernel = Kernel(engine)
        starting = asyncio.create_task(kernel.start())
        await asyncio.sleep(seconds)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert leftovers() == before
