"""The controller's end of a sandbox, against callers of every kind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import pytest

from nbagent.core.errors import InstallRefused, SandboxError
from nbagent.sandbox.channels.endpoint import CHANNELS
from nbagent.sandbox.contract import InstallHook
from nbagent.sandbox.leases.lease import Lease, runtime_root
from nbagent.sandbox.machine import handoff as module
from nbagent.sandbox.machine import supervisor
from nbagent.sandbox.machine.handoff import PROGRAMS, TAIL, Handoff, open_output
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture
def asked() -> list[list[str]]:
    """What was asked to be installed."""
    return []


def new(install: InstallHook | None = None) -> Handoff:
    """A hand-over for a sandbox of its own."""
    return Handoff(Lease.take("local", SandboxSpec(), key="secret"), install=install)


@pytest.fixture
def handoff(asked: list[list[str]]) -> Iterator[Handoff]:
    """An open hand-over whose installs are written down."""

    def install(wanted: list[str]) -> list[dict[str, Any]]:
        asked.append(wanted)
        if wanted == ["refused"]:
            raise InstallRefused("Policy forbids it.", mend="Ask.")
        if wanted == ["broken"]:
            raise RuntimeError("no loop")
        return [{"name": each, "version": "1"} for each in wanted]

    made = new(install)
    made.open({"more": 1})
    yield made
    made.remove()


def door(handoff: Handoff) -> socket.socket:
    """A connection, as code in the sandbox makes it."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(handoff.shared / "controller.sock"))
    return client


def take(handoff: Handoff) -> tuple[dict[str, Any], list[int]]:
    """Be the start-up code: the configuration and the sockets."""
    with door(handoff) as client:
        head, descriptors, _, _ = socket.recv_fds(client, 65536, len(CHANNELS) + 1)
        rest = client.makefile("rb").readline() if not head.endswith(b"\n") else b""
        return json.loads(head + rest), descriptors


def ask(handoff: Handoff, request: bytes) -> dict[str, Any]:
    """Send a request and get the answer."""
    with door(handoff) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            found: dict[str, Any] = json.loads(answer.readline())
            return found


def taken(handoff: Handoff) -> Handoff:
    """The hand-over, taken by the start-up code."""
    for descriptor in take(handoff)[1]:
        os.close(descriptor)
    return handoff


def test_the_first_caller_gets_the_sockets(handoff: Handoff) -> None:
    """Sockets that listen already, where clients are told to connect, with the key and the configuration."""
    config, descriptors = take(handoff)
    assert config["more"] == 1
    assert config["key"].encode() == handoff.endpoint.connection_info["key"]
    places = [f"{handoff.endpoint.connection_info['ip']}-{number}" for number in config["ports"].values()]
    assert len(places) == 5
    for place, descriptor in zip([*places, str(handoff.folder / supervisor.SOCKET)], descriptors, strict=True):
        with socket.socket(fileno=descriptor) as listening, socket.socket(socket.AF_UNIX) as client:
            client.connect(place)
            listening.accept()[0].close()


def test_nobody_gets_them_twice(handoff: Handoff) -> None:
    """A later caller, which is code of the session's, gets neither key nor sockets."""
    taken(handoff)
    with door(handoff) as client:
        client.sendall(b"{}\n")
        answer, descriptors, _, _ = socket.recv_fds(client, 65536, 5)
    assert descriptors == []
    assert handoff.lease.terms.key.encode() not in answer


def test_folders_are_private(handoff: Handoff) -> None:
    """Only this user gets to the sockets; only the door and the start-up code are shown inside."""
    assert stat.S_IMODE(runtime_root().stat().st_mode) == 0o700
    assert stat.S_IMODE(handoff.folder.stat().st_mode) == 0o700
    assert sorted(each.name for each in handoff.shared.iterdir()) == sorted(
        ["controller.sock", *(each.name for each in PROGRAMS)]
    )
    for number in range(1, 6):
        assert stat.S_IMODE((handoff.folder / f"k-{number}").stat().st_mode) == 0o600


def test_an_install_is_answered(handoff: Handoff, asked: list[list[str]]) -> None:
    """A list of requirements reaches the hook, and its result comes back."""
    answer = ask(taken(handoff), b'{"install": ["humanize==4"]}\n')
    assert answer == {"installed": [{"name": "humanize==4", "version": "1"}]}
    assert asked == [["humanize==4"]]


def test_a_refusal_is_answered(handoff: Handoff) -> None:
    """The reason and the mend come back, not an exception."""
    assert ask(taken(handoff), b'{"install": ["refused"]}\n') == {"error": "Policy forbids it. Ask."}


def test_a_hook_that_breaks_is_answered(handoff: Handoff) -> None:
    """Whatever the hook raises, the caller is told, and the next one is served."""
    taken(handoff)
    assert "RuntimeError" in ask(handoff, b'{"install": ["broken"]}\n')["error"]
    assert "installed" in ask(handoff, b'{"install": ["fine"]}\n')


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\n",
        b"not json\n",
        b"[]\n",
        b"7\n",
        b"null\n",
        b"{}\n",
        b'{"install": 1}\n',
        b'{"install": {"a": 1}}\n',
        b'{"install": [1]}\n',
        b'{"install": [["a"]]}\n',
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
        b'{"install":' * 5_000 + b"\n",
        b'{"install": "' + b"x" * 200_000,
        b"9" * 20_000 + b"\n",
    ],
    ids=lambda each: f"{each[:12]!r}+{len(each)}",
)
def test_nonsense_is_survived(handoff: Handoff, asked: list[list[str]], request_: bytes) -> None:
    """Whatever code of the session's sends, it gets an error or nothing, and the next caller is served."""
    taken(handoff)
    with door(handoff) as client:
        try:
            client.sendall(request_)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(65536)
        except OSError:
            answer = b""
    assert not answer or "error" in json.loads(answer)
    assert asked == []
    assert "installed" in ask(handoff, b'{"install": ["fine"]}\n')


