"""The three tools for scripts and programs, in real sandboxes: their specification's checklist, and more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from langchain_core.tools import BaseTool

from nbagent.agent.ports import KernelPort
from nbagent.agent.tools.python import make_tools
from nbagent.sandbox.contract import Engine
from nbagent.session.session import Session

pytestmark = pytest.mark.asyncio(loop_scope="module")

Call = Callable[..., Any]
CSV = "name,volume,count\n" + "".join(f"p{i},{i % 3 * 50 + i},{i % 3 * 30 + i % 7}\n" for i in range(60))
KMEANS = """\
import polars as pl
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans

df = pl.read_csv('/tmp/data/prescribers_2024.csv')
X = df.select(['volume', 'count']).to_numpy()
kmeans = KMeans(n_clusters=3, random_state=42).fit(X)
df = df.with_columns(pl.Series('cluster', kmeans.labels_))
df.write_csv('/tmp/output/clustered.csv')
plt.figure(figsize=(10,6))
plt.scatter(X[:,0], X[:,1], c=kmeans.labels_, cmap='viridis')
plt.savefig('/tmp/output/plot.png', dpi=50, bbox_inches='tight')
plt.close()
print(f"Created {len(set(kmeans.labels_))} clusters")
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """A session with a table, by a name that a file could not have inside."""
    table = tmp_path_factory.mktemp("data") / "p.csv"
    table.write_text(CSV)
    async with Session(engine=engine.name, data={"prescribers 2024": table}) as started:
        yield started


def runs(session: Session) -> KernelPort:
    """What the session gives to its model's tools."""
    return session.runs


@pytest.fixture(scope="module")
def call(session: Session) -> Call:
    """Calls a tool as the model does, and reads what the model would."""
    tools: dict[str, BaseTool] = {tool.name: tool for tool in make_tools(runs(session))}

    async def made(name: str, **arguments: Any) -> Any:
        message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        return json.loads(message.content)

    return made


async def write(call: Call, path: str, content: str) -> None:
    """Write a file that can be written."""
    written = await call("sandbox_write_file", file_path=path, content=content)
    assert written["success"], written


async def empty(call: Call) -> None:
    """Take away what is in /tmp/output."""
    await call("sandbox_exec", command=["sh", "-c", "rm -rf /tmp/output/*"])


async def test_hello_world(call: Call) -> None:
    """The response has the fields of the specification, in their order, and a hint."""
    await empty(call)
    written = await call("sandbox_write_file", file_path="/tmp/hello.py", content="print('Hello')\n")
    assert written == {
        "success": True,
        "file_path": "/tmp/hello.py",
        "bytes_written": 15,
        "hint": "File written successfully. Use sandbox_exec to run it.",
    }
    found = await call("sandbox_exec", command=["python", "/tmp/hello.py"], reasoning_trace="Saying hello")
    assert 0 < found.pop("execution_time") < 30
    assert found == {
        "exit_code": 0,
        "stdout": "Hello\n",
        "stderr": "",
        "stdout_truncated": False,
        "stderr_truncated": False,
        "output_files": [],
        "total_output_files": 0,
        "hint": "Code executed but no outputs in /tmp/output/. Verify script saves results.",
    }


async def test_data_is_at_the_name_that_was_given(call: Call) -> None:
    """Spaces become underscores, and the ending is the file's."""
    found = await call("sandbox_exec", command=["head", "-2", "/tmp/data/prescribers_2024.csv"])
    assert found["stdout"] == "name,volume,count\np0,0,0\n"


async def test_polars_and_clustering_with_a_plot(call: Call, session: Session) -> None:
    """The specification's own example: a table and a picture reach the person."""
    await empty(call)
    await write(call, "/tmp/analysis.py", KMEANS)
    found = await call("sandbox_exec", command=["python", "/tmp/analysis.py"], timeout=120)
    assert (found["exit_code"], found["stdout"]) == (0, "Created 3 clusters\n"), found
    assert (found["output_files"], found["total_output_files"]) == (["clustered.csv", "plot.png"], 2)
    assert found["hint"] == (
        "Code executed successfully. 2 output files created. Consider using 'complete' to present results."
    )
    output = session.folder / "output"
    assert (output / "clustered.csv").read_text().startswith("name,volume,count,cluster\n")
    assert (output / "plot.png").read_bytes().startswith(b"\x89PNG")


