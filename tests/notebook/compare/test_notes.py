"""What nbagent itself says among outputs is none; all else that begins so is one."""

from __future__ import annotations

from typing import Any

import pytest
from notebook.compare.shared import stream

from nbagent.notebook.compare.notes import names_files, without_notes

VERSIONS = {"jinja2": "3.1.6", "markdown-it-py": "4.2"}
SAVED = {"a.csv", "plots/b.png", "conftest.py", "link", *(f"{number}.txt" for number in range(12))}
NO_NETWORK = (
    "this sandbox has no network. Which hosts it may reach is a setting of nbagent's: "
    'allow_hosts = ["example.org"]; it holds from the next start of the kernel.'
)
KILLED = (
    "a program of this cell was killed: the sandbox ran out of memory (limit 500 MB). "
    "More is a setting of nbagent's: memory_mb."
)
MANY = ", ".join(f"{number}.txt" for number in range(10))


def shown(text: str) -> dict[str, Any]:
    """An output of a client's kernel."""
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def left(*outputs: dict[str, Any]) -> list[Any]:
    """What of outputs is compared."""
    return [*without_notes(outputs, versions=VERSIONS, saved=SAVED)]


@pytest.mark.parametrize(
    ("said", "is_note"),
    [
        ("nbagent: Installed Jinja2 3.1.6, markdown_it_py 4.2.0.", True),
        ("nbagent: Installed accuracy 0.99.", False),
        ("nbagent: Installed jinja2 3.1.5.", False),
        ("nbagent: Installed jinja2 3.1.6, which shows a profit.", False),
        ("Installed jinja2 3.1.6.", False),
        ("nbagent: saved in nbagent-output: a.csv, plots/b.png", True),
        ("nbagent: saved in ../out/of it: a.csv", False),
        ("nbagent: saved in nbagent-output: a.csv as a-1.csv, plots/b.png as plots/b-12.png", True),
        ("nbagent: saved in nbagent-output: a.csv as revenue-5.csv", False),
        (f"nbagent: saved in nbagent-output: {MANY} and 2 more", True),
        (f"nbagent: saved in nbagent-output: {MANY} and 5,000,000 more", False),
        ("nbagent: saved in nbagent-output: the revenue is 5,000,000", False),
        ("nbagent: saved in nbagent-output: a.csv, other.csv", False),
        ("nbagent: saved in a profit of 5,000,000", False),
    ],
)
def test_what_a_sentence_names_is_there_in_a_fresh_run(said: str, is_note: bool) -> None:
    """Packages and files, by names that are changed only as nbagent does it."""
    assert left(shown(said)) == ([] if is_note else [shown(said)])


@pytest.mark.parametrize(
    ("line", "is_note"),
    [
        ("/tmp/output/link was not delivered: it is no plain file.", True),
        ("/workspace/a.csv was not delivered: it has 2.1 MB, and may have 1 MB (limit result_mb).", True),
        ("a.csv was not delivered: No space left on device.", True),
        ("a.csv was not delivered: the revenue is 5,000,000.", False),
        ("revenue was not delivered: it is lost with the sandbox.", False),
        (NO_NETWORK, True),
        (f"{NO_NETWORK} So the revenue is 5,000,000.", False),
        ("the revenue is 5,000,000.", False),
        ("14 more files come after the next cell.", True),
        ("5,000,000 more files come after the next cell.", False),
        (KILLED, False),
    ],
)
def test_lines_beside_what_a_cell_prints_are_known_word_by_word(line: str, is_note: bool) -> None:
    """Which file was not delivered, why, and where there is no network."""
    given = stream(f"a\nnbagent: {line}\nb\n", "stderr")
    assert left(given) == [stream("a\nb\n", "stderr") if is_note else given]
    assert left(stream(f"nbagent: {line}\n")) == [stream(f"nbagent: {line}\n")]
    assert (left(stream(f"nbagent: {line}\n", "stderr")) == []) is is_note


def test_that_memory_ran_out_is_no_output_where_it_does_so_again() -> None:
    """Elsewhere a notebook would claim it."""
    given = [stream(f"nbagent: {KILLED}\n", "stderr")]
    for ran_out in (False, True):
        rest = [*without_notes(given, versions=VERSIONS, saved=SAVED, ran_out=ran_out)]
        assert (rest == []) is ran_out


def test_sentences_that_may_name_files_are_known() -> None:
    """Only then is it looked what cells save."""
    assert names_files([shown("nbagent: saved in x: y")])
    assert names_files([stream("nbagent: 14 more files come after the next cell.\n", "stderr")])
    assert names_files([stream("a\nnbagent: x was not delivered: y.\n", "stderr")])
    assert not names_files([stream("a"), shown("b"), {"output_type": "error", "ename": "E"}])
