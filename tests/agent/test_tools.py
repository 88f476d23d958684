"""The model's tools; how they run within a reply is in test_build."""

from __future__ import annotations

import re
from typing import Any

import machine
import pytest
from agent.stub import PNG, Kernel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from nbagent.agent.tools.code import runnable
from nbagent.agent.tools.python import make_tools
from nbagent.core.errors import InstallError, InstallRefused, KernelDied


@pytest.fixture
def tools(kernel: Kernel) -> dict[str, BaseTool]:
    """The tools by name."""
    return {tool.name: tool for tool in make_tools(kernel)}


async def call(tool: BaseTool, **args: Any) -> ToolMessage:
    """Call a tool as a graph does."""
    message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": args})
    assert isinstance(message, ToolMessage)
    return message


def test_what_the_model_reads(tools: dict[str, BaseTool]) -> None:
    """Each tool has a description, and so has each of its arguments, all of plain types."""
    arguments = {
        "python": {"code": "string"},
        "install": {"packages": "array"},
        "sandbox_exec": {"command": "array", "timeout": "integer", "reasoning_trace": "string"},
        "sandbox_write_file": {"file_path": "string", "content": "string", "reasoning_trace": "string"},
        "sandbox_edit_file": dict.fromkeys(("file_path", "old_string", "new_string", "reasoning_trace"), "string"),
    }
    assert list(tools) == list(arguments)
    for name, tool in tools.items():
        properties = tool.tool_call_schema.model_json_schema()["properties"]  # type: ignore[union-attr]  # no dict here
        assert {key: value["type"] for key, value in properties.items()} == arguments[name]
        assert all(value["description"] for value in properties.values())
        assert len(tool.description) > 70
        assert "\n " not in tool.description


def test_without_programs(kernel: Kernel) -> None:
    """Where the sandbox runs none, no tool promises it."""
    assert [tool.name for tool in make_tools(kernel, programs=False)] == ["python", "install"]


async def test_a_cell(tools: dict[str, BaseTool]) -> None:
    """The content is what the model sees; the artifact names the cell, as plain data."""
    message = await call(tools["python"], code="print('hi')\n6 * 7")
    assert message.content == "[stdout]\nhi\n[result]\n42"
    assert message.artifact == {"cell": 1, "status": "ok"}


async def test_a_cell_that_fails_is_no_failed_call(tools: dict[str, BaseTool]) -> None:
    """An error of the code is an output like any other."""
    message = await call(tools["python"], code="1 / 0")
    assert str(message.content).endswith("ZeroDivisionError")
    assert (message.status, message.artifact["status"]) == ("success", "error")


async def test_figures_for_a_model_with_eyes(kernel: Kernel) -> None:
    """Image blocks go into the message."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}}]
    message = await call(make_tools(kernel, images=True)[0], code="1")
    assert isinstance(message.content, list)
    assert [block["type"] for block in message.content if isinstance(block, dict)] == ["text", "image"]


async def test_installing(tools: dict[str, BaseTool], kernel: Kernel) -> None:
    """What was installed is told with versions; nothing new is told as that."""
    message = await call(tools["install"], packages=["humanize"])
    assert message.content == "Installed humanize 1.0."
    assert message.artifact == {"packages": ["humanize==1.0"]}
    message = await call(tools["install"], packages=[])
    assert "installed" in str(message.content)
    assert kernel.asked == [["humanize"], []]


@pytest.mark.parametrize("name", ["python", "install"])
@pytest.mark.parametrize("error", [InstallRefused("No.", mend="Ask."), InstallError("No.", mend="Ask.")])
async def test_an_install_that_fails_is_told(
    tools: dict[str, BaseTool], kernel: Kernel, name: str, error: Exception
) -> None:
    """The model reads the reason and the mend, also when a cell asked for it."""
    kernel.raises = error
    message = await call(tools[name], **({"code": "1"} if name == "python" else {"packages": ["x"]}))
    assert str(message.content).endswith("No. Ask.")


@pytest.mark.parametrize("name", ["python", "install"])
async def test_a_failing_sandbox_is_raised(tools: dict[str, BaseTool], kernel: Kernel, name: str) -> None:
    """It is nothing that the model could act on."""
    kernel.raises = KernelDied("Gone.")
    with pytest.raises(KernelDied):
        await call(tools[name], **({"code": "1"} if name == "python" else {"packages": ["x"]}))


@pytest.mark.parametrize(
    ("sent", "source"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\ny\n```", "x = 1\ny"),
        ("\n```py\nx\n```  \n", "x"),
        ("```\nx\n```", "x"),
        ("~~~python\nx\n~~~", "x"),
        ("```python\nx = 1\n", "x = 1"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("x = '''\n```\na\n```\n'''", "x = '''\n```\na\n```\n'''"),
        ("  x = 1", "  x = 1"),
        ("```python\nx\n```\nThis shows x.", "x"),
        ("s = '😀'", "s = '😀'"),
    ],
)
def test_fences(sent: str, source: str) -> None:
    """A fence around the whole is taken off, fences inside of the code stay."""
    assert runnable(sent) == (source, "")


@pytest.mark.parametrize("piece", [" ", "\t", "`", "~", "a", "` ", "``` "])
def test_a_fence_without_end_takes_no_time(piece: str) -> None:
    """Only the last of thousands of characters behind it shows that it is none."""
    machine.within(5, lambda: runnable(f"```{piece * (30_000 // len(piece))}?"))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("```python\n\n```", "empty"),
        ("x = 1\ny = '\0'", r"line 2 has a NUL character.*\\x00"),
        ("'\ud83d'", r"line 1 has half of a surrogate pair.*\\ud83d"),
    ],
)
async def test_code_that_cannot_run(tools: dict[str, BaseTool], kernel: Kernel, sent: str, why: str) -> None:
    """It is told with its line, and no cell is made of it."""
    message = await call(tools["python"], code=sent)
    assert re.search(why, str(message.content))
    assert (kernel.codes, message.artifact) == ([], None)
