"""The program `nbagent`, run as a person runs it: what it prints, where, and the code that it ends with."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
from program import ANSWER_KEYS, PROGRAM, Done, call, environment, nbagent, replies, sentence

import nbagent as package

ENGINE = ("--engine", "bubblewrap")
READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')\ndf.height"


# -- run ---------------------------------------------------------------------------------


def test_run_answers_and_writes_the_notebook(here: Path) -> None:
    """The answer is all that is on stdout; cells, the replay's label and the notebook's path are on stderr."""
    done = nbagent(
        "run", "Longest bill?", "--data", "table.csv", "-m", "replay:r.jsonl", "-o", "n.ipynb", *ENGINE, cwd=here
    )
    assert (done.code, done.out) == (0, "48.9 mm.\n")
    assert "recorded replies" in done.err
    assert "df.height" in done.err
    assert f"notebook: {here / 'n.ipynb'}" in done.err
    nbformat.validate(nbformat.read(here / "n.ipynb", as_version=4))


def test_run_with_json_prints_one_object(here: Path) -> None:
    """Exactly the documented keys on one line, nothing else on stdout and nothing on stderr."""
    (here / "more").mkdir()
    (here / "more" / "x.txt").write_text("x")
    words = ["--data", "table.csv", "--data", "more", "-m", "replay:r.jsonl", "--json"]
    done = nbagent("run", "Longest bill?", *words, *ENGINE, cwd=here)
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert sorted(found) == sorted(ANSWER_KEYS)
    assert (found["success"], found["answer"], found["attempts"]) == (True, "48.9 mm.", 1)
    assert (found["engine"], found["trust"], found["replay"]) == ("bubblewrap", "isolated", True)
    assert found["usage"] == {"input_tokens": 0, "output_tokens": 0, "calls": 3, "cached_tokens": 0, "cost": 0.0}
    assert [cell["status"] for cell in found["cells"]] == ["ok", "ok"]
    assert found["cells"][1]["outputs"][0]["data"]["text/plain"] == "48.9"
    assert Path(found["notebook"]).is_file()


def test_run_tells_files_and_packages_in_json(here: Path) -> None:
    """What cells left in /tmp/output is on the host under `files`; what was installed has its hash."""
    code = "import humanize\nopen('/tmp/output/out.txt', 'w').write(humanize.intcomma(12345))"
    model = replies(here / "f.jsonl", call("1 / 0"), call(code), "Written.")
    found = nbagent("run", "Write", "-m", model, "--json", *ENGINE, cwd=here).json
    (path,) = map(Path, found["files"])
    assert (path.name, path.read_text()) == ("out.txt", "12,345")
    assert [each["name"] for each in found["installed"]] == ["humanize"]
    assert len(found["installed"][0]["sha256"]) == 64
    assert (found["success"], found["attempts"]) == (True, 2)


def test_an_answer_whose_last_cell_failed_is_no_success(here: Path) -> None:
    """The exit code is 1, and the answer is still given."""
    model = replies(here / "f.jsonl", call("1 / 0"), "It can't be divided.")
    done = nbagent("run", "Divide", "-m", model, "--json", *ENGINE, cwd=here)
    assert done.code == 1
    assert (done.json["success"], done.json["answer"]) == (False, "It can't be divided.")
    assert "error" not in done.json


def test_replies_that_ran_out_lose_nothing(here: Path) -> None:
    """The sentence is on stderr and in the object; the cells that ran and their notebook are there."""
    model = replies(here / "f.jsonl", call("40 + 2"))
    done = nbagent("run", "Add", "-m", model, "--json", "-o", "n.ipynb", *ENGINE, cwd=here)
    assert done.code == 2
    assert sentence(done).splitlines()[0] in done.json["error"]
    assert [cell["outputs"][0]["data"]["text/plain"] for cell in done.json["cells"]] == ["42"]
    notebook: Any = nbformat.read(here / "n.ipynb", as_version=4)
    assert [cell.source for cell in notebook.cells if cell.id == "cell-1"] == ["40 + 2"]


@pytest.mark.needs("docker")
def test_the_engines_give_equal_cells(here: Path) -> None:
    """The same replay through Docker and bubblewrap has equal sources, outputs and answers."""
    code = "print(df.describe()); df.group_by('species', maintain_order=True).agg(pl.col('mass').mean())"
    figure = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()"
    model = replies(
        here / "f.jsonl", call(READ), call(code, figure), call("df['nothing']"), call("import humanize"), "Done."
    )
    seen = []
    for engine in ("bubblewrap", "docker"):
        found = nbagent("run", "?", "-d", "table.csv", "-m", model, "--json", "-e", engine, cwd=here).json
        assert found["engine"] == engine
        assert any("image/png" in output.get("data", {}) for cell in found["cells"] for output in cell["outputs"])
        for cell in found["cells"]:
            for own in ("duration", "execution_time", "memory_peak", "memory_limit"):
                cell.pop(own, None)
        seen.append({name: found[name] for name in ("cells", "answer", "installed", "attempts", "success")})
    assert seen[0] == seen[1]


# -- exec ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["script", "code", "stdin", "notebook", "shell"])
def test_exec_runs_code_from_anywhere(here: Path, way: str) -> None:
    """A script, an option, standard input, a notebook's cells and a shell's `<(…)`; results are on stdout."""
    code = "print('plain')\n6 * 7"
    (here / "s.py").write_text("\ufeff" + code)
    cells = [nbformat.v4.new_code_cell(each) for each in ("x = 6", "", "print('plain')", "x * 7")]
    made = nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_markdown_cell("no code")])
    nbformat.write(made, here / "n.ipynb")
    words = {"script": ["s.py"], "code": ["-c", code], "stdin": ["-"], "notebook": ["n.ipynb"]}
    if way == "shell":
        command = f"{PROGRAM} exec <(cat s.py) {' '.join(ENGINE)}"
        ran = subprocess.run(["bash", "-c", command], cwd=here, capture_output=True, env=environment(), check=False)
        done = Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
    else:
        done = nbagent("exec", *words[way], *ENGINE, cwd=here, stdin=code.encode())
    assert (done.code, done.out, done.err) == (0, "plain\n42\n", "")


def test_exec_says_which_data_is_not_shown(here: Path) -> None:
    """Links that lead out of a folder and hidden names, once, on standard error; a link that is named is refused."""
    data = here / "clone"
    data.mkdir()
    (data / ".env").touch()
    (data / "figures").symlink_to("/etc")
    done = nbagent("exec", "-c", "import os; os.listdir('/tmp/data/clone')", "-d", "clone", *ENGINE, cwd=here)
    assert (done.code, done.out) == (0, "[]\n"), done.err
    assert done.err.count("Not shown in /tmp/data: names that begin with a dot (clone/.env).") == 1
    assert done.err.count("not shown (clone/figures).") == 1
    done = nbagent("exec", "-c", "1", "-d", "clone/figures", *ENGINE, cwd=here)
    assert done.code == 2
    assert "'clone/figures' is a link to '/etc', outside of its folder.\nName that, if it is meant." in done.err


def test_exec_with_json_prints_one_object(here: Path) -> None:
    """Status, outputs as nbformat has them, seconds, and whether variables are kept."""
    done = nbagent("exec", "-c", "print('a')\n1 + 1", "--json", *ENGINE, cwd=here)
    found = done.json
    assert (done.code, done.err) == (0, "")
    assert sorted(found) == ["execution_time", "outputs", "state", "status"]
    assert (found["status"], found["state"]) == ("ok", "kept")
    stream, result = found["outputs"]
    assert stream == {"output_type": "stream", "name": "stdout", "text": "a\n"}
    assert (result["output_type"], result["data"]["text/plain"]) == ("execute_result", "2")
    assert 0 < found["execution_time"] < 10


@pytest.mark.parametrize(
    ("code", "status", "state"),
    [("1 / 0", "error", "kept"), ("def", "error", "kept"), ("import time; time.sleep(60)", "timeout", "kept")],
)
def test_code_that_fails_is_no_failure_of_the_sandbox(here: Path, code: str, status: str, state: str) -> None:
    """The exit code is 1, and the error is an output."""
    done = nbagent("exec", "-c", code, "--timeout", "1", "--json", *ENGINE, cwd=here)
    assert done.code == 1
    assert (done.json["status"], done.json["state"]) == (status, state)
    assert done.json["outputs"][-1]["output_type"] == "error"


def test_a_kernel_that_died_is_told(here: Path) -> None:
    """Code that ends its own kernel has failed; the state is lost, and a note says so."""
    done = nbagent("exec", "-c", "import os; os._exit(3)", "--json", *ENGINE, cwd=here)
    assert done.code == 1
    assert (done.json["status"], done.json["state"]) == ("died", "lost")
    assert "exited with code 3" in done.json["note"]
    assert nbagent("exec", "-c", "import os; os._exit(3)", *ENGINE, cwd=here).err.count("exited with code 3") == 1


def test_exec_stops_at_the_first_cell_that_fails(here: Path) -> None:
    """What comes behind an error doesn't run, except behind a cell that may fail."""
    new: Any = nbformat.v4.new_code_cell
    cells = [
        new("1 / 0", metadata={"tags": ["raises-exception"]}),
        new("print('goes on')"),
        new("oops"),
        new("print('no')"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), here / "n.ipynb")
    done = nbagent("exec", "n.ipynb", *ENGINE, cwd=here)
    assert (done.code, done.out) == (1, "goes on\n")
    nbformat.write(nbformat.v4.new_notebook(cells=cells[:2]), here / "n.ipynb")
    done = nbagent("exec", "n.ipynb", "--json", *ENGINE, cwd=here)
    assert (done.code, done.json["status"]) == (0, "ok")


