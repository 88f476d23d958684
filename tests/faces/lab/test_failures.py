"""What fails in a way that nobody thought of ends for the page too, and is told once."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.folders import LOG_FILE
from nbagent.faces.lab.contents import Contents
from nbagent.faces.lab.job_messages import Exported
from nbagent.faces.lab.jobs import Job
from nbagent.faces.lab.relay import Relay


class Broken(Contents):
    """Files that can't be looked at, for a reason of which nobody has thought."""

    def __init__(self) -> None:
        pass

    def model(self, name: str) -> str:  # noqa: ARG002 - as it is called
        raise RuntimeError("no such disk")


async def test_a_call_that_fails_otherwise_has_an_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The page is told that nbagent failed, and its next call is heard."""
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    (folder / LOG_FILE).touch()
    ended: dict[int, dict[str, Any]] = {}
    came = asyncio.Event()

    async def send(message: bytes) -> None:
        if "returned" in (found := json.loads(message)):
            ended[found["returned"]] = found["failure"]
            came.set()

    relay = Relay(folder, since=0, send=send, may_call=True, contents=Broken())
    serving = asyncio.create_task(relay.serve())
    try:
        for number in (1, 2):
            came.clear()
            call = {"call": number, "name": "resume", "arguments": {"model": "replay:r.jsonl"}}
            await relay.hear(json.dumps(call))
            await asyncio.wait_for(came.wait(), 30)
    finally:
        serving.cancel()
        await asyncio.wait([serving])
    assert ended[1] == ended[2]
    assert ended[1]["kind"] == "NbagentError"
    assert "no such disk" in ended[1]["message"]
    assert [each.getMessage() for each in caplog.records] == ["nbagent: the call resume of a page failed"] * 2


async def test_a_job_nobody_asks_for_again_ends_quietly() -> None:
    """Its error is for the page; asyncio has no reason to complain."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def work(_: Path) -> Exported:
        raise RuntimeError("no such disk")

    job = Job(work)
    await asyncio.wait([job._task])
    assert "no such disk" in str(job.entry.refusal)
    other = Job(work)
    await asyncio.wait([other._task])
    folder = other.folder
    del other
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
    await job.end()
    folder.rmdir()
