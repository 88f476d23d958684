"""Where the code of `nbagent exec` comes from."""

from __future__ import annotations

import io
import json
from pathlib import Path

import machine
import nbformat
import pytest
from program import nbagent

from nbagent.core.errors import UsageError
from nbagent.faces.cli.execute import sources
from nbagent.notebook import document
from nbagent.notebook.run import MAX_SOURCE, Source


class _Stdin:
    """Standard input as `sys.stdin` has it."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_code_is_taken_as_it_is() -> None:
    """One cell, that may not fail, even an empty one; as with `python -c`, its `sys.exit` is heeded."""
    assert sources(None, "1 +\t1\n") == [Source("1 +\t1\n", may_exit=True)]
    assert sources(None, "") == [Source("", may_exit=True)]


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` means standard input, up to a bound."""
    monkeypatch.setattr("sys.stdin", _Stdin(b"1\n2\n"))
    assert sources("-", None) == [Source("1\n2\n", may_exit=True)]
    monkeypatch.setattr("sys.stdin", _Stdin(b"#" * (MAX_SOURCE + 1)))
    with pytest.raises(UsageError, match="20 MB"):
        sources("-", None)


@pytest.mark.parametrize("given", [(None, None), ("x.py", "1")])
def test_one_thing_is_run(given: tuple[str | None, str | None]) -> None:
    """Neither nothing nor two things."""
    with pytest.raises(UsageError, match="Name one thing to run"):
        sources(*given)


def notebook(path: Path, *cells: str) -> None:
    """Write a notebook that nbagent did not make."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    nbformat.write(book, path)


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
def test_anybodys_notebook_sees_what_it_names_beside_it(tmp_path: Path, engine: str) -> None:
    """By plain names, as with nbclient; so does what is exported of it, without any file that it doesn't name."""
    folder, state = tmp_path / "project", {"NBAGENT_STATE_DIR": str(tmp_path / "state")}
    (folder / "parts").mkdir(parents=True)
    for name in ("sales.csv", "parts/one.csv", "secret.txt", ".env"):
        (folder / name).write_text("a,b\n1,2\n")
    (folder / "helpers.py").write_text("def head(path): return open(path).readline()\n")
    read = "import os, helpers\nprint(sorted(os.listdir('parts')), helpers.head('sales.csv'))"
    notebook(folder / "n.ipynb", read, "open('made.txt', 'w').write('x')", "os.path.exists('secret' + '.txt')")
    words = ("-e", machine.works(engine).name)
    done = nbagent("exec", "n.ipynb", *words, "--out", "out/n.ipynb", "--json", cwd=folder, **state)
    assert done.code == 0, done.err
    texts = [each.get("text") or each["data"]["text/plain"] for each in done.json["outputs"]]
    assert texts == ["['one.csv'] a,b\n\n", "1", "False"]
    assert "n.ipynb sees, read-only, what its code names beside it: helpers.py, parts, sales.csv." in done.err
    assert "delivered" not in done.err
    assert (folder / "nbagent-output" / "made.txt").read_text() == "x"
    again = nbagent("verify", "out/n.ipynb", *words, "--json", cwd=folder, **state)
    assert again.code == 0, again.out + again.err
    data = json.loads((folder / "out" / "n.ipynb").read_text())["metadata"]["nbagent"]["data"]
    assert [each["path"] for each in data] == [f"/tmp/data/{name}" for name in ("helpers.py", "parts", "sales.csv")]


