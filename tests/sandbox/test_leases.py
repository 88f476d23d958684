"""Leases: who holds them, through forks, deaths, races and full disks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbagent.core.errors import SandboxError
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.leases import lease as leases
from nbagent.sandbox.leases.lease import Lease, abandoned, all_folders, find, read_terms, runtime_root
from nbagent.sandbox.leases.locks import lock, unlock
from nbagent.sandbox.leases.origin import PathOrigin
from nbagent.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(owner="somebody", keep=60, data=(Mount(Path("/data/größe.csv"), "/tmp/data/größe.csv"),))


@pytest.fixture
def lease() -> Iterator[Lease]:
    """A lease that this process holds."""
    made = Lease.take("local", SPEC, key="secret")
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)
    made.release()


def test_a_lease_is_private_and_described(lease: Lease) -> None:
    """Nobody else enters its folder; what it is stands there, whole, and can be read again."""
    assert stat.S_IMODE(lease.folder.stat().st_mode) == 0o700
    assert read_terms(lease.folder) == lease.terms
    assert lease.terms.spec == SPEC
    assert lease.terms.origin == PathOrigin.here()
    assert lease.folder in all_folders()
    assert find("somebody") == lease.folder
    assert find("") is None


def test_what_only_ends_is_not_described_with_its_data() -> None:
    """Names of files need not be text; they are written down only where the sandbox may be taken over."""
    data = (Mount(Path(os.fsdecode(b"/x/\xff.csv")), os.fsdecode(b"/tmp/data/\xff.csv")),)
    lease = Lease.take("local", SandboxSpec(data=data), key="secret")
    assert lease.terms.spec.data == ()
    lease.remove()


def test_who_holds_it_holds_it_alone(lease: Lease) -> None:
    """Nobody takes it over, this process included, until it is let go; once it is removed, it is gone."""
    assert not abandoned(lease.folder)
    with pytest.raises(SandboxError, match="belongs to another process"):
        Lease.take_over(lease.folder)
    lease.release()
    assert abandoned(lease.folder)
    second = Lease.take_over(lease.folder)
    assert second.terms == lease.terms
    assert not abandoned(second.folder)
    second.remove()
    second.remove()
    assert abandoned(second.folder)
    with pytest.raises(SandboxError, match="is gone"):
        Lease.take_over(second.folder)


def test_terms_that_cannot_be_read_are_an_error(lease: Lease) -> None:
    """A lease of another nbagent's can't be taken over, and isn't held after the attempt."""
    lease.release()
    for text in (b"", b"{", b'{"engine": 7}', b'{"engine": "local"}'):
        (lease.folder / "lease.json").write_bytes(text)
        with pytest.raises(SandboxError, match="Nothing is known"):
            Lease.take_over(lease.folder)
        assert abandoned(lease.folder)


