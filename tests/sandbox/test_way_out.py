"""From a cell to a server and back, through process 1 and the proxy, in each engine that isolates."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from egress.callers import wait_for
from egress.world import EVIL, HOST, NAME_SERVER, PRIVATE, PRIVATE_6, PUBLIC, PUBLIC_6, World
from jupyter_client import AsyncKernelManager

from nbagent.core.events import Event, HostAsked, HostDecided, text_of
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

Result = TypeVar("Result")

GET = """
import ssl, urllib.request as u
def get(url):
    try:
        return u.urlopen(url, timeout=60, context=ssl.create_default_context(cadata=CA)).read().decode()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
"""


class Sandbox:
    """A kernel whose controller lives on the host of the small Internet, in an event loop of its own."""

    def __init__(
        self,
        world: World,
        engine: Engine,
        *hosts: str,
        level: TrustLevel = TrustLevel.SANDBOXED,
        ask: bool = False,
        left: Path | None = None,
    ) -> None:
        self.events: list[Event] = []
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread = world.host.call(self._start)
        security = {"allowed_hosts": list(hosts)} if hosts else None
        spec = SandboxSpec(trust=trust_for(level, security=security))
        self.kernel = Kernel(engine, spec, notify=self.events.append, ask_hosts=ask)
        self.do(self.kernel.take_over(left) if left else self.kernel.start())
        self.run(f"CA = {world.authority.read_text()!r}{GET}")

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        return thread

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for something that happens over there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def run(self, code: str) -> str:
        """What a cell prints."""
        cell = self.do(self.kernel.run(code))
        assert cell.success, cell.outputs
        return text_of(cell.outputs).strip()

    def get(self, url: str) -> str:
        """What code in there gets for a URL, or why it gets nothing."""
        return self.run(f"print(get({url!r}))")

    @property
    def decided(self) -> list[HostDecided]:
        """What was decided so far."""
        return [event for event in self.events if isinstance(event, HostDecided)]

    def close(self) -> None:
        """End it."""
        try:
            self.do(self.kernel.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


@pytest.fixture(scope="module")
def sandboxed(whole_world: World, engine: Engine) -> Iterator[Sandbox]:
    """At the level for agents that face users, with two hosts."""
    whole_world.forget()
    made = Sandbox(whole_world, engine, "example.org", "inward.test", level=TrustLevel.SANDBOXED)
    yield made
    made.close()


@pytest.fixture
def other(world: World, engine: Engine) -> Iterator[Callable[..., Sandbox]]:
    """Makes sandboxes of the test's own."""
    made: list[Sandbox] = []

    def make(*hosts: str, **named: Any) -> Sandbox:
        made.append(Sandbox(world, engine, *hosts, **named))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_allowed_host_is_reached(sandboxed: Sandbox, world: World, scheme: str) -> None:
    """By a plain library that knows the usual variables and nothing of this; the decision is an event."""
    port = {"http": 80, "https": 443}[scheme]
    assert sandboxed.get(f"{scheme}://example.org/") == "hello"
    expected = HostDecided(host="example.org", port=port, allowed=True, by="list", address=PUBLIC)
    wait_for(lambda: expected in sandboxed.decided)
    assert world.web.seen[0]["address"] == PUBLIC


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_host_is_denied_with_a_sentence(sandboxed: Sandbox, world: World, scheme: str) -> None:
    """Which the code, and so the model, is shown; it is an event once, however often it is tried."""
    for _ in range(3):
        said = sandboxed.get(f"{scheme}://evil.test/")
        assert "evil.test is not an allowed host; list evil.test in allow_hosts (--allow-host evil.test" in said
    port = {"http": 80, "https": 443}[scheme]
    wait_for(lambda: sum((each.host, each.port) == ("evil.test", port) for each in sandboxed.decided) == 1)
    assert world.web.seen == []