def test_an_exported_notebook_is_executed(here: Path) -> None:
    """What `run` wrote, with a failed cell and an installed package, `exec` runs to its end."""
    model = replies(
        here / "f.jsonl", call(READ, "df['nothing']"), call("import humanize\nhumanize.intcomma(12345)"), "Done."
    )
    assert nbagent("run", "?", "-d", "table.csv", "-m", model, "-o", "n.ipynb", *ENGINE, cwd=here).code == 0
    done = nbagent("exec", "n.ipynb", "-d", "table.csv", "-o", "again.ipynb", *ENGINE, cwd=here)
    assert (done.code, done.out) == (0, "5\n'12,345'\n")
    assert (here / "again.ipynb").is_file()


def test_what_the_code_saved_is_here_or_said_to_be_missing(here: Path) -> None:
    """In the current folder, from the working folder too; a file that can't come is named, and is the exit code."""
    code = (
        "import os\nos.makedirs('/tmp/output/a/b')\nfor n in range(25): open(f'/tmp/output/a/b/{n}.txt', 'w').close()\n"
        "open('out.csv', 'w').write('x')"
    )
    (here / "nbagent-output").mkdir()
    (here / "nbagent-output" / "out.csv").write_text("mine")
    done = nbagent("exec", "-c", code, *ENGINE, cwd=here)
    assert done.code == 0, done.err
    assert f"file: {here / 'nbagent-output' / 'out-1.csv'}" in done.err
    found = sorted(str(each.relative_to(here)) for each in (here / "nbagent-output").rglob("*.txt"))
    assert found == sorted(f"nbagent-output/a/b/{n}.txt" for n in range(25))
    assert (here / "nbagent-output" / "out.csv").read_text() == "mine"
    huge = "import os; os.truncate(os.open('/tmp/output/big', os.O_CREAT | os.O_RDWR), 2**33); os.symlink('/', 'link')"
    done = nbagent("exec", "-c", huge, "--json", "--output-dir", "results", *ENGINE, cwd=here)
    assert (done.code, sorted(done.json["not_delivered"])) == (4, ["/tmp/output/big", "/workspace/link"])
    assert "was not delivered: it has 8.59 GB" in done.json["outputs"][-1]["text"]
    assert not (here / "results").exists()


