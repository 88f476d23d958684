"""What one question shows in a notebook, while it runs."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from jupyter_client.session import Session
from tornado.queues import Queue
from zmq import Frame

from nbagent.core.errors import DataError
from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Check, Claim, ModelReplied, Record
from nbagent.faces.magic.asking import Asking
from nbagent.faces.magic.block import Block
from nbagent.faces.magic.controls import Prompts, hear
from nbagent.faces.magic.render import html, text
from nbagent.faces.magic.request import Request


def test_words_are_shown_until_the_reply_is_whole() -> None:
    """As text, whatever they are."""
    block = Block()
    block.add(Record(1, 1.0, Asked(turn=1, question="Which?")))
    block.say(r"It is <b>this $\style{cursor:url(//h)}{x}$")
    assert "It is &lt;b&gt;this" in html(block)
    assert r"\style" not in html(block)
    assert "It is <b>this" in text(block)
    block.add(Record(2, 2.0, ModelReplied(turn=1, text="It is <b>this.")))
    assert "this" not in html(block)
    assert "this" not in text(block)


def test_what_is_told_of_an_answer_stands_below_it() -> None:
    """First the numbers that no cell shows, then how the check ended, then where the others stand."""
    block = Block()
    claims = [Claim("42"), Claim("7", cell=1, output=0, shown="7")]
    answer = Answered(turn=1, text="42 or 7", success=True, attempts=1, claims=claims, check=Check(cells=[]))
    block.add(Record(1, 1.0, answer))
    for shown in (text(block), html(block)):
        words = ("42 or 7", "Shown by no cell: 42.", "Not checked:", "Its numbers stand in")
        places = [shown.index(each) for each in words]
        assert places == sorted(places)


def test_a_cell_that_was_stopped_shows_what_it_had_shown_alone() -> None:
    """Not the traceback of the stop, whether it ran or awaited; an error of its own stays."""
    shown = {"output_type": "stream", "name": "stdout", "text": "so far"}
    for name, status, is_seen in (
        ("KeyboardInterrupt", "interrupted", False),
        ("CancelledError", "timeout", False),
        ("ValueError", "interrupted", True),
        ("KeyboardInterrupt", "error", True),
    ):
        block = Block()
        block.add(Record(1, 1.0, CellStarted(cell=1, turn=1, code="f()", tool="python")))
        error = {"output_type": "error", "ename": name, "evalue": "here", "traceback": []}
        block.add(Record(2, 2.0, CellFinished(cell=1, turn=1, status=status, outputs=[shown, error], duration=1.0)))
        assert "so far" in text(block)
        assert (f"{name}: here" in text(block)) == is_seen


async def test_a_click_is_heard_while_a_cell_awaits() -> None:
    """Before version 7, ipykernel takes no message meanwhile. Code waits for its turn, as does what can't be read."""
    session, told, heard = Session(key=b"key"), [], []
    queue: Queue[Any] = Queue()
    for number, kind in enumerate(("execute_request", "comm_msg", "", "comm_info_request", "execute_request")):
        parts = session.serialize(session.msg(kind), ident=b"page") if kind else [b"no message"]
        queue.put_nowait((number, None, ([Frame(part) for part in parts],)))

    async def describe(_stream: Any, idents: list[bytes], message: dict[str, Any]) -> None:
        heard.append((idents, message["msg_type"]))

    kernel = SimpleNamespace(msg_queue=queue, session=session, ident="k", shell_stream=None)
    kernel.iopub_socket = SimpleNamespace(send_multipart=lambda parts, **_: told.append(json.loads(parts[-1])))
    kernel.shell_handlers = {
        "comm_msg": lambda _, idents, message: heard.append((idents, message["msg_type"])),
        "comm_info_request": describe,
    }
    await hear(kernel)
    assert heard == [([b"page"], "comm_msg"), ([b"page"], "comm_info_request")]
    assert [each["execution_state"] for each in told] == ["busy", "idle"] * 2
    assert [queue.get_nowait()[0] for _ in range(queue.qsize())] == [0, 2, 4]


def test_a_person_is_asked_before_what_is_large_goes_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its size and columns; where nobody is, and after a no, it stays."""

    def sent(said: str) -> list[str]:
        monkeypatch.setattr("builtins.input", lambda _: said)
        request = Request(question="How large is it?", give=["large"], max_mb=0.001)
        nothing: Any = None
        asking = Asking(
            request,
            portal=nothing,
            sessions=nothing,
            defaults={},
            note="",
            attended=bool(said),
            draw=lambda _: None,
            make_controls=lambda answer, _: Prompts(answer) if said else None,
            in_terminal=False,
        )
        packing = asking._pack({"large": pl.DataFrame({"a": [1] * 1000})}, held)
        while True:
            try:
                next(packing)
            except StopIteration as ended:
                return [each.name for each in ended.value]

    with contextlib.ExitStack() as held:
        assert sent("approve") == ["large"]
        shown = capsys.readouterr().out
        assert "large has 8 KB, and 0.001 MB go over unasked" in shown
        assert "polars.DataFrame, 1,000 × 1 (a)" in shown
        with pytest.raises(DataError, match="large stays here"):
            sent("reject")
        with pytest.raises(DataError, match="--max-mb 1"):
            sent("")
