"""`%agent` in real kernels: awaited at the beginning of a line, waiting elsewhere, headless under nbclient."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from program import PROGRAM, Terminal, call, replies

from nbagent import BlockingSession

TWICE = """
import asyncio
ask = get_ipython().run_line_magic
print(*await asyncio.gather(ask("_agent_awaited", "1?"), ask("_agent_awaited", "2?"), return_exceptions=True))
"""
Run = Callable[..., list[Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs cells in an ordinary kernel under nbclient; returns them with their outputs."""
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NBAGENT_ENGINE", "bubblewrap")

    def work(*cells: str, model: list[Any]) -> list[Any]:
        name = replies(tmp_path / "replies.jsonl", *model)
        sources = [f"%load_ext nbagent\n%config NbAgent.model = {name!r}", *cells, "%agent reset"]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in sources])
        client = NotebookClient(book, kernel_name="python3", timeout=300, allow_errors=True)
        client.execute(cwd=str(tmp_path), env=dict(os.environ))
        cells_run: list[Any] = book.cells[1:-1]
        return cells_run

    return work


def text(cell: Any) -> str:
    """All text of a cell's outputs."""
    parts = []
    for output in cell.outputs:
        said = output.get("text") or output.get("data", {}).get("text/plain")
        parts.append(said or "\n".join(output.get("traceback", ())))
    return "\n".join(parts)


def test_a_question_takes_variables_along_and_brings_one_back(run: Run, tmp_path: Path) -> None:
    frame = "import polars as pl\ndf = pl.DataFrame({'a': [1, 2, 3]})\nlimit = 1"
    _, asked, after, status, exported, verified = run(
        frame,
        "%%agent -i limit -o result\nWhich rows of @df are above it?",
        "print(type(result), result['a'].to_list())",
        "%agent status",
        "%agent export report.zip",
        "%agent verify",
        model=[call("print(df.shape)\nresult = df.filter(pl.col('a') > limit)"), "There are **2** rows."],
    )
    assert len(asked.outputs) == 1
    forms = asked.outputs[0]["data"]
    assert "There are **2** rows." in forms["text/plain"]
    assert "<strong>2</strong> rows" in forms["text/html"]
    assert "script" not in forms["text/html"]
    assert "(3, 1)" in forms["text/markdown"]
    assert "polars.dataframe.frame.DataFrame" in text(after)
    assert "[2, 3]" in text(after)
    assert "bubblewrap, isolated" in text(status)
    assert "report.zip" in text(exported)
    assert "report/df.arrow" in zipfile.ZipFile(tmp_path / "report.zip").namelist(), "what a re-run needs"
    assert "Every cell gives again what it shows." in text(verified)


def test_it_works_in_a_kernel_that_another_notebook_has(run: Run) -> None:
    """With the variables there, and told as that; its own kernel, which waits for the answer, is refused."""
    manager, other = start_new_kernel(kernel_name="nbagent-bubblewrap")
    try:
        other.execute_interactive("x = 20", output_hook=lambda _: None)
        asked, status, own = run(
            f"%agent --kernel {manager.connection_file} Double x, please",
            "%agent status",
            "from ipykernel.connect import get_connection_file\n"
            "get_ipython().run_line_magic('agent', f'--session own --kernel {get_connection_file()} What is x?')",
            model=[call("x *= 2\nprint(x)"), "It is 40."],
        )
        printed: list[str] = []
        other.execute_interactive("print(x)", output_hook=lambda m: printed.append(m["content"].get("text", "")))
    finally:
        other.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "It is 40." in text(asked)
    assert "a kernel that others use, too, which is in a sandbox of the bubblewrap engine, isolated" in text(status)
    assert "This kernel waits for the answer meanwhile" in text(own)
    assert "40" in "".join(printed)


def test_the_answer_is_the_value_of_an_assignment(run: Run) -> None:
    cells = run(
        "reply = %agent How many?",
        "print(reply.text, reply.success, [each.code for each in reply.cells], [each.name for each in reply.files])",
        "def ask():\n    %agent And twice that?\nfor _ in range(1):\n    ask()",
        model=[call("print(21); open('/tmp/output/a.txt', 'w').close()"), "It is 21.", call("print(42)"), "It is 42."],
    )
    assert "It is 21. True [\"print(21); open('/tmp/output/a.txt', 'w').close()\"] ['a.txt']" in text(cells[1])
    assert "It is 42." in text(cells[2])


