"""Wrong use of the program `nbagent`: each is a sentence with its mend, and an exit code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from program import ANSWER_KEYS, PROGRAM, Forks, environment, nbagent, sentence

from nbagent.core.errors import UsageError
from nbagent.faces.cli import program
from nbagent.faces.cli.flags import with_output_dir

ENGINE = ("--engine", "bubblewrap")


WRONG: list[tuple[list[str], int, str]] = [
    (["run", ""], 2, "question is empty"),
    (["run", "?", "-m", "nonsense"], 2, "no model's name"),
    (["run", "?", "-m", "nobody:x"], 2, "no provider 'nobody'"),
    (["run", "?", "--budget", "0.50"], 2, "'0.50' is no part of a budget."),
    (["run", "?", "--redact", "all"], 2, "redact can't be 'all'."),
    (["run", "?", "-m", "openai:gpt-5"], 2, "OPENAI_API_KEY"),
    (["run", "?", "-m", "replay:nothing.jsonl"], 2, "nothing.jsonl"),
    (["run", "?", "-m", "replay:broken.jsonl"], 2, "line 2"),
    (["run", "?", "-m", "replay:."], 2, "folder"),
    (["run", "?", "-e", "chroot"], 2, "no engine 'chroot'"),
    (["run", "?", "--trust", "root"], 2, "no trust level 'root'"),
    (["run", "?", "--timeout", "0"], 2, "timeout"),
    (["run", "?", "--memory", "5"], 2, "128 MB"),
    (["run", "?", "--timeout", "inf"], 2, "timeout is wrong"),
    (["run", "?", "--trust", ""], 2, "no trust level ''"),
    (["run", "?", "--upload-mb", "0"], 2, "upload_mb must be"),
    (["run", "?", "--restore", "all"], 2, "restore can't be 'all'"),
    (["run", "?", "--data", "nothing.csv"], 2, "no file or folder 'nothing.csv'"),
    (["run", "?", "--data", "pipe"], 2, "neither a file nor a folder"),
    (["run", "?", "--data", "r.jsonl", "--data", "folder/r.jsonl"], 2, "same name"),
    (["run", "?", "-o", "folder"], 2, "is a folder"),
    (["run", "?", "-o", "n" * 300], 2, "can't be written"),
    (["run", "?", "-o", "r.jsonl/n.ipynb"], 2, "can't be written"),
    (["run", "?", "-o", "/proc/n.ipynb"], 2, "can't be written"),
    (["run", "?", "--data", "table.csv", "-o", "table.csv"], 2, "can't be called 'table.csv'"),
    (["run", "?", "--data", "theirs.ipynb", "-o", "theirs.ipynb", "--force"], 2, "is data"),
    (["run", "?", "-o", "theirs.ipynb"], 2, "replace it with --force"),
    (["run", "?", "--data", "empty.csv", "--record", "empty.csv"], 2, "is data"),
    (["run", "?", "--record", "table.csv", "-m", "replay:r.jsonl"], 2, "exists already"),
    (["exec", "theirs.ipynb", "-o", "theirs.ipynb"], 2, "replace it with --force"),
    (["exec", "-c", "1", "-o", "fake.ipynb", "--force"], 2, "is no notebook"),
    (["run", "?", "-e", "local"], 2, "--trust trusted"),
    (["run", "?", "--timeout", "soon"], 2, "--timeout"),
    (["run", "?", "--nothing"], 2, "--nothing"),
    (["run"], 2, "QUESTION"),
    (["exec"], 2, "one thing to run"),
    (["exec", "s.py", "-c", "1"], 2, "one thing to run"),
    (["exec", "nothing.py"], 2, "nothing.py"),
    (["exec", "folder"], 2, "directory"),
    (["exec", "pipe"], 2, "pipe"),
    (["exec", "binary.py"], 2, "not UTF-8"),
    (["exec", "nul.py"], 2, "NUL"),
    (["exec", "broken.ipynb"], 2, "not a notebook"),
    (["exec", "-c", "1", "-o", "folder"], 2, "is a folder"),
    (["exec", "-c", "1", "--trust", "root"], 2, "no trust level"),
    (["exec", "n" * 300], 2, "can't be read"),
]


@pytest.fixture
def broken(here: Path) -> Path:
    """A folder with things that can't be used."""
    (here / "broken.jsonl").write_text('{"content": "a"}\n{"content": 1}\n')
    (here / "folder").mkdir()
    (here / "folder" / "r.jsonl").touch()
    os.mkfifo(here / "pipe")
    (here / "binary.py").write_bytes(b"\xff\xfe\x00")
    (here / "nul.py").write_bytes(b"x = 1\0\n")
    (here / "broken.ipynb").write_text('{"cells": [')
    (here / "fake.ipynb").write_text("a,b\n1,2\n")
    (here / "empty.csv").touch()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), here / "theirs.ipynb")
    return here


