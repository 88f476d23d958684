"""Names and addresses: whatever a name server says, no allowed name leads inwards."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from egress.callers import Start
from egress.world import EVIL, HOST, PRIVATE, PRIVATE_6, PUBLIC, PUBLIC_6, World

from nbagent.egress import dial


@pytest.mark.parametrize(
    "addresses",
    [
        *([each] for each in (*PRIVATE, *PRIVATE_6)),
        *(["127.0.0.1"], ["127.0.0.53"], ["0.0.0.0"], ["::1"], ["::"]),  # noqa: S104
        *(["::ffff:127.0.0.1"], ["::ffff:93.184.216.34"]),
        *(["fe80::1"], ["ff02::1"], ["224.0.0.1"], ["255.255.255.255"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"]),
        *([HOST], ["2606:2800:215::2"], [PUBLIC, "10.0.0.5"], [PUBLIC, PUBLIC_6, "fd00:ec2::254"]),
    ],
    ids=str,
)
def test_an_address_that_is_not_out_there_is_refused(start: Start, world: World, addresses: list[str]) -> None:
    """However a name leads inwards: private, loopback, metadata, embedded, this machine's own, one among good ones."""
    proxy = start("inward.test")
    world.names.table["inward.test"] = addresses
    assert proxy.get("http://inward.test/")[0] == 403
    assert proxy.send("CONNECT inward.test:443 HTTP/1.0\r\n\r\n")[0] == 403
    assert proxy.denied == "inward.test has an address that is not on the public Internet."
    assert proxy.decisions[-1].address in addresses
    assert world.own.seen == world.web.seen == []


def test_those_addresses_would_answer(world: World) -> None:
    """The refusals above are what keeps them: without them, what listens there is reached."""
    for address in (*PRIVATE, *PRIVATE_6, "127.0.0.1", HOST):
        world.host.call(socket.create_connection, (address, 80), 5).close()


def test_names_of_the_host_itself_mean_nothing(start: Start, world: World) -> None:
    """Neither its /etc/hosts nor its search domains lead an allowed name elsewhere."""
    proxy = start("localhost", "listed.test", "short", "gone.test")
    world.names.table |= {"short.corp.test": [EVIL], "gone.test.corp.test": [EVIL]}
    for name in ("localhost", "listed.test", "short", "gone.test"):
        assert proxy.get(f"http://{name}/")[0] == 502
        assert proxy.denied == f"The name {name} is not known."
    assert world.own.seen == world.web.seen == []


def test_a_name_is_looked_up_once(start: Start, world: World) -> None:
    """The connection goes to the address that was checked, whatever the name server says a moment later."""
    proxy = start("turning.test")
    world.names.table["turning.test"] = [[PUBLIC], ["127.0.0.1"]]
    assert proxy.get("http://turning.test/") == (200, b"hello")
    assert world.names.asked == ["turning.test"]
    assert world.web.seen[0]["address"] == PUBLIC
    assert proxy.get("http://turning.test/")[0] == 403
    assert world.own.seen == []


def test_the_next_address_is_tried(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that does not answer costs its own time only."""
    monkeypatch.setattr(dial, "ONE_SECONDS", 0.3)
    proxy = start("two.test")
    world.names.table["two.test"] = ["93.184.216.200", PUBLIC]
    assert proxy.get("http://two.test/")[0] == 200
    world.names.table["two.test"] = ["93.184.216.200"]
    status, body = proxy.get("http://two.test/")
    assert status == 502
    assert body.startswith(b"two.test can't be reached: ")


def test_a_silent_name_server_holds_nobody_up(start: Start, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the caller is told, and others are served meanwhile."""
    monkeypatch.setattr(dial, "LOOKUP_SECONDS", 0.5)
    proxy = start("silent.test", "example.org")
    world.names.table["silent.test"] = "silent"
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(proxy.get, "http://silent.test/") for _ in range(4)]
        assert proxy.get("http://example.org/")[0] == 200
        assert [each.result()[0] for each in slow] == [504] * 4