def test_what_goes_wrong_is_one_sentence_and_the_notebook_goes_on(run: Run) -> None:
    cells = run(
        "%agent -i nothing What is it?",
        "%agent --modle x What?",
        "%%agent",
        "thing, long = object(), list(range(2000))",
        "%agent -i thing What is it?",
        "%agent --max-mb 0.0001 -i long What is it?",
        "%agent --session other --model nowhere:m What?",
        "%agent --session other --engine cardboard What?",
        "%agent -o missing -o x Make it.",
        "x",
        "%agent --trust untrusted What?",
        TWICE,
        "print('on')",
        model=[call("x = 1"), "Done.", "One.", "Two."],
    )
    all_told = (
        *("no variable nothing", "--modle", "is empty", "", "can't go", "--max-mb 1", "nowhere", "cardboard"),
        *("no such variable", "1", "takes no other trust", "A question is running"),
    )
    for cell, told in zip(cells, all_told, strict=False):
        assert told in text(cell)
        assert len(text(cell).splitlines()) < 20
    assert text(cells[-1]).strip() == "on"


def test_a_question_that_runs_already_can_be_stopped(run: Run) -> None:
    """One that a kernel asked which was restarted meanwhile, or another face."""
    other = """
import asyncio, nbagent, os, pathlib
(folder,) = pathlib.Path(os.environ["NBAGENT_STATE_DIR"], "sessions").iterdir()
async def ask():
    async with nbagent.attach(folder.name) as session:
        await session.ask("Long?")
task = asyncio.create_task(ask())
await asyncio.sleep(2)
"""
    _, _, refused, stopped, asked = run(
        "%agent Begin",
        other,
        "%agent And now?",
        "%agent stop\ntry:\n    await task\nexcept nbagent.NbagentError as error:\n    print(error)",
        "%agent And now?",
        model=["Begun.", call("import time; time.sleep(60)"), "Now."],
    )
    assert "Another question is being answered. Wait for it, or stop it by: %agent stop" in text(refused)
    assert "What runs in the session is stopped." in text(stopped)
    assert "Now." in text(asked)


def test_a_failed_cell_is_fixed_and_an_output_explained(run: Run) -> None:
    fixed = "The list is short.\n\n```python\nnumbers = [1, 2]\nprint(numbers[1])\n```"
    _, fix, _, explained, nothing = run(
        "numbers = [1, 2]\nprint(numbers[2])",
        "%agent fix",
        "6 * 7",
        "%agent explain",
        "%agent fix",
        model=[fixed, "It is the answer."],
    )
    assert "IndexError" not in text(fix)
    assert "-print(numbers[2])\n+print(numbers[1])" in text(fix)
    assert "It is the answer." in text(explained)
    assert "did not fail" in text(nothing)


def test_cells_that_worked_are_put_below(run: Run) -> None:
    _, one, all_of_them, wrong = run(
        "%agent Count.",
        "%agent insert 2",
        "%agent insert",
        "%agent insert 1",
        model=[call("count = 1 / 0"), call("count = 2"), call("print(count)"), "Two: 2."],
    )
    assert text(one) == "The cell is below, as text. Which model made it and when is in: %agent export PATH\n"
    assert "2 cells are in one below, as text: this front end takes one at a time." in text(all_of_them)
    assert "no cell 1 that ran" in text(wrong)


def test_nothing_of_the_sandbox_steers_a_terminal(run: Run) -> None:
    """IPython at a terminal prints what is said as it is: names of files, answers, errors."""
    make = "open('/tmp/output/a\\x1b]52;c;eA==\\x07b\\nc', 'w').write('x')"
    _, files, printed, failed = run(
        "reply = %agent Make it.",
        "%agent files",
        "print(reply)",
        "%agent install \x1b]0;x\x07",
        model=[call(make), "It is \x1b]0;x\x07\x1b[2Jthere."],
    )
    assert text(files) == "/tmp/output/a\ufffd]52;c;eA==\ufffdb\ufffdc  1 bytes\n"
    assert text(printed) == "It is there.\n"
    assert "\x1b]" not in text(failed)