@pytest.mark.parametrize(("words", "code", "says"), WRONG, ids=[" ".join(words)[:40] for words, _, _ in WRONG])
def test_wrong_use_is_a_sentence(broken: Path, forks: Forks, words: list[str], code: int, says: str) -> None:
    """On stderr in words, on stdout as the command's JSON object, with the right exit code and no traceback."""
    model = ["-m", "replay:r.jsonl"] if words[0] == "run" and "-m" not in words else []
    engine = [] if "-e" in words else list(ENGINE)
    before = {each.name: each.read_bytes() for each in broken.iterdir() if each.is_file()}
    done = forks.run(*words, *model, *engine, "--json", cwd=broken)
    assert done.code == code
    assert {name: (broken / name).read_bytes() for name in before} == before
    assert says in sentence(done)
    assert says in done.json["error"]
    expected = ANSWER_KEYS if words[0] == "run" else ["status", "outputs", "execution_time", "state"]
    assert sorted(done.json) == sorted([*expected, "error"])


def test_without_json_nothing_is_on_stdout(here: Path) -> None:
    """What is wrong is said on stderr only."""
    done = nbagent("run", "?", "--data", "nothing.csv", "--model", "openai:gpt-5.6", cwd=here)
    assert (done.code, done.out) == (2, "")
    assert done.err == "There is no file or folder 'nothing.csv'.\nCheck the name and where you are.\n"


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"NBAGENT_TIMEOUT": "soon"}, "timeout"),
        ({"NBAGENT_TRUST": "root"}, "trust level 'root'"),
        ({"NBAGENT_ENGINE": "chroot"}, "engine 'chroot'"),
        ({"NBAGENT_ACCEPT": "[memory"}, "accept"),
        ({"NBAGENT_STATE_DIR": "/proc/nothing"}, "NBAGENT_STATE_DIR"),
    ],
)
def test_a_wrong_setting_is_a_sentence(here: Path, forks: Forks, variables: dict[str, str], says: str) -> None:
    """The variable is named, and the exit code is 2."""
    done = forks.run("exec", "-c", "1", "--json", cwd=here, **variables)
    assert done.code == 2
    assert says in sentence(done)
    assert says in done.json["error"]


def test_no_model_at_all_tells_the_ways_out(here: Path) -> None:
    """A key, a local model, or a name."""
    done = nbagent("run", "?", *ENGINE, cwd=here)
    assert done.code == 2
    assert all(word in sentence(done) for word in ("OPENAI_API_KEY", "Ollama", "replay:FILE"))


def test_debug_shows_the_traceback(here: Path) -> None:
    """`--debug`, wherever it stands, is for whoever reports a bug."""
    done = nbagent("env", "build", "--debug", cwd=here, XDG_CACHE_HOME="/proc/nothing")
    assert "Traceback" in done.err
    assert "Traceback" not in nbagent("env", "build", cwd=here, XDG_CACHE_HOME="/proc/nothing").err