async def test_an_edit_changes_what_runs(call: Call) -> None:
    """The specification's own edit."""
    await write(call, "/tmp/analysis.py", "KMeans = dict\nprint(KMeans(n_clusters=3))\n")
    edited = await call(
        "sandbox_edit_file",
        file_path="/tmp/analysis.py",
        old_string="n_clusters=3",
        new_string="n_clusters=5, random_state=42",
    )
    assert edited == {
        "success": True,
        "file_path": "/tmp/analysis.py",
        "hint": "File edited successfully. Re-run with sandbox_exec.",
    }
    found = await call("sandbox_exec", command=["python", "/tmp/analysis.py"])
    assert found["stdout"] == "{'n_clusters': 5, 'random_state': 42}\n"


async def test_from_an_error_to_success(call: Call) -> None:
    """A script that fails says why on stderr; edited, it runs."""
    await write(call, "/tmp/buggy.py", "values = [1, 2]\nprint(values[2])\n")
    found = await call("sandbox_exec", command=["python", "/tmp/buggy.py"])
    assert found["exit_code"] == 1
    assert found["stderr"].endswith("IndexError: list index out of range\n")
    assert found["hint"] == "Execution failed. Review stderr and use sandbox_edit_file to fix errors."
    await call("sandbox_edit_file", file_path="/tmp/buggy.py", old_string="values[2]", new_string="values[1]")
    assert (await call("sandbox_exec", command=["python", "/tmp/buggy.py"]))["stdout"] == "2\n"


async def test_an_edit_that_is_not_unique(call: Call) -> None:
    """The file is as it was, and the way out works: read it, and take more of it."""
    await write(call, "/tmp/x.py", "a = 1\nb = 1\nc = 1\n")
    edited = await call("sandbox_edit_file", file_path="/tmp/x.py", old_string="= 1", new_string="= 2")
    assert edited == {
        "success": False,
        "error": "old_string found 3 times - not unique. Include more context.",
        "file_path": "/tmp/x.py",
        "hint": "Edit failed - old_string not unique. Include more surrounding context.",
    }
    found = await call("sandbox_exec", command=["cat", "/tmp/x.py"])
    assert found["stdout"] == "a = 1\nb = 1\nc = 1\n"
    edited = await call("sandbox_edit_file", file_path="/tmp/x.py", old_string="b = 1", new_string="b = 2")
    assert edited["success"]


async def test_edits_that_can_not_be_made(call: Call) -> None:
    """Nothing found, no file, no text: each is told, and nothing is changed."""
    await write(call, "/tmp/x.py", "a = 1\n")
    edited = await call("sandbox_edit_file", file_path="/tmp/x.py", old_string="b", new_string="c")
    assert (edited["success"], edited["error"]) == (False, "old_string not found")
    assert edited["hint"] == "Edit failed - old_string not found. Read file first with sandbox_exec."
    edited = await call("sandbox_edit_file", file_path="/tmp/none.py", old_string="b", new_string="c")
    assert edited == {"success": False, "error": "There is no such file.", "file_path": "/tmp/none.py"}
    await call("sandbox_exec", command=["sh", "-c", "printf '\\377b' > /tmp/bytes"])
    edited = await call("sandbox_edit_file", file_path="/tmp/bytes", old_string="b", new_string="c")
    assert edited["error"] == "It is not UTF-8 text."
    edited = await call("sandbox_edit_file", file_path="/tmp/x.py", old_string="", new_string="c")
    assert edited["error"] == "old_string is empty."
    edited = await call(
        "sandbox_edit_file", file_path="/tmp/data/prescribers_2024.csv", old_string="name,", new_string="n,"
    )
    assert not edited["success"]
    assert "Read-only" in edited["error"]