def test_subcommands_say_and_set_what_holds(run: Run, tmp_path: Path) -> None:
    other = replies(tmp_path / "other.jsonl", "The other model says 2.")
    _, asked, undone, gone, *told = run(
        "df = 7",
        "%agent -i df -o df Double df.",
        "%agent undo",
        "df",
        f"%agent model {other!r}",
        "%agent approve auto-edit",
        "%agent status",
        "%agent And now?",
        "%agent history",
        "%agent usage",
        "%agent files",
        "%agent verify",
        "%agent stop",
        "%agent approve sometimes",
        "%agent trust isolated",
        "%agent trust untrusted",
        "%agent status",
        "%agent undo",
        model=[call("df = df * 2\nprint(df)"), "It is 14."],
    )
    names = "model approve status asked history usage files verify idle wrong same trust ended nothing".split()
    said = dict(zip(names, map(text, told), strict=True))
    assert "It is 14." in text(asked)
    assert "As before the last answer: df" in text(undone)
    assert text(gone) == "7"
    assert other in said["model"]
    assert "approve  auto-edit" in said["status"]
    assert "The other model says 2." in said["asked"]
    assert said["history"].splitlines()[0] == "1. Double df."
    assert said["history"].splitlines()[2] == "2. And now?"
    assert "in 3 calls" in said["usage"]
    assert "no files" in said["files"]
    assert "Every cell gives again what it shows." in said["verify"]
    assert said["idle"] == "Nothing runs in the session.\n"
    assert "There is no approval mode 'sometimes'" in said["wrong"]
    assert "isolated already" in said["same"]
    assert "This one has ended, with its variables" in said["trust"]
    assert "No question was asked" in said["ended"]
    assert "replaced no variable" in said["nothing"]


def test_a_terminal_gets_each_line_once(tmp_path: Path) -> None:
    """In IPython, where nothing can be drawn anew; with approvals typed, of edited code, too."""
    model = replies(tmp_path / "r.jsonl", call("print(1)"), call("print(2)"), "**Both** are done.")
    own = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "NBAGENT_ENGINE": "bubblewrap", "NBAGENT_CHECK": "false"}
    options = ["--simple-prompt", "--no-banner", "--no-confirm-exit"]
    terminal = Terminal(*options, cwd=tmp_path, program=PROGRAM.with_name("ipython"), IPYTHONDIR=str(tmp_path), **own)
    lines = ["%load_ext nbagent", f"%agent --approve ask --model {model} Count"]
    for line in lines:
        terminal.wait_for("]: ", seconds=200)
        terminal.type(f"{line}\r")
    for asked, typed in (
        ("reject) ", "edit"),
        ("dot on a line", "print(40 + 1)"),
        ("…", "."),
        ("reject) ", "always"),
        ("are done.", ""),
        ("]: ", "%agent reset"),
        ("has ended", ""),
        ("]: ", "exit"),
    ):
        terminal.wait_for(asked, seconds=200)
        if typed:
            terminal.type(f"{typed}\r")
    assert terminal.done(seconds=200) == 0
    shown = terminal.shown
    assert shown.count("── cell 1") == shown.count("── cell 2") == 1
    assert "\n41\r\n" in shown, "what was typed has run"
    assert "**" not in shown, "Markdown is formatted"
    assert "Out[" not in shown


