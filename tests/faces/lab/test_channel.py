"""One session and one page, over one WebSocket."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time

import psutil
import pytest
from faces.lab.conftest import Server
from program import call, replies, slowly
from tornado.httpclient import HTTPClientError

from nbagent import attach
from nbagent.core.events import ApprovalAsked
from nbagent.sandbox.leases import lease as leases

ON = "import time\nfor step in range(10_000):\n    print('step', step, flush=True)\n    time.sleep(0.05)"
LONG = " ".join(f"word{number}" for number in range(60))


async def test_a_question_is_asked_and_answered(server: Server) -> None:
    """The page gets the whole log in order, the end of its call behind what the call has written."""
    replies(server.root / "r.jsonl", call("6 * 7"), "It is 42.")
    id = await server.session(model="replay:r.jsonl", approvals="never-ask")
    async with server.page(id) as page:
        assert await page.call("ask", question="What is it?") == 1
        assert [each["seq"] for each in page.records] == [*range(1, len(page.records) + 1)]
        assert page.events("Answered")[0]["text"] == "It is 42."
        assert page.events("CellFinished")[0]["outputs"][0]["data"]["text/plain"] == "42"
        assert [each["state"] for each in page.states] == ["running"]
        last = page.records[-1]["seq"]
        await page.call("stop", reason="enough")
        await page.state("ended")
        assert page.events("SessionEnded")[0]["reason"] == "enough"
    async with server.page(id, since=last) as again:
        await again.state("ended")
        assert [each["seq"] for each in again.records][:1] == [last + 1]
        end = await again.end(await again.begin("run", code="1"))
        assert end["failure"]["kind"] == "OwnerGone"


async def test_a_session_is_resumed_by_its_page(server: Server) -> None:
    """After its end with a new kernel, after its process died with its variables, though the page goes meanwhile."""
    id = await server.session()
    async with server.page(id) as page:
        await page.call("run", code="x = 41")
        await page.call("stop")
        await page.state("ended")
        assert page.states[-1]["mend"] == "Resume it: it gets a new kernel."
        await page.call("resume")
        await page.state("running")
        assert (await page.event("SessionResumed"))["kept"] is False
        await page.call("run", code="x = 42\nnames = ['a\\x1b', 'b']")
        assert await page.call("variables") == ["names: list of 2", "x: int"]
        owner = leases.find(id, prefix=leases.HOST)
        assert owner is not None
        terms = leases.read_terms(owner)
        assert terms is not None
        os.kill(terms.parts["pid"], signal.SIGKILL)
        await page.until(lambda: "with its variables" in page.states[-1].get("mend", ""))
        await page.begin("resume")
    async with server.page(id) as page, server.page(id) as other:
        await page.state("running")
        await page.call("run", code="x")
        assert page.events("CellFinished")[-1]["outputs"][0]["data"]["text/plain"] == "42"
        assert page.events("SessionResumed")[-1]["kept"] is True
        await page.call("stop")
        await other.state("ended")


async def test_words_come_before_the_reply_is_whole(server: Server) -> None:
    """Also to a page that comes in the middle; those that come after the whole reply would show it twice."""
    replies(server.root / "words.jsonl", slowly(call("1", say="Let me look."), seconds=0.3), slowly(LONG, seconds=2))
    id = await server.session(model="replay:words.jsonl", approvals="never-ask")
    async with server.page(id) as one, server.page(id) as two:
        asking = await one.begin("ask", question="What is it?")
        await one.until(lambda: "word9 " in one.words)
        assert not one.events("Answered")
        async with server.page(id, since=one.records[-1]["seq"]) as late:
            await late.until(lambda: "word19 " in late.words)
            assert late.words.startswith("word0 word1 ")
        await one.end(asking)
        await two.event("Answered")
        for page in (one, two):
            assert page.all_words == ["Let me look.", LONG]
        await one.call("stop")


async def test_a_traceback_comes_with_the_persons_own_frames_apart(server: Server) -> None:
    """Beside the whole, of which a notebook is made; where there is nothing else in it, only the whole comes."""
    id = await server.session()
    async with server.page(id) as page:
        await page.call("run", code="import json\njson.loads('{')")
        await page.call("run", code="1 +")
        long, short = (each for each in page.records if each["event"]["type"] == "CellFinished")
        (error,) = long["event"]["outputs"]
        assert "raw_decode" in "".join(error["traceback"])
        own = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(long["own"]["0"]))
        assert own.startswith("Cell In[1], line 2\n")
        assert "raw_decode" not in own
        assert re.search(r"… \d in libraries\n", own)
        assert own.endswith("(char 1)")
        assert "own" not in short or "in libraries" not in str(short["own"])
        await page.call("stop")


async def test_a_host_that_is_not_listed_is_asked_about(server: Server) -> None:
    """Where hosts can be listed, in a new session and in one that is resumed; without a network nobody is asked."""
    fetch = "import urllib.request\nurllib.request.urlopen('https://nbagent.invalid')"
    id = await server.session(trust="sandboxed")
    async with server.page(id) as page:
        for number in (1, 2):
            running = await page.begin("run", code=fetch)
            await page.until(lambda number=number: len(page.events("HostAsked")) == number)
            assert await page.call("approve_host", id=page.events("HostAsked")[-1]["id"], allow=False) is True
            await page.end(running)
            assert "A person denied nbagent.invalid" in str(page.events("CellFinished")[-1]["outputs"])
            await page.call("stop")
            await page.state("ended")
            if number == 1:
                await page.call("resume")
                await page.state("running")
    id = await server.session(trust="isolated", ask_hosts=True)
    async with server.page(id) as page:
        running = await page.begin("run", code=fetch)
        await page.until(lambda: page.events("HostAsked"))
        await page.call("approve_host", id=page.events("HostAsked")[-1]["id"], allow=False)
        await page.end(running)
        await page.call("stop")
    id = await server.session(trust="isolated")
    async with server.page(id) as page:
        await page.call("run", code=fetch)
        assert not page.events("HostAsked")
        assert "has no network" in page.events("CellFinished")[-1]["note"]
        await page.call("stop")
        await page.state("ended")


async def test_two_pages_and_a_terminal_agree(server: Server) -> None:
    """What one asks and another approves is seen by all; the first answer to a question holds."""
    replies(server.root / "two.jsonl", call("6 * 7"), "It is 42.")
    id = await server.session(model="replay:two.jsonl")
    async with server.page(id) as one, server.page(id) as two, attach(id, state_dir=server.folder / "state") as third:
        await one.call("attend")
        asking = await one.begin("ask", question="What is it?")
        asked = await two.event("ApprovalAsked")
        assert await two.call("approve", id=asked["id"], decision="edit", code="6 * 8") is True
        assert await one.call("approve", id=asked["id"]) is False
        assert (await one.end(asking))["value"] == 1
        assert one.events("CellStarted")[0]["code"] == "6 * 8"
        await two.until(lambda: two.records[-1:] == one.records[-1:])
        assert two.records == one.records
        assert third.turns == 1
        await one.call("stop")
        await two.state("ended")


async def test_an_approval_waits_while_no_page_is_open(server: Server) -> None:
    """A page that is loaded again in that moment has nobody answer in its place."""
    replies(server.root / "wait.jsonl", slowly(call("6 * 7"), seconds=1), "It is 42.")
    id = await server.session(model="replay:wait.jsonl")
    async with server.page(id) as page:
        await page.call("attend")
        await page.begin("ask", question="What is it?")
        await page.event("Asked")
    async with attach(id, state_dir=server.folder / "state") as watching:
        while not any(isinstance(each.event, ApprovalAsked) for each in watching.since()):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
    async with server.page(id) as page:
        asked = await page.event("ApprovalAsked")
        assert not page.events("ApprovalGiven")
        assert await page.call("approve", id=asked["id"]) is True
        assert (await page.event("Answered"))["text"] == "It is 42."
        await page.call("stop")


async def test_a_run_is_stopped_at_once(server: Server) -> None:
    """A question by `interrupt` of any page, a call by `cancel`; a page that goes stops nothing."""
    replies(server.root / "on.jsonl", call(ON), "never said", call("1"), "It is 1.")
    id = await server.session(model="replay:on.jsonl", approvals="never-ask")
    async with server.page(id) as one:
        await one.begin("ask", question="Run on")
        await one.event("OutputAdded")
    async with server.page(id) as two:
        await two.event("OutputAdded")
        began = time.monotonic()
        await two.call("interrupt")
        assert time.monotonic() - began < 30, "some milliseconds where nothing else runs"
        await two.event("Answered")
        running = await two.begin("run", code=ON)
        await two.until(lambda: len(two.events("CellStarted")) == 2)
        assert await two.call("cancel", call=running) is True
        assert (await two.end(running))["failure"]["message"] == "It was stopped."
        await two.until(lambda: len(two.events("CellFinished")) == 2)
        assert {each["status"] for each in two.events("CellFinished")} == {"interrupted"}
        await two.call("stop")


async def test_what_is_wrong_is_said_in_a_sentence(server: Server) -> None:
    """The channel goes on."""
    id = await server.session()
    async with server.page(id) as page:
        for name, arguments in {
            "pull": {"name": "a", "to": "/tmp/a"},
            "ask": {"question": "What?", "files": ["/etc/passwd"]},
            "run": {"code": 5},
        }.items():
            failure = (await page.end(await page.begin(name, **arguments)))["failure"]
            assert failure["kind"] == "UsageError"
            assert failure["message"].endswith(".")
        await page.socket.write_message("[" * 100_000)
        assert "no call" in (await page.end(0))["failure"]["message"]
        failure = (await page.end(await page.begin("use_model", name="replay:../r.jsonl")))["failure"]
        assert failure["kind"] == "DataError"
        assert await page.call("run", code="1") == 1
        await page.call("stop")


async def test_a_session_that_is_deleted_is_gone(server: Server) -> None:
    """Its pages are told, and their sockets closed; so is a page that comes later."""
    id = await server.session()
    async with server.page(id) as page:
        await page.state("running")
        await server.fetch("DELETE", f"sessions/{id}")
        await page.state("gone")
        assert await page.socket.read_message() is None
        assert page.socket.close_code == 4404
    async with server.page(id) as page:
        await page.state("gone")


async def test_a_server_that_ends_loses_nothing(server: Server) -> None:
    """A question goes on without it, and the next server has what happened meanwhile."""
    slow = "import time\nfor step in range(20):\n    print(step, flush=True)\n    time.sleep(0.1)"
    replies(server.root / "slow.jsonl", call(slow), "Done.")
    id = await server.session(model="replay:slow.jsonl", approvals="never-ask")
    async with server.page(id) as page:
        await page.begin("ask", question="Count")
        await page.event("OutputAdded")
        last = page.records[-1]["seq"]
    server.stop()
    server.start()
    async with server.page(id, since=last) as page:
        assert (await page.event("Answered"))["text"] == "Done."
        assert [each["seq"] for each in page.records] == [*range(last + 1, last + 1 + len(page.records))]
        await page.call("stop")


async def test_a_slow_page_costs_one_batch_and_loses_nothing(server: Server) -> None:
    """What it hasn't read waits in the log, not in the server."""
    id = await server.session()
    async with server.page(id) as page:
        for _ in range(8):
            await page.call("run", code="print('x' * 400_000)\n" * 2)
        last = page.records[-1]["seq"]
        before = _memory(server)
        pages = [server.page(id) for _ in range(20)]
        slow = [await each.__aenter__() for each in pages]
        assert _memory(server) - before < 40e6
        for each in slow:
            await each.until(lambda each=each: each.records and each.records[-1]["seq"] == last)  # type: ignore[misc]
            assert len(each.records) == last
        for closing in pages:
            await closing.__aexit__(None, None, None)
        await page.call("stop")


def _memory(server: Server) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


@pytest.mark.parametrize(
    ("token", "headers", "code"),
    [(None, {}, 403), ("wrong", {}, 403), (None, {"Origin": "http://evil.example"}, 403)],
)
async def test_strangers_get_no_channel(server: Server, token: str | None, headers: dict[str, str], code: int) -> None:
    """Without a login, with a wrong token, or from another origin."""
    with pytest.raises(HTTPClientError) as refused:
        async with server.page("any", token=token, **headers):
            pass
    assert refused.value.code == code


async def test_a_cookie_from_another_origin_gets_no_channel(server: Server) -> None:
    """A page elsewhere, in the browser of a person who is logged in."""
    cookies = await server.cookies()
    async with server.page("any", token=None, Cookie=cookies, Origin=f"http://127.0.0.1:{server.port}") as page:
        await page.state("gone")
    with pytest.raises(HTTPClientError) as refused:
        async with server.page("any", token=None, Cookie=cookies, Origin="http://evil.example"):
            pass
    assert refused.value.code == 403
