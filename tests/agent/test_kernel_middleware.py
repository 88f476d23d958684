"""The kernel for other people's LangChain agents: added to `create_agent`, without anything else of nbagent's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from agent.stub import Provider, Say, python
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model

from nbagent import Session
from nbagent.agent import KernelMiddleware, kernel_tools


@pytest.fixture
def model(provider: Provider) -> Any:
    """A chat model of LangChain's, as anybody opens one."""
    return init_chat_model("gpt-4.1", model_provider="openai", base_url=provider.url, api_key="none")


QUESTION: Any = {"messages": [{"role": "user", "content": "How many?"}]}


async def test_middleware_on_an_agent_of_somebodys(provider: Provider, model: Any, tmp_path: Path) -> None:
    """It brings its tools and what must be known of them; the sandbox starts with the first question."""
    table = tmp_path / "t.csv"
    table.write_text("a\n1\n2\n")
    session = Session(engine="bubblewrap", data=[table], mcp=False)
    agent = create_agent(model, system_prompt="You are mine.", middleware=[KernelMiddleware(session)])
    assert session.status == "new"
    code = "import polars as pl; len(pl.read_csv('/tmp/data/t.csv'))"
    provider.say(Say(calls=(python(code), python("x = 1"), python("x + 1"))), Say(text="Two."))
    try:
        result = await agent.ainvoke(QUESTION)
        assert result["messages"][-1].text.strip() == "Two."
        told = provider.requests[0]["messages"][0]["content"]
        assert told.startswith("You are mine.\n\n")
        assert '"/tmp/data/t.csv" (CSV, 2 rows' in told
        assert [message["content"] for message in provider.sent()[2:5]] == [
            "[result]\n2",
            "(no output) The cell ran without an error. End it with an expression, or print, to see a value.",
            "[result]\n2",
        ]
        notebook = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
        assert [cell.source for cell in notebook.cells[3:]] == [code, "x = 1", "x + 1"]
    finally:
        await session.stop()


async def test_tools_alone(provider: Provider, model: Any) -> None:
    """Without middleware, for who writes their own loop; without programs, if so wished."""
    async with Session(engine="bubblewrap", mcp=False) as session:
        tools = kernel_tools(session, programs=False)
        assert [tool.name for tool in tools] == ["python", "install"]
        provider.say(Say(calls=(python("6 * 7"),)), Say(text="42"))
        await create_agent(model, tools).ainvoke(QUESTION)
        assert provider.sent()[-1]["content"] == "[result]\n42"