def test_one_of_many_takes_over(lease: Lease) -> None:
    """Of ten that try at the same time, one gets it, and the others are told that it has an owner."""
    lease.release()
    taken: list[Lease] = []
    refused: list[str] = []

    def attempt() -> None:
        try:
            taken.append(Lease.take_over(lease.folder))
        except SandboxError as error:
            refused.append(error.message)

    threads = [threading.Thread(target=attempt) for _ in range(10)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(taken) == 1
    assert len(refused) == 9
    assert all("belongs to another process" in each for each in refused)
    taken[0].release()


def test_who_only_looks_is_waited_for(lease: Lease) -> None:
    """A sweep looks at every lease; who takes one over at that moment is not refused for it."""
    lease.release()
    held = lock(lease.folder)
    threading.Timer(0.2, unlock, [held]).start()
    Lease.take_over(lease.folder).release()


HOLD = """
import os, sys, time
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.spec import SandboxSpec
lease = Lease.take("local", SandboxSpec(keep=1), key="secret")
child = os.fork() if "fork" in sys.argv else 1
if child == 0:
    if "remove" in sys.argv:
        lease.remove()
    os.close(1)
    time.sleep(60)
print(lease.folder, child, flush=True)
time.sleep(60)
"""


def holder(*words: str) -> tuple[subprocess.Popen[str], Path, int]:
    """Another process with a lease, its folder, and its fork."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder, child = process.stdout.readline().split()
    return process, Path(folder), int(child)


def test_a_killed_holder_has_let_go() -> None:
    """Linux lets go for whoever was killed."""
    process, folder, _ = holder()
    assert not abandoned(folder)
    process.kill()
    process.communicate()
    assert abandoned(folder)
    Lease.take_over(folder).remove()


@pytest.mark.parametrize("words", [("fork",), ("fork", "remove")])
def test_a_fork_holds_nothing(words: tuple[str, ...]) -> None:
    """What multiprocessing forks neither keeps the lease after its parent's death, nor can it take it away before."""
    process, folder, child = holder(*words)
    try:
        time.sleep(0.2)
        assert folder.is_dir()
        assert not abandoned(folder)
        process.kill()
        process.communicate()
        assert Path(f"/proc/{child}").exists()
        assert abandoned(folder)
        Lease.take_over(folder).remove()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_fork_at_any_moment_holds_nothing(lease: Lease) -> None:
    """A fork in one thread while another looks at leases, or takes some, has none of their locks open."""
    others = [Lease.take("local", SPEC, key="secret")]
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            abandoned(lease.folder)
            others[0].release()
            others[0] = Lease.take_over(others[0].folder)

    thread = threading.Thread(target=look)
    thread.start()
    codes = []
    try:
        for _ in range(100):
            if (child := os.fork()) == 0:
                held = True
                with contextlib.suppress(BaseException):
                    held = any(each.endswith("/lock") for each in _files())
                os._exit(held)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finally:
        stop.set()
        thread.join()
        others[0].remove()
    assert set(codes) == {0}


def _files() -> list[str]:
    """The paths of what this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()))
    return found


def test_what_was_left_half_made_goes(home: Path) -> None:
    """A folder in the making is nobody's after a minute, unless somebody holds it; a fresh one stays."""
    fresh, held, stale = (runtime_root() / f".new-{name}" for name in ("fresh", "held", "stale"))
    for each in (fresh, held, stale):
        each.mkdir()
        (each / "lock").touch()
    with (held / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for each in (held, stale):
            os.utime(each, (0, 0))
        assert not {fresh, held, stale} & set(all_folders())
        assert (fresh.exists(), held.exists(), stale.exists()) == (True, True, False)
    for each in (fresh, held):
        shutil.rmtree(each)
    assert home.is_dir()


def in_small_file_system(prepare: str, code: str) -> str:
    """What code prints whose runtime folder is on a file system that this script has prepared; `at` is its place."""
    script = f'set -e; at="$1"; mount -t tmpfs -o size=64k tmpfs "$at"; {prepare}; shift; exec "$@"'
    folder = runtime_root().parent / "small"
    folder.mkdir(exist_ok=True)
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(folder)]
    done = subprocess.run(
        [*command, sys.executable, "-c", code],
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    folder.rmdir()
    assert done.returncode == 0, done.stderr
    return done.stdout


ATTEMPT = """
import os
from nbagent.core.errors import SandboxError
from nbagent.sandbox.leases.lease import Lease, runtime_root
from nbagent.sandbox.spec import SandboxSpec
try:
    print("root", sorted(os.listdir(runtime_root())))
    Lease.take("local", SandboxSpec(), key="secret")
except SandboxError as error:
    print(error)
    print("left", sorted(os.listdir(runtime_root())))
"""


@pytest.mark.needs("root")
def test_a_full_disk_is_an_error() -> None:
    """It is told as one sentence with the mend, and nothing half made is left."""
    said = in_small_file_system(
        'mkdir -m 700 "$at/nbagent-$(id -u)"; dd if=/dev/zero of="$at/fill" bs=1k count=64 2>/dev/null || true',
        ATTEMPT,
    )
    assert "can't be written: No space left on device. Make room" in said
    assert "left []" in said


@pytest.mark.needs("root")
def test_a_read_only_disk_is_an_error() -> None:
    """The folder is named, and what to do."""
    said = in_small_file_system('mkdir -m 700 "$at/nbagent-$(id -u)"; mount -o remount,ro "$at"', ATTEMPT)
    assert "XDG_RUNTIME_DIR" in said or "root" in said


@pytest.mark.parametrize("plant", [lambda at: at.write_text(""), lambda at: at.symlink_to("/nowhere")])
def test_a_runtime_folder_that_is_none_is_an_error(
    plant: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file or a dangling link in its place is told with the mend."""
    base = Path(leases.tempfile.mkdtemp(prefix="nbr-", dir="/tmp"))
    try:
        plant(base / f"nbagent-{os.getuid()}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
        with pytest.raises(SandboxError) as caught:
            runtime_root()
        assert "XDG_RUNTIME_DIR" in caught.value.mend
    finally:
        shutil.rmtree(base)
    assert tmp_path.is_dir()


@pytest.mark.needs("root")
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o700), (0, 0o777), (0, 0o770)])
def test_no_folder_is_taken_in_which_others_could_put_another(
    owner: int, mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After `su` the variable names another user's: who may rename there would choose what root's sweep removes."""
    base = Path(leases.tempfile.mkdtemp(prefix="nbr-", dir="/tmp"))
    try:
        os.chown(base, owner, -1)
        base.chmod(mode)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
        monkeypatch.setattr(leases.tempfile, "tempdir", str(base))
        monkeypatch.setattr(leases, "TEMPORARY", tmp_path)
        assert runtime_root().parent == tmp_path
        assert not list(base.iterdir())
        base.chmod(0o700)
        os.chown(base, 0, -1)
        assert runtime_root().parent == base
    finally:
        shutil.rmtree(base)