def test_the_variables_are_no_matter_of_trust(sandboxed: Sandbox, world: World) -> None:
    """Code that ignores them has no route: not by address, name, datagram, or a socket of its own; there is only lo."""
    found = sandboxed.run(f"""
import errno, socket
def attempt(work):
    try:
        return work()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.sendto(b"x", ({NAME_SERVER!r}, 53))
        return s.recv(10)
plain = u.build_opener(u.ProxyHandler({{}}))
print(*(attempt(lambda: socket.create_connection((each, 80), 2)) for each in {(PUBLIC, EVIL, HOST, *PRIVATE)!r}))
print(*(attempt(lambda: socket.create_connection((each, 80), 2)) for each in {(PUBLIC_6, *PRIVATE_6)!r}))
print(attempt(datagram))
print(attempt(lambda: socket.getaddrinfo("example.org", 80)))
print(attempt(lambda: plain.open("http://example.org/", timeout=2)))
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
""").splitlines()
    assert set(found[0].split()) == set(found[1].split()) == {"ENETUNREACH"}
    assert found[2] == "ENETUNREACH"
    assert found[3:] == ["gaierror", "URLError", "['lo']"]
    assert world.web.seen == world.names.asked == []


@pytest.mark.parametrize("address", [*PRIVATE, *PRIVATE_6, "127.0.0.1", "::1", HOST])
def test_an_allowed_name_leads_nowhere_inside(sandboxed: Sandbox, world: World, address: str) -> None:
    """Not to metadata, private ranges, the host's loopback or its own address, whatever its name server says."""
    world.names.table["inward.test"] = [address]
    said = sandboxed.get("http://inward.test/") + sandboxed.get("https://inward.test/")
    assert said.count("inward.test has an address that is not on the public Internet") == 2
    assert address not in said
    assert world.web.seen == world.own.seen == []


def test_the_proxy_is_no_way_to_addresses(sandboxed: Sandbox, world: World) -> None:
    """Asked for the host's loopback by address or name, by whatever port and notation, it says no."""
    hosts = ("127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "localhost", HOST, "169.254.169.254")
    for host in hosts:
        said = sandboxed.run(f"""
import http.client
for port in (80, 443, 8080, 22):
    connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=5)
    connection.request("GET", f"http://{host}:{{port}}/", headers={{"Host": f"{host}:{{port}}"}})
    print(connection.getresponse().status)
""")
        assert set(said.split()) <= {"400", "403"}
    assert world.own.seen == world.web.seen == []


def test_the_socket_itself_is_no_way_around(sandboxed: Sandbox, world: World) -> None:
    """Code may speak to the proxy's socket without the forwarder, which decides nothing."""
    said = sandboxed.run("""
import socket
for request in (b"GET http://evil.test/", b"CONNECT 127.0.0.1:80", b"GET http://example.org/"):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("/run/nbagent/egress.sock")
        s.sendall(request + b" HTTP/1.0\\r\\n\\r\\n")
        print(s.recv(12)[9:].decode())
""")
    assert said.split() == ["403", "400", "200"]
    assert [each["address"] for each in world.web.seen] == [PUBLIC]


def test_loopback_inside_needs_no_proxy(sandboxed: Sandbox) -> None:
    """A server that code starts for itself is reached directly."""
    said = sandboxed.run("""
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"mine")
    def log_message(self, *_): pass
own = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=own.serve_forever, daemon=True).start()
print(get(f"http://127.0.0.1:{own.server_port}/"))
own.shutdown(); own.server_close()
""")
    assert said == "mine"


def test_many_requests_at_once(sandboxed: Sandbox) -> None:
    """More than there are connections are served in turn."""
    said = sandboxed.run("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(40) as pool:
    print({*pool.map(get, ["http://example.org/"] * 120)})
""")
    assert said == "{'hello'}"


AT_THE_FORWARDER = """
import ctypes, fcntl, json, os, resource, signal, socket, struct, time
others = [each for each in map(int, filter(str.isdecimal, os.listdir("/proc"))) if each not in (1, os.getpid())]
(it,) = others
libc, x86, got = ctypes.CDLL(None, use_errno=True), os.uname().machine == "x86_64", []
def attempt(name, function, *arguments):
    try:
        result = function(*arguments)
    except OSError:
        return
    if result != -1:
        got.append(name)
def call(*numbers):
    return libc.syscall(*map(ctypes.c_long, numbers))
attempt("kill", os.kill, it, 9)
attempt("its group", os.kill, -it, 9)
attempt("everybody", os.kill, -1, 9)
attempt("tkill", call, 200 if x86 else 130, it, 9)
attempt("tgkill", call, 234 if x86 else 131, it, it, 9)
information = ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1), 128)
attempt("queue", call, 129 if x86 else 138, it, 9, ctypes.addressof(information))
attempt("queue to a thread", call, 297 if x86 else 240, it, it, 9, ctypes.addressof(information))
attempt("descriptor", os.pidfd_open, it)
attempt("folder", signal.pidfd_send_signal, os.open(f"/proc/{it}", os.O_RDONLY | os.O_DIRECTORY), 9)
one, other = socket.socketpair()
fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_ASYNC)
attempt("signal of a file", fcntl.fcntl, one, 10, 9)
attempt("owner of a file", fcntl.fcntl, one, fcntl.F_SETOWN, it)
other.send(b"x")
attempt("limits", resource.prlimit, it, resource.RLIMIT_NOFILE, (0, 0))
attempt("processors", os.sched_setaffinity, it, {0})
os.sched_setscheduler(it, os.SCHED_IDLE, os.sched_param(0))
got += ["scheduling"] * (os.sched_getscheduler(it) == os.SCHED_IDLE)
attempt("priority", os.setpriority, 0, it, 19)
attempt("priority of its group", os.setpriority, 1, it, 19)
attempt("its memory", open, f"/proc/{it}/mem", "r+b")
attempt("its files", os.listdir, f"/proc/{it}/fd")
time.sleep(0.2)
print(json.dumps([got, os.path.exists(f"/proc/{it}/stat")]))
"""


@pytest.mark.parametrize("level", [TrustLevel.SANDBOXED, TrustLevel.ISOLATED])
def test_code_can_t_get_at_the_forwarder(other: Callable[..., Sandbox], level: TrustLevel) -> None:
    """It can't be signalled by any of its names, slowed down, limited or looked into; and it works on."""
    sandbox = other("example.org", level=level)
    assert json.loads(sandbox.run(AT_THE_FORWARDER)) == [[], True]
    assert sandbox.get("http://example.org/") == "hello"


