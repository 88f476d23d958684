"""Users of sandboxes that root starts: each has one of its own, whoever starts it, for as long as there is a lease."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import machine
import psutil
import pytest
from sandbox.controller import abandoned_sandbox
from sandbox.inner import value

from nbagent.core.errors import SandboxError
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.leases import origin, users
from nbagent.sandbox.machine.reaper import sweep

WHO = """
import getpass, grp, json, os, pwd
own = pwd.getpwuid(os.getuid())
print(json.dumps({
    "ids": sorted({*os.getresuid(), *os.getresgid(), *os.getgroups()}),
    "names": [own.pw_name, getpass.getuser(), grp.getgrgid(os.getgid()).gr_name],
    "homes": [own.pw_dir, os.path.expanduser("~"), os.environ["HOME"]],
}))
"""
FEW = range(99_000, 99_040)


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which users are noted, of this test's own."""
    monkeypatch.setattr(users, "SHARED", tmp_path / "noted")
    return tmp_path / "noted"


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    """The folder of a lease."""
    (tmp_path / "runtime" / "k1").mkdir(parents=True)
    return tmp_path / "runtime" / "k1"


def taken() -> set[int]:
    """The users that are taken on this machine."""
    return {int(each.name) for each in users.SHARED.glob("[0-9]*")}


def user_of(folder: Path) -> int | None:
    """The user that a lease has, as it is written down."""
    terms = leases.read_terms(folder)
    return terms.uid if terms else None


# -- in sandboxes -----------------------------------------------------------------------------------------------------


@pytest.mark.needs("root")
@pytest.mark.asyncio(loop_scope="module")
async def test_two_sandboxes_are_two_users(engine: Engine) -> None:
    """They differ, each has a name and a home; a restart keeps the user; at the end it is nobody's again."""
    async with Kernel(engine) as one, Kernel(engine) as other:
        kernels = (one, other)
        first, second = [kernel.about.user[0] for kernel in kernels]
        assert first != second
        assert {first, second} <= taken() & set(users.WIDE)
        for kernel, uid in zip(kernels, (first, second), strict=True):
            assert await value(kernel, WHO) == {
                "ids": [uid],
                "names": ["sandbox"] * 3,
                "homes": ["/home/sandbox"] * 3,
            }
        await one.restart()
        assert (await value(one, WHO))["ids"] == [first]
    assert not {first, second} & taken()


@pytest.mark.needs("root")
@pytest.mark.asyncio(loop_scope="module")
async def test_who_takes_over_takes_the_user_over(engine: Engine) -> None:
    """It stays taken without a controller, and the sandbox keeps it with the next one, over a restart too."""
    folder = abandoned_sandbox(engine.name, keep=300)
    uid = user_of(folder)
    assert uid in taken()
    assert await asyncio.to_thread(sweep) == []
    kernel = Kernel(engine)
    await kernel.take_over(folder)
    assert (await value(kernel, WHO))["ids"] == [kernel.about.user[0]] == [uid]
    await kernel.restart()
    assert (await value(kernel, WHO))["ids"] == [uid]
    await kernel.detach()
    assert uid in taken()
    await kernel.take_over(folder)
    assert kernel.about.user[0] == uid
    await kernel.stop()
    assert uid not in taken()


@pytest.mark.needs("root")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_dead_give_theirs_back(engine: Engine) -> None:
    """The user of a sandbox whose controller was killed is taken until somebody has swept up what was left of it."""
    folder = abandoned_sandbox(engine.name, keep=0)
    uid = user_of(folder)
    assert uid in taken()
    await asyncio.to_thread(sweep)
    assert uid not in taken()


@pytest.mark.needs("root")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_lease_that_goes_under_a_sandbox(engine: Engine) -> None:
    """Whoever removed its folder: nobody gets the user of a sandbox that still runs, and its next kernel has one."""
    async with Kernel(engine) as kernel:
        uid = kernel.about.user[0]
        shutil.rmtree(kernel.about.folder)
        assert await asyncio.to_thread(users.sweep, leases.runtime_root()) == []
        assert uid in taken()
        assert (await kernel.run("import os; os._exit(1)")).status == "died"
        (another,) = (await value(kernel, WHO))["ids"]
        assert another == kernel.about.user[0]
        assert another in taken()
    await machine.swept()
    assert not {uid, another} & taken()


@pytest.mark.needs("root")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_sandbox_of_before_gets_one(engine: Engine) -> None:
    """One that an older nbagent started has none in its terms: it gets one with the next kernel."""
    folder = abandoned_sandbox(engine.name, keep=300)
    terms = json.loads((folder / "lease.json").read_bytes())
    users.free(terms.pop("uid"), folder)
    (folder / "lease.json").write_text(json.dumps(terms))
    kernel = Kernel(engine)
    await kernel.take_over(folder)
    await kernel.restart()
    (uid,) = (await value(kernel, WHO))["ids"]
    assert uid == user_of(folder)
    assert uid in taken()
    await kernel.stop()
    assert uid not in taken()


# -- among themselves -------------------------------------------------------------------------------------------------

RESERVE = """
import json, sys
from pathlib import Path
from nbagent.sandbox.leases import users
users.SHARED = Path(sys.argv[1])
print(json.dumps([users.reserve(Path(sys.argv[2]), among=range(99_000, 99_040)) for _ in range(10)]))
"""