async def test_line_ends_and_signs_survive_an_edit(call: Call) -> None:
    """An edit changes its place only."""
    await write(call, "/tmp/crlf.txt", "eins\r\nzwei\r\n\tdrei – €\r\n")
    await call("sandbox_edit_file", file_path="/tmp/crlf.txt", old_string="zwei\r\n", new_string="zwei\n")
    found = await call("sandbox_exec", command=["od", "-c", "-An", "/tmp/crlf.txt"])
    assert found["stdout"].count("\\r") == 2


async def test_at_most_twenty_files(call: Call, session: Session) -> None:
    """More are counted, not listed, and not carried."""
    await empty(call)
    code = "for i in range(25): open(f'/tmp/output/{i:02}.txt', 'w').write(str(i))"
    found = await call("sandbox_exec", command=["python", "-c", code])
    assert found["output_files"] == [f"{i:02}.txt" for i in range(20)]
    assert found["total_output_files"] == 25
    again = await call("sandbox_exec", command=["ls", "/tmp/output"])
    assert again["total_output_files"] == 25, "files that are there are told, whoever made them"
    assert len(list((session.folder / "output").glob("[0-9][0-9].txt"))) <= 40


async def test_long_output_is_cut_with_a_flag(call: Call) -> None:
    """10 KB a stream, each by itself, with its beginning and its end."""
    code = "import sys; print('x' * 20000 + 'end'); print('short', file=sys.stderr)"
    found = await call("sandbox_exec", command=["python", "-c", code])
    assert (found["stdout_truncated"], found["stderr_truncated"]) == (True, False)
    assert found["stdout"].rstrip().endswith("end")
    assert len(found["stdout"].encode()) < 10 * 1024 + 200
    assert found["stderr"] == "short\n"
    exact = await call("sandbox_exec", command=["python", "-c", "print('x' * 10239)"])
    assert (exact["stdout_truncated"], len(exact["stdout"])) == (False, 10240)


@pytest.mark.parametrize(
    "path", ["/home/bad.py", "/etc/passwd", "relative.py", "/tmp/../etc/x", "/tmp", "/workspace/", "", "/tmp/a\0b"]
)
async def test_paths_elsewhere_are_refused(call: Call, path: str) -> None:
    """For writing and editing, with the same words; no cell runs."""
    written = await call("sandbox_write_file", file_path=path, content="x")
    assert written == {
        "success": False,
        "error": "Invalid path: must be /tmp/* or /workspace/*",
        "file_path": path,
        "hint": "Invalid path. Use /tmp/ or /workspace/ only.",
    }
    edited = await call("sandbox_edit_file", file_path=path, old_string="a", new_string="b")
    assert edited["error"] == "Invalid path: must be /tmp/* or /workspace/*"


async def test_no_network(call: Call) -> None:
    """A request goes nowhere."""
    code = "import urllib.request; urllib.request.urlopen('http://192.0.2.1', timeout=5)"
    found = await call("sandbox_exec", command=["python", "-c", code])
    assert found["exit_code"] == 1
    assert "Network is unreachable" in found["stderr"]


async def test_the_timeout_holds(call: Call) -> None:
    """The program ends at its limit, with what it said until then; the sandbox and its variables stay."""
    started = time.monotonic()
    code = "import time; print('begun', flush=True); time.sleep(60)"
    found = await call("sandbox_exec", command=["python", "-c", code], timeout=5)
    assert time.monotonic() - started < 30
    assert (found["exit_code"], found["stdout"]) == (124, "begun\n")
    assert found["stderr"].endswith("Timed out after 5 s.")
    assert "note" not in found
    assert (await call("sandbox_exec", command=["pgrep", "-f", "begun"]))["stdout"] == ""


async def test_a_timeout_out_of_bounds_is_told(call: Call) -> None:
    """300 s are the most; what else was asked for isn't taken silently."""
    found = await call("sandbox_exec", command=["true"], timeout=900)
    assert found["exit_code"] == 0
    assert found["note"] == "It ran with a timeout of 300 s: 900 s is outside of what is allowed, 1 to 300 s."
    assert "note" not in await call("sandbox_exec", command=["true"], timeout=300)
    assert "timeout of 1 s: -5 s" in (await call("sandbox_exec", command=["true"], timeout=-5))["note"]