def test_descriptors_that_are_sent_are_not_kept(handoff: Handoff, tmp_path: Path) -> None:
    """Code that sends descriptors of its own can't fill this process with them; a newer Linux refuses them."""
    taken(handoff)
    sent = tmp_path / "sent"
    with sent.open("wb") as file:
        for _ in range(20):
            with door(handoff) as client, contextlib.suppress(PermissionError):
                socket.send_fds(client, [b'{"install": 1}\n'], [file.fileno()] * 3)
                client.recv(1000)
    # The last caller's own is closed a moment after its answer.
    end = time.monotonic() + 60
    while str(sent) in opened_files() and time.monotonic() < end:
        time.sleep(0.01)
    assert str(sent) not in opened_files()


def opened_files() -> set[str]:
    """What the descriptors of this process lead to."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own
            found.add(str(each.readlink()))
    return found


def test_a_silent_caller_holds_nobody_up_for_long(handoff: Handoff, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing, or a byte now and then, is given up after the time for a whole request."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.5)
    taken(handoff)
    stop = threading.Event()

    def drip() -> None:
        with door(handoff) as client:
            while not stop.wait(0.05):
                try:
                    client.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    time.sleep(0.1)
    started = time.monotonic()
    try:
        assert "installed" in ask(handoff, b'{"install": ["fine"]}\n')
        assert time.monotonic() - started < 30
    finally:
        stop.set()
        thread.join()


def test_output_is_drained_and_its_end_kept() -> None:
    """A sandbox can print for ever; this process keeps the last bytes, however they come."""
    handoff = new()
    handoff.open({})
    writer = open_output(handoff.folder)
    try:
        os.write(writer, b"early ")
        for _ in range(50):
            select.select([], [writer], [])
            os.write(writer, b"x" * 10_000)
        for each in b"last words":
            os.write(writer, bytes([each]))
        wait_for(lambda: handoff.tail().endswith("last words"))
        assert len(handoff.tail()) <= TAIL
        assert "early" not in handoff.tail()
    finally:
        os.close(writer)
        handoff.remove()


def test_a_flood_costs_this_process_little(handoff: Handoff) -> None:
    """What prints without end waits for its reader, which doesn't spend its own time on it."""
    writer = open_output(handoff.folder)
    end, before, written = time.monotonic() + 1, time.thread_time(), 0
    mine = time.process_time()
    while time.monotonic() < end:
        written += os.write(writer, b"x" * 65_536)
    spent = time.process_time() - mine - (time.thread_time() - before)
    os.close(writer)
    assert written < 50_000_000
    assert spent < 10 * machine.pace()


def test_what_is_not_text_is_shown_as_well_as_can_be() -> None:
    """The tail is text whatever bytes it is made of."""
    handoff = new()
    handoff.open({})
    writer = open_output(handoff.folder)
    os.write(writer, b"\xff\x00\xc3")
    os.close(writer)
    wait_for(lambda: "\ufffd" in handoff.tail())
    handoff.remove()


def test_a_restart_keeps_what_clients_know(handoff: Handoff) -> None:
    """Paths and key stay the same over a restart; the new kernel gets new sockets at the same places."""
    before = handoff.endpoint.connection_info
    taken(handoff)
    handoff.open({})
    assert handoff.endpoint.connection_info == before
    assert len([os.close(each) for each in take(handoff)[1]]) == 6


def test_removal_leaves_nothing(handoff: Handoff) -> None:
    """Neither folder, thread nor descriptor is left; removing again does nothing."""
    handoff.remove()
    before, threads = machine.descriptors(), threading.active_count()
    for _ in range(5):
        other = new()
        other.open({})
        other.remove()
        other.remove()
        assert not other.folder.exists()
    assert machine.descriptors() == before
    assert threading.active_count() == threads


def test_unused_sockets_are_closed(handoff: Handoff) -> None:
    """Of a kernel that never came up nothing listens any more."""
    path = handoff.folder / "k-1"
    handoff.close()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(path))


def test_a_long_runtime_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A socket's path has at most 107 bytes; where that gets tight, /tmp is taken."""
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert runtime_root().parent == Path("/tmp")


@pytest.mark.needs("root")
def test_a_folder_of_somebody_elses_is_refused(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """A runtime folder that another user made, or a link in its place, is an error with the mend."""
    for name, plant in {
        "theirs": lambda at: (at.mkdir(), os.chown(at, 4711, 4711)),
        "link": lambda at: at.symlink_to("/root"),
    }.items():
        base = home / name
        base.mkdir()
        plant(base / f"nbagent-{os.getuid()}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
        with pytest.raises(SandboxError, match="somebody else") as caught:
            runtime_root()
        assert "XDG_RUNTIME_DIR" in caught.value.mend


def test_an_open_folder_is_closed_to_others(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """A runtime folder of ours that others may enter is made private."""
    base = home / "open"
    (base / f"nbagent-{os.getuid()}").mkdir(parents=True, mode=0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    assert stat.S_IMODE(runtime_root().stat().st_mode) == 0o700


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has come about, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