def test_many_processes_get_different_ones(noted: Path, lease: Path) -> None:
    """Four processes that take all there are at the same time never get the same, and there are no more."""
    command = [sys.executable, "-c", RESERVE, str(noted), str(lease)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    got = [uid for each in processes for uid in json.loads(each.communicate()[0])]
    assert sorted(got) == list(FEW)
    with pytest.raises(SandboxError, match="All of the 40 users") as caught:
        users.reserve(lease, among=FEW)
    assert "nbagent clean" in caught.value.mend
    users.free(99_007, lease)
    assert users.reserve(lease, among=FEW) == 99_007


def test_only_its_own_lease_gives_it_back(noted: Path, lease: Path) -> None:
    """A lease that ends late frees nobody's user who got it since."""
    uid = users.reserve(lease, among=FEW)
    users.free(uid, lease.with_name("k2"))
    users.free(99_039 if uid != 99_039 else 99_038, lease)
    assert (noted / str(uid)).exists()
    users.free(uid, lease)
    assert [each.name for each in noted.iterdir()] == ["lock"]


def test_a_sweep_frees_whose_lease_is_gone(noted: Path, lease: Path) -> None:
    """Also what was half noted; but not what another place knows of, nor a user as whom something runs."""
    gone, there, half, elsewhere, busy = FEW[:5]
    noted.mkdir()
    (noted / "lock").touch()
    for uid in (gone, elsewhere, busy):
        origin.note(lease.with_name("gone"), at=noted / str(uid))
    text = (noted / str(elsewhere)).read_text()
    (noted / str(elsewhere)).write_text(text.replace("mnt:[", "mnt:[1"))
    origin.note(lease, at=noted / str(there))
    (noted / str(half)).touch()
    sleeper = subprocess.Popen(["setpriv", "--reuid", str(busy), "--regid", str(busy), "--clear-groups", "sleep", "60"])
    try:
        while busy not in users._users_of_processes():
            pass
        assert users.sweep(lease.parent) == [gone, half]
    finally:
        sleeper.kill()
        sleeper.wait()
    assert users.sweep(lease.parent) == [busy]
    assert sorted(each.name for each in noted.glob("9*")) == sorted(map(str, (there, elsewhere)))


HALF_ENDED = """
import ctypes, os, sys, threading, time
os.setresuid(*[int(sys.argv[1])] * 3)
if sys.argv[2] == "threads":
    threading.Thread(target=time.sleep, args=(60,)).start()
    ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.parametrize("what", ["nothing", "threads"])
def test_a_zombie_is_nobody(noted: Path, lease: Path, what: str) -> None:
    """What has ended and was not collected yet needs no user; what has ended its first thread only still runs."""
    uid = FEW[0]
    noted.mkdir()
    (noted / "lock").touch()
    origin.note(lease.with_name("gone"), at=noted / str(uid))
    with subprocess.Popen([sys.executable, "-c", HALF_ENDED, str(uid), what]) as process:
        try:
            while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
                pass
            assert users.sweep(lease.parent) == ([uid] if what == "nothing" else [])
        finally:
            process.kill()


@pytest.mark.parametrize("known", [os.getuid(), 65534])
def test_somebodys_is_passed_over(noted: Path, lease: Path, known: int) -> None:
    """A user that the machine knows by name is no sandbox's, whatever the range."""
    with pytest.raises(SandboxError):
        users.reserve(lease, among=range(known, known + 1))
    assert not (noted / str(known)).exists()


def test_where_run_cant_be_written(lease: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are noted beside the leases, and freed there; with neither, the error says so."""
    monkeypatch.setattr(users, "SHARED", Path("/proc/nbagent-users"))
    uid = users.reserve(lease, among=FEW)
    assert (lease.parent / "users" / str(uid)).exists()
    users.free(uid, lease)
    assert not (lease.parent / "users" / str(uid)).exists()
    with pytest.raises(SandboxError, match="can be written"):
        users.reserve(Path("/proc/none/k1"), among=FEW)


MAPPED = """
from nbagent.core.errors import SandboxError
from nbagent.sandbox.leases import users
try:
    print(users.mapped())
except SandboxError as error:
    print(error)
"""


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("uids", "gids", "told"),
    [
        ("0 0 4294967295", "0 0 4294967295", "range(65536, 100000)"),
        ("0 0 1\n1 200001 65535", "0 0 1\n1 200001 65535", "range(60706, 61184)"),
        ("0 0 1\n1 200001 65535", "0 0 1", "has no user for the sandbox"),
        ("0 0 1", "0 0 1", "has no user for the sandbox"),
    ],
    ids=["all", "65,536", "few groups", "root alone"],
)
def test_a_user_namespace_has_what_it_has(uids: str, gids: str, told: str) -> None:
    """In a container there may be the usual 65,536 only, or fewer than a sandbox needs."""
    command = ["unshare", "--user", "sh", "-c", 'read -r _; exec "$@"', "sh", sys.executable, "-c", MAPPED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        at = Path(f"/proc/{process.pid}")
        while (at / "ns" / "user").readlink() == Path("/proc/self/ns/user").readlink():
            pass
        (at / "uid_map").write_text(uids)
        (at / "gid_map").write_text(gids)
        said, _ = process.communicate("\n")
    assert told in said
