"""The notebook of a session: what stands in it, and that it is written whole or not at all."""

from __future__ import annotations

import html
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from forge.shared import made as made_tool
from hypothesis import given
from hypothesis import strategies as st

from nbagent.agent.tools.tool_cells import define
from nbagent.core.errors import StoreError
from nbagent.core.events import (
    Answered,
    Asked,
    CellFinished,
    CellStarted,
    Claim,
    DataSeen,
    Event,
    ModelReplied,
    Package,
    PackagesInstalled,
    Record,
    Renamed,
    SessionStarted,
    Usage,
    WidgetsChanged,
)
from nbagent.notebook.build import build
from nbagent.notebook.document import parse
from nbagent.notebook.export import write
from nbagent.notebook.formats import markdown
from nbagent.notebook.lock import imports
from nbagent.notebook.page import page
from nbagent.notebook.record import Recording, record
from nbagent.safety.sanitize import clean_markdown

PINS = {"ipykernel": "7.2", "polars": "1.20", "matplotlib": "3.9", "scikit-learn": "1.6", "numpy": "2.1"}
PACKAGES = [Package(name, version, "ab" * 32, requested=False) for name, version in PINS.items()]
STARTED = SessionStarted(
    session="s1",
    engine="docker",
    trust="isolated",
    environment="sha256:abc",
    python="3.12.4",
    nbagent="0.1.0",
    data=[DataSeen("/tmp/data/a.csv", "/home/me/a.csv", 3)],
    packages=PACKAGES,
)


def told(*events: Event) -> Recording:
    """The recording of a session with these events."""
    return record(Record(number, 0.0, event) for number, event in enumerate((STARTED, *events), start=1))


def ran(cell: int, code: str = "1", *outputs: dict[str, Any], turn: int = 1, **more: Any) -> list[Event]:
    """A cell's events."""
    facts: dict[str, Any] = {"status": "ok", "execution_count": cell, "duration": 0.5, "outputs": list(outputs)}
    return [CellStarted(cell=cell, turn=turn, code=code), CellFinished(cell=cell, **facts | more)]


def answered(turn: int, text: str, *, success: bool = True) -> Answered:
    """The end of a turn."""
    return Answered(turn=turn, text=text, success=success, attempts=1, usage=Usage(5, 6, 2), seconds=1.25)


def notebook(*events: Event) -> Any:
    """The notebook of these events, valid."""
    made = nbformat.from_dict(build(told(*events)))
    nbformat.validate(made)
    return made


def test_a_turn_is_its_question_its_cells_and_its_answer() -> None:
    """The question and the answer are Markdown around the cells with their outputs, in order."""
    stream = {"output_type": "stream", "name": "stdout", "text": "hello\n"}
    result = {"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}, "execution_count": None}
    made = notebook(
        Asked(turn=1, question="How *many*?", model="m"), *ran(1, "1 + 1", stream, result), answered(1, "Two.")
    )
    kinds = [(cell.cell_type, cell.metadata.nbagent.role) for cell in made.cells]
    assert kinds == [
        ("markdown", "question"),
        ("code", "requirements"),
        ("code", "places"),
        ("code", "cell"),
        ("markdown", "answer"),
    ]
    question, _, _, cell, answer = made.cells
    assert question.source == "# How *many*?\n\nData: `/tmp/data/a.csv` (3 bytes)"
    assert (cell.source, cell.execution_count) == ("1 + 1", 1)
    assert cell.outputs == [stream, {**result, "execution_count": 1}]
    assert answer.source == "### Answer\n\nTwo."
    began = datetime.fromisoformat(cell.metadata.execution["iopub.execute_input"])
    assert (datetime.fromisoformat(cell.metadata.execution["shell.execute_reply"]) - began).total_seconds() == 0.5


LONG = (
    "Which species has the longest bill, and is the difference to the next one significant? Print a table, and draw it."
)
CLAUSES = "Make a tool that computes the effect size, and use it: which two species of birds differ most in bill depth?"

COMMAS = "Read all of the tables in the folder, join them by the number of the bird, and draw what they have in common"


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("How many?", "# How many?"),
        ("Count them.", "# Count them"),
        (LONG, f"# {LONG.partition(' Print')[0]}\n\nPrint a table, and draw it."),
        (CLAUSES, f"# {CLAUSES.partition(': which')[0]}\n\nWhich{CLAUSES.partition(': which')[2]}"),
        (COMMAS, f"# {COMMAS.partition(', and')[0]}\n\n{COMMAS}"),
        ("word " * 30, f"# {('word ' * 20).strip()} …\n\n{('word ' * 30).strip()}"),
        ("One line\nand another", "# One line and another\n\nOne line\nand another"),
        ("...", "# A question\n\n..."),
    ],
)
def test_the_first_question_is_the_title_once(question: str, source: str) -> None:
    """All of it, or its first sentence or clauses, with the rest or the whole below; later ones are headings within."""
    made = notebook(Asked(turn=1, question=question), *ran(1), Asked(turn=2, question=question))
    assert made.cells[0].source == f"{source}\n\nData: `/tmp/data/a.csv` (3 bytes)"
    assert made.cells[-1].source == f"#{source}"
    named = notebook(Asked(turn=1, question=question), Renamed(title="Of *bills*"))
    assert [cell.source.partition("\n")[0] for cell in named.cells] == ["# Of *bills*", f"#{source}".partition("\n")[0]]