def test_results_land_behind_no_link_that_nobody_named(here: Path) -> None:
    """Somebody else's project may have one in the place of the usual folder, of that of the settings, or above."""
    (here / "private").mkdir()
    for at, setting in (("nbagent-output", {}), ("results", {"NBAGENT_OUTPUT_DIR": "results"})):
        (here / at).symlink_to("private")
        done = nbagent("exec", "-c", "open('out', 'w').write('x')", *ENGINE, cwd=here, **setting)
        assert (done.code, f"The folder {at} is a link here." in done.err) == (2, True)
    done = nbagent("exec", "-c", "1", *ENGINE, cwd=here, NBAGENT_OUTPUT_DIR="results/sub")
    assert done.code == 2
    assert list((here / "private").iterdir()) == []
    done = nbagent("exec", "-c", "open('out', 'w').write('x')", "--output-dir", "results", *ENGINE, cwd=here)
    assert (done.code, (here / "private" / "out").read_text()) == (0, "x")


def test_exec_shows_colours_to_a_terminal_only(here: Path) -> None:
    """In a file a traceback is plain text."""
    done = nbagent("exec", "-c", "print('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07')\n1/0", *ENGINE, cwd=here)
    assert done.out == "red \n"
    assert "ZeroDivisionError" in done.err
    assert "\x1b" not in done.err


