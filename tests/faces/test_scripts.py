"""Scripts run as scripts, and what was kept is gone on with."""

from __future__ import annotations

from pathlib import Path

import machine
import pytest
from program import nbagent

from nbagent.notebook.run import parse

ENGINE = machine.works("bubblewrap").name


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no such column')", 1, "no such column\n"),
        ("raise ValueError('3')", 1, None),
    ],
)
def test_a_script_ends_as_it_says(tmp_path: Path, end: str, code: int, said: str | None) -> None:
    """The exit code is the one that it gives `sys.exit`, a text is told, and no traceback of IPython's is shown."""
    script = f"import sys\nprint('done')\n{end}\nprint('never')\n"
    (tmp_path / "script.py").write_text(script)
    for words in (["script.py"], ["-c", script]):
        ran = nbagent("exec", *words, "--engine", ENGINE, cwd=tmp_path)
        assert (ran.code, ran.out) == (code, "done\n")
        if said is not None:
            assert ran.err == said


def test_a_script_knows_its_name(tmp_path: Path) -> None:
    """`__file__`, `sys.argv` and `__name__` are a program's; data lies beside it; its session is called like it."""
    code = "import sys\nfrom pathlib import Path\n"
    code += "print(__file__, sys.argv, __name__)\nprint(Path(__file__).with_name('a.csv').read_text())\n"
    (tmp_path / "script.py").write_text(code)
    (tmp_path / "a.csv").write_text("a,b")
    state = {"NBAGENT_STATE_DIR": str(tmp_path / "state")}
    ran = nbagent("exec", "script.py", "--data", "a.csv", "--engine", ENGINE, cwd=tmp_path, **state)
    assert ran.out == "/workspace/script.py ['/workspace/script.py'] __main__\na,b\n", ran.err
    assert [each["title"] for each in nbagent("sessions", "--json", cwd=tmp_path, **state).json] == ["script.py"]


def test_only_a_script_that_asks_is_told() -> None:
    """Any other is one cell, as it was written."""
    assert [each.code for each in parse(b"print(1)\n", name="a.py")] == ["print(1)\n"]
    assert len(parse(b"print(__file__)\n", name="a.py")) == 2


def test_what_was_kept_is_kept_again(tmp_path: Path) -> None:
    """One piece of code doesn't end a session that was left running; the latest is meant where none is named."""
    assert nbagent("exec", "--keep", "-c", "x = 41", "--engine", ENGINE, cwd=tmp_path).code == 0
    for wanted in ("42", "43"):
        ran = nbagent("resume", "-c", "x += 1\nx", cwd=tmp_path)
        assert (ran.code, ran.out) == (0, f"{wanted}\n"), ran.err
        assert "Its kernel waits to be resumed" in ran.err
    assert nbagent("clean", cwd=tmp_path).code == 0
    ran = nbagent("resume", "-c", "'x' in globals()", cwd=tmp_path)
    assert ran.out == "False\n"
    assert "The session has ended" in ran.err


def test_without_a_session_the_mend_is_told(tmp_path: Path) -> None:
    """There is none to resume yet."""
    ran = nbagent("resume", "-c", "1", cwd=tmp_path, NBAGENT_STATE_DIR=str(tmp_path / "none"))
    assert ran.code == 2
    assert "There are no sessions yet." in ran.err


def test_nbagent_alone_without_a_terminal_shows_its_help(tmp_path: Path) -> None:
    """With one, it is a conversation; `test_chat.py` holds those."""
    ran = nbagent(cwd=tmp_path)
    assert ran.code == 2
    assert ran.out.startswith("Usage: nbagent")