FIGURE = {"output_type": "display_data", "data": {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}, "metadata": {}}


@pytest.mark.parametrize(
    ("code", "alt"),
    [
        ("ax.scatter(x, y)\nax.set(title='Bills', xlabel='mass (g)', ylabel='bill')", None),
        ("plt.hist(x)\nplt.title('Bills')", "Histogram; “Bills”"),
        ("df.plot(title=f'{n} bills')", "Line plot of cell 1: Now a figure of *all*"),
        ("ax.legend(title='Species')\nplt.show()", "Figure of cell 1: Now a figure of *all*"),
        ("ax.set_title('<b>[x](y)')", "Figure; “bx(y)”"),
    ],
)
def test_a_figure_says_what_it_shows(code: str, alt: str | None) -> None:
    """By the words that its code gives it, else by what was said before it; a text of the code's own stays."""
    wanted = (alt or "Scatter plot; “Bills”; x axis: mass (g); y axis: bill").replace("*", "")
    said = ModelReplied(turn=1, text="Now a figure of *all*", tools=["python"])
    made = notebook(Asked(turn=1, question="?"), said, *ran(1, code, FIGURE), answered(1, "!"))
    assert made.cells[-2].outputs[0].metadata["image/png"]["alt"] == wanted
    assert f"![{wanted}](data:" in markdown(made)
    assert f'<img alt="{html.escape(wanted)}" ' in page(made, title="x")


def test_a_tool_is_shown_by_its_source() -> None:
    """The cell that defines it is hidden, and runs."""
    source = "def word_count(text: str) -> int:\n    return len(text.split('\\n'))\n"
    code = define(made_tool(code=source))
    made = notebook(Asked(turn=1, question="?"), *ran(1, code), *ran(2, "word_count(text='a')"), answered(1, "!"))
    shown, cell, call = made.cells[-4:-1]
    assert shown.source.startswith("*The tool word_count, version 1, made and tested by nbagent's tool forge.*")
    assert shown.source.endswith(f"```python\n{source}```")
    assert (cell.source, cell.metadata.jupyter) == (code, {"source_hidden": True})
    assert "jupyter" not in call.metadata
    assert "exec(" not in markdown(made)


@pytest.mark.parametrize(
    "name",
    [
        "x\n\n![p](http:&#47;&#47;h.invalid&#47;x.png).csv",
        'x\n\n<img src="http:&#47;&#47;h.invalid">.csv',
        "x`![](\\\\h.invalid)`",
    ],
)
def test_no_name_of_data_loads_anything(name: str) -> None:
    """Whoever made a data set chose it: a picture in it would be fetched when the notebook is opened."""
    data = [DataSeen(f"/tmp/data/{name}", "/home/me/x", 3)]
    made = build(record([Record(1, 0.0, msgspec.structs.replace(STARTED, data=data)), Record(2, 0.0, ran(1)[0])]))
    (title,) = [each["source"] for each in made["cells"] if each["id"] == "title"]
    assert len(title.splitlines()) == 3
    assert "![" not in title
    assert "<img" not in title


def test_numbers_lead_to_the_cells_that_show_them() -> None:
    """Those that an output supports are links, folded; those that nothing supports are named where all see them."""
    claims = [Claim("12.3", cell=1, output=0, shown="12.3456"), Claim("7", cell=1, output=0, shown="7"), Claim("42")]
    told_so = Answered(turn=1, text="12.3, 7 or 42", success=True, attempts=1, claims=claims)
    made = notebook(Asked(turn=1, question="?"), *ran(1), told_so)
    answer = made.cells[-1]
    assert answer.source.startswith("### Answer\n\n12.3, 7 or 42\n\n*Shown by no cell: 42.*\n\n<details>")
    assert "\n\n- [cell 1](#cell-id=cell-1): 12.3 (as 12.3456), 7\n\n" in answer.source
    assert [claim["cell"] for claim in answer.metadata.nbagent.claims] == [1, 1, 0]
    assert "cell-1" in [cell.id for cell in made.cells]