def test_trust_and_limits_reach_the_sandbox(here: Path) -> None:
    """`--trust untrusted` runs no programs; `--memory` is the sandbox's own."""
    code = "import os; print(os.system('true') != 0)"
    done = nbagent("exec", "-c", code, "--trust", "untrusted", *ENGINE, cwd=here)
    assert done.out.strip().endswith("True")
    done = nbagent("exec", "-c", "x = bytearray(10**9)", "--memory", "300", "--json", *ENGINE, cwd=here)
    assert (done.code, done.json["state"]) == (1, "lost")
    assert "--memory" in done.json["note"]


def test_what_may_go_to_hosts_is_bounded(here: Path) -> None:
    """By options, by settings, and by both: each figure of the session's start is the one that was said last."""
    words = ("exec", "-c", "1", "--allow-host", "a.example", "--upload-mb", "3", *ENGINE)
    own = '{"upload_mb": 2, "download_mb": 5, "memory_limit_mb": 300}'
    done = nbagent(*words, cwd=here, NBAGENT_STATE_DIR=str(here / "state"), NBAGENT_SECURITY=own)
    assert done.code == 0
    log = next(here.glob("state/sessions/*/log.jsonl")).read_text()
    limits = json.loads(log.splitlines()[0])["event"]["limits"]
    assert (limits["upload_mb"], limits["download_mb"], limits["memory_mb"]) == (3, 5, 300)


def test_cells_are_run_again_where_a_person_wants_it(here: Path) -> None:
    """After a kernel died, by the option or the setting; the option wins."""
    cells = [nbformat.v4.new_code_cell("x = 7"), nbformat.v4.new_code_cell("import os; os._exit(3)")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), here / "n.ipynb")
    replay = {"NBAGENT_RESTORE": "replay"}
    for words, setting, again in (
        (["--restore", "replay"], {}, True),
        ([], replay, True),
        (["--restore", "nothing"], replay, False),
    ):
        done = nbagent("exec", "n.ipynb", *words, *ENGINE, cwd=here, **setting)
        assert (done.code, "Cell 1 succeeded before and was run again" in done.err) == (1, again), done.err


# -- the others ---------------------------------------------------------------------------------