def test_what_code_does_not_see_beside_it_is_told(tmp_path: Path) -> None:
    """A file whose name it puts together; and any file, if the code has a network, with which it could send it away."""
    (tmp_path / "sales.csv").write_text("a\n1\n")
    notebook(tmp_path / "n.ipynb", "open('sales' + '.csv').read()")
    words = ("-e", machine.works("bubblewrap").name)
    done = nbagent("exec", "n.ipynb", *words, cwd=tmp_path)
    told = "sales.csv lies beside n.ipynb, and its code did not see it: give it with --data."
    assert (done.code, done.err.strip().splitlines()[-1]) == (1, told)
    assert nbagent("exec", "n.ipynb", "--data", "sales.csv", *words, cwd=tmp_path).code == 0
    notebook(tmp_path / "n.ipynb", "open('sales.csv').read()")
    done = nbagent("exec", "n.ipynb", "--allow-host", "example.org", *words, cwd=tmp_path)
    assert (done.code, done.err.strip().splitlines()[-1]) == (1, told)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import urllib.request as u; u.urlopen('https://example.org')", "has no network. A new session reaches"),
        ("import socket; socket.create_connection(('192.0.2.1', 80))", "--allow-host"),
        ("!curl -sS https://example.org || echo 'Could not resolve host'\n1/0", "--allow-host"),
        ("while True: pass", "--timeout"),
    ],
)
def test_what_the_sandbox_keeps_from_code_is_told_with_the_mend(tmp_path: Path, code: str, said: str) -> None:
    """Errors of libraries speak of names and routes; the person is told what it is, and how it is allowed."""
    done = nbagent("exec", "-c", code, "--timeout", "5", "-e", machine.works("bubblewrap").name, cwd=tmp_path)
    assert done.code == 1
    assert said in done.err.strip().splitlines()[-1]
    done = nbagent("exec", "-c", "1/0", "-e", machine.works("bubblewrap").name, cwd=tmp_path)
    assert "network" not in done.err


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
def test_what_code_writes_takes_the_place_of_what_lies_beside_it(tmp_path: Path, engine: str) -> None:
    """As in a folder of its own: new content, more content, a file in a folder; the data itself stays as it is."""
    (tmp_path / "parts").mkdir()
    for name in ("old.csv", "log.txt", "parts/one.csv"):
        (tmp_path / name).write_text("before")
    code = [
        "open('old.csv', 'w').write('new')",
        "open('log.txt', 'a').write(', after')",
        "open('parts/two.csv', 'x').write('two')",
        "open(b'odd\\xff', 'w').close()",
        "import os\nprint(open('old.csv').read(), open('log.txt').read(), sorted(os.listdir('parts')))",
        "print(open('parts/one.csv').read(), open('/tmp/data/old.csv').read())",
    ]
    (tmp_path / "s.py").write_text("\n".join(code))
    done = nbagent("exec", "s.py", "-e", machine.works(engine).name, "--output-dir", "out", cwd=tmp_path)
    assert (done.code, done.out.splitlines()) == (0, ["new before, after ['one.csv', 'two.csv']", "before before"])
    assert [(tmp_path / name).read_text() for name in ("old.csv", "log.txt")] == ["before", "before"]
    found = {str(each.relative_to(tmp_path / "out")): each.read_text() for each in (tmp_path / "out").rglob("*.*")}
    assert found == {"old.csv": "new", "log.txt": "before, after", "parts/two.csv": "two"}


def test_cells_that_a_tag_keeps_from_running_stay_in_the_notebook(tmp_path: Path) -> None:
    """In their place, as they were, also before the first; what stands behind the end of all is gone."""
    sources = ("-1", "-2", "a = 1", "-3", "-4", "a + 1", "-5", "1/0", "-6", "a", "-7")
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    for each in cells:
        each.metadata["tags"] = ["skip-execution"] if each.source.startswith("-") else []
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    words = ("-e", machine.works("bubblewrap").name)
    assert nbagent("exec", "n.ipynb", "--out", "o.ipynb", *words, cwd=tmp_path).code == 1
    made = nbformat.read(tmp_path / "o.ipynb", as_version=4)
    nbformat.validate(made)
    found = [each for each in made.cells if each.cell_type == "code" and each.id != "requirements"]
    assert [each.source for each in found] == [*sources[:9]]
    unrun = [each for each in found if each.source.startswith("-")]
    assert [(each.outputs, each.execution_count, each.metadata.tags) for each in unrun] == [
        ([], None, ["skip-execution"])
    ] * 6
    read = document.parse((tmp_path / "o.ipynb").read_text(), name="o.ipynb")
    assert (read.edits, [each.code for each in read.skipped]) == ([], [each.source for each in unrun])
    assert nbagent("verify", "o.ipynb", *words, cwd=tmp_path).code == 0
    assert nbagent("exec", "n.ipynb", "--out", "o.ipynb", *words, cwd=tmp_path).code == 1
