"""The proxy as a whole: questions to a person, what one sandbox may take of it, its start and its end."""

from __future__ import annotations

import contextlib
import socket
import stat
import threading
import time
import tracemalloc
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import machine
import pytest
from egress.callers import Proxy, Start, answer, wait_for
from egress.world import OTHER, World

from nbagent.core.errors import SandboxError, UsageError
from nbagent.core.events import HostDecided
from nbagent.egress import listener
from nbagent.egress.gate import HostAnswer
from nbagent.egress.listener import Egress
from nbagent.egress.proxy import ConnectionEnded

# -- questions --------------------------------------------------------------------------------------------------------


def test_a_person_is_asked(start: Start) -> None:
    """From another thread, while the caller waits; the decision says who made it."""
    asked: list[tuple[str, int]] = []

    def decide(host: str, port: int) -> Future[HostAnswer]:
        asked.append((host, port))
        future: Future[HostAnswer] = Future()
        threading.Timer(
            0.05, future.set_result, [HostAnswer.SESSION if host == "other.test" else HostAnswer.DENY]
        ).start()
        return future

    proxy = start("example.org", ask=decide)
    for _ in range(2):
        assert proxy.get("http://other.test/") == (200, b"hello")
        assert proxy.get("http://evil.test/")[0] == 403
    assert asked == [("other.test", 80), ("evil.test", 80)]
    assert proxy.denied.startswith("A person denied evil.test")
    decisions = [(each.host, each.allowed, each.by, each.address) for each in proxy.decisions[:2]]
    assert decisions == [("other.test", True, "person", OTHER), ("evil.test", False, "person", "")]


def test_what_a_person_allows_is_still_checked(start: Start, world: World) -> None:

    def decide(*_: object) -> Future[HostAnswer]:
        future: Future[HostAnswer] = Future()
        future.set_result(HostAnswer.SESSION)
        return future

    proxy = start(ask=decide)
    world.names.table["inward.test"] = ["169.254.169.254"]
    assert proxy.get("http://inward.test/")[0] == 403
    assert world.web.seen == []


def test_a_name_is_not_looked_up_before_it_is_allowed(start: Start, world: World) -> None:
    """A name server would read it: not while a person is asked, and not once they said no."""
    questions: list[Future[HostAnswer]] = []

    def decide(*_: object) -> Future[HostAnswer]:
        questions.append(Future())
        return questions[-1]

    proxy = start(ask=decide)
    with proxy.connect() as caller:
        caller.sendall(b"GET http://s3cr3t.test/ HTTP/1.1\r\nHost: s3cr3t.test\r\n\r\n")
        wait_for(lambda: len(questions) == 1)
        assert world.names.asked == []
        questions[0].set_result(HostAnswer.DENY)
        assert caller.recv(100).startswith(b"HTTP/1.1 403 ")
    assert world.names.asked == []


def test_a_question_that_nobody_answers_is_a_denial(start: Start) -> None:
    """The question's time is a denial; the end of the proxy takes open questions back."""
    questions: list[Future[HostAnswer]] = []

    def decide(*_: object) -> Future[HostAnswer]:
        questions.append(Future())
        return questions[-1]

    proxy = start(ask=decide, ask_seconds=0.2)
    assert proxy.get("http://example.org/")[0] == 403
    assert "Nobody allowed example.org within 0.2 s" in proxy.denied
    other = start(ask=decide)
    with other.connect() as caller:
        caller.sendall(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
        wait_for(lambda: len(questions) == 2)
        other.egress.close()
        assert caller.recv(100) == b""
    assert [each.cancelled() for each in questions] == [True, True]


def test_the_list_can_grow(start: Start) -> None:
    """A person adds a host while the sandbox runs."""
    proxy = start()
    assert proxy.get("http://example.org/")[0] == 403
    proxy.egress.allow("example.org")
    assert proxy.get("http://example.org/")[0] == 200
    with pytest.raises(UsageError):
        proxy.egress.allow("http://example.org")


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_callers_beyond_the_bound_wait(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further callers wait until one leaves; then they are served."""
    monkeypatch.setattr(listener, "CONNECTIONS", 4)
    proxy = start("example.org")
    with contextlib.ExitStack() as stack:
        holding = [stack.enter_context(proxy.connect()) for _ in range(4)]
        time.sleep(0.1)
        with proxy.connect() as caller:
            caller.sendall(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
            caller.settimeout(0.3)
            with pytest.raises(TimeoutError):
                caller.recv(100)
            holding[0].close()
            caller.settimeout(10)
            assert answer(caller) == (200, b"hello")


def test_many_connections_leave_nothing(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither memory, descriptors nor threads grow with what has been served or denied."""
    monkeypatch.setattr(listener, "PACE", 0)
    proxy = start("example.org")

    def burst(count: int) -> None:
        for number in range(count):
            assert proxy.get("http://example.org/" if number % 4 == 0 else f"http://h{number}.test/")[0] in (200, 403)
        proxy.closed()
        for each in (proxy.told, world.web.seen, world.names.asked):
            each.clear()

    burst(200)
    tracemalloc.start()
    try:
        burst(200)
        before = tracemalloc.get_traced_memory()[0]
        descriptors, threads = machine.descriptors(), threading.active_count()
        burst(1000)
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()
    assert machine.descriptors() <= descriptors + 2
    assert threading.active_count() <= threads + 2


def test_a_busy_controller_does_not_stall_it(start: Start) -> None:
    """It serves while this thread does nothing but compute."""
    proxy = start("example.org")
    with ThreadPoolExecutor() as pool:
        got = pool.submit(proxy.get, "http://example.org/")
        end = time.monotonic() + 60
        while not got.done():
            assert time.monotonic() < end
            sum(range(1000))
        assert got.result()[0] == 200


# -- its life ---------------------------------------------------------------------------------------------------------


def test_its_socket_is_for_anybody_who_sees_it(start: Start) -> None:
    """The sandbox's own user gets through; the folder says who sees it."""
    assert stat.S_IMODE(start().path.stat().st_mode) == 0o666


def test_closing_leaves_nothing(tmp_path: Path) -> None:
    """Neither thread, descriptor nor socket; connections that are open are cut; closing again does nothing."""
    path = tmp_path / "s"
    before, threads = machine.descriptors(), threading.active_count()
    for _ in range(3):
        one = Egress(["example.org"])
        one.close()
        one.start(path)
        with Proxy(path, one).connect() as caller:
            time.sleep(0.05)
            one.close()
            assert caller.recv(1) == b""
        one.close()
        assert not path.exists()
    assert machine.descriptors() == before
    assert threading.active_count() == threads


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a controller that died has left doesn't stop the next one."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    one = Egress([])
    one.start(path)
    with Proxy(path, one).connect() as caller:
        caller.sendall(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert answer(caller)[0] == 403
    one.close()


def test_a_socket_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    before = machine.descriptors()
    with pytest.raises(SandboxError, match="can't be made") as caught:
        Egress([]).start(tmp_path / ("x" * 120))
    assert "XDG_RUNTIME_DIR" in caught.value.mend
    assert machine.descriptors() == before


def test_who_is_told_may_fail(tmp_path: Path, world: World) -> None:
    """A reader of decisions that raises ends no connection."""

    def broken(_: HostDecided | ConnectionEnded) -> None:
        raise RuntimeError("the loop is closed")

    one = Egress(["example.org"], observe=broken)
    world.host.call(one.start, tmp_path / "s")
    assert Proxy(tmp_path / "s", one).get("http://example.org/")[0] == 200
    one.close()
