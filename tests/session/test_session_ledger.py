"""Budgets and the ledger of a whole session, with a real kernel and a provider over HTTP."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent.stub import Provider, Say, python
from program import nbagent

from nbagent import Session
from nbagent.agent.middleware.spending import ENDED
from nbagent.core.events import ApprovalAsked, RedactionSet, SentToModel
from nbagent.core.session_log import read_log
from nbagent.faces.cli import audit

KEY = "AKIAIOSFODNN7EXAMPLE"
LOOK = python("import matplotlib.pyplot as plt; plt.plot([1, 2]); print(open('/tmp/data/a.csv').read())")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider that `openai:…` reaches, and no other key or server."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)
    with Provider() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("NBAGENT_TEST_PASSWORD", "korrekt-horse")
        yield stub  # type: ignore[misc]  # `with` gives the base


async def test_what_leaves_is_redacted_listed_and_within_the_budget(
    stub: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the data to the provider, the audit log and the table of it; the notebook has all.

    Nobody is there, so the question ends at its budget, and the next one has a whole budget again.
    """
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "a.csv").write_text(f"name,key\nbob,{KEY}\nkorrekt-horse,17\n")
    session = Session(
        model="openai:gpt-4.1", data=[tmp_path / "a.csv"], engine="bubblewrap", budget="150 tokens, 1usd", mcp=False
    )
    async with session:
        stub.say(Say(calls=(LOOK,)), Say(calls=(python("17 + 1"),)), Say(text="It is 18."))
        stopped = await session.ask("What is in it?")
        assert stopped.text == ENDED.format(told="220 of 150 tokens")
        assert (stopped.success, len(stopped.cells), stopped.usage.cost) == (False, 2, pytest.approx(0.00056))
        answered = await session.ask("Well?")
        assert (answered.text, answered.success, answered.unsupported) == ("It is 18.", True, [])
        found = await session.ledger()
        notebook = (await session.export(tmp_path / "n.ipynb")).read_text()
    raw = json.dumps(stub.requests)
    assert [secret for secret in (KEY, "korrekt-horse") if secret in raw] == []
    assert "[redacted: aws key]" in raw
    assert KEY in notebook
    host = stub.url.split("/")[2]
    sources = [line.piece.source for line in found.lines]
    assert sources[:4] == ["system prompt", "data description", "question", "tools"]
    assert {"cell 1", "figure of cell 1", "cell 2", "reply"} < set(sources)
    assert set(found.lines[1].piece.redacted) == {"$NBAGENT_TEST_PASSWORD", "aws key"}
    assert (set(found.totals), found.totals[host].calls) == ({host}, 3)
    assert audit.sent(session.id, key_file=None, as_json=False) == 0
    shown = capsys.readouterr().out
    assert f"{host}, which is this machine: " in shown
    assert "figure of cell 1" in shown
    assert "hidden: $NBAGENT_TEST_PASSWORD" in shown
    assert shown.rstrip().splitlines()[-1].startswith("Whole: the audit log of")
    assert audit.sent(session.id, key_file=None, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert [line["piece"]["source"] for line in told["lines"]] == sources


async def test_a_person_is_asked_for_more(stub: Provider, tmp_path: Path) -> None:
    """As an event that `approve` answers; what they decide is what happens."""
    session = Session(
        model="openai:gpt-4.1", engine="bubblewrap", budget="1 step", attended=True, mcp=False, state_dir=tmp_path
    )
    asked: list[Any] = []
    answers = ["approve", "reject"]

    def hear(record: Any) -> None:
        if isinstance(record.event, ApprovalAsked):
            asked.append(record.event)
            session.approve(record.event.id, answers.pop(0))  # type: ignore[arg-type]  # one of its words

    async with session:
        session.follow(hear)
        stub.say(*[Say(calls=(python("1"),))] * 3)
        answer = await session.ask("Go")
    assert answer.text == ENDED.format(told="2 of 2 calls of the model")
    assert [(each.kind, each.what) for each in asked] == [
        ("budget", "this question has used 1 of 1 call of the model"),
        ("budget", "this question has used 2 of 2 calls of the model"),
    ]
    assert len(stub.requests) == 2


async def test_what_was_hidden_stays_hidden(stub: Provider, tmp_path: Path) -> None:
    """A session that is gone on with sends its past again, by the rule it had unless a person chooses anew."""
    wanted: dict[str, Any] = {"model": "openai:gpt-4.1", "state_dir": tmp_path}
    async with Session(engine="bubblewrap", mcp=False, redact="pii", **wanted) as first:
        stub.say(Say(text="Noted."))
        await first.ask("I am ada@example.org.")
    for redact, leaves in ((None, False), ("secrets", True), (None, True)):
        async with Session.resumed(first.id, redact=redact, **wanted) as again:
            stub.say(Say(text="Yes."))
            await again.ask("Who am I?")
            events = [record.event for record in read_log(again.folder)]
        assert ("ada@example.org" in json.dumps(stub.requests[-1])) is leaves
    assert [each.what for each in events if isinstance(each, RedactionSet)] == ["pii", "secrets"]


async def test_a_recording_is_sent_nowhere(tmp_path: Path) -> None:
    """It is told all the same what a model would be sent, and costs nothing."""
    (tmp_path / "r.jsonl").write_text('{"content": "Fine."}\n')
    session = Session(
        model=f"replay:{tmp_path}/r.jsonl", engine="bubblewrap", budget="0.01usd", mcp=False, state_dir=tmp_path / "s"
    )
    events: list[Any] = []
    async with session:
        session.follow(lambda record: events.append(record.event))
        answer = await session.ask("Fine?")
    assert (answer.usage.calls, answer.usage.cost) == (1, 0.0)
    assert [each.host for each in events if isinstance(each, SentToModel)] == [""]


class _Collector(http.server.BaseHTTPRequestHandler):
    """Takes what LangSmith's client sends."""

    posts: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._reply(200)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.posts.append(self.path)
        self._reply(202)

    def _reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_nothing_goes_to_langsmith_past_the_ledger(tmp_path: Path) -> None:
    """Whatever the environment tells LangChain to trace; a chain of LangChain's own, beside it, is."""
    (tmp_path / "r.jsonl").write_text('{"content": "Fine."}\n')
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        traced = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "LANGSMITH_API_KEY": "none",
        }
        done = nbagent("run", "Fine?", "-m", "replay:r.jsonl", "-e", "bubblewrap", "--no-mcp", cwd=tmp_path, **traced)
        assert (done.code, done.out, _Collector.posts) == (0, "Fine.\n", [])
        chain = "from langchain_core.runnables import RunnableLambda as R; R(lambda x: x).invoke(1)"
        subprocess.run([sys.executable, "-c", chain], env={**os.environ, **traced}, check=True, capture_output=True)
        assert _Collector.posts != []
        server.shutdown()