def test_doctor_tells_what_each_engine_enforces(here: Path) -> None:
    """As one JSON object, and as a table for people."""
    done = nbagent("doctor", "--json", cwd=here)
    assert done.code == 0
    assert set(done.json) >= {"bubblewrap", "docker", "local"}
    assert done.json["bubblewrap"]["controls"]["network"]["enforced"]
    assert not any(each["enforced"] for each in done.json["local"]["controls"].values())
    done = nbagent("doctor", cwd=here)
    assert done.code == 0
    assert all(word in done.out for word in ("bubblewrap", "docker", "network", "memory", "Chosen by itself"))


def test_doctor_tells_what_would_start_at_a_level(here: Path) -> None:
    """By the level, and by the person's settings: an image that isn't there is no engine to choose."""
    done = nbagent("doctor", "--trust", "untrusted", "--json", cwd=here, NBAGENT_IMAGE="nbagent-nothing:1")
    assert done.code == 0
    assert {name for name, each in done.json.items() if each["chosen"]} == {"bubblewrap"}
    assert {(each["trust"], each["starts"]) for name, each in done.json.items() if name != "bubblewrap"} == {
        ("untrusted", False)
    }
    done = nbagent("doctor", "--trust", "trusted", cwd=here, NBAGENT_ENGINE="local", COLUMNS="200")
    assert done.code == 0
    assert "starts at trusted" in done.out
    done = nbagent("doctor", "--trust", "nonsense", cwd=here)
    assert done.code == 2


def test_doctor_without_an_engine_fails(here: Path) -> None:
    """Where nothing isolates, the exit code is 3 and each engine says why."""
    done = nbagent("doctor", "--json", cwd=here, PATH="/nowhere", DOCKER_HOST="unix:///nowhere.sock")
    assert done.code == 3
    assert not any(done.json[name]["available"] for name in ("bubblewrap", "docker"))
    assert all(done.json[name]["reason"] for name in ("bubblewrap", "docker"))
    done = nbagent("exec", "-c", "1", "--json", cwd=here, PATH="/nowhere", DOCKER_HOST="unix:///nowhere.sock")
    assert done.code == 3
    assert "never runs it unisolated" in sentence(done)


def test_demo_answers_without_a_key(here: Path) -> None:
    """The demo is labelled as a recording, runs for real, and writes its notebook."""
    done = nbagent("demo", *ENGINE, cwd=here)
    assert done.code == 0, done.err
    assert "used:" not in done.err  # no model was called
    assert "recording" in done.out
    nbformat.validate(nbformat.read(here / "nbagent-demo.ipynb", as_version=4))
    done = nbagent("demo", "--json", "-o", "d.ipynb", *ENGINE, cwd=here)
    assert (done.json["success"], done.json["replay"], sorted(done.json)) == (True, True, sorted(ANSWER_KEYS))


def test_demo_takes_the_options_of_run(here: Path) -> None:
    """All but those about its question, its data and its model; and they mean the same."""

    def listed(command: str) -> set[str]:
        return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", nbagent(command, "--help", cwd=here).out, re.MULTILINE))

    own = {"--data", "--model", "--fallback", "--critic", "--structured", "--record", "--background", "--kernel"}
    assert listed("demo") == listed("run") - own
    refused = nbagent("demo", "--trust", "untrusted", "--memory", "1", "--quiet", *ENGINE, cwd=here)
    assert (refused.code, refused.out) == (2, "")
    assert "memory_mb is 1" in sentence(refused)


def test_the_version_is_the_packages(here: Path) -> None:
    """`--version` prints it and nothing else."""
    done = nbagent("--version", cwd=here)
    assert (done.code, done.out) == (0, f"{package.__version__}\n")


def test_a_reader_that_goes_away_is_no_failure(here: Path) -> None:
    """As `| head -1` does: nobody is left to be told of it."""
    command = [str(PROGRAM), "exec", "-c", "for i in range(200_000): print(i)", *ENGINE]
    with subprocess.Popen(command, cwd=here, env=environment(), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "0\n"
        program.stdout.close()
        assert program.wait(timeout=60) == 0
