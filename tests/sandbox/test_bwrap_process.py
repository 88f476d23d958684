"""Which processes of a bubblewrap sandbox are meant, when numbers are used again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbagent.sandbox.engines.bwrap_process import STATUS, Monitor, end, start_time

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any sandbox."""
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def other_first() -> Iterator[int]:
    """Process 1 of a process namespace that is no sandbox of ours, such as a container's, by its number here."""
    command = ["unshare", "--pid", "--fork", "--kill-child", *SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        process.kill()


def write(folder: Path, *lines: dict[str, int]) -> None:
    """What bwrap has written down."""
    (folder / STATUS).write_text("".join(json.dumps(line) + "\n" for line in lines))


def alive(pid: int) -> bool:
    """Whether a process runs and is no zombie."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_number_that_is_somebody_elses_now_is_spared(
    bystander: subprocess.Popen[bytes], other_first: int, tmp_path: Path
) -> None:
    """Neither an ordinary process is killed, nor the first one of another container."""
    namespace = Path(f"/proc/{other_first}/ns/pid").stat().st_ino
    for pid, number in ((bystander.pid, namespace), (other_first, namespace + 1), (2**22 + 1, 1), (-1, 1), (0, 1)):
        write(tmp_path, {"child-pid": pid, "pid-namespace": number})
        end(tmp_path, None)
    write(tmp_path, {"child-pid": other_first, "pid-namespace": namespace}, {"exit-code": 0})
    end(tmp_path, None)
    for text in ("", "{", "[]", '{"child-pid": 1'):
        (tmp_path / STATUS).write_text(text)
        end(tmp_path, None)
    assert alive(bystander.pid)
    assert alive(other_first)
    write(tmp_path, {"child-pid": other_first, "pid-namespace": namespace})
    end(tmp_path, None)
    assert not alive(other_first)


def test_a_monitor_is_known_by_its_start(bystander: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A process with the same number that was started at another time has nothing to do with it."""
    started = start_time(bystander.pid)
    assert started > 0
    for wrong in (Monitor(tmp_path, bystander.pid, started + 1), Monitor(tmp_path, 0, 0), Monitor(tmp_path, -1, 0)):
        assert wrong.poll() == -signal.SIGKILL
        wrong.kill()
        wrong.wait()
    monitor = Monitor(tmp_path, bystander.pid, started)
    assert monitor.poll() is None
    monitor.kill()
    bystander.wait()
    assert monitor.poll() == -signal.SIGKILL
    write(tmp_path, {"child-pid": 1}, {"exit-code": 139})
    assert monitor.poll() == 139
    monitor.wait()


def test_the_time_of_start_is_read_past_any_name(tmp_path: Path) -> None:
    """A program may be called what it likes."""
    program = tmp_path / "a) R (0 1"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        assert abs(start_time(process.pid) - start_time(os.getpid())) > 0
        process.kill()
    assert start_time(2**22 + 1) == 0