def test_a_reader_that_goes_away_is_no_trouble(here: Path) -> None:
    """`nbagent … | head` ends without a word."""
    command = f"{PROGRAM} exec -c \"print('x' * 10**6)\" {' '.join(ENGINE)} | head -c 10"
    ran = subprocess.run(["bash", "-c", command], cwd=here, capture_output=True, env=environment(), check=False)
    assert (ran.stdout, ran.stderr) == (b"xxxxxxxxxx", b"")


@pytest.mark.parametrize(
    ("words", "says", "mend"),
    [
        (("run",), "nbagent run needs QUESTION.", "nbagent run -h"),
        (("run", "Which", "region?"), "was given too many words: region?.", "in quotes"),
        (("run", "?", "--modl", "x"), "nbagent run has no option --modl.", "Did you mean --model"),
        (("run", "?", "--memory", "much"), "--memory takes a whole number.", "nbagent run -h"),
        (("exec", "-c", "1", "--timeout", "long"), "--timeout takes a number.", "nbagent exec -h"),
        (("exec", "--trust"), "--trust needs a value.", "-h"),
        (("tools", "show"), "nbagent tools show needs NAME.", "nbagent tools show -h"),
        (("sesions",), "nbagent has no command sesions.", "Did you mean sessions?"),
        (("image", "nothing"), "nbagent image has no command nothing.", "Use one of: build."),
        (("--nothing",), "nbagent has no option --nothing.", "nbagent -h"),
    ],
)
def test_words_that_can_t_be_read_are_a_sentence(
    here: Path, forks: Forks, words: tuple[str, ...], says: str, mend: str
) -> None:
    """It names the command, what is wrong and the mend; the exit code is 2, and --json has an object beside it."""
    for more in ((), ("--json",)) if words[0] in ("run", "exec") and len(words) != 2 else ((),):
        done = forks.run(*words, *more, cwd=here)
        assert done.code == 2
        told, mended = done.err.splitlines()
        assert told.endswith(says)
        assert mend in mended
        assert not more or says in done.json["error"]


def test_a_folder_that_was_deleted_is_told(tmp_path: Path) -> None:
    """Who is in it is told so, and not that nbagent failed."""
    done = subprocess.run(
        ["bash", "-c", f"mkdir gone; cd gone; rmdir ../gone; exec {PROGRAM} exec -c 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 2
    assert "was deleted" in done.stderr
    # Of a socket that is gone, the error names no file either.
    assert "was deleted" not in program._unforeseen(FileNotFoundError(2, "No such file or directory")).message


def test_a_terminal_without_unicode_loses_nothing(tmp_path: Path) -> None:
    """What it can't show is written as its number."""
    shown = nbagent("verify", "--help", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert (shown.code, shown.err) == (0, "")
    assert "FILE\\u2026" in shown.out


@pytest.mark.parametrize(
    ("words", "closed", "code"), [(("exec", "-", *ENGINE), 0, 0), (("sessions",), 1, 0), (("exec",), 2, 2)]
)
def test_a_closed_stream_is_no_trouble(here: Path, words: tuple[str, ...], closed: int, code: int) -> None:
    """As `<&-` and `>&-` leave it: nothing to read, or nobody to tell."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", PROGRAM, *words], cwd=here, capture_output=True, check=False,
        timeout=60, env=environment(NBAGENT_STATE_DIR=str(here / "state")),
    )  # fmt: skip
    assert done.returncode == code
    assert b"itself failed" not in done.stderr


@pytest.mark.parametrize("words", [("sessions",), ("exec", "-c", "1", *ENGINE), ("exec", "-c", "1", "--json", *ENGINE)])
def test_output_that_has_no_room_is_a_sentence(here: Path, words: tuple[str, ...]) -> None:
    """It is the output that can't be written, not nbagent that failed."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PROGRAM, *words], cwd=here, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60,
            env=environment(NBAGENT_STATE_DIR=str(here / "state")),
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(b"The output can't be written: No space left on device.")
    assert b"Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_known_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody named is then the session's own folder, so that nothing is lost; another one is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert with_output_dir({}) == {}
    with pytest.raises(UsageError, match="can't be written"):
        with_output_dir({"output_dir": Path("out")})