def test_a_persons_own_cell_stands_outside_of_the_turns() -> None:
    """A turn's answer stands behind its last cell, before what a person ran next."""
    made = notebook(
        Asked(turn=1, question="?"), *ran(1), answered(1, "!"), *ran(2, turn=0), Asked(turn=2, question="??")
    )
    assert [cell.id for cell in made.cells] == [
        "question-1",
        "requirements",
        "places",
        "cell-1",
        "answer-1",
        "cell-2",
        "question-2",
    ]


def test_where_all_came_from_is_in_the_metadata() -> None:
    """Turn, model, engine, trust, the digest of the environment, packages with hashes and data are named."""
    package = Package("humanize", "4.17.0", "f" * 64)
    made = notebook(
        Asked(turn=1, question="?", model="replay:r.jsonl", replay=True),
        CellStarted(cell=1, turn=1, code="import humanize"),
        PackagesInstalled(cell=1, packages=[package]),
        *ran(1)[1:],
        answered(1, "!"),
    )
    found = made.metadata.nbagent
    assert (found.engine, found.trust, found.environment, found.session) == ("docker", "isolated", "sha256:abc", "s1")
    assert found.packages == [{"name": "humanize", "version": "4.17.0", "sha256": "f" * 64, "requested": True}]
    assert found.data == [{"path": "/tmp/data/a.csv", "size": 3, "sha256": ""}]
    (turn,) = found.turns
    assert (turn.turn, turn.model, turn.replay, turn.success) == (1, "replay:r.jsonl", True, True)
    assert turn.usage == {"input_tokens": 5, "output_tokens": 6, "calls": 2, "cached_tokens": 0, "cost": None}
    cell = made.cells[3]
    assert cell.metadata.nbagent.turn == 1
    assert cell.metadata.nbagent.installed[0].sha256 == "f" * 64
    assert made.metadata.kernelspec.name == "nbagent-docker"
    assert made.metadata.language_info.version == "3.12.4"


def test_an_edit_of_what_it_says_of_its_data_shows() -> None:
    """A notebook that is to pass with other data needs a lock that is no longer intact."""
    made = build(told(*ran(1)))
    assert parse(json.dumps(made), name="n").edits == []
    made["metadata"]["nbagent"]["data"][0]["sha256"] = "0" * 64
    assert parse(json.dumps(made), name="n").edits == [
        "What the notebook says of its data was edited since nbagent wrote it."
    ]


def test_no_path_of_the_host_is_given_away() -> None:
    """A notebook that is passed on doesn't tell where its author keeps files."""
    assert "/home/me" not in json.dumps(notebook(*ran(1)))


def test_the_first_cell_names_the_packages() -> None:
    """PEP 723: the kernel's own, those that the code imports, by their distribution's name, and those installed."""
    package = Package("humanize", "4.17.0", "f" * 64)
    made = notebook(
        PackagesInstalled(cell=0, packages=[package]),
        *ran(1, "import os, sklearn.tree\nfrom humanize import naturalsize"),
    )
    assert made.cells[1].source.splitlines() == [
        "# /// script",
        '# requires-python = ">=3.12"',
        "# dependencies = [",
        '#     "humanize==4.17.0",',
        '#     "ipykernel==7.2",',
        '#     "matplotlib==3.9",',
        '#     "polars==1.20",',
        '#     "scikit-learn==1.6",',
        "# ]",
        "# ///",
    ]


def test_a_cell_that_failed_may_fail_again() -> None:
    """A re-run goes on where the session went on."""
    error = {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["E: e"]}
    made = notebook(*ran(1, "fail()", error, status="error"))
    assert made.cells[3].metadata.tags == ["raises-exception", "active-ipynb"]
    assert made.cells[3].outputs == [error]


@pytest.mark.parametrize("status", ["timeout", "interrupted", "died"])
def test_a_cell_that_was_stopped_is_text(status: str) -> None:
    """It would hang or die again: its code, what it said and why it was stopped are kept, but not run."""
    stream = {"output_type": "stream", "name": "stdout", "text": "so far"}
    made = notebook(*ran(1, "while True:\n    '```'", stream, status=status, note="It ran too long."))
    cell = made.cells[-1]
    assert cell.cell_type == "markdown"
    assert cell.source.startswith("````python\nwhile True:\n    '```'\n````\n")
    assert "It ran too long." in cell.source
    assert cell.metadata.nbagent.outputs == [stream]


