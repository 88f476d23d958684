"""Cells for scripts and programs: what IPython makes of them is to the byte what was meant."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from nbagent.agent.tools import script_cells


class Shell:
    """As much of IPython as runs a cell that writes a file."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def __call__(self) -> Shell:
        """As `get_ipython`."""
        return self

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        """`%%writefile` only."""
        assert name == "writefile"
        self._files[line] = body.encode()


def run(code: str, folder: Path) -> dict[str, bytes]:
    """The files that a cell writes, by the path that it names, with /tmp and /workspace in a folder of the test's."""
    files: dict[str, bytes] = {}

    class Moved:
        def __init__(self, name: str) -> None:
            self.name, self.path = name, folder / name.lstrip("/")

        @property
        def parent(self) -> Path:
            return self.path.parent

        def read_bytes(self) -> bytes:
            return self.path.read_bytes()

        def write_bytes(self, content: bytes) -> None:
            files[self.name] = content
            self.path.write_bytes(content)

    source = TransformerManager().transform_cell(code).replace("from pathlib import Path\n", "")
    names: dict[str, Any] = {"get_ipython": Shell(files), "Path": Moved}
    exec(compile(source, "cell", "exec"), names)  # noqa: S102 - what the module under test wrote
    return files


AWKWARD = (
    *("", "\n", "a", "a\n", "a\r\nb\n", "\x0c\n", "\u2028\n", "\ta\n\tb", "tab\tin\nlines\n", "é€😀\n"),
    *(">>> 1\n1\n", "... x\n", "In [1]: x\n", "a\n    ...: b\nc\n"),
    'def f():\n    """x\n    >>> f()\n    ...\n    """\n',
    *("%magic\n", "!pip install x\n", "a\n!pip install x\nb", "a?\n", "%%bash\nls\n", "{x} $y\n"),
    *("'''\n'''\n", "\\n\\\n", "x'''", "ends with '\nends with '", "  indented\n  both\n", "\n\nempty\n\n\n"),
)


@pytest.mark.parametrize("content", AWKWARD)
@pytest.mark.parametrize("path", ["/tmp/a.py", "/workspace/with space.py", "/tmp/new/{x}.py"])
def test_a_file_is_written_to_the_byte(path: str, content: str, tmp_path: Path) -> None:
    """Whatever it has in it, and wherever it goes."""
    (tmp_path / "tmp").mkdir()
    assert run(script_cells.write_file(path, content), tmp_path) == {path: content.encode()}


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@example("In [1]: \n")
def test_any_text(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    """To the byte, too, once and edited."""
    folder = tmp_path_factory.mktemp("files")
    assert run(script_cells.write_file("/tmp/a/b.txt", content), folder) == {"/tmp/a/b.txt": content.encode()}
    (folder / "tmp/a/b.txt").write_bytes(b"before <here> after <here>\r\n")
    edited = run(script_cells.edit_file("/tmp/a/b.txt", "<here>", content), folder)
    assert edited == {"/tmp/a/b.txt": f"before {content} after <here>\r\n".encode()}


def test_scripts_are_readable() -> None:
    """A script stands in the notebook as it will stand in its file."""
    assert script_cells.write_file("/tmp/a.py", "import sys\n\nprint(1)\n") == (
        "%%writefile /tmp/a.py\nimport sys\n\nprint(1)\n"
    )
    assert "    '''\\\none\ntwo''',\n" in script_cells.edit_file("/tmp/a.py", "one\ntwo", "three")


def test_a_program_and_why() -> None:
    """The words as they are, one a line where there are many; the reason as a comment of one line."""
    assert script_cells.run_program(["python", "/tmp/a.py"], why="Running\nclustering") == (
        "# Running clustering\nimport subprocess\n\nsubprocess.run(['python', '/tmp/a.py']).returncode"
    )
    long = script_cells.run_program(["echo", *["word's"] * 20])
    assert long.count('\n    "word\'s",') == 20


@pytest.mark.parametrize("words", [["printf", "%s|", "a b", "'", '"', "$HOME", "{x}", "\\", "é"]])
def test_words_reach_the_program_as_they_are(words: list[str]) -> None:
    """No shell, and nothing of IPython's, reads them."""
    source = (
        TransformerManager()
        .transform_cell(script_cells.run_program(words))
        .replace(".run(", ".run(capture_output=True, args=")
    )
    names: dict[str, Any] = {}
    exec(source.replace(".returncode", "").replace("subprocess.run", "done = subprocess.run"), names)  # noqa: S102
    done: subprocess.CompletedProcess[bytes] = names["done"]
    assert done.stdout.decode() == "".join(f"{word}|" for word in words[2:])
