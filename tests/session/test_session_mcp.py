"""Tools of MCP servers in a session: offered, called outside of the sandbox, asked about, and gone with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbagent.core.errors import UsageError
from nbagent.core.events import ApprovalAsked, McpToolCalled, McpToolsSelected
from nbagent.session.session import Session

SERVER = Path(__file__).parents[1] / "mcp" / "server.py"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file with one server."""
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"shelf": {"command": sys.executable, "args": [str(SERVER)]}}}))
    file.chmod(0o600)
    return file


def replay(path: Path, *said: dict[str, Any] | str) -> str:
    """A model that says this."""
    lines = [{"content": each} if isinstance(each, str) else {"tool_calls": [each]} for each in said]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"replay:{path}"


READ = {"name": "shelf__read_file", "args": {"path": "prices 4711"}}


async def test_a_tool_is_called_and_leaves_nothing(config: Path, tmp_path: Path) -> None:
    """Chosen by the question, called, told; what it returned is no number of the model's own; its program ends."""
    model = replay(tmp_path / "r.jsonl", READ, "They are 4711.")
    events: list[Any] = []
    async with Session(engine="bubblewrap", model=model, mcp=config) as session:
        session.follow(lambda record: events.append(record.event))
        answer = await session.ask("Read the file with the prices.")
        programs = []
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.ZombieProcess):
                programs += [each] if str(SERVER) in each.cmdline() else []
        assert programs
    (called,) = [each for each in events if isinstance(each, McpToolCalled)]
    assert (called.server, called.tool, called.status, called.text) == (
        "shelf",
        "read_file",
        "ok",
        "contents of prices 4711",
    )
    assert "shelf__read_file" in next(each for each in events if isinstance(each, McpToolsSelected)).tools
    assert (answer.text, answer.unsupported) == ("They are 4711.", [])
    _, alive = psutil.wait_procs(programs, timeout=60)
    assert alive == []


async def test_a_person_bounds_the_choice_of_tools(config: Path, tmp_path: Path) -> None:
    """By an option: what is denied is not offered, and a constraint that there isn't is told before the start."""
    model = replay(tmp_path / "r.jsonl", "I can't.")
    events: list[Any] = []
    options = {"deny": ["shelf__read_file", "read_file"], "max_latency_ms": 5000, "capabilities": ["text:translate"]}
    async with Session(engine="bubblewrap", model=model, mcp=config, mcp_constraints=options) as session:
        session.follow(lambda record: events.append(record.event))
        await session.ask("Read the file with the prices.")
    (selected,) = [each for each in events if isinstance(each, McpToolsSelected)]
    assert "shelf__read_file" not in selected.tools
    assert "text:translate" in selected.missing
    with pytest.raises(UsageError, match=r"unknown field `max_latency`.*max_latency_ms"):
        Session(model=model, mcp_constraints={"max_latency": 1})


@pytest.mark.parametrize("decision", ["approve", "reject", "edit"])
async def test_a_person_is_asked(config: Path, tmp_path: Path, decision: Any) -> None:
    """With the server's name, what the tool says of itself, and the arguments; these may be edited."""
    model = replay(tmp_path / "r.jsonl", READ, "Done.")
    asked: list[ApprovalAsked] = []
    called: list[McpToolCalled] = []
    async with Session(engine="bubblewrap", model=model, mcp=config, approvals="auto-edit", attended=True) as session:
        loop = asyncio.get_running_loop()

        def hear(record: Any) -> None:
            if isinstance(record.event, ApprovalAsked):
                asked.append(record.event)
                code = '{"path": "another"}' if decision == "edit" else ""
                loop.call_soon(lambda: session.approve(record.event.id, decision, code=code))
            elif isinstance(record.event, McpToolCalled):
                called.append(record.event)

        session.follow(hear)
        await session.ask("Read the file with the prices.")
    (question,) = asked
    assert (question.kind, question.tool) == ("mcp", "shelf__read_file")
    assert json.loads(question.code) == {"path": "prices 4711"}
    assert "MCP server 'shelf'" in question.note
    texts = {"approve": ["contents of prices 4711"], "reject": [], "edit": ["contents of another"]}
    assert [each.text for each in called] == texts[decision]


async def test_a_file_that_is_wrong_shows_first(tmp_path: Path) -> None:
    """Before anything is started, and by name; without servers nothing is looked for."""
    wrong = tmp_path / "mcp.json"
    wrong.write_text("{")
    with pytest.raises(UsageError, match=r"mcp\.json"):
        Session(engine="bubblewrap", mcp=wrong)
    with pytest.raises(UsageError, match=r"none\.json"):
        Session(engine="bubblewrap", mcp=tmp_path / "none.json")
    Session(engine="bubblewrap", mcp=False)