def test_a_restart_keeps_the_way_out(sandboxed: Sandbox) -> None:
    """A kernel that dies gets a new sandbox, which the same proxy serves."""
    cell = sandboxed.do(sandboxed.kernel.run("import os; os._exit(1)"))
    assert cell.status == "died"
    again = "import urllib.request as u; print(u.urlopen('http://example.org/').read().decode())"
    assert sandboxed.run(again) == "hello"


CONTROLLER = """
import asyncio, sys
from nbagent.kernel.kernel import Kernel
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec
async def main():
    trust = trust_for(TrustLevel.SANDBOXED, security={"allowed_hosts": ["example.org"]})
    kernel = Kernel(engines()[sys.argv[1]], SandboxSpec(trust=trust, keep=60))
    await kernel.start()
    await kernel.run("kept = 'variables'")
    print(kernel.about.folder, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_who_takes_over_opens_the_way_again(other: Callable[..., Sandbox], world: World, engine: Engine) -> None:
    """A sandbox whose controller was killed gets a proxy again, with the same list."""
    command = [sys.executable, "-c", CONTROLLER, engine.name]
    controller = world.host.call(subprocess.Popen, command, stdout=subprocess.PIPE, text=True)
    with controller:
        folder = Path(controller.stdout.readline().strip())
        controller.kill()
    one = other(left=folder)
    assert one.run("print(kept)") == "variables"
    assert one.get("http://example.org/") == one.get("https://example.org/") == "hello"
    assert "evil.test is not an allowed host" in one.get("http://evil.test/")


def test_a_person_is_asked_for_a_host(other: Callable[..., Sandbox]) -> None:
    """The question is an event; the answer holds for the session, and a denial too."""
    one = other(level=TrustLevel.SANDBOXED, ask=True)
    answers = {"evil.test": False, "other.test": True, "www.example.org": True}
    asked: list[HostAsked] = []
    end = threading.Event()

    def person() -> None:
        while not end.wait(0.01):
            for event in [each for each in one.events if isinstance(each, HostAsked)][len(asked) :]:
                asked.append(event)
                remember = event.host != "www.example.org"
                assert one.kernel.approve_host(event.id, allow=answers[event.host], remember=remember)
                assert not one.kernel.approve_host(event.id, allow=True)

    thread = threading.Thread(target=person)
    thread.start()
    try:
        for _ in range(2):
            assert one.get("http://other.test/") == one.get("https://www.example.org/") == "hello"
            assert "A person denied evil.test" in one.get("http://evil.test/")
    finally:
        end.set()
        thread.join()
    assert [each.host for each in asked] == ["other.test", "www.example.org", "evil.test", "www.example.org"]
    assert {(each.host, each.allowed, each.by) for each in one.decided} == {
        ("other.test", True, "person"),
        ("www.example.org", True, "person"),
        ("evil.test", False, "person"),
    }
    one.kernel.allow_host("evil.test")
    assert one.get("http://evil.test/") == "hello"
    assert not one.kernel.approve_host("h99", allow=True)


def test_a_question_costs_a_cell_no_time(other: Callable[..., Sandbox]) -> None:
    """A cell that waits for a person isn't stopped at its limit for that, but for its own time it is."""
    one = other(level=TrustLevel.SANDBOXED, ask=True)
    asking = asyncio.run_coroutine_threadsafe(one.kernel.run("print(get('http://other.test/'))", timeout=2), one._loop)
    wait_for(lambda: any(isinstance(each, HostAsked) for each in one.events))
    time.sleep(3)
    (asked,) = [each for each in one.events if isinstance(each, HostAsked)]
    assert one.kernel.approve_host(asked.id, allow=True)
    assert text_of(asking.result(30).outputs).strip() == "hello"
    cell = one.do(one.kernel.run("import time; time.sleep(30)", timeout=1))
    assert cell.status == "timeout"