def test_a_cell_that_runs_still_is_text() -> None:
    """A notebook of a log that breaks off says so, and a re-run doesn't wait for what never ended."""
    made = notebook(Asked(turn=1, question="?"), CellStarted(cell=1, turn=1, code="sleep(1)"))
    assert made.cells[-1].cell_type == "markdown"
    assert "still running" in made.cells[-1].source


def test_a_turn_that_failed_says_so() -> None:
    """An answer that isn't one is not taken for one."""
    made = notebook(Asked(turn=1, question="?"), answered(1, "Stopped.", success=False))
    assert made.cells[-1].source == "### Answer\n\nStopped.\n\n*(This turn did not come to a successful end.)*"


def test_the_state_of_widgets_is_kept() -> None:
    """Widgets show in a notebook without a kernel; without any, there is no such metadata."""
    names = {"model_name": "IntSliderModel", "model_module": "@jupyter-widgets/controls"}
    slider = {**names, "model_module_version": "2.0.0", "state": {"value": 7}}
    state = {"version_major": 2, "version_minor": 0, "state": {"m": slider}}
    mime = "application/vnd.jupyter.widget-state+json"
    assert notebook(WidgetsChanged(state=state)).metadata.widgets[mime] == state
    assert "widgets" not in notebook(*ran(1)).metadata


def test_a_session_of_nothing_is_a_notebook() -> None:
    """Nothing having run, the notebook is valid and empty."""
    made = build(Recording())
    nbformat.validate(made)
    assert made["cells"] == []


def test_the_notebook_of_a_session_is_always_the_same(tmp_path: Path) -> None:
    """Two exports are equal to the byte, so a difference in version control is a difference."""
    events = [Asked(turn=1, question="é 🐧"), *ran(1, "import numpy, polars, sklearn"), answered(1, "!")]
    write(told(*events), tmp_path / "a.ipynb")
    write(told(*events), tmp_path / "b.ipynb")
    text = (tmp_path / "a.ipynb").read_text()
    assert text == (tmp_path / "b.ipynb").read_text()
    assert "é 🐧" in text
    assert text.endswith("}\n")
    nbformat.validate(nbformat.read(tmp_path / "a.ipynb", as_version=4))


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder, a file in the way and a name too long are sentences; an old notebook stays."""
    (tmp_path / "old.ipynb").write_text("old")
    with pytest.raises(StoreError, match="is a folder"):
        write(told(), tmp_path)
    for path in (tmp_path / "old.ipynb" / "x.ipynb", tmp_path / f"{'n' * 300}.ipynb"):
        with pytest.raises(StoreError, match="can't be written"):
            write(told(), path)
    assert (tmp_path / "old.ipynb").read_text() == "old"


@given(
    question=st.text(max_size=50),
    code=st.text(max_size=50),
    text=st.text(max_size=50),
    status=st.sampled_from(["ok", "error", "timeout", "died"]),
)
def test_whatever_was_said_makes_a_valid_notebook(
    tmp_path_factory: pytest.TempPathFactory, question: str, code: str, text: str, status: str
) -> None:
    """Any question, code, output and answer is kept, as text, in a notebook that nbformat accepts."""
    stream = {"output_type": "stream", "name": "stdout", "text": text}
    events = [Asked(turn=1, question=question), *ran(1, code, stream, status=status, note=text), answered(1, text)]
    path = write(told(*events), tmp_path_factory.mktemp("any") / "n.ipynb")
    made: Any = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    asked, cell, answer = made.cells[0], *made.cells[-2:]
    assert clean_markdown(question.strip()).rstrip(" .") in asked.source
    stopped = cell.cell_type == "markdown"
    assert code in (html.unescape(cell.source) if stopped else cell.source)
    assert answer.source == f"### Answer\n\n{clean_markdown(text) or '*Nothing.*'}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import a.b, c as d\nfrom e.f import g\ndef h():\n    import i", {"a", "c", "e", "i"}),
        ("from . import x\nfrom .y import z", set()),
        ("!pip install x\nimport y", {"y"}),
        ("%matplotlib inline", set()),
        ("def", set()),
        ("x = '\0'", set()),
        ("(" * 5000, set()),
    ],
    ids=["imports", "relative", "shell", "magic", "broken", "NUL", "deep"],
)
def test_imports_are_found(code: str, found: set[str]) -> None:
    """Top-level modules of every import, beside magics too; none in code that is no Python, which is no error."""
    assert imports(code) == found