def test_nobody_is_asked_where_nobody_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Papermill runs a notebook with questions; what needs an approval is rejected, and the notebook goes on."""
    import papermill

    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("NBAGENT_ENGINE", "bubblewrap")
    monkeypatch.setenv("JPY_SESSION_NAME", "of the notebook that this was started from")
    name = replies(tmp_path / "replies.jsonl", call("print(40 + 2)"), "I may not run code here.")
    cells = [
        f"%load_ext nbagent\n%config NbAgent.model = {name!r}",
        "%%agent --approve ask -o missing\nCompute it.",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    nbformat.write(book, tmp_path / "in.ipynb")
    with pytest.raises(papermill.PapermillExecutionError, match="missing"):
        papermill.execute_notebook(tmp_path / "in.ipynb", tmp_path / "out.ipynb", kernel_name="python3")
    assert "I may not run code here." in (tmp_path / "out.ipynb").read_text()
    (folder,) = (tmp_path / "state" / "sessions").iterdir()
    with BlockingSession.attach(folder.name) as session:
        session.stop()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    """An ordinary kernel with the extension, to which a model answers that has code run for ever."""
    folder = tmp_path_factory.mktemp("kernel")
    forever = "import time\nwhile True:\n    print('.', flush=True)\n    time.sleep(0.05)"
    stubborn = "import time\nwhile True:\n    try:\n        print('.', flush=True)\n        time.sleep(0.05)\n"
    stubborn += "    except KeyboardInterrupt: pass"
    check = call(forever) | {"again": True}
    said = (call(forever), call(forever), call(stubborn), call("print(15 * 10)"), "There are 150 rows.", check)
    name = replies(folder / "replies.jsonl", *said, *2 * (call("print(6 * 7)"), "It is 42."))
    more = {"NBAGENT_STATE_DIR": str(folder / "state"), "NBAGENT_ENGINE": "bubblewrap"}
    more["NBAGENT_CHECK"] = "true"
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, **more})
    client.manager = manager
    try:
        client.execute_interactive(f"%load_ext nbagent\n%config NbAgent.model = {name!r}", timeout=200)
        yield client
        client.execute_interactive("%agent reset", timeout=200, output_hook=lambda _: None)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    ("code", "error", "told"),
    [
        ("%agent Run on", "Stopped.", ""),
        ("def ask():\n    %agent Run on\nask()", "Stopped.", ""),
        ("%agent Heed nothing", "Stopped.", "has not ended yet"),
        ("%agent How many rows?", "Stopped. The answer above was not checked to the end.", "Not checked"),
    ],
)
def test_an_interrupt_stops_a_question_at_once(kernel: BlockingKernelClient, code: str, error: str, told: str) -> None:
    """Awaited, and in a function, where the question is waited for; an answer stays if its check is stopped."""
    pressed = ended = 0.0
    errors, shown = [], []

    def hear(message: dict[str, Any]) -> None:
        nonlocal pressed, ended
        content = message["content"]
        shown.append(content.get("data", {}).get("text/plain", ""))
        if not pressed and ".\n.\n." in shown[-1]:
            pressed = time.monotonic()
            kernel.manager.interrupt_kernel()
        if message["msg_type"] == "error":
            ended = time.monotonic()
            errors.append(content["evalue"])

    patience = 0.8 if "not ended" in told else 60
    kernel.execute(f"from nbagent.faces.magic import asking; asking.STOP_SECONDS = {patience}")
    kernel.execute_interactive(code, timeout=200, output_hook=hear)
    assert errors == [error]
    assert told in "".join(shown)
    assert ended - pressed < 60
    found = kernel.execute_interactive("1 + 1", timeout=100, output_hook=lambda _: None)
    assert found["content"]["status"] == "ok"


@pytest.mark.parametrize(
    "code",
    [
        "reply = %agent --approve ask Compute it\nreply.text",
        "%config NbAgent.widgets = True\ndef ask():\n    reply = %agent --approve ask Compute it\n"
        "    return reply.text\nask()",
    ],
)
def test_a_person_without_buttons_is_asked_by_input(kernel: BlockingKernelClient, code: str) -> None:
    """So is one whose question waits in a function, where no click would be heard."""
    asked, outputs = [], []

    def answer(message: dict[str, Any]) -> None:
        asked.append(message["content"]["prompt"])
        kernel.input("approve")

    kernel.execute_interactive(
        code,
        allow_stdin=True,
        stdin_hook=answer,
        output_hook=lambda message: outputs.append(message["content"]),
        timeout=200,
    )
    assert len(asked) == 1
    assert "approve" in asked[0]
    assert any("print(6 * 7)" in each.get("text", "") for each in outputs)
    assert any("It is 42." in each.get("data", {}).get("text/plain", "") for each in outputs)


def test_the_tab_key_and_the_question_mark_help(kernel: BlockingKernelClient) -> None:
    kernel.execute("frame = other = 1")

    def offered(line: str) -> list[str]:
        matches: list[str] = kernel.complete(line, reply=True, timeout=100)["content"]["matches"]
        return matches

    assert offered("%agent st") == ["status", "stop"]
    assert "--model" in offered("%agent --mo")
    assert offered("%agent --session other st") == ["status", "stop"]
    assert "never-ask" in offered("%agent --session other approve ")
    assert "isolated" in offered("%agent --trust ")
    assert "openai:" in offered("%agent model o")
    assert offered("%%agent -i fra") == ["frame"]
    assert offered("%agent plot @fra") == ["@frame"]
    shown = kernel.inspect("%agent", reply=True, timeout=100)["content"]["data"]["text/plain"]
    assert "%agent verify" in shown