def test_data_analysis_may_have_hosts_too(other: Callable[..., Sandbox], world: World) -> None:
    """Named at the default level, hosts are reached from a shell's programs as well, and nothing else is."""
    one = other("example.org", level=TrustLevel.ISOLATED)
    code = "import urllib.request as u; print(u.urlopen('http://{}/').read().decode())"
    said = one.run(f"""
import subprocess, sys
for code in ({code.format("example.org")!r}, {code.format("evil.test")!r}):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print((done.stdout + done.stderr).strip().splitlines()[-1])
""").splitlines()
    assert said[0] == "hello"
    assert "evil.test is not an allowed host" in said[1]
    assert [each["address"] for each in world.web.seen] == [PUBLIC]


def test_without_a_list_there_is_no_proxy(other: Callable[..., Sandbox]) -> None:
    """Neither socket, listener, variables nor thread."""
    before = proxies()
    one = other(level=TrustLevel.ISOLATED)
    said = one.run("""
import os, socket
print("egress.sock" in os.listdir("/run/nbagent"), [name for name in os.environ if "proxy" in name.lower()])
with socket.socket() as s:
    print(s.connect_ex(("127.0.0.1", 3128)) != 0)
""")
    assert said.splitlines() == ["False []", "True"]
    assert proxies() == before


def test_the_end_of_a_session_ends_the_proxy(other: Callable[..., Sandbox]) -> None:
    """Its thread goes with the sandbox."""
    one = other("example.org", level=TrustLevel.SANDBOXED)
    socket_path = one.kernel.about.folder / "in" / "egress.sock"
    assert socket_path.exists()
    running = proxies()
    one.do(one.kernel.stop())
    assert len(proxies()) == len(running) - 1
    assert not socket_path.exists()


def test_any_client_gets_it(engine: Engine, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that another program starts has it by the person's settings; there nobody is asked."""
    monkeypatch.setenv("NBAGENT_TRUST", "sandboxed")
    monkeypatch.setenv("NBAGENT_SECURITY", '{"allowed_hosts": ["example.org"]}')
    said: list[str] = []

    async def session() -> None:
        manager = AsyncKernelManager(kernel_name=engine.kernel_name)
        await manager.start_kernel()
        client = manager.client()
        try:
            client.start_channels()
            await client.wait_for_ready(30)
            for host in ("example.org", "evil.test"):
                await client.execute_interactive(
                    f"import urllib.request as u; print(u.urlopen('http://{host}/').read().decode())",
                    timeout=60,
                    output_hook=lambda message: said.append(str(message["content"])),
                )
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)

    world.host.call(asyncio.run, session())
    assert any("hello" in each for each in said)
    assert any("evil.test is not an allowed host" in each for each in said)


def proxies() -> list[threading.Thread]:
    """The threads of the proxies that run."""
    return [each for each in threading.enumerate() if each.name == "nbagent-egress"]
