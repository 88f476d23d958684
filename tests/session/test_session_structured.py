"""A whole session with a model that can't call tools: a real kernel, a package index on loopback, a provider's wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from agent.stub import Provider, Say
from examples import FIBONACCI, READ_USERS, SAMPLE_USERS
from packages.index import Index

from nbagent import Session
from nbagent.core.errors import ModelCallError, UsageError
from nbagent.core.events import (
    Answered,
    CellStarted,
    CodeGenerated,
    InstallFailed,
    ModelFailed,
    PackagesInstalled,
    Reflected,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


def code(source: str, *wanted: str, why: str = "It is needed.", sure: float = 0.95) -> Say:
    """A reply that has code run, as a model with words writes it."""
    found = {"code": source, "dependencies": list(wanted), "reasoning": why, "confidence": sure}
    return Say(text=f"Here is the code:\n```json\n{json.dumps(found, indent=2)}\n```")


def final(text: str) -> Say:
    """A reply that is the answer."""
    return Say(text=json.dumps({"answer": text}))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index that uv takes for the only one."""
    made = Index()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", f"{made.url}/simple")
        patch.setenv("UV_CACHE_DIR", str(tmp_path_factory.mktemp("uv")))
        patch.setenv("UV_HTTP_RETRIES", "0")
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield made
    made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(provider: Provider, index: Index) -> AsyncIterator[Session]:
    """One session for all."""
    assert provider.url
    assert index.url
    async with Session(model="openai:local", replies="structured", engine="bubblewrap") as started:
        yield started


def of(told: list[Any], kind: type[Any]) -> list[Any]:
    """The events of a kind."""
    return [each for each in told if isinstance(each, kind)]


async def test_fibonacci(session: Session, provider: Provider, told: list[Any]) -> None:
    """One cell, and an answer whose number stands in its output."""
    provider.say(code(FIBONACCI, why="Recursion is short.", sure=0.95), final("It is 55."))
    found = await session.ask("Calculate the 10th Fibonacci number")
    assert (found.text, found.success, found.attempts, found.usage.calls) == ("It is 55.", True, 1, 2)
    assert [cell.text for cell in found.cells] == ["55"]
    assert [(claim.text, claim.cell) for claim in found.claims] == [("55", found.cells[0].cell)]
    (generated,) = of(told, CodeGenerated)
    assert (generated.code, generated.reasoning, generated.confidence) == (FIBONACCI, "Recursion is short.", 0.95)
    assert [each.tool for each in of(told, CellStarted)] == ["python"]
    system = provider.requests[-1]["messages"][0]["content"]
    assert "You can't call tools" in system
    assert "with your tools" not in system


async def test_users_json_and_its_correction(session: Session, provider: Provider, told: list[Any]) -> None:
    """What fails is read and mended, and what happens is told on the way."""
    provider.say(code(READ_USERS), code(SAMPLE_USERS, sure=0.8), final("alice, bob, charlie"))
    found = await session.ask("Read data from users.json and print usernames")
    assert [cell.status for cell in found.cells] == ["error", "ok"]
    assert (found.text, found.attempts) == ("alice, bob, charlie", 2)
    assert [(each.attempt, each.state) for each in of(told, Reflected)] == [(1, "retry")]
    assert [each.confidence for each in of(told, CodeGenerated)] == [0.95, 0.8]
    told = provider.requests[-2]["messages"][-1]["content"]
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'users.json'" in told


async def test_dependencies_before_the_first_run(
    session: Session, provider: Provider, index: Index, told: list[Any]
) -> None:
    """Each is an event of its own, by the session's policy; hostile names reach nothing, and the code runs."""
    index.add("plain-tool", files={"plain_tool/__init__.py": "value = 7\n"})
    hostile = ["plain-tool; rm -rf /", "--index-url=http://127.0.0.1:1", "git+https://example.org/x", "../etc", "a\nb"]
    provider.say(code("import plain_tool\nplain_tool.value", "plain-tool", "json", *hostile), final("It is 7."))
    found = await session.ask("What is its value?")
    assert (found.text, [cell.text for cell in found.cells]) == ("It is 7.", ["7"])
    assert [each.requirements for each in of(told, InstallFailed)] == [[each] for each in hostile]
    assert all(each.refused for each in of(told, InstallFailed))
    kinds = [type(each) for each in told if isinstance(each, PackagesInstalled | InstallFailed | CellStarted)]
    assert kinds == [PackagesInstalled, *[InstallFailed] * len(hostile), CellStarted]
    assert [each.packages[0].name for each in of(told, PackagesInstalled)] == ["plain-tool"]
    assert [each.name for each in found.installed] == ["plain-tool"]
    assert "is not a plain package name" in provider.requests[-1]["messages"][-1]["content"]


async def test_a_reply_that_is_never_right(session: Session, provider: Provider, told: list[Any]) -> None:
    """The person reads one sentence, the log has each attempt with its cost, and the next question works."""
    provider.say(*[Say(text="I would print it.")] * 3)
    with pytest.raises(ModelCallError, match="replied 3 times with what is neither code nor an answer"):
        await session.ask("Go")
    assert len(of(told, ModelFailed)) == 3
    (answered,) = of(told, Answered)
    assert (answered.success, answered.usage.calls, answered.usage.input_tokens) == (False, 3, 300)
    provider.say(final("Hello."))
    assert (await session.ask("Hello?")).text == "Hello."


async def test_the_notebook_tells_it(session: Session, tmp_path: Path) -> None:
    """With the reasons as remarks, and without any JSON."""
    notebook: Any = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
    nbformat.validate(notebook)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "Recursion is short." in text
    assert '"confidence"' not in text


async def test_a_form_that_there_is_not() -> None:
    """Is told at once."""
    with pytest.raises(UsageError, match=r"The option replies can't be 'xml'\. Use one of: tools, structured\."):
        Session(replies="xml")  # type: ignore[arg-type]
