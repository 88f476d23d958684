"""Nothing of a server outlives nbagent, however either ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbagent.mcp.servers import ServerEntry
from nbagent.mcp.stdio import KEEPER

CONTROLLER = """
import asyncio, os, signal, sys
from nbagent.mcp.client import McpClient
from nbagent.mcp.servers import ServerEntry

async def main():
    server = ServerEntry(name="h", transport="stdio", command=sys.executable, args=(sys.argv[1], "daemon"))
    client = McpClient([server], notify=lambda event: None)
    (tool,) = await client.catalog()
    called = await client.call(tool, {})
    print(called.result.content[0].text, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def wait_for_end(*pids: int, seconds: float = 10) -> list[int]:
    """The processes that still run after this time at most."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if psutil.pid_exists(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def test_a_controller_that_is_killed_leaves_nothing() -> None:
    """The server ignores SIGTERM and the end of its input; what it started is a daemon that ignores them too."""
    hostile = str(Path(__file__).with_name("hostile.py"))
    ran = subprocess.run([sys.executable, "-c", CONTROLLER, hostile], capture_output=True, text=True, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert wait_for_end(int(ran.stdout)) == []
    serving = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[-2:] == [hostile, "daemon"]
    ]
    assert wait_for_end(*serving) == []


async def test_a_client_that_closes_leaves_nothing(
    opened: Callable[..., Any], hostile: Callable[..., ServerEntry]
) -> None:
    """A daemon that left the server's session and group is ended with it."""
    one = opened(hostile("daemon"))
    daemon = int((await one.call("go")).result.content[0].text)
    assert psutil.pid_exists(daemon)
    await one.client.close()
    assert not psutil.pid_exists(daemon)


@pytest.mark.parametrize(("code", "found"), [("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_program_s(code: str, found: int) -> None:
    """Or 128 and the signal."""
    reading, writing = os.pipe()
    command = [sys.executable, "-I", "-S", str(KEEPER), str(reading), sys.executable, "-c", code]
    assert subprocess.run(command, pass_fds=(reading,)).returncode == found
    os.close(reading)
    os.close(writing)


def test_a_program_that_can_t_be_run_says_so(tmp_path: Path) -> None:
    """As a shell would."""
    script = tmp_path / "script"
    script.write_text("no program")
    script.chmod(0o755)
    reading, writing = os.pipe()
    command = [sys.executable, "-I", "-S", str(KEEPER), str(reading), str(script)]
    ran = subprocess.run(command, pass_fds=(reading,), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (127, f"{script}: Exec format error\n")
    os.close(reading)
    os.close(writing)


async def test_a_keeper_that_is_killed_takes_the_program_along() -> None:
    """The program dies with it, since Linux tells it."""
    reading, writing = os.pipe()
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    command = [sys.executable, "-I", "-S", str(KEEPER), str(reading), sys.executable, "-c", code]
    keeper = await asyncio.create_subprocess_exec(*command, pass_fds=(reading,), stdout=asyncio.subprocess.PIPE)
    assert keeper.stdout is not None
    program = int(await keeper.stdout.readline())
    keeper.kill()
    await keeper.communicate()
    assert wait_for_end(program) == []
    os.close(reading)
    os.close(writing)
