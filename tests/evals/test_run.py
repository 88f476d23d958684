"""Runs of tasks: what becomes of one that fails, and of all when the provider does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.stub import Provider, Say, python
from task_files import LABELS, QUESTIONS, lines

from evals.results import Results
from evals.run import Options, OutageError, Run
from evals.tasks import Task, read
from nbagent.core.errors import ModelError

MODEL = "openai:gpt-4.1"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def tasks(files: Path) -> list[Task]:
    """Three tasks."""
    return read(files / "questions.jsonl", labels=files / "labels.jsonl", tables=files / "tables")


@pytest.fixture
def results(files: Path) -> Iterator[Results]:
    """A file of results, still empty."""
    with Results(files / "r.jsonl", model=MODEL) as opened:
        yield opened


def options(files: Path, *, model: str = MODEL, jobs: int = 1, minutes: float = 15.0) -> Options:
    """How the tasks are run."""
    return Options(model=model, folder=files / "r", engine="bubblewrap", jobs=jobs, minutes=minutes)


READ = "import polars as pl\np = pl.read_csv('/tmp/data/penguins.csv', null_values='NA')\n"
COUNT = f"{READ}print(f'@rows[{{p.height}}] @species[{{p[\"species\"].n_unique()}}]')"
MEAN = f"{READ}print(p.filter(species='Gentoo')['bill_length_mm'].mean())"


def shown(code: str, answer: str) -> tuple[Say, Say]:
    """A cell that computes the answer, and that: one that no cell computes would be sent back."""
    return Say(calls=(python(code),)), Say(text=answer)


async def test_an_error_of_one_task_is_its_result(
    files: Path, provider: Provider, tasks: list[Task], results: Results
) -> None:
    """A request that is refused: its notebook is there, and the others are done."""
    provider.say(Say(status=400, message="That is not allowed here."), *shown(MEAN, "@mean_bill[47.5]"))
    await Run(results, options(files)).all(tasks[:2])
    first, second = results.done.values()
    assert "That is not allowed here." in first.error
    assert (first.correct, first.right) == (False, {"rows": False, "species": False})
    assert first.notebook == "r/notebooks/0.ipynb"
    assert (files / first.notebook).is_file()
    assert (second.correct, second.error) == (True, "")


async def test_a_task_that_takes_too_long(files: Path, provider: Provider, tasks: list[Task], results: Results) -> None:
    """Is stopped, and that is its result."""
    provider.say(Say(text="late", pause=60))
    await Run(results, options(files, minutes=0.02)).all(tasks[:1])
    assert [each.error for each in results.done.values()] == ["It took more than 0.02 minutes."]


async def test_no_tool_of_the_persons_helps(
    files: Path, provider: Provider, tasks: list[Task], results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their settings say: it is the model that is scored."""
    monkeypatch.setenv("NBAGENT_FORGE", "true")
    provider.say(*shown(COUNT, "@rows[344] @species[3]"))
    await Run(results, options(files)).all(tasks[:1])
    assert not {"create_tool", "wrap_package"} & {each["function"]["name"] for each in provider.requests[0]["tools"]}


async def test_an_outage_ends_the_run(files: Path, provider: Provider, results: Results) -> None:
    """After a few tasks, and what failed is asked again by the next run: it says nothing about the model."""
    lines(files / "questions.jsonl", *({**QUESTIONS[0], "id": number} for number in range(20)))
    lines(files / "labels.jsonl", *({**LABELS[0], "id": number} for number in range(20)))
    many = read(files / "questions.jsonl", labels=files / "labels.jsonl", tables=files / "tables")
    provider.say(*shown(COUNT, "@rows[344] @species[3]"), *[Say(status=401)] * 19)
    with pytest.raises(OutageError, match=r"in the last 3 of the tasks: openai refused the key \(401\)"):
        await Run(results, options(files)).all(many)
    assert list(results.done) == [0]
    assert len(provider.requests) == 2 + 3


async def test_tasks_beside_each_other(files: Path, tasks: list[Task]) -> None:
    """Each in a sandbox of its own, whose recorded model begins anew; what is installed is noted."""
    code = "import polars as pl\nx = pl.read_csv('/tmp/data/penguins.csv').height\nimport humanize\nx"
    replay = f"replay:{files / 'replies.jsonl'}"
    lines(
        files / "replies.jsonl",
        {"content": "", "tool_calls": [{"name": "python", "args": {"code": code}}]},
        {"content": "@rows[344] @species[3] @mean_bill[47.50] @island[Biscoe]"},
    )
    with Results(files / "replayed.jsonl", model=replay) as results:
        await Run(results, options(files, model=replay, jobs=3)).all(tasks)
        assert sorted(results.done) == [0, 1, 2]
        for each in results.done.values():
            assert (each.correct, each.cells) == (True, 1), each
            assert [name.partition("==")[0] for name in each.installs] == ["humanize"]


async def test_what_no_task_would_get_through(
    files: Path, tasks: list[Task], results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the run at once: without a key there is nothing to score."""
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelError):
        await Run(results, options(files, jobs=3)).all(tasks)
    assert results.done == {}
