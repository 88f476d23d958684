"""The program: from task files to scores, stopped and gone on with, and sentences for what is wrong."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from agent.stub import Provider, Say, python
from click.testing import Result
from program import environment
from task_files import ROOT
from typer.testing import CliRunner

from evals.__main__ import app

READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/penguins.csv', null_values='NA')\n"
COUNT = READ + "print(df.height, df['species'].n_unique())"
MEAN = READ + "df.filter(pl.col('species') == 'Gentoo')['bill_length_mm'].mean()"
WORDS = "--questions questions.jsonl --labels labels.jsonl --tables tables --out r.jsonl --engine bubblewrap".split()
RUNNER = "import runpy, sys; sys.path.append({!r}); runpy.run_module('evals', run_name='__main__', alter_sys=True)"
"""As `python -m evals` in the checkout, but with the nbagent that is installed."""

Evals = Callable[..., Result]


@pytest.fixture
def evals(files: Path, monkeypatch: pytest.MonkeyPatch) -> Evals:
    """Runs the program on the task files, in this process."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("COLUMNS", "120")

    def ran(*more: str, model: str = "openai:gpt-4.1") -> Result:
        return CliRunner().invoke(app, [*WORDS, "--model", model, *more])

    return ran


def results(files: Path) -> list[dict[str, Any]]:
    """The lines of the file."""
    return [json.loads(line) for line in (files / "r.jsonl").read_text().splitlines()]


def test_from_questions_to_scores(files: Path, provider: Provider, evals: Evals) -> None:
    """One answer that is right, and one that is not; the notebook stands beside; nothing is asked twice."""
    provider.say(
        *(Say(calls=(python(COUNT),)), Say(text="There are 344.\n@rows[344]\n@species[3]")),
        Say(text="@mean_bill[unknown]"),
    )
    done = evals("--limit", "2")
    assert done.exit_code == 0, done.output
    first, second = results(files)
    assert first["task_id"] == 0
    assert first["answer"].startswith("There are 344.\n")
    assert (first["correct"], first["right"], first["cells"]) == (True, {"rows": True, "species": True}, 1)
    assert (second["correct"], second["cells"], second["error"]) == (False, 0, "")
    assert first["usage"]["input_tokens"] == 200
    assert first["wall_s"] > 0
    notebook = nbformat.read(files / first["notebook"], as_version=4)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"][-1] == COUNT
    assert "2 of 2: task 1 wrong, 0 cells" in done.stderr
    assert "How many penguins are there" in provider.sent(0)[0]["content"]
    assert all(word in done.stdout for word in ("50.0%", "66.7%", "Summary Statistics", "input tokens"))
    again = evals("--limit", "2")
    assert (again.exit_code, again.stdout) == (0, done.stdout)


def test_two_models_on_a_folder(files: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks in KramaBench's form: the model sees the whole folder, and the second run is shown beside the first."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    task = {"id": "birds-hard-1", "query": "How many birds?", "answer": 344, "answer_type": "numeric_exact"}
    Path("birds.json").write_text(json.dumps([task]))
    Path("tables", "more.csv").write_text("a\n1\n")
    words = ["--questions", "birds.json", "--tables", "tables", "--engine", "bubblewrap"]
    code = COUNT.replace("/tmp/data/", "/tmp/data/tables/") + "\nimport os; print(os.listdir('/tmp/data/tables'))"
    provider.say(Say(calls=(python(code),)), Say(text="Answer: 344"), Say(calls=(python(code),)))
    first = CliRunner().invoke(app, [*words, "--model", "openai:gpt-4.1", "--out", "one.jsonl"])
    assert first.exit_code == 0, first.output
    assert "more.csv" in provider.sent(1)[-1]["content"]
    provider.say(Say(text="Answer: many"))
    second = CliRunner().invoke(app, [*words, "--model", "openai:gpt-4o", "--out", "r.jsonl", "--beside", "one.jsonl"])
    assert re.search(r"hard +1 +0\.0% \(0\.0%\) +100\.0% \(100\.0%\)", second.stdout)
    assert "Right by openai:gpt-4.1 alone: birds-hard-1" in second.stdout


def test_it_goes_on_after_a_stop(files: Path, provider: Provider, evals: Evals, leftovers: Any) -> None:
    """Ctrl-C ends it with what is done; the next run does the rest, and drops what a kill had cut off."""
    before = set(leftovers())
    provider.say(Say(text="@rows[none] @species[?]"), Say(text="late", pause=60))
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER.format(str(ROOT)), *WORDS, "--model", "openai:gpt-4.1"],
        cwd=files,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(OPENAI_BASE_URL=provider.url, OPENAI_API_KEY="none"),
    )
    wait(lambda: len(provider.requests) == 2, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.endswith("Stopped. Run the same again to go on.\n")
    assert [each["task_id"] for each in results(files)] == [0]
    assert set(leftovers()) <= before
    with (files / "r.jsonl").open("a") as file:
        file.write('{"task_id": 1, "ans')
    provider.say(Say(calls=(python(MEAN),)), Say(text="@mean_bill[47.5]"))
    assert evals("--limit", "2").exit_code == 0
    assert [(each["task_id"], each["correct"]) for each in results(files)] == [(0, False), (1, True)]


def test_an_outage_is_one_sentence(files: Path, provider: Provider, evals: Evals) -> None:
    """With what was done before, and the way on."""
    provider.say(Say(status=401))
    done = evals("--limit", "1")
    assert done.exit_code == 1
    said = "The model failed in the last task: openai refused the key (401). Check OPENAI_API_KEY."
    assert " ".join(done.stderr.split()) == f"{said} Run the same again to go on."
    assert done.stdout == "No task is done.\n"
    assert results(files) == []


@pytest.mark.parametrize(
    ("words", "model", "said"),
    [
        (("--limit", "0"), "openai:x", "--limit"),
        ((), "nobody:x", "nobody"),
        ((), "replay:none.jsonl", "none.jsonl"),
        (("--labels", "questions.jsonl"), "openai:x", "Line 1 of questions.jsonl is no label"),
        (("--out", "results"), "openai:x", "needs an ending"),
        (("--engine", "nothing"), "openai:x", "nothing"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(
    files: Path, evals: Evals, words: tuple[str, ...], model: str, said: str
) -> None:
    """Before anything is asked, with the exit code of wrong use."""
    done = evals(*words, model=model)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert not (files / "r.jsonl").exists() or not results(files)


def wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until it holds, while the process lives."""
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
