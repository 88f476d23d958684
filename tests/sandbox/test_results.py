"""Where on the host the files of cells land, and what they never replace."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from nbagent.core.events import FileSaved
from nbagent.sandbox.results.folder import MAX_FOLDER_DEPTH, Landed, ResultFolder, inert_name


def put(results: ResultFolder, source: str, content: str) -> Landed:
    """Have a file land that code has in /tmp/output or /workspace."""
    with results.staged() as (file, staged):
        file.write(content.encode())
        file.close()
        parts = tuple(source.removeprefix("/tmp/output/").removeprefix("/workspace/").split("/"))
        return results.put(staged, source, parts, hashlib.sha256(content.encode()).hexdigest())


def everything(folder: Path) -> dict[str, str]:
    """All files below a folder, with what is in them."""
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def test_folders_stay_folders(tmp_path: Path) -> None:
    """Each part of a path is made safe; the deepest ones become part of the name."""
    results = ResultFolder(tmp_path)
    assert put(results, "/tmp/output/a/b/c.txt", "1").name == "a/b/c.txt"
    assert put(results, "/tmp/output/.git/hooks/x", "2").name == "git/hooks/x"
    deep = put(results, "/tmp/output/" + "d/" * 40 + "e.txt", "3").name
    assert deep.count("/") == MAX_FOLDER_DEPTH - 1
    assert deep.endswith("d_e.txt")
    assert everything(tmp_path)["a/b/c.txt"] == "1"


def test_a_persons_files_are_never_written_over(tmp_path: Path) -> None:
    """A file, a folder or a link that is there keeps its name, and what is in it."""
    (tmp_path / "out.csv").write_text("mine")
    (tmp_path / "plot").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("mine")
    results = ResultFolder(tmp_path)
    assert put(results, "/workspace/out.csv", "1").name == "out-1.csv"
    assert put(results, "/workspace/plot/a", "2").name == "plot-1/a"
    assert put(results, "/workspace/sub/a", "3").name == "sub/a-1"
    assert put(results, "/workspace/sub", "4").name == "sub-1"
    mine = {name: text for name, text in everything(tmp_path).items() if text == "mine"}
    assert sorted(mine) == ["out.csv", "plot", "sub/a"]


def test_a_file_that_is_written_again_replaces_its_own(tmp_path: Path) -> None:
    """As long as nobody changed it meanwhile; and the same for a session that goes on."""
    results = ResultFolder(tmp_path)
    assert put(results, "/workspace/out.csv", "1").name == "out.csv"
    assert put(results, "/tmp/output/out.csv", "other").name == "out-1.csv"
    again = put(results, "/workspace/out.csv", "22")
    assert (again.name, again.freed) == ("out.csv", 1)
    sha256 = hashlib.sha256(b"22").hexdigest()
    past = FileSaved(path=str(tmp_path / "out.csv"), size=2, sha256=sha256, cell=1, source="/workspace/out.csv")
    resumed = ResultFolder(tmp_path, past=[past])
    assert put(resumed, "/workspace/out.csv", "333").name == "out.csv"
    (tmp_path / "out.csv").write_text("edited by hand")
    assert put(resumed, "/workspace/out.csv", "4444").name == "out-2.csv"
    assert everything(tmp_path) == {"out.csv": "edited by hand", "out-1.csv": "other", "out-2.csv": "4444"}


def test_the_same_contents_are_kept_once_and_stay(tmp_path: Path) -> None:
    """A script that is run again makes no second copy; what an earlier run left is not replaced when it changes."""
    put(ResultFolder(tmp_path), "/workspace/out.csv", "1")
    results = ResultFolder(tmp_path)
    assert put(results, "/workspace/out.csv", "1").name == "out.csv"
    assert put(results, "/workspace/out.csv", "2").name == "out-1.csv"
    assert everything(tmp_path) == {"out.csv": "1", "out-1.csv": "2"}


@pytest.mark.parametrize(("first", "second"), [("A", "a"), ("D/x", "d/x"), ("a:b", "a?b"), ("x", "X/y")])
def test_names_that_a_file_system_can_take_for_one_stay_apart(tmp_path: Path, first: str, second: str) -> None:
    """Whether they differ by capitals, or only until they were made safe."""
    results = ResultFolder(tmp_path)
    names = [put(results, f"/workspace/{name}", name).name for name in (first, second)]
    assert names[0].casefold() != names[1].casefold()
    assert sorted(everything(tmp_path).values()) == sorted([first, second])


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Of the folder's own, or of one that took a folder's place after it was made."""
    (tmp_path / "elsewhere").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    (here / "sub").symlink_to(tmp_path / "elsewhere")
    results = ResultFolder(here)
    assert put(results, "/workspace/sub/a", "1").name == "sub-1/a"
    (here / "sub-1" / "a").unlink()
    (here / "sub-1").rmdir()
    (here / "sub-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        put(results, "/workspace/sub/b", "2")
    assert everything(tmp_path / "elsewhere") == {}
    assert not list(here.glob(".nbagent-*"))


def test_nothing_that_landed_is_run_unasked(tmp_path: Path) -> None:
    """Neither by Git, which a shell's prompt calls in any folder, nor by what collects tests, nor by an import."""
    ran = tmp_path / "ran"
    orders = {
        "HEAD": "ref: refs/heads/main\n",
        "config": f'[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\nfsmonitor="touch {ran}; false"\n',
        "objects/x": "",
        "refs/heads/x": "",
        "conftest.py": f"open({str(ran)!r}, 'w')",
        "sub/test_it.py": f"open({str(ran)!r}, 'w')",
        "it_test.py": f"open({str(ran)!r}, 'w')",
        "test_it.txt": f">>> open({str(ran)!r}, 'w')\n",
        "statistics.py": f"open({str(ran)!r}, 'w')",
        "packaging/__init__.py": f"open({str(ran)!r}, 'w')",
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = -p helper\n",
        "helper.py": f"open({str(ran)!r}, 'w')",
    }
    python = [sys.executable, "-m"]
    commands = (["git", "status"], [*python, "pytest", "-q", "-p", "no:cacheprovider"], [*python, "statistics"])
    commands += ([sys.executable, "-c", "import packaging.version"],)
    planted = tmp_path / "planted"
    for name, text in orders.items():
        (planted / name).parent.mkdir(parents=True, exist_ok=True)
        (planted / name).write_text(text)
    for command in commands:
        subprocess.run(command, cwd=planted, capture_output=True, check=False)
        assert ran.exists(), f"{command} runs nothing in any folder"
        ran.unlink()
    results = ResultFolder(tmp_path / "landed")
    for name, text in orders.items():
        put(results, f"/tmp/output/{name}", text)
    for command in commands:
        subprocess.run(command, cwd=results.folder, capture_output=True, check=False)
        assert not ran.exists(), f"{command} ran what a sandbox left"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((name, "saved-HEAD") for name in ("HEAD", "..HEAD", "-HEAD ")),
        *(("head", "saved-head"), ("conftest.py", "saved-conftest.py"), (".TEST_a.PY", "saved-TEST_a.PY")),
        *(("test.txt", "saved-test.txt"), ("a_test.py", "a_test.py.saved"), ("x.desktop", "x.desktop.saved")),
        *(("Pandas.py", "saved-Pandas.py"), ("json.abi3.so", "saved-json.abi3.so"), ("json.csv", "json.csv")),
        *(("yaml.pyc", "saved-yaml.pyc"), ("__init__.py", "saved-__init__.py"), ("analysis.py", "analysis.py")),
        *(("a.config.mjs", "a.config.mjs.saved"), ("a.config.json", "a.config.json"), ("tested.csv", "tested.csv")),
        *(("build.gradle", "build.gradle.saved"), ("a.csproj", "a.csproj.saved"), ("mix.exs", "saved-mix.exs")),
        *(("startup.m", "saved-startup.m"), ("profile.do", "saved-profile.do"), ("_quarto.yml", "saved-_quarto.yml")),
        *(("Cargo.toml", "saved-Cargo.toml"), ("Gemfile", "saved-Gemfile"), ("x.gemspec", "x.gemspec.saved")),
    ],
)
def test_names_of_orders_arrive_under_others(tmp_path: Path, name: str, wanted: str) -> None:
    """However they are written, in any folder, and if the first name is taken."""
    results = ResultFolder(tmp_path)
    assert put(results, f"/tmp/output/a/{name}", "1").name == f"a/{wanted}"
    again = put(results, f"/workspace/a/{name}", "2").name.removeprefix("a/")
    assert again != wanted
    assert inert_name(again) == again
