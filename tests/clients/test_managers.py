"""jupyter_client's managers, blocking and asynchronous, as servers and programs use them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import pytest
import zmq
from jupyter_client import (
    AsyncKernelManager,
    AsyncMultiKernelManager,
    BlockingKernelClient,
    KernelManager,
    MultiKernelManager,
)
from jupyter_client.ioloop import AsyncIOLoopKernelManager
from jupyter_client.manager import start_new_async_kernel, start_new_kernel
from jupyter_core.utils import ensure_event_loop
from packages.index import Index

from nbagent.core.errors import LimitUnenforceable, UsageError
from nbagent.sandbox.limits import cgroup
from nbagent.sandbox.machine import reaper


@pytest.fixture(autouse=True)
def _nothing_is_left(leftovers: Callable[[], list[str]]) -> Any:
    """Each manager's kernel is gone with its shutdown."""
    before = leftovers()
    yield
    assert leftovers() == before


def value(client: BlockingKernelClient, expression: str) -> str:
    """An expression's value in the kernel, as text."""
    reply = client.execute("", user_expressions={"value": expression}, reply=True, timeout=60)
    found = reply["content"]["user_expressions"]["value"]
    return str(found.get("data", {}).get("text/plain", found.get("ename")))


def in_a_thread(work: Callable[..., object]) -> Callable[..., None]:
    """The work, after which the event loop is closed that jupyter_core makes for a thread and leaves open."""

    def run(*arguments: Any) -> None:
        work(*arguments)
        ensure_event_loop().close()

    return run


@pytest.fixture
def blocking(kernel_name: str) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A manager and a client, as scripts have them."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


Pair = tuple[KernelManager, BlockingKernelClient]


def test_code_runs(blocking: Pair) -> None:
    """The blocking client gets results, and the kernel is alive by the heartbeat too."""
    manager, client = blocking
    assert value(client, "6 * 7") == "42"
    assert manager.is_alive()
    assert client.is_alive()


def test_a_restart_keeps_the_connection(blocking: Pair) -> None:
    """After a restart the same client reaches the new kernel: paths and key are the same, the variables are gone."""
    manager, client = blocking
    before = manager.get_connection_info()
    client.execute("x = 1", reply=True, timeout=60)
    for now in (True, False):
        manager.restart_kernel(now=now)
        client.wait_for_ready(timeout=60)
        assert manager.get_connection_info() == before
        assert value(client, "'x' in globals()") == "False"


def test_names_of_packages_are_no_way_out(packages: Index, kernel_name: str) -> None:
    """Of a hundred that a cell makes up the index hears ten, and none after a restart."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    ask = "for n in range(100): get_ipython().run_line_magic('pip', f'install {}-{{n}}')"
    try:
        client.execute(ask.format("leak"), reply=True, timeout=60)
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=60)
        client.execute(ask.format("again"), reply=True, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert {path.split("/")[2] for path in packages.requests} == {f"leak-{number}" for number in range(10)}


@pytest.mark.parametrize("code", ["import time; time.sleep(100)", "import re; re.match('(a+)+$', 'a' * 40 + 'b')"])
def test_an_interrupt_stops_the_cell(blocking: Pair, code: str) -> None:
    """The manager's interrupt reaches also a cell that keeps the kernel from reading messages; variables are kept."""
    manager, client = blocking
    client.execute(f"kept = 3; {code}")
    time.sleep(0.5)
    manager.interrupt_kernel()
    # While it waited for the kernel the client may have asked more than once.
    while (message := client.get_shell_msg(timeout=60))["msg_type"] != "execute_reply":
        assert message["msg_type"] == "kernel_info_reply"
    assert message["content"]["ename"] == "KeyboardInterrupt"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        # ipykernel answers `aborted` for a moment.
        reply = client.execute("", user_expressions={"value": "kept"}, reply=True, timeout=60)["content"]
        if reply["status"] == "ok":
            break
    assert reply["user_expressions"]["value"]["data"]["text/plain"] == "3"