async def test_what_is_missing_is_installed(call: Call) -> None:
    """A script that imports a package that isn't there gets it, and runs again."""
    found = await call("sandbox_exec", command=["python", "-c", "import humanize; print(humanize.intcomma(12345))"])
    assert (found["exit_code"], found["stdout"]) == (0, "12,345\n"), found
    found = await call("sandbox_exec", command=["python", "-c", "import there_is_no_such_module_here"])
    assert found["exit_code"] == 1
    assert "Not installed:" in found["stderr"]


@pytest.mark.parametrize(
    "command", ["echo 'a b' c", '["echo", "a b", "c"]', "echo 'a b' c | cat", "printf 'a b c\\n' && true"]
)
async def test_a_command_in_one_line(call: Call, command: str) -> None:
    """As models send it: as words where it is nothing else, by a shell where only a shell understands it."""
    assert (await call("sandbox_exec", command=command))["stdout"] == "a b c\n"


async def test_programs_that_can_not_run(call: Call) -> None:
    """Their exit codes are a shell's, and stderr says why."""
    found = await call("sandbox_exec", command=["no-such-program"])
    assert found["exit_code"] == 127
    assert "no-such-program" in found["stderr"]
    assert (await call("sandbox_exec", command=["/tmp"]))["exit_code"] == 126
    assert (await call("sandbox_exec", command=["sh", "-c", "exit 7"]))["exit_code"] == 7
    assert (await call("sandbox_exec", command=["sh", "-c", "kill -9 $$"]))["exit_code"] == 137


async def test_the_largest_file(call: Call) -> None:
    """5 MB can be written; a byte more can't, and the limit is named."""
    content = "x" * (5 * 1024 * 1024 - 1) + "\n"
    written = await call("sandbox_write_file", file_path="/tmp/big.txt", content=content)
    assert written["bytes_written"] == 5 * 1024 * 1024
    assert (await call("sandbox_exec", command=["wc", "-c", "/tmp/big.txt"]))["stdout"].split()[0] == "5242880"
    written = await call("sandbox_write_file", file_path="/tmp/big.txt", content=f"{content}\\n")
    assert not written["success"]
    assert "5 MB" in written["error"]


async def test_one_sandbox_for_all_tools(call: Call, session: Session) -> None:
    """What a cell wrote, a program reads, and the other way round; folders are made as they are needed."""
    await session.run("open('/workspace/from_cell.txt', 'w').write('cell')")
    assert (await call("sandbox_exec", command=["cat", "/workspace/from_cell.txt"]))["stdout"] == "cell"
    await write(call, "/workspace/deep/er/made.py", "value = 41 + 1\n")
    cell = await session.run("import sys; sys.path.insert(0, '/workspace/deep/er'); import made; made.value")
    assert cell.text == "42"


async def test_each_call_is_a_cell_of_the_notebook(call: Call, session: Session, tmp_path: Path) -> None:
    """In the form in which anybody runs it again, under the tool's name in the log."""
    await write(call, "/tmp/last.py", "print('again')\n")
    await call("sandbox_exec", command=["python", "/tmp/last.py"], reasoning_trace="Running it")
    notebook = nbformat.read(await session.export(tmp_path / "n.ipynb"), as_version=4)
    nbformat.validate(notebook)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert sources[-2] == "%%writefile /tmp/last.py\nprint('again')\n"
    assert sources[-1] == "# Running it\nimport subprocess\n\nsubprocess.run(['python', '/tmp/last.py']).returncode"


async def test_the_sandbox_ends_with_its_session(engine: Engine, leftovers: Callable[[], list[str]]) -> None:
    """With what runs in it, and all that it had on the host."""
    before = set(leftovers())
    async with Session(engine=engine.name) as session:
        tools = {tool.name: tool for tool in make_tools(runs(session))}
        await tools["sandbox_exec"].ainvoke({"command": ["sh", "-c", "sleep 600 > /dev/null 2>&1 &"]})
        assert set(leftovers()) > before
    end = time.monotonic() + 60
    while set(leftovers()) - before and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert set(leftovers()) <= before