def test_a_kernelspec_of_an_older_version_is_interrupted_as_todays(kernel_name: str) -> None:
    """It was copied by `jupyter kernelspec install`, and says that a message interrupts."""
    manager = KernelManager(kernel_name=kernel_name)
    manager.kernel_spec.interrupt_mode = "message"
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        asked = client.execute("import re; re.match('(a+)+$', 'a' * 40 + 'b')")
        time.sleep(1)
        manager.interrupt_kernel()
        while (message := client.get_shell_msg(timeout=100))["parent_header"]["msg_id"] != asked:
            pass
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert message["content"]["ename"] == "KeyboardInterrupt"


def test_a_death_is_seen(blocking: Pair) -> None:
    """The manager notices a kernel that ended, and can start it again."""
    manager, client = blocking
    client.execute("import os; os._exit(1)")
    end = time.monotonic() + 60
    while manager.is_alive():
        assert time.monotonic() < end
        time.sleep(0.05)
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=60)
    assert value(client, "1 + 1") == "2"


@pytest.mark.parametrize("now", [True, False])
def test_it_ends_in_time(kernel_name: str, now: bool) -> None:
    """Shutdown takes little, politely or not."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    client.stop_channels()
    started = time.monotonic()
    manager.shutdown_kernel(now=now)
    # So long a manager waits for a kernel that doesn't end when it is asked to.
    assert time.monotonic() - started < manager.shutdown_wait_time
    assert not manager.has_kernel


def test_a_busy_kernel_ends_in_time(kernel_name: str) -> None:
    """Polite shutdown of a kernel that computes and swallows interrupts takes no longer than a few seconds."""
    manager, client = start_new_kernel(kernel_name=kernel_name)
    client.execute("import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(100)")
    time.sleep(0.3)
    client.stop_channels()
    started = time.monotonic()
    manager.shutdown_kernel()
    assert time.monotonic() - started < 30


def test_a_manager_starts_again(kernel_name: str) -> None:
    """After its shutdown the same manager starts a new kernel, given a context, without which no kernel can."""
    context = zmq.Context()
    manager = KernelManager(kernel_name=kernel_name, context=context)
    for _ in range(2):
        manager.start_kernel()
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        assert value(client, "1 + 1") == "2"
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    context.term()


def test_a_kernel_outlives_the_thread_that_started_it(kernel_name: str) -> None:
    """A kernel that was started in a thread of a client's lives on when that thread is gone."""
    manager = KernelManager(kernel_name=kernel_name)
    thread = threading.Thread(target=in_a_thread(manager.start_kernel))
    thread.start()
    thread.join()
    time.sleep(0.5)
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    assert manager.is_alive()
    assert value(client, "1 + 1") == "2"
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_kernels_are_started_in_threads_at_once(kernel_name: str) -> None:
    """Five managers in five threads start, run and end at the same time."""
    found: list[str] = []

    def work(number: int) -> None:
        manager, client = start_new_kernel(kernel_name=kernel_name)
        found.append(value(client, str(number)))
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    threads = [threading.Thread(target=in_a_thread(work), args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["0", "1", "2", "3", "4"]


def test_many_kernels_of_one_manager(kernel_name: str) -> None:
    """A MultiKernelManager starts, lists, restarts and ends several."""
    manager = MultiKernelManager(default_kernel_name=kernel_name)
    first, second = manager.start_kernel(), manager.start_kernel()
    assert set(manager.list_kernel_ids()) == {first, second}
    manager.restart_kernel(first, now=True)
    assert manager.is_alive(first)
    assert manager.is_alive(second)
    manager.shutdown_all(now=True)
    assert manager.list_kernel_ids() == []


async def test_asynchronous_managers(kernel_name: str) -> None:
    """The asynchronous manager and client do the same."""
    manager, client = await start_new_async_kernel(kernel_name=kernel_name)
    reply = await client.execute("1 + 1", reply=True, timeout=60)
    assert reply["content"]["status"] == "ok"
    await manager.restart_kernel(now=True)
    await client.wait_for_ready(timeout=60)
    client.execute("import time; time.sleep(100)")
    await asyncio.sleep(0.3)
    await manager.interrupt_kernel()
    # While it waited for the kernel the client may have asked more than once.
    while (message := await client.get_shell_msg(timeout=60))["msg_type"] != "execute_reply":
        assert message["msg_type"] == "kernel_info_reply"
    assert message["content"]["ename"] == "KeyboardInterrupt"
    client.stop_channels()
    await manager.shutdown_kernel()


async def test_many_asynchronous_ones(kernel_name: str) -> None:
    """As a server has it: several at once, one ends by itself, all are ended."""
    manager = AsyncMultiKernelManager(default_kernel_name=kernel_name)
    names = await asyncio.gather(*(manager.start_kernel() for _ in range(3)))
    assert all([await manager.is_alive(each) for each in names])
    await manager.shutdown_all(now=True)


@pytest.mark.parametrize("is_told", [False, True], ids=["untold", "told"])
async def test_a_server_restarts_what_dies(
    kernel_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    """The restarter that JupyterLab uses brings a dead kernel back; its first cell says why the one before is gone.

    So does the log, for clients that don't restart one and know no more than that it is dead. Where a page has said so
    in the cell that took too much, the next one is silent.
    """
    monkeypatch.setenv("NBAGENT_MEMORY_MB", "256")
    manager = AsyncIOLoopKernelManager(kernel_name=kernel_name, autorestart=True)
    manager.restarter_poll_interval = 0.1
    await manager.start_kernel()
    restarted = asyncio.Event()
    manager.add_restart_callback(restarted.set, "restart")
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    client.execute("x = bytearray(10**9)")
    await asyncio.wait_for(restarted.wait(), 20)
    if is_told:
        assert manager.provisioner.tell_loss().startswith("ran out of memory (limit 256 MB")
    await client.wait_for_ready(timeout=60)
    # The kernel may answer before the manager's own work for the restart is done.
    while not await manager.is_alive():
        await asyncio.sleep(0.01)
    await manager.ready
    heard: list[str] = []
    program = "import subprocess\nsubprocess.run(['true'])"  # after one, it is asked which were killed
    await client.execute_interactive(program, output_hook=lambda each: heard.append(str(each["content"].get("text"))))
    said = "nbagent: the kernel before this one ran out of memory (limit 256 MB" in "".join(heard)
    assert said is not is_told
    assert "".join(heard).count("out of memory") == said
    assert [each.levelname for each in caplog.records if "the kernel ran out of memory" in each.message] == ["ERROR"]
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


async def test_a_cancelled_start(kernel_name: str) -> None:
    """A client that gives up a start leaves nothing."""
    manager = AsyncKernelManager(kernel_name=kernel_name)
    starting = asyncio.create_task(manager.start_kernel())
    await asyncio.sleep(0.05)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    if manager.has_kernel:
        await manager.shutdown_kernel(now=True)


def test_what_can_t_start_is_an_error(kernel_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client sees nbagent's own error with the mend, not a timeout."""
    monkeypatch.setenv("NBAGENT_TRUST", "anything")
    with pytest.raises(UsageError, match="anything") as caught:
        KernelManager(kernel_name=kernel_name).start_kernel()
    assert "isolated" in caught.value.mend


def test_nothing_is_weakened_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a limit can't be enforced, a client's kernel doesn't start either."""
    monkeypatch.setattr(cgroup, "find", lambda: None)
    with pytest.raises(LimitUnenforceable, match="memory"):
        KernelManager(kernel_name="nbagent-bubblewrap").start_kernel()


CLIENT = """
import sys, time
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
client.execute("import subprocess; subprocess.Popen(['sleep', '1000'])", reply=True, timeout=60)
print(manager.provisioner._sandbox.instance._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_no_sandbox_outlives_its_client(signum: int, home: Path) -> None:
    """Whatever ends a client, bubblewrap ends with it, and all that runs inside."""
    client = subprocess.Popen([sys.executable, "-c", CLIENT, "nbagent-bubblewrap"], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    with client, client.stdout:
        process = int(client.stdout.readline())
        assert process in machine.processes(str(home / "runtime"))
        os.kill(client.pid, signum)
        client.wait()
    end = time.monotonic() + 60
    while machine.processes(str(home / "runtime")) or Path(f"/proc/{process}").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    # Nobody was left to remove what was on disk, the group and the user: the next start does, or `nbagent clean`.
    assert reaper.sweep()
